// Clients that are slow on purpose: each is closed on its deadline, and nobody else notices them.
import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, describe, it } from "node:test";
import { Worker } from "node:worker_threads";

import { address, ask, figure, full, metrics, now, percentile, pick, requestBytes, sanitized, sleep, small, Wire } from "./load.mjs";
import { eventually, Server } from "./server.mjs";

const n = pick(sanitized ? 40 : 100, 1000);

let server, where;
before(async () => {
    server = await Server.start([`text=${small}`, "--threads", "1", "--log-level", "error"]);
    where = address(server);
});
after(async () => assert.deepEqual(await server.stop(), { code: 0, signal: null }));

let asked = 0;
function timesToFirstToken(count) {
    const worker = new Worker(new URL("probe_first_token.mjs", import.meta.url), { workerData: { where, count, from: asked } });
    asked += count;
    return new Promise((resolve, reject) => worker.once("message", resolve).once("error", reject));
}

// A byte of a head, or of a body, every second or so.
function drip(head, rest) {
    const wire = new Wire(where);
    wire.send(head);
    let at = 0;
    const timer = setInterval(() => wire.socket.write(rest[at++ % rest.length]), 1000 + (wire.began % 200));
    wire.ended.then(() => clearInterval(timer));
    return wire;
}

// Asks for much and takes nothing of it: a socket that nobody reads from.
function idleReader() {
    const socket = connect(where);
    const reader = { began: now(), socket };
    socket.on("error", () => {});
    socket.write(requestBytes("/page/app.js").repeat(400));
    return reader;
}

describe("slow clients", () => {
    it("are closed on their deadlines while others are served as before", async () => {
        const probes = pick(40, 300);
        await timesToFirstToken(10);
        const quiet = await timesToFirstToken(probes);
        const heads = Array.from({ length: n }, () => drip("GET /healthz HTTP/1.1\r\n", "x-a: b\r\n"));
        const bodies = Array.from({ length: n }, () => drip("POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5000\r\n\r\n{", " "));
        const readers = Array.from({ length: n }, idleReader);
        await sleep(pick(1000, 4000)); // until they are all there
        const loud = await timesToFirstToken(probes);
        const closed = async (wires) => (await Promise.all(wires.map((wire) => wire.ended))).map((at, i) => at - wires[i].began);
        const headTimes = await closed(heads);
        assert.ok(heads.every((wire) => wire.answer().status === 408), heads[0].text);
        const bodyTimes = await closed(bodies);
        assert.ok(bodies.every((wire) => wire.answer().status === 408), bodies[0].text);
        // The server's side says when readers were cut off: theirs does not look.
        const began = readers[0].began;
        await eventually(async () => (await metrics(server)).value("ruvllm_connections") <= 2, "readers are closed", 90000);
        const readerTime = now() - began;
        for (const { socket } of readers) socket.destroy();
        figure("slow_clients_of_each_kind", n);
        figure("slow_header_closed_s_max", Math.max(...headTimes) / 1000);
        figure("slow_body_closed_s_max", Math.max(...bodyTimes) / 1000);
        figure("slow_reader_closed_s_max", readerTime / 1000);
        for (const share of [0.5, 0.99]) {
            figure(`slow_ttft_ms_p${share * 100}_before`, percentile(quiet, share));
            figure(`slow_ttft_ms_p${share * 100}_during`, percentile(loud, share));
        }
        const late = sanitized ? 20000 : full ? 1500 : 5000;
        assert.ok(Math.min(...headTimes) > 9000 && Math.max(...headTimes) < 10000 + late, "heads");
        assert.ok(Math.min(...bodyTimes) > 29000 && Math.max(...bodyTimes) < 30000 + late, "bodies");
        // Theirs runs from the last byte that was taken, and systems take some seconds to fill their buffers.
        assert.ok(readerTime > 29000 && readerTime < 45000 + late, `readers ${readerTime}`);
        if (full && !sanitized) assert.ok(percentile(loud, 0.99) <= 1.1 * percentile(quiet, 0.99) + 1, "others");
        assert.equal((await ask(where, "/healthz")).status, 200);
    });
});
