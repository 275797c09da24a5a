// Learning over the wire, the whole story: ask, vote, ask again, another answer; the other tenant's as before to the bit; a
// kill and a restart forget nothing; the way back leads to the first answer, to the bit. And who may not, and what is no vote.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";

import { createKey, eventually, failure, models, Server } from "./server.mjs";

const folder = mkdtempSync(join(tmpdir(), "ruvllm-learn-"));
const args = [`text=${models.text}`, "--learn", "--threads", "1", "--ctx", "256"];
const prompt = "Once upon a time there was a little girl who lived in a small house near the forest with her mother. One day she saw a";

const key = (...more) => createKey(join(folder, "store.db"), ...more).key;

let server, anna, bert, carl, dora, admin;
before(async () => {
    anna = key("--tenant", "anna");
    bert = key("--tenant", "bert");
    carl = key("--tenant", "carl");
    dora = key("--tenant", "dora");
    admin = key("--tenant", "operators", "--admin");
    server = await Server.start(args, { folder });
});
after(async () => {
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
    rmSync(folder, { recursive: true, force: true });
});

const ask = (who, more = {}) => server.client(who).completions.create({ model: "text", prompt, max_tokens: 24, temperature: 0, repetition_penalty: 1, logprobs: 5, ...more });
const vote = (who, body) => server.client(who).post("/feedback", { body });
const rollback = (who, body) => server.client(who).post("/learning/rollback", { body });
const learned = async (who, from = server) => (await from.client(who).get("/learning")).data.find(({ model }) => model === "text");
// The same once the background loop has nothing left to do.
async function settled(who) {
    let state = await learned(who);
    for (let quiet = 0; quiet < 20; ) {
        await new Promise((done) => setTimeout(done, 100));
        const next = await learned(who);
        quiet = next.generation === state.generation ? quiet + 1 : 0;
        state = next;
    }
    return state;
}
// Everything an answer was drawn from, digit by digit.
const bits = (reply) => JSON.stringify(reply.choices);
const textOf = (reply) => reply.choices[0].text;

// A server for one case, which ends with it however it goes.
async function alone(more, options, story) {
    const own = await Server.start(more, options);
    let end;
    try {
        await story(own);
    } finally {
        end = await own.stop();
    }
    assert.deepEqual(end, { code: 0, signal: null });
}

// Without the budget, which becomes known when the background loop first looks, whatever is asked meanwhile.
const sameAlways = ({ kl_budget, ...rest }) => rest;

describe("the whole story", () => {
    let first, other, last;

    it("says that it learns, and has learned nothing", async () => {
        assert.match(server.said.out, /learns {2}from feedback, kept in the store/);
        assert.equal((await server.client(anna).models.retrieve("text")).learning, true);
        const state = await learned(anna);
        assert.deepEqual(state, { object: "learning", model: "text", learning: true, generation: 0, votes: 0, mean_score: 0.5, oldest_generation: 0, spent_kl: 0, lessons: 0, keys: 0, paused: false, votes_held_back: 0, anchor_kl: 0, kl_budget: null, ticks: 0, consolidation: "ewc_merge" });
        first = await ask(anna);
        other = await ask(bert);
        assert.equal(first.learned_generation, 0);
        assert.equal(bits(other), bits(first));
    });

    it("changes the next answer by votes, at once in what it is drawn from and soon in its words", async () => {
        let reply = first;
        let n = 0;
        for (; n < 10 && textOf(reply) === textOf(first); n++) {
            const result = await vote(anna, { response_id: reply.id, score: 0 });
            assert.equal(result.object, "feedback");
            assert.equal(result.response_id, reply.id);
            assert.equal(result.generation, n + 1);
            assert.equal(result.sequence, n + 1);
            assert.ok(result.advantage < 0 && result.kl > 0 && result.compute_us > 0 && result.commit_us > 0, JSON.stringify(result));
            reply = await ask(anna);
            assert.equal(reply.learned_generation, n + 1);
            assert.notEqual(bits(reply), bits(first));
            assert.ok(reply.usage.prompt_tokens_details.cached_tokens > 0); // votes make nothing invalid
        }
        assert.notEqual(textOf(reply), textOf(first), "ten bad votes changed no word");
        last = reply;
        const now = await learned(anna);
        assert.equal(now.generation, n);
        assert.equal(now.votes, n);
        assert.equal(now.oldest_generation, 1);
        assert.ok(now.mean_score < 0.5 && now.spent_kl > 0);
    });

    it("leaves the other tenant's answers as they were, to the bit", async () => {
        const again = await ask(bert);
        assert.equal(bits(again), bits(other));
        assert.equal(again.learned_generation, 0);
        assert.equal((await learned(bert)).generation, 0);
    });

    it("counts votes in the metrics", async () => {
        const text = await (await server.fetch("/metrics", { headers: { authorization: `Bearer ${admin}` } })).text();
        const n = last.learned_generation;
        assert.match(text, new RegExp(`^ruvllm_feedback_total\\{model_name="text"\\} ${n}$`, "m"));
        assert.match(text, new RegExp(`^ruvllm_feedback_compute_seconds_count\\{model_name="text"\\} ${n}$`, "m"));
        assert.match(text, new RegExp(`^ruvllm_feedback_commit_seconds_count\\{model_name="text"\\} ${n}$`, "m"));
    });

    it("has learned it still after kill -9 and a restart", async () => {
        server.child.kill("SIGKILL");
        assert.equal((await server.ended).signal, "SIGKILL");
        server = await Server.start(args, { folder });
        const again = await ask(anna);
        assert.equal(bits(again), bits(last));
        assert.equal(again.learned_generation, last.learned_generation);
        assert.equal(bits(await ask(bert)), bits(other));
        assert.equal((await failure(vote(anna, { response_id: last.id, score: 1 }), 404)).code, "response_not_found"); // it was another process's
    });

    it("goes back to the first answer, to the bit, and forth again", async () => {
        const n = last.learned_generation;
        const result = await rollback(anna, { model: "text", generation: 0 });
        assert.equal(result.object, "learning.rollback");
        assert.equal(result.generation, n + 1);
        assert.equal(result.sequence, n + 1);
        const back = await ask(anna);
        assert.equal(bits(back), bits(first));
        assert.equal(back.learned_generation, n + 1);
        assert.equal((await learned(anna)).votes, 0);
        assert.equal((await rollback(anna, { generation: n })).generation, n + 2); // the default model's
        assert.equal(bits(await ask(anna)), bits(last));
        assert.equal(bits(await ask(bert)), bits(other));
    });
});

describe("answers of every shape take a vote", () => {
    it("a stream, by the id of its chunks; the last ones say the generation", async () => {
        const chunks = [];
        for await (const chunk of await ask(anna, { stream: true, stream_options: { include_usage: true } })) chunks.push(chunk);
        const { generation } = await learned(anna);
        assert.equal(chunks.at(-1).learned_generation, generation);
        assert.equal((await vote(anna, { response_id: chunks[0].id, score: 0.5 })).generation, generation + 1);
    });

    it("each of several by its number, in any order", async () => {
        const reply = await ask(anna, { n: 3, temperature: 1, seed: 1 });
        const { generation } = await learned(anna);
        for (const [i, choice] of [2, 0, 1].entries())
            assert.equal((await vote(anna, { response_id: reply.id, choice, score: choice / 2 })).generation, generation + 1 + i);
        assert.equal((await failure(vote(anna, { response_id: reply.id, choice: 3, score: 1 }), 404)).code, "response_not_found");
    });

    it("many tenants' votes at once", async () => {
        const [mine, theirs] = [await ask(anna), await ask(bert)];
        const before = [await learned(anna), await learned(bert)];
        await Promise.all(Array.from({ length: 40 }, (_, i) => (i % 2 ? vote(anna, { response_id: mine.id, score: 0.5 }) : vote(bert, { response_id: theirs.id, score: 0.5 }))));
        const after = [await learned(anna), await learned(bert)];
        for (const i of [0, 1]) {
            assert.equal(after[i].votes - before[i].votes, 20);
            assert.ok(after[i].generation - before[i].generation >= 20); // and what the background loop added
        }
    });
});

describe("what is no vote changes nothing", () => {
    let reply, state;
    before(async () => {
        reply = await ask(anna);
        state = await settled(anna);
    });
    after(async () => assert.deepEqual(sameAlways(await learned(anna)), sameAlways(state)));

    it("an id that is none, or another tenant's, is the same 404", async () => {
        const unknown = "cmpl-" + "a".repeat(24);
        const words = async (who, id) => {
            const { message, ...rest } = await failure(vote(who, { response_id: id, score: 0 }), 404);
            return JSON.stringify({ ...rest, message: message.replace(id, "ID") });
        };
        const expected = await words(anna, unknown);
        assert.match(expected, /response_not_found/);
        assert.equal(await words(bert, reply.id), expected);
        assert.equal(await words(admin, reply.id), expected); // being an admin makes nobody the tenant
        assert.equal(await words(anna, reply.id.slice(0, -1)), expected);
        assert.equal(await words(anna, `${reply.id}x`), expected);
        assert.equal(await words(anna, "x".repeat(128)), expected);
    });

    it("a score that is none is a 400 that names it", async () => {
        for (const score of [-0.01, 1.01, 2, -1, "1", true, null, [], {}, 1e300]) assert.equal((await failure(vote(anna, { response_id: reply.id, score }), 400)).param, "score", JSON.stringify(score));
        assert.equal((await failure(vote(anna, { response_id: reply.id }), 400)).param, "score");
        assert.equal((await failure(vote(anna, { score: 1 }), 400)).param, "response_id");
        assert.equal((await failure(vote(anna, { response_id: reply.id, score: 1, choice: -1 }), 400)).param, "choice");
        assert.equal((await failure(vote(anna, { response_id: reply.id, score: 1, tenant: "bert" }), 400)).param, "tenant");
        for (const score of ["NaN", "Infinity", "1e999"]) {
            const refused = await server.post("/v1/feedback", `{"response_id":"${reply.id}","score":${score}}`, { authorization: `Bearer ${anna}` });
            assert.equal(refused.status, 400, score);
        }
    });

    it("a generation that is not there is a 404, one that is none a 400, a model that is not there a 404", async () => {
        await failure(rollback(anna, { generation: 100000 }), 404);
        assert.equal((await failure(rollback(anna, { generation: -1 }), 400)).param, "generation");
        assert.equal((await failure(rollback(anna, {}), 400)).param, "generation");
        assert.equal((await failure(rollback(anna, { generation: 0, model: "nobody" }), 404)).code, "model_not_found");
    });

    it("nobody without a key", async () => {
        await failure(vote("rv-wrong", { response_id: reply.id, score: 0 }), 401);
        await failure(rollback("rv-wrong", { generation: 0 }), 401);
        assert.equal((await server.fetch("/v1/learning")).status, 401);
    });
});

describe("the whole story of a correction", () => {
    const told = " red boat on the lake. It was called Zorbin.";
    let first, other, taught;

    it("is what comes when it is asked again, to its tenant alone", async () => {
        first = await ask(carl);
        other = await ask(dora);
        const result = await vote(carl, { response_id: first.id, correction: told, reason: "there is a boat" });
        assert.equal(result.generation, 1);
        assert.equal(result.sequence, 1);
        assert.ok(result.kl > 0 && result.compute_us > 0 && result.commit_us > 0 && result.read_us > 0, JSON.stringify(result));
        taught = await ask(carl);
        assert.notEqual(textOf(first), told);
        assert.equal(textOf(taught), told);
        assert.equal(taught.choices[0].finish_reason, "stop");
        assert.ok(taught.usage.prompt_tokens_details.cached_tokens > 0);
        assert.equal(textOf(await ask(carl, { temperature: 0.7, top_p: 0.9, seed: 1 })), told);
        assert.equal(bits(await ask(dora)), bits(other));
        const now = await learned(carl);
        assert.ok(now.lessons === 1 && now.votes === 0 && now.keys > 0, JSON.stringify(now));
    });

    it("is there after kill -9 and a restart, and goes back to the bit", async () => {
        server.child.kill("SIGKILL");
        assert.equal((await server.ended).signal, "SIGKILL");
        server = await Server.start(args, { folder });
        assert.equal(bits(await ask(carl)), bits(taught));
        assert.equal(bits(await ask(dora)), bits(other));
        assert.equal((await rollback(carl, { generation: 0 })).generation, 2);
        assert.equal(bits(await ask(carl)), bits(first));
        assert.equal((await rollback(carl, { generation: 1 })).generation, 3);
        assert.equal(bits(await ask(carl)), bits(taught));
    });

    it("a pair moves the answer to what is preferred", async () => {
        const reply = await ask(dora);
        assert.equal((await vote(dora, { response_id: reply.id, preferred: " big red bird." })).generation, 1);
        assert.equal(textOf(await ask(dora)), " big red bird.");
    });

    it("more than one kind of feedback at once, or text that is none, is a 400; too much of it a 413", async () => {
        const { id } = await ask(carl);
        const before = await learned(carl);
        assert.equal((await failure(vote(carl, { response_id: id, score: 1, correction: "a" }), 400)).param, "correction");
        assert.equal((await failure(vote(carl, { response_id: id, score: 1, preferred: "a" }), 400)).param, "score");
        assert.equal((await failure(vote(carl, { response_id: id, correction: 7 }), 400)).param, "correction");
        assert.equal((await failure(vote(carl, { response_id: id, correction: "" }), 400)).param, "correction");
        await failure(vote(carl, { response_id: id, correction: "a ".repeat(2000) }), 413);
        assert.deepEqual(sameAlways(await learned(carl)), sameAlways(before));
    });
});

describe("a server without --learn", () => {
    let plain;
    before(async () => (plain = await Server.start([`text=${models.text}`, "--threads", "1"])));
    after(async () => assert.deepEqual(await plain.stop(), { code: 0, signal: null }));

    it("says so everywhere", async () => {
        const reply = await plain.client().completions.create({ model: "text", prompt: "Once", max_tokens: 4 });
        assert.equal(reply.learned_generation, undefined);
        const refused = await failure(plain.client().post("/feedback", { body: { response_id: reply.id, score: 1 } }), 501);
        assert.equal(refused.code, "learning_off");
        assert.match(refused.message, /--learn/);
        await failure(plain.client().post("/learning/rollback", { body: { generation: 0 } }), 501);
        assert.deepEqual(await learned(undefined, plain), { object: "learning", model: "text", learning: false });
        assert.equal((await plain.client().models.retrieve("text")).learning, false);
        assert.doesNotMatch(plain.said.out, /learns/);
    });
});

describe("without a store", () => {
    let memory;
    before(async () => (memory = await Server.start([`text=${models.text}`, `chat=${models.chat}`, "--learn", "--learn-rank", "8", "--consolidation", "best_only", "--threads", "1", "--ctx", "256"], { store: "none" })));
    after(async () => assert.deepEqual(await memory.stop(), { code: 0, signal: null }));

    it("it learns in memory, and says so", async () => {
        assert.match(memory.said.out, /learns {2}from feedback, in memory only/);
        const reply = await memory.client().completions.create({ model: "text", prompt: "Once", max_tokens: 8 });
        const result = await memory.client().post("/feedback", { body: { response_id: reply.id, score: 1 } });
        assert.equal(result.generation, 1);
        assert.equal(result.sequence, 0);
        const now = await learned(undefined, memory);
        assert.equal(now.generation, 1);
        assert.equal(now.consolidation, "best_only"); // as was asked for, from the loop itself
    });

    it("chats and responses take votes too, each model for itself", async () => {
        const chat = await memory.client().chat.completions.create({ model: "chat", messages: [{ role: "user", content: "Hello" }], max_tokens: 8 });
        assert.equal(chat.learned_generation, 0);
        const give = () => memory.client().post("/feedback", { body: { response_id: chat.id, score: 0 } });
        const first = await eventually(() => give().catch(({ status }) => assert.equal(status, 503)), "the vote counts", 240000); // it was loaded just now
        assert.equal(first.generation, 1);
        const response = await memory.client().responses.create({ model: "chat", input: "Hello", max_output_tokens: 8 });
        assert.equal(response.learned_generation, 1);
        assert.match(response.id, /^resp_/);
        assert.equal((await memory.client().post("/feedback", { body: { response_id: response.id, score: 0 } })).generation, 2);
        assert.equal((await learned(undefined, memory)).generation, 1);
    });
});

describe("a key that votes too fast", () => {
    it("is told to wait, and still answered", () => alone([...args, "--votes-per-minute", "3"], {}, async (strict) => {
        const reply = await strict.client().completions.create({ model: "text", prompt, max_tokens: 8 });
        const again = () => strict.client().post("/feedback", { body: { response_id: reply.id, score: 0.5 } });
        for (let i = 1; i <= 3; i++) assert.equal((await again()).generation, i);
        const refused = await strict.post("/v1/feedback", { response_id: reply.id, score: 0.5 });
        assert.equal(refused.status, 429);
        assert.ok(Number(refused.headers.get("retry-after")) >= 1);
        assert.match((await refused.json()).error.message, /3 votes a minute/);
        await failure(strict.client().post("/learning/rollback", { body: { generation: 0 } }), 429);
        assert.equal((await learned(undefined, strict)).generation, 3); // questions are no votes
        await strict.client().completions.create({ model: "text", prompt, max_tokens: 8 });
    }));
});

describe("a model that was unloaded", () => {
    it("knows no answers from before, and what was learned still", () => alone([...args, "--idle-unload", "1"], {}, async (idle) => {
        const once = () => idle.client().completions.create({ model: "text", prompt, max_tokens: 8, temperature: 0, logprobs: 5 });
        const unloaded = () => eventually(async () => !(await idle.client().models.retrieve("text")).loaded, "the model is unloaded", 20000);
        await unloaded(); // the first engine wrote texts of its own, so its numbers are others
        const first = await once();
        assert.equal((await idle.client().post("/feedback", { body: { response_id: first.id, score: 0 } })).generation, 1);
        const taught = await once();
        await unloaded();
        assert.deepEqual((await idle.client().get("/learning")).data, []);
        await failure(idle.client().post("/feedback", { body: { response_id: first.id, score: 0 } }), 404);
        const again = await once(); // has the number that the first had
        assert.equal(again.learned_generation, 1);
        assert.equal(bits(again), bits(taught));
        await failure(idle.client().post("/feedback", { body: { response_id: first.id, score: 0 } }), 404);
        assert.equal((await idle.client().post("/feedback", { body: { response_id: again.id, score: 0 } })).generation, 2);
    }));
});

describe("a model that learned without a store", () => {
    it("is not unloaded: no file would bring that back", () => alone([...args, "--idle-unload", "1"], { store: "none" }, async (idle) => {
        const reply = await idle.client().completions.create({ model: "text", prompt, max_tokens: 8 });
        await idle.client().post("/feedback", { body: { response_id: reply.id, score: 0 } });
        await new Promise((resolve) => setTimeout(resolve, 2500));
        assert.equal((await learned(undefined, idle))?.generation, 1);
    }));
});

// A disk of its own for one server, small enough to be filled; needs a kernel that lets us have one.
const disk = join(folder, "disk");
const ofSize = (mib) => ["unshare", "-Urm", "sh", "-c", `mount -t tmpfs -o size=${mib}m none "$0" && exec "$@"`, disk];
const small = ofSize(3);
mkdirSync(disk);
const hasDisk = spawnSync(small[0], [...small.slice(1), "true"]).status === 0;

describe("a full disk", { skip: hasDisk ? false : "a small disk cannot be mounted here" }, () => {
    it("is a 507 for votes, while answers go on, and is over when there is room", () => alone(args, { folder: disk, via: small }, async (full) => {
        const once = () => full.client().completions.create({ model: "text", prompt, max_tokens: 8, temperature: 0, logprobs: 5 });
        const back = (body) => full.client().post("/learning/rollback", { body });
        const fill = join(`/proc/${full.child.pid}/root`, disk, "fill");
        const reply = await once();
        const voteDown = () => full.client().post("/feedback", { body: { response_id: reply.id, score: 0 } });
        assert.equal((await voteDown()).generation, 1);
        assert.throws(() => writeFileSync(fill, Buffer.alloc(4 << 20)), /ENOSPC/);
        const isRefused = (asked) => asked.then(() => false, ({ status }) => status === 507);
        let refusals = 0; // a log that began anew has room that nobody can take from it: that is used up first
        for (let i = 0; i < 500 && refusals < 12; i++) refusals = (await isRefused(i % 2 ? back({ generation: 0 }) : voteDown())) ? refusals + 1 : 0;
        assert.equal(refusals, 12, "the disk was never full");
        const before = await once(), { generation } = await learned(undefined, full);
        for (let i = 0; i < 3; i++) assert.equal((await failure(voteDown(), 507)).code, "insufficient_storage");
        const refused = await full.post("/v1/feedback", { response_id: reply.id, score: 0 });
        assert.equal(refused.status, 507);
        assert.ok(Number(refused.headers.get("retry-after")) >= 1);
        await failure(back({ generation: 0 }), 507);
        assert.equal(bits(await once()), bits(before)); // nothing was learned, everything is answered
        assert.equal((await learned(undefined, full)).generation, generation);
        rmSync(fill);
        await eventually(async () => (await voteDown().catch(() => ({}))).generation === generation + 1, "votes count again");
    }));
});

describe("a model that was never asked to learn before", () => {
    it("answers while it prepares, and what it answers then can be judged", () => alone([`text=${models.chat}`, "--learn", "--threads", "1", "--ctx", "256"], { isEarly: true }, async (early) => {
        const started = Date.now();
        const reply = await early.client().completions.create({ model: "text", prompt: "Once", max_tokens: 4 });
        assert.ok(!/learns from now on/.test(early.said.err), "it was prepared before anybody could ask");
        assert.equal(reply.learned_generation, 0);
        assert.equal((await early.client().models.retrieve("text")).learning, true);
        const refused = await early.post("/v1/learning/rollback", { generation: 0 });
        assert.equal(refused.status, 503);
        assert.equal((await refused.json()).error.code, "learning_not_ready");
        assert.ok(Number(refused.headers.get("retry-after")) >= 1);
        assert.ok(!/learns from now on/.test(early.said.err));
        const answered = Date.now() - started;
        const give = () => early.client().post("/feedback", { body: { response_id: reply.id, score: 0 } });
        const result = await eventually(() => give().catch(({ status }) => assert.equal(status, 503)), "the vote counts", 240000); // it waits for that by itself
        assert.equal(result.generation, 1);
        assert.ok(Date.now() - started > 2 * answered, "preparing took no time: the test shows nothing");
    }));

    it("ends soon when it is told to while it prepares", async () => {
        const early = await Server.start([`text=${models.chat}`, "--learn", "--threads", "1", "--ctx", "256"], { isEarly: true });
        const started = Date.now();
        assert.deepEqual(await early.stop(), { code: 0, signal: null });
        assert.ok(!/learns from now on/.test(early.said.err));
        assert.ok(Date.now() - started < 5000, `it took ${Date.now() - started} ms`);
    });

    it("is answered by without a place on the disk for what it measures, and learns once there is one", { skip: hasDisk ? false : "a small disk cannot be mounted here" },
        () => alone([`text=${models.chat}`, "--learn", "--threads", "1", "--ctx", "256"], { folder: disk, via: ofSize(24), isEarly: true }, async (full) => {
            const fill = join(`/proc/${full.child.pid}/root`, disk, "fill");
            assert.throws(() => writeFileSync(fill, Buffer.alloc(32 << 20)), /ENOSPC/);
            await eventually(() => full.log().some(({ message }) => /cannot begin to learn yet, which is tried again/.test(message ?? "")), "a line in the log", 240000);
            const reply = await full.client().completions.create({ model: "text", prompt: "Once", max_tokens: 4 });
            assert.equal((await failure(full.client().post("/feedback", { body: { response_id: reply.id, score: 0 } }), 503)).code, "learning_not_ready");
            rmSync(fill);
            const give = () => full.client().post("/feedback", { body: { response_id: reply.id, score: 0 } });
            const result = await eventually(() => give().catch(({ status }) => assert.equal(status, 503)), "the vote counts", 240000);
            assert.equal(result.generation, 1);
        }));
});

describe("a model that cannot learn", () => {
    it("is served without, and the log says why", () => alone([`text=${models.text}`, "--learn", "--backend", "llama", "--threads", "1"], {}, async (other) => {
        const reply = await other.client().completions.create({ model: "text", prompt: "Once", max_tokens: 4 });
        assert.equal(reply.learned_generation, undefined);
        assert.equal((await other.client().models.retrieve("text")).learning, false);
        assert.deepEqual(await learned(undefined, other), { object: "learning", model: "text", learning: false });
        assert.equal((await failure(other.client().post("/feedback", { body: { response_id: reply.id, score: 1 } }), 501)).code, "learning_off");
        await eventually(() => other.log().some(({ message }) => /'text' is served without learning/.test(message ?? "")), "a line in the log");
    }));
});
