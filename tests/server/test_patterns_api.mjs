// Judged answers over the wire: they are listed, newest first, to their tenant alone, and can be forgotten.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, it } from "node:test";

import { createKey, models, OpenAI, Server } from "./server.mjs";

const folder = mkdtempSync(join(tmpdir(), "ruvllm-patterns-"));
const args = [`text=${models.text}`, "--threads", "1", "--ctx", "256"];

const key = (tenant) => createKey(join(folder, "store.db"), "--tenant", tenant).key;

let server, anna, bert;
before(async () => {
    anna = key("anna");
    bert = key("bert");
    server = await Server.start([...args, "--learn"], { folder });
});
after(async () => {
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
    rmSync(folder, { recursive: true, force: true });
});

const list = async (who) => (await server.client(who).get("/learning/patterns")).data;

it("lists judged answers to their tenant, newest first, and forgets them", async () => {
    assert.deepEqual(await list(anna), []);
    for (const score of [0, 0.5, 1]) {
        const reply = await server.client(anna).completions.create({ model: "text", prompt: "Once upon a time", max_tokens: 8 });
        await server.client(anna).post("/feedback", { body: { response_id: reply.id, score } });
    }
    const seen = await list(anna);
    assert.deepEqual(seen.map(({ quality, verdict, sequence, model }) => [quality, verdict, sequence, model]),
        [[1, "good", 3, "text"], [0.5, "mixed", 2, "text"], [0, "bad", 1, "text"]]);
    assert.ok(seen.every(({ created, used }) => Math.abs(created - Date.now() / 1000) < 600 && used === 0));
    assert.deepEqual(await list(bert), []);
    assert.deepEqual(await server.client(bert).delete("/learning/patterns"), { object: "learning.patterns", deleted: true });
    assert.equal((await list(anna)).length, 3);
    await server.client(anna).delete("/learning/patterns");
    assert.deepEqual(await list(anna), []);
});

it("keeps them over a restart", async () => {
    const reply = await server.client(anna).completions.create({ model: "text", prompt: "Once upon a time", max_tokens: 8 });
    await server.client(anna).post("/feedback", { body: { response_id: reply.id, score: 1 } });
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
    server = await Server.start([...args, "--learn"], { folder });
    assert.equal((await server.client(anna).completions.create({ model: "text", prompt: "One", max_tokens: 1 })).choices.length, 1);
    assert.deepEqual((await list(anna)).map(({ quality }) => quality), [1]);
});

it("says so when it does not learn", async () => {
    const own = await Server.start(args, { folder });
    try {
        const error = await own.client(anna).get("/learning/patterns").then(() => assert.fail("it was accepted"), (reason) => reason);
        assert.ok(error instanceof OpenAI.APIError && error.status === 501, String(error));
    } finally {
        assert.deepEqual(await own.stop(), { code: 0, signal: null });
    }
});
