// What was learned, over the wire: looked at, paused, forgotten and taken along; by the own tenant and nobody else.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";

import { createKey, failure, models, Server } from "./server.mjs";

const folder = mkdtempSync(join(tmpdir(), "ruvllm-learn-log-"));
const adapters = join(folder, "adapters");
mkdirSync(adapters);
const args = [`text=${models.text}`, "--learn", "--threads", "1", "--ctx", "256", "--adapters", adapters];
const prompt = "Once upon a time there was a little girl who lived in a small house near the forest with her mother. One day she saw a";

const key = (...more) => createKey(join(folder, "store.db"), ...more).key;

let server, anna, bert, admin;
before(async () => {
    anna = key("--tenant", "anna");
    bert = key("--tenant", "bert");
    admin = key("--tenant", "operators", "--admin");
    server = await Server.start(args, { folder });
});
after(async () => {
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
    rmSync(folder, { recursive: true, force: true });
});

const ask = (who, more = {}) => server.client(who).completions.create({ model: "text", prompt, max_tokens: 24, temperature: 0, repetition_penalty: 1, logprobs: 5, ...more });
const post = (who, path, body) => server.client(who).post(path, { body });
const vote = async (who, score) => post(who, "/feedback", { response_id: (await ask(who)).id, score });
const history = (who, query = {}) => server.client(who).get("/learning/history", { query });
const learned = async (who) => (await server.client(who).get("/learning")).data[0];
const bits = (reply) => JSON.stringify(reply.choices);

describe("the history", () => {
    it("is empty before the first vote", async () => {
        assert.deepEqual(await history(anna), { object: "list", model: "text", data: [], has_more: false, next: null });
    });

    it("has every vote with what came of it, newest first", async () => {
        for (const score of [1, 0, 1]) await vote(anna, score);
        await post(anna, "/learning/rollback", { generation: 2 });
        const { data, has_more } = await history(anna, { model: "text" });
        assert.equal(has_more, false);
        assert.deepEqual(data.map(({ sequence, kind, generation, about, score }) => [sequence, kind, generation, about, score]), [
            [4, "rollback", 4, 2, null],
            [3, "vote", 3, 2, 1],
            [2, "vote", 2, 1, 0],
            [1, "vote", 1, 0, 1],
        ]);
        for (const { advantage, kl, gain, created, forgotten } of data.slice(1)) {
            assert.ok(Math.abs(advantage) > 0 && kl > 0 && gain > 0);
            assert.ok(Math.abs(created - Date.now() / 1000) < 600);
            assert.equal(forgotten, false);
        }
        assert.ok(data[1].advantage > 0 && data[2].advantage < 0);
    });

    it("comes in pages", async () => {
        const first = await history(anna, { limit: 3 });
        assert.equal(first.data.length, 3);
        assert.equal(first.has_more, true);
        const second = await history(anna, { limit: 3, before: first.next });
        assert.deepEqual([...first.data, ...second.data].map(({ sequence }) => sequence), [4, 3, 2, 1]);
        assert.equal(second.next, null);
    });

    it("is the own tenant's", async () => {
        assert.deepEqual((await history(bert)).data, []);
        assert.deepEqual((await history(admin)).data, []); // being an admin makes nobody the tenant
    });

    it("refuses what is no page", async () => {
        for (const [query, param] of [[{ limit: 0 }, "limit"], [{ limit: 1001 }, "limit"], [{ limit: "x" }, "limit"], [{ before: 0 }, "before"], [{ before: -1 }, "before"], [{ tenant: "bert" }, null]])
            assert.equal((await failure(history(anna, query), 400)).param, param, JSON.stringify(query));
        assert.equal((await failure(history(anna, { model: "nobody" }), 404)).code, "model_not_found");
    });
});

describe("forgetting", () => {
    it("is as if it had never been said, to the bit, also after kill -9", async () => {
        const first = await ask(bert);
        await vote(bert, 0);
        const once = await ask(bert);
        await vote(bert, 1);
        assert.notEqual(bits(await ask(bert)), bits(once));
        const result = await post(bert, "/learning/forget", { event: 2 });
        assert.deepEqual([result.object, result.model, result.event, result.generation], ["learning.forget", "text", 2, 2]);
        const again = await ask(bert);
        assert.equal(bits(again), bits(once));
        assert.equal(again.learned_generation, 2);
        await post(bert, "/learning/forget", { model: "text", event: 1 });
        assert.equal(bits(await ask(bert)), bits(first));
        server.child.kill("SIGKILL");
        await server.ended;
        server = await Server.start(args, { folder });
        assert.equal(bits(await ask(bert)), bits(first));
        const { data } = await history(bert);
        assert.deepEqual(data.map(({ sequence, forgotten, generation, kl }) => [sequence, forgotten, generation, kl]), [[2, true, null, null], [1, true, null, null]]);
        assert.equal((await learned(bert)).votes, 0);
    });

    it("takes only feedback of the own tenant", async () => {
        const before = bits(await ask(anna));
        await failure(post(bert, "/learning/forget", { event: 3 }), 404);
        await failure(post(admin, "/learning/forget", { event: 3 }), 404);
        await failure(post(anna, "/learning/forget", { event: 100 }), 404);
        await failure(post(bert, "/learning/forget", { event: 1 }), 404); // forgotten already
        assert.match((await failure(post(anna, "/learning/forget", { event: 4 }), 400)).message, /no feedback/);
        for (const body of [{}, { event: 0 }, { event: -1 }, { event: "1" }, { event: 1.5 }]) assert.equal((await failure(post(anna, "/learning/forget", body), 400)).param, "event", JSON.stringify(body));
        assert.equal((await failure(post(anna, "/learning/forget", { event: 1, tenant: "bert" }), 400)).param, "tenant");
        assert.equal(bits(await ask(anna)), before);
    });
});

describe("a pause", () => {
    it("refuses feedback with a 409, over a restart too, and ends when it is told to", async () => {
        const before = await ask(anna);
        assert.deepEqual(await post(anna, "/learning/pause", {}), { object: "learning.pause", model: "text", paused: true });
        assert.match((await failure(vote(anna, 0), 409)).message, /paused/);
        assert.equal((await learned(anna)).paused, true);
        assert.equal((await learned(bert)).paused, false);
        await vote(bert, 0); // nobody else is
        assert.deepEqual(await server.stop(), { code: 0, signal: null });
        server = await Server.start(args, { folder });
        assert.equal((await learned(anna)).paused, true);
        await failure(vote(anna, 0), 409);
        assert.equal(bits(await ask(anna)), bits(before)); // what was learned still answers
        assert.equal((await post(anna, "/learning/resume", { model: "text" })).paused, false);
        assert.equal((await vote(anna, 0)).generation, before.learned_generation + 1);
        assert.equal((await failure(post(anna, "/learning/pause", { event: 1 }), 400)).param, "event");
    });
});

describe("an export", () => {
    const get = (who, query) => server.fetch(`/v1/learning/export${query}`, { headers: { authorization: `Bearer ${who}` } });

    it("is an adapter that answers as the tenant's model does, to the bit", async () => {
        await post(anna, "/learning/rollback", { generation: 0 });
        for (let i = 0; i < 2; i++) await vote(anna, 1); // bad ones would also be remembered, which no file has a place for
        const reply = await get(anna, "?model=text");
        assert.equal(reply.status, 200);
        assert.equal(reply.headers.get("content-type"), "application/octet-stream");
        writeFileSync(join(adapters, "learned.gguf"), Buffer.from(await reply.arrayBuffer()));
        await post(admin, "/adapters", { id: "learned", path: "learned.gguf" });
        const theirs = await ask(admin, { model: "text:learned" });
        assert.equal(bits(theirs), bits(await ask(anna)));
    });

    it("is a 404 where nothing was learned, a 400 for what is no format", async () => {
        assert.equal((await get(admin, "")).status, 404);
        assert.equal((await get(anna, "?format=peft")).status, 400);
        assert.equal((await get(anna, "?format=own&x=1")).status, 400);
        assert.equal((await get(anna, "?model=nobody")).status, 404);
        assert.ok(readFileSync(join(adapters, "learned.gguf")).subarray(0, 4).equals(Buffer.from("GGUF")));
    });
});

describe("nobody without a key, nothing without learning", () => {
    it("is a 401, or a 501", async () => {
        await failure(history("rv-wrong"), 401);
        for (const path of ["/learning/pause", "/learning/resume", "/learning/forget"]) await failure(post("rv-wrong", path, { event: 1 }), 401);
        const plain = await Server.start([`text=${models.text}`, "--threads", "1"]);
        try {
            assert.equal((await failure(plain.client().get("/learning/history"), 501)).code, "learning_off");
            await failure(plain.client().get("/learning/export"), 501);
            for (const path of ["/learning/pause", "/learning/resume"]) await failure(plain.client().post(path, { body: {} }), 501);
            await failure(plain.client().post("/learning/forget", { body: { event: 1 } }), 501);
        } finally {
            await plain.stop();
        }
    });

    it("has no history without a store, and says so", async () => {
        const memory = await Server.start([`text=${models.text}`, "--learn", "--threads", "1", "--ctx", "256"], { store: "none" });
        try {
            assert.match((await failure(memory.client().get("/learning/history"), 501)).message, /without a store/);
            assert.match((await failure(memory.client().post("/learning/forget", { body: { event: 1 } }), 501)).message, /without a store/);
            assert.equal((await memory.client().post("/learning/pause", { body: {} })).paused, true);
        } finally {
            await memory.stop();
        }
    });
});
