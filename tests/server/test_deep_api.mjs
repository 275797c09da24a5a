// A training run over the wire: asked for, looked at and stopped by its own tenant alone, one at a time, while the server
// answers; what it learned answers that tenant, and can be gone back from.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";

import { createKey, eventually, failure, models, Server } from "./server.mjs";

const folder = mkdtempSync(join(tmpdir(), "ruvllm-deep-"));
const args = [`text=${models.text}`, "--learn", "--threads", "1", "--ctx", "256"];
const play = readFileSync(join(process.env.RUVLLM_TEST_DATA ?? "", "text", "tinyshakespeare.txt"), "latin1");
const prompt = "Once upon a time there was a little girl who lived in a small house near the forest with her mother. One day she saw a";
const LESSONS = 8;
const LONG = 300000; // a run computes only while nothing else does, on a machine that may be busy

const key = (...more) => createKey(join(folder, "store.db"), ...more).key;

let server, anna, bert;
before(async () => {
    anna = key("--tenant", "anna");
    bert = key("--tenant", "bert");
    server = await Server.start(args, { folder });
});
after(() => {
    server.child.kill("SIGKILL"); // where a case failed and left it
    rmSync(folder, { recursive: true, force: true });
});

const ask = (who, text = prompt) => server.client(who).completions.create({ model: "text", prompt: text, max_tokens: 24, temperature: 0, repetition_penalty: 1, logprobs: 5 });
const begin = (who, body = {}) => server.client(who).post("/learning/deep", { body });
const look = (who) => server.client(who).get("/learning/deep");
const stop = (who) => server.client(who).delete("/learning/deep");
const ended = (who) => eventually(async () => { const run = await look(who); return run.status !== "running" && run; }, "the run ends", LONG);
const learned = async (who) => (await server.client(who).get("/learning")).data.find(({ model }) => model === "text");
const bits = (reply) => JSON.stringify(reply.choices);

describe("a training run", () => {
    let first, other;

    it("is a 404 before there was one, and fails where nothing was said", async () => {
        await failure(look(anna), 404);
        await failure(stop(anna), 404);
        first = await ask(anna);
        other = await ask(bert);
        assert.equal((await begin(anna)).object, "learning.deep");
        const run = await ended(anna);
        assert.equal(run.status, "failed");
        assert.match(run.error, /too little to learn from/);
        assert.equal(run.generation, null);
        await failure(look(bert), 404); // it is nobody else's business
    });

    it("refuses what it does not know", async () => {
        assert.equal((await failure(begin(anna, { epochs: 3 }), 400)).param, "epochs");
        assert.equal((await failure(begin(anna, { max_forgetting: 0 }), 400)).param, "max_forgetting");
        assert.equal((await failure(begin(anna, { model: "nobody" }), 404)).code, "model_not_found");
        await failure(begin("rv-wrong"), 401);
    });

    it("is one at a time, and stops when its tenant wants it to", async () => {
        for (let i = 0; i < LESSONS; i++) {
            const reply = await ask(anna, play.slice(i * 300, i * 300 + 40));
            await server.client(anna).post("/feedback", { body: { response_id: reply.id, correction: play.slice(i * 300 + 40, i * 300 + 120) } });
        }
        const { generation } = await learned(anna);
        const run = await begin(anna);
        assert.equal(run.status, "running");
        assert.equal(run.votes, null);
        assert.match((await failure(begin(bert), 429)).message, /another training run/);
        await failure(begin(anna), 429);
        await failure(stop(bert), 404);
        assert.equal((await ask(bert)).choices[0].text, other.choices[0].text); // answers go on, in batches of another shape
        await stop(anna);
        assert.equal((await ended(anna)).status, "stopped");
        assert.equal((await stop(anna)).status, "stopped"); // once more changes nothing
        assert.equal((await learned(anna)).generation, generation);
    });

    it("answers its tenant when it is done, and nobody else; and can be gone back from", async () => {
        const before = await ask(anna), { generation } = await learned(anna);
        await begin(anna, { model: "text", fresh: true, max_forgetting: 0.5 });
        const run = await ended(anna);
        assert.equal(run.status, "done", JSON.stringify(run));
        assert.ok(run.loss > 0, `${run.loss}`); // of its last step
        assert.equal(run.corrections, LESSONS);
        assert.ok(run.held_out < run.held_out_before && run.forgetting < 0.5 && run.seconds > 0, JSON.stringify(run));
        assert.ok(run.step > 0 && run.step <= run.steps && run.epoch > 0 && run.epoch <= run.epochs, JSON.stringify(run));
        assert.equal(run.generation, generation + 1);
        const now = await ask(anna);
        assert.equal(now.learned_generation, run.generation);
        assert.notEqual(bits(now), bits(before));
        assert.equal(bits(await ask(bert)), bits(other));
        const [event] = (await server.client(anna).get("/learning/history?limit=1")).data;
        assert.equal(event.kind, "deep");
        assert.equal(event.generation, run.generation);
        await server.client(anna).post("/learning/rollback", { body: { generation: 0 } });
        assert.equal(bits(await ask(anna)), bits(first));
    });

    it("does not keep a server from ending", async () => {
        await server.client(anna).post("/learning/rollback", { body: { generation: LESSONS } });
        assert.equal((await begin(anna, { fresh: true })).status, "running");
        assert.deepEqual(await server.stop(), { code: 0, signal: null });
    });
});

describe("without a log", () => {
    it("there is nothing to train on, and without learning no such thing", async () => {
        for (const [more, store, status] of [[args, "none", 501], [args.filter((word) => word !== "--learn"), undefined, 501]]) {
            const own = await Server.start(more, { store });
            try {
                await failure(own.client().post("/learning/deep", { body: {} }), status);
            } finally {
                assert.deepEqual(await own.stop(), { code: 0, signal: null });
            }
        }
    });
});
