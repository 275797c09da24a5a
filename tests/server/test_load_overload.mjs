// Ten times more than the server can do: what it refuses it refuses at once, and what it takes it does as well as before.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { address, ask, figure, full, median, metrics, now, percentile, pick, residentBytes, sanitized, sleep, small } from "./load.mjs";
import { Server } from "./server.mjs";

const sequences = 8;
const queue = 8;
const seconds = pick(4, 120);
const body = { model: "text", prompt: "Once upon a time", max_tokens: 64, ignore_eos: true, prompt_cache: false };

let server, where;
before(async () => {
    server = await Server.start([`text=${small}`, "--threads", "1", "--max-sequences", String(sequences), "--max-queue", String(queue), "--log-level", "error"]);
    where = address(server);
});
after(async () => assert.deepEqual(await server.stop(), { code: 0, signal: null }));

// `n` clients that ask again as soon as they are answered; who is refused pauses for `pause` ms.
async function load(n, ms, pause) {
    const began = now();
    const seen = { done: 0, refused: [], noRetryAfter: 0, other: {} };
    const before = (await metrics(server)).generated;
    await Promise.all(Array.from({ length: n }, async () => {
        while (now() - began < ms) {
            const reply = await ask(where, "/v1/completions", body);
            if (reply.status === 200) {
                seen.done++;
            } else if (reply.status === 429) {
                seen.refused.push(reply.ms);
                seen.noRetryAfter += !(Number(reply.headers["retry-after"]) >= 1);
                await sleep(pause);
            } else {
                seen.other[reply.status] = (seen.other[reply.status] ?? 0) + 1;
            }
        }
    }));
    seen.rate = ((await metrics(server)).generated - before) / ((now() - began) / 1000);
    return seen;
}

describe("overload", () => {
    it("is refused at once and costs nobody else", async () => {
        const rounds = pick(1, 5);
        const over = { done: 0, refused: [], noRetryAfter: 0, other: {} };
        const rates = { peak: [], over: [] };
        await load(sequences, 500, 0);
        const bytes = residentBytes(server.child.pid);
        // In turns: the machine's own speed changes from minute to minute. Ten times as many as are computed at once.
        for (let i = 0; i < rounds; i++) {
            rates.peak.push((await load(sequences, pick(3000, 8000), 0)).rate);
            const seen = await load(10 * sequences, (seconds / rounds) * 1000, 400);
            rates.over.push(seen.rate);
            over.done += seen.done;
            over.refused.push(...seen.refused);
            over.noRetryAfter += seen.noRetryAfter;
            Object.assign(over.other, seen.other);
        }
        const share = median(rates.over.map((rate, i) => rate / rates.peak[i]));
        const more = residentBytes(server.child.pid) - bytes;
        figure("overload_seconds", seconds);
        figure("overload_peak_tokens_per_second", median(rates.peak));
        figure("overload_tokens_per_second", median(rates.over));
        figure("overload_goodput_share", share);
        figure("overload_answered", over.done);
        figure("overload_refused", over.refused.length);
        figure("overload_refusal_ms_p50", percentile(over.refused, 0.5));
        figure("overload_refusal_ms_p99", percentile(over.refused, 0.99));
        figure("overload_rss_more_mib", more / (1 << 20));
        assert.deepEqual(over.other, {});
        assert.equal(over.noRetryAfter, 0);
        assert.ok(over.refused.length > 0 && over.done > 0);
        if (sanitized) return;
        assert.ok(more <= 32 << 20, "memory");
        // On a busy machine the clients themselves take the time of the server.
        assert.ok(percentile(over.refused, full ? 0.99 : 0.5) <= (full ? 50 : 1000), "refusals");
        assert.ok(share >= (full ? 0.95 : 0.3), `goodput ${JSON.stringify(rates)}`);
    });
});
