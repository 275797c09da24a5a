// PostgreSQL goes away, or stands still, while a server answers and learns: no answer fails, no vote fails; votes wait on this machine and are delivered once,
// in order; and what was learned meanwhile is there after a kill. RUVLLM_OUTAGE_SECONDS says for how long it is away (3).
// Runs under with_postgres.py.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";

import { eventually, models, program, Server } from "./server.mjs";

const seconds = Number(process.env.RUVLLM_OUTAGE_SECONDS ?? 3);
const pattern = process.env.RUVLLM_TEST_POSTGRES;
const home = process.env.RUVLLM_TEST_POSTGRES_FOLDER;
if (!pattern || !home) throw new Error("run this under tests/support/with_postgres.py");

const folder = mkdtempSync(join(tmpdir(), "ruvllm-outage-"));
const env = { XDG_STATE_HOME: folder };
const store = pattern.replace("@", "outage");
const args = [`text=${models.text}`, `other=${models.chat}`, "--learn", "--threads", "1", "--ctx", "256"];
const prompt = "Once upon a time there was a little girl who lived in a small house near the forest with her mother. One day she saw a";
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function run(command, ...rest) {
    const done = spawnSync(command, rest, { encoding: "utf8", env: { ...process.env, ...env } });
    assert.equal(done.status, 0, `${command} ${rest.join(" ")}: ${done.error ?? ""}${done.stderr}`);
    return done.stdout;
}

const sql = (text, database = "outage") => run("psql", "-qAt", "-h", home, "-U", "ruvllm", "-d", database, "-c", text).trim();
const postgres = (verb) => run("python3", fileURLToPath(new URL("../support/with_postgres.py", import.meta.url)), verb, home);
const key = (tenant) => JSON.parse(run(program, "key", "create", "--tenant", tenant, "--store", store, "--json")).key;
const bits = (reply) => JSON.stringify(reply.choices);

let server, keys, keyOfCarl, keyOfDora;
before(async () => {
    sql("CREATE DATABASE outage", "postgres");
    keys = { anna: key("anna"), bert: key("bert") };
    keyOfCarl = key("carl");
    keyOfDora = key("dora");
    server = await Server.start(args, { folder, store, env });
});
after(async () => {
    if (server) assert.deepEqual(await server.stop(), { code: 0, signal: null });
    rmSync(folder, { recursive: true, force: true });
});

const ask = (who, more = {}) => server.client(keys[who]).completions.create({ model: "text", prompt, max_tokens: 16, temperature: 0, repetition_penalty: 1, logprobs: 5, ...more });
const vote = (who, body) => server.client(keys[who]).post("/feedback", { body });

// Asks and votes until told to end; what it was told, vote by vote. Whatever fails fails the suite.
async function live(who, state) {
    const results = [];
    for (let i = 0; !state.isOver; i++) {
        const reply = await ask(who, { temperature: 1, seed: i });
        results.push(await vote(who, { response_id: reply.id, score: (i % 4) / 3 }));
        assert.ok(results.at(-1).generation > (results.at(-2)?.generation ?? 0)); // the background loop adds its own
        state.n++;
        await pause(100); // a key may give 600 votes a minute
    }
    return results;
}

// What answers a tenant once the background loop has nothing left to do.
async function settled(who) {
    let reply = await ask(who);
    for (let quiet = 0; quiet < 20; ) {
        await pause(100);
        const next = await ask(who);
        quiet = next.learned_generation === reply.learned_generation ? quiet + 1 : 0;
        reply = next;
    }
    return reply;
}

describe(`PostgreSQL away for ${seconds} s`, () => {
    const results = {}, last = {};

    it("says where its store is, and no more of the URL", () => {
        assert.match(server.said.out, /store {3}postgresql:\/\/\.\.\.\n/);
        assert.ok(!server.said.out.includes(home));
    });

    it("fails no answer and no vote", { timeout: (seconds + 300) * 1000 }, async () => {
        const state = { isOver: false, n: 0 };
        const lives = Promise.all(Object.keys(keys).map(async (who) => (results[who] = await live(who, state))));
        lives.catch(() => {}); // is awaited below
        await Promise.race([eventually(() => state.n >= 6, "some votes before", 60000), lives]);
        postgres("stop");
        const before = state.n;
        await Promise.race([pause(seconds * 1000), lives]);
        assert.ok(state.n > before + 2, `only ${state.n - before} votes in ${seconds} s`);
        postgres("start");
        await Promise.race([pause(2000), lives]);
        state.isOver = true;
        await lives;
        for (const who of Object.keys(keys)) {
            last[who] = await settled(who);
            assert.ok(last[who].learned_generation >= results[who].length);
            const spooled = results[who].filter(({ sequence }) => sequence === 0).length;
            console.log(`    ${who}: ${results[who].length} votes, ${spooled} of them through the spool`);
            assert.ok(spooled > 0, "nothing went through the spool");
        }
    });

    it("has every vote once, in order", async () => {
        for (const who of Object.keys(keys)) {
            const n = results[who].length;
            const count = () => sql(`SELECT count(*), count(DISTINCT uid) FROM ruvllm.event WHERE tenant = '${who}' AND kind = 1`);
            await eventually(() => Number(count().split("|")[0]) >= n, "all votes are delivered", 60000);
            assert.equal(count(), `${n}|${n}`);
            const scores = sql(`SELECT string_agg(round(score::numeric * 3)::text, '' ORDER BY seq) FROM ruvllm.event WHERE tenant = '${who}' AND kind = 1`);
            assert.equal(scores, Array.from({ length: n }, (_, i) => i % 4).join(""));
            const told = results[who].map(({ sequence }) => sequence).filter(Boolean);
            assert.ok(told.every((sequence, i) => i === 0 || sequence > told[i - 1]), `votes were told ${told}`);
        }
    });

    it("goes on counting from there", async () => {
        for (const who of Object.keys(keys)) {
            const result = await vote(who, { response_id: last[who].id, score: 0 });
            assert.ok(result.sequence > results[who].length);
            assert.equal(result.generation, last[who].learned_generation + 1);
            last[who] = await settled(who);
        }
    });

    it("refuses feedback of who is not in memory with a 503, and answers him", { timeout: 120000 }, async () => {
        keys = { ...keys, carl: keyOfCarl };
        const learned = await ask("carl");
        assert.equal((await vote("carl", { response_id: learned.id, score: 1 })).sequence, 1);
        await settled("carl");
        await server.stop();
        server = await Server.start(args, { folder, store, env });
        await server.client(keys.carl).models.list(); // his key is known to be good; he himself was not asked for
        postgres("stop");
        const reply = await ask("carl");
        assert.equal(reply.learned_generation, 0); // as the model came
        for (const body of [{ score: 0 }, { correction: " big red ball." }]) {
            const refused = await vote("carl", { response_id: reply.id, ...body }).then(() => null, (error) => error);
            assert.equal(refused?.status, 503, `${refused}`);
            assert.equal(refused.code, "store_unavailable");
            assert.equal(refused.headers.get("retry-after"), "1");
            assert.match(refused.error.message, /try again/i);
        }
        postgres("start");
        const result = await eventually(() => vote("carl", { response_id: reply.id, score: 0 }).catch(() => null), "the same vote counts", 30000);
        assert.equal(sql("SELECT count(*) FROM ruvllm.event WHERE tenant = 'carl' AND kind = 1"), "2");
        assert.ok(result.sequence >= 2 && result.generation === result.sequence);
        last.carl = await settled("carl");
    });

    it("answers by a model that was not loaded before, which learns when the database is back", { timeout: 300000 }, async () => {
        const dora = server.client(keyOfDora);
        await dora.models.list(); // her key is known to be good
        postgres("stop");
        const reply = await dora.completions.create({ model: "other", prompt: "Once", max_tokens: 4 });
        assert.equal(reply.learned_generation, 0);
        const give = () => dora.post("/feedback", { body: { response_id: reply.id, score: 0 } });
        const refused = await give().then(() => null, (error) => error);
        assert.equal(refused?.status, 503, `${refused}`);
        assert.equal(refused.code, "learning_not_ready");
        postgres("start");
        const result = await eventually(() => give().catch(() => null), "the vote counts", 240000);
        assert.equal(result.generation, 1);
    });

    it("goes on as well while it stands still", { timeout: 240000 }, async () => {
        const count = (who) => Number(sql(`SELECT count(*) FROM ruvllm.event WHERE tenant = '${who}' AND kind = 1`));
        const state = { isOver: false, n: 0 };
        const [voters, counts] = [["anna", "bert"], {}];
        await server.stop();
        server = await Server.start(args, { folder, store: `${store}&connect_timeout=2`, env }); // else it waits for a minute
        for (const who of voters) counts[who] = count(who);
        const lives = Promise.all(voters.map(async (who) => (results[who] = await live(who, state))));
        lives.catch(() => {}); // is awaited below
        await Promise.race([eventually(() => state.n >= 4, "some votes before", 60000), lives]);
        postgres("freeze");
        const before = state.n;
        await Promise.race([pause(30000), lives]);
        assert.ok(state.n > before + 4, `only ${state.n - before} votes while it stood still`);
        postgres("thaw");
        state.isOver = true;
        await lives;
        for (const who of voters) {
            const n = counts[who] + results[who].length;
            assert.ok(results[who].some(({ sequence }) => sequence === 0), "nothing went through the spool");
            await eventually(() => count(who) >= n, "all votes are delivered", 90000);
            last[who] = await settled(who);
            assert.equal(count(who), n);
        }
    });

    it("has learned it still after kill -9 and a restart, to the bit", { timeout: 240000 }, async () => {
        for (const who of Object.keys(keys)) // known again when the database was asked, which takes its time after silence
            await eventually(() => ask(who).catch(({ status }) => assert.equal(status, 503)), "the key is known", 90000);
        await Promise.all(Object.keys(keys).map(settled)); // a tick may have come since
        for (const who of Object.keys(keys)) last[who] = await ask(who); // beside others it has other bits
        server.child.kill("SIGKILL");
        assert.equal((await server.ended).signal, "SIGKILL");
        server = await Server.start(args, { folder, store, env });
        for (const who of Object.keys(keys)) {
            const again = await ask(who);
            assert.equal(again.learned_generation, last[who].learned_generation);
            assert.equal(bits(again), bits(last[who]));
        }
    });
});
