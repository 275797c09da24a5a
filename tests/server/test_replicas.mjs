// Two servers share a PostgreSQL store: what a tenant teaches one, the other answers with a moment later, to the bit; and so with going back,
// forgetting and pauses. Both begin on an empty store at once. Runs under with_postgres.py.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";

import { createKey, failure, models, Server } from "./server.mjs";

const pattern = process.env.RUVLLM_TEST_POSTGRES;
const home = process.env.RUVLLM_TEST_POSTGRES_FOLDER;
if (!pattern || !home) throw new Error("run this under tests/support/with_postgres.py");

const store = pattern.replace("@", "replicas");
const args = [`text=${models.text}`, "--learn", "--threads", "1", "--ctx", "256"];
const prompt = "Once upon a time there was a little girl who lived in a small house near the forest with her mother. One day she saw a";
const told = " red boat on the lake. It was called Zorbin.";
const soon = 2000; // milliseconds, of which a balancer's own way takes more than ours

const folders = [0, 1].map(() => mkdtempSync(join(tmpdir(), "ruvllm-replica-")));
const servers = [];
let key;
before(async () => {
    const made = spawnSync("psql", ["-q", "-h", home, "-U", "ruvllm", "-d", "postgres", "-c", "CREATE DATABASE replicas"], { encoding: "utf8" });
    assert.equal(made.status, 0, made.stderr);
    process.env.XDG_STATE_HOME = folders[0];
    key = createKey(store, "--tenant", "anna").key;
    servers.push(...(await Promise.all(folders.map((folder) => Server.start(args, { folder, store, env: { XDG_STATE_HOME: folder } })))));
});
after(async () => {
    for (const server of servers) assert.deepEqual(await server.stop(), { code: 0, signal: null });
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

const ask = (i) => servers[i].client(key).completions.create({ model: "text", prompt, max_tokens: 40, temperature: 0, repetition_penalty: 1, logprobs: 5 });
const post = (i, path, body) => servers[i].client(key).post(path, { body });
const isPaused = async (i) => (await servers[i].client(key).get("/learning")).data[0].paused;
const bits = (reply) => JSON.stringify(reply.choices);

// Asks one server until it answers as the other does now; how long that took, in milliseconds.
async function follows(i) {
    const wanted = await ask(1 - i);
    const began = performance.now();
    for (;;) {
        const reply = await ask(i);
        if (reply.learned_generation === wanted.learned_generation && bits(reply) === bits(wanted)) break;
        assert.ok(performance.now() - began < soon, `generation ${reply.learned_generation} answers, not ${wanted.learned_generation}`);
    }
    console.log(`    generation ${wanted.learned_generation} after ${Math.round(performance.now() - began)} ms`);
}

describe("replicas with one store", () => {
    let first, taught;

    it("answer alike before anything is taught", async () => {
        first = await ask(0);
        assert.equal(bits(await ask(1)), bits(first));
    });

    it("answer with a correction that the other was given", async () => {
        assert.equal((await post(0, "/feedback", { response_id: first.id, correction: told })).generation, 1);
        taught = await ask(0);
        assert.equal(taught.choices[0].text, told);
        await follows(1);
    });

    it("teach both ways", async () => {
        const reply = await ask(1);
        assert.equal((await post(1, "/feedback", { response_id: reply.id, score: 0 })).sequence, 2);
        await follows(0);
    });

    it("know their own answers by id, and not the other's", async () => {
        const reply = await ask(0);
        await failure(post(1, "/feedback", { response_id: reply.id, score: 1 }), 404);
    });

    it("go back together", async () => {
        await post(1, "/learning/rollback", { generation: 1 });
        await follows(0);
        assert.equal(bits(await ask(0)), bits(taught));
    });

    it("forget together", async () => {
        await post(0, "/learning/forget", { event: 1 });
        await follows(1);
        assert.notEqual((await ask(1)).choices[0].text, told);
    });

    it("pause together", async () => {
        await post(0, "/learning/pause", {});
        const reply = await ask(1);
        let until = performance.now() + soon;
        while (!(await isPaused(1))) assert.ok(performance.now() < until);
        await failure(post(1, "/feedback", { response_id: reply.id, score: 1 }), 409);
        await post(1, "/learning/resume", {});
        until = performance.now() + soon;
        while (await isPaused(0)) assert.ok(performance.now() < until);
    });
});
