// What HTTP and event streams cost beside the engine alone, and how fast the cheapest answer is. Only `make server-load` runs it: it asserts figures, and needs bench_serve and wrk.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";

import { address, ask, figure, large, median, now, randomNumbers, requestBytes, Wire } from "./load.mjs";
import { program, Server } from "./server.mjs";

const bench = join(dirname(program), "../../bench/bench_serve");
const streams = 16;
const prompt = 32;
const answer = 64;
const cores = process.env.RUVLLM_LOAD_THREADS ?? "1"; // the other core is the clients'

// Prompt and answer tokens of all streams a second, as bench_serve counts them.
async function throughServer(where, random) {
    const tokens = () => Array.from({ length: prompt }, () => 3 + random(30000));
    const wires = Array.from({ length: streams }, () => new Wire(where));
    await Promise.all(wires.map((wire) => wire.open));
    const bytes = wires.map(() => requestBytes("/v1/completions", { model: "large", prompt: tokens(), max_tokens: answer, ignore_eos: true, temperature: 0, repetition_penalty: 1, prompt_cache: false, stream: true }));
    const began = now();
    wires.forEach((wire, i) => wire.send(bytes[i]));
    await Promise.all(wires.map((wire) => wire.until(/data: \[DONE\]/)));
    const seconds = (now() - began) / 1000;
    for (const wire of wires) {
        assert.equal(wire.answer().status, 200, wire.text.slice(0, 300));
        wire.close();
    }
    return (streams * (prompt + answer)) / seconds;
}

function alone() {
    const run = spawnSync(bench, [large, String(streams), String(prompt), String(answer), cores], { encoding: "utf8" });
    return Number(run.stdout.match(/tok_s=(\S+)/)[1]);
}

describe("speed", () => {
    it("of 16 streams is that of the engine", async (t) => {
        if (!large || !existsSync(bench)) return t.skip("bench_serve or a large model is missing");
        const server = await Server.start([`large=${large}`, "--threads", cores, "--log-level", "error"]);
        const random = randomNumbers(5);
        const seen = { engine: [], server: [] };
        for (let i = 0; i < 9; i++) {
            seen.engine.push(alone());
            seen.server.push(await throughServer(address(server), random));
        }
        await server.stop();
        figure("speed_threads", Number(cores));
        figure("speed_engine_tokens_per_second", median(seen.engine));
        figure("speed_server_tokens_per_second", median(seen.server));
        // Neighbours in time are compared: the machine's speed changes more from minute to minute.
        const share = median(seen.server.map((rate, i) => rate / seen.engine[i]));
        figure("speed_overhead_percent", 100 * (1 - share));
        assert.ok(share >= 0.97, JSON.stringify(seen));
    });

    it("of /healthz is 30,000 answers a second", async (t) => {
        if (spawnSync("wrk", ["-v"]).error) return t.skip("wrk is not installed");
        const server = await Server.start([`text=${process.env.RUVLLM_TEST_DATA}/models/stories260K.gguf`, "--threads", "1", "--log-level", "error"]);
        const run = spawnSync("wrk", ["-t1", "-c64", "-d5s", `${server.url}/healthz`], { encoding: "utf8" });
        const rate = Number(run.stdout.match(/Requests\/sec:\s+(\S+)/)[1]);
        figure("healthz_per_second", rate);
        assert.equal((await ask(address(server), "/healthz")).status, 200);
        await server.stop();
        assert.ok(rate >= 30000, run.stdout);
    });
});
