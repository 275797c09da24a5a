// Many requests one after the other: memory and descriptors stay where they are. And 1,000 streams that wait.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { address, ask, cpuSeconds, crowd, descriptors, figure, full, metrics, pick, randomNumbers, requestBytes, residentBytes, sanitized, sleep, small, Wire, threads } from "./load.mjs";
import { eventually, Server } from "./server.mjs";

const MiB = 1 << 20;
const random = randomNumbers(11);

const shapes = [
    (i) => ["/v1/completions", { model: "text", prompt: `${i} once upon a time`, max_tokens: 8, stream: true }],
    (i) => ["/v1/completions", { model: "text", prompt: `${i} there was a girl`, max_tokens: 8, n: 2, logprobs: 2 }],
    (i) => ["/v1/completions", { model: "text", prompt: [1, 403 + (i % 50)], max_tokens: 4, temperature: 1.5, seed: i }],
    (i) => ["/v1/embeddings", { model: "text", input: `word ${i}` }],
    (i) => ["/v1/tokenize", { model: "text", prompt: `words and more words ${i}` }],
    () => ["/v1/completions", { model: "none", prompt: "x" }],
    () => ["/v1/completions", "{"],
    () => ["/v1/models", undefined],
    () => ["/metrics", undefined],
    () => ["/", undefined],
];

// Two hundred tokens that no other request begins with.
const fill = (i) => ["/v1/completions", { model: "text", prompt: [1, 3 + (i % 250), 3 + Math.floor(i / 250), ...Array.from({ length: 197 }, (_, k) => 300 + (k % 200))], max_tokens: 1 }];

// Bytes a request, by least squares over all points: one that happens to be high or low decides nothing.
function slope(points) {
    const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const [x, y] = [mean(points.map((point) => point.n)), mean(points.map((point) => point.bytes))];
    return points.reduce((sum, point) => sum + (point.n - x) * (point.bytes - y), 0) / points.reduce((sum, point) => sum + (point.n - x) ** 2, 0);
}

describe("a soak", () => {
    let server, where;
    before(async () => {
        server = await Server.start([`text=${small}`, "--threads", threads, "--kv-bytes", "16M", "--log-level", "error"]);
        where = address(server);
    });
    after(async () => assert.deepEqual(await server.stop(), { code: 0, signal: null }));

    it("leaves memory and descriptors where they were", async () => {
        const n = pick(500, 10000);
        const warm = pick(250, 1000);
        const { pid } = server.child;
        const points = [];
        let wrong = 0;
        const send = async ([path, body]) => {
            const { status } = await ask(where, path, body);
            wrong += ![200, 302, 400, 404].includes(status);
        };
        const run = (from, to) => crowd(8, to - from, (k) => send(shapes[random(shapes.length)](from + k)));
        // The budget of keys and values is memory that was promised to be used: all of it is, before anything is measured.
        for (let i = 0; (await metrics(server)).value("ruvllm_kv_blocks_evicted_total") === 0; i += 50) {
            assert.ok(i < 2000, "the budget is full");
            await crowd(8, 50, (k) => send(fill(i + k)));
        }
        await run(0, warm);
        for (let at = warm, step = (n - warm) / 10; at <= n; at += step) {
            if (at > warm) await run(at - step, at);
            await sleep(pick(200, 1500)); // what is written behind the requests' backs, too
            points.push({ n: at, bytes: residentBytes(pid), files: descriptors(pid) });
        }
        const more = slope(points) * (n - warm);
        figure("soak_requests", n);
        figure("soak_rss_mib", points.at(-1).bytes / MiB);
        figure("soak_rss_points_kib", points.map(({ bytes }) => Math.round((bytes - points[0].bytes) / 1024)).join(","));
        figure("soak_rss_slope_mib", more / MiB);
        figure("soak_descriptors_more", points.at(-1).files - points[0].files);
        assert.equal(wrong, 0);
        assert.ok(points.at(-1).files <= points[0].files, "descriptors");
        if (!sanitized) assert.ok(more <= (full ? 1 : 8) * MiB, `${more} bytes more`);
    });
});

describe("streams that wait", () => {
    it("cost little, and go away when their readers do", async (t) => {
        const n = sanitized ? 200 : 1000;
        const server = await Server.start([`text=${small}`, "--threads", "1", "--max-sequences", "1", "--max-queue", String(n + 10), "--log-level", "error"]);
        t.after(() => server.stop());
        const where = address(server);
        const { pid } = server.child;
        const before = residentBytes(pid);
        // Every stream asks for all of the context, so that the queue hardly moves while we look.
        const bytes = requestBytes("/v1/completions", { model: "text", prompt: "Once", max_tokens: 200, ignore_eos: true, stream: true, n: 1 });
        const wires = [];
        for (let i = 0; i < n; i += 50) {
            const some = Array.from({ length: 50 }, () => new Wire(where));
            await Promise.all(some.map((wire) => wire.open));
            for (const wire of some) wire.send(bytes);
            wires.push(...some);
        }
        await eventually(async () => (await metrics(server)).calls > n * 0.5, "they are all there", 30000);
        const seen = await metrics(server);
        const cpu = cpuSeconds(pid);
        await sleep(1000);
        figure("waiting_streams", seen.waiting);
        figure("waiting_rss_more_mib", (residentBytes(pid) - before) / MiB);
        figure("waiting_cpu_cores_with_one_running", cpuSeconds(pid) - cpu);
        // A stream that waits for its turn holds its request and a sampler for the whole vocabulary, beside its connection.
        if (!sanitized) assert.ok(residentBytes(pid) - before <= (n * MiB) / 10, "memory of waiting streams");
        for (const wire of wires) wire.close();
        await eventually(async () => {
            const { running, waiting, calls, held } = await metrics(server);
            return running + waiting + calls + held === 0;
        }, "all is free", 60000);
    });
});
