// A worker thread that asks for short streams one after the other and tells the times to their first tokens, so that what else a test does
// in its own thread is not measured. workerData: { where, count, from }.
import { parentPort, workerData } from "node:worker_threads";

import { now, requestBytes, Wire } from "./load.mjs";

const { where, count, from } = workerData;
const times = [];
for (let i = 0; i < count; i++) {
    const wire = new Wire(where);
    await wire.open;
    wire.send(requestBytes("/v1/completions", { model: "text", prompt: `${from + i} times`, max_tokens: 4, stream: true, prompt_cache: false }));
    await wire.until(/data: /);
    times.push(now() - wire.sentAt);
    wire.close();
}
parentPort.postMessage(times);
