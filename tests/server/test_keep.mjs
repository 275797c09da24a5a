// What is kept beyond a request: fetched models by their names, blocks on disk, the witness log, sessions by the page.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";

import { models, program, Server, eventually } from "./server.mjs";

const scratch = (t) => {
    const folder = mkdtempSync(join(tmpdir(), "ruvllm-keep-"));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    return folder;
};
const ids = async (server) => (await (await server.fetch("/v1/models")).json()).data.map((model) => model.id);

// Statements on the store's file, beside whoever has it open.
function sql(file, script) {
    const run = spawnSync("python3", ["-c", "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], timeout=20)\nprint(db.execute(sys.argv[2]).fetchall())\ndb.commit()", file, script], { encoding: "utf8" });
    assert.equal(run.status, 0, run.stderr);
    return run.stdout.trim();
}

describe("fetched models", () => {
    it("are served by the names that `ruvllm list` shows", async (t) => {
        const folder = scratch(t);
        mkdirSync(join(folder, "somebody", "stories"), { recursive: true });
        for (const kind of ["Q8_0", "F32"]) copyFileSync(models.text, join(folder, "somebody", "stories", `stories.${kind}.gguf`));
        const env = { RUVLLM_MODELS: folder };
        const listed = spawnSync(program, ["list"], { encoding: "utf8", env: { ...process.env, ...env } }).stdout;
        assert.match(listed, /somebody\/stories/);
        const server = await Server.start(["somebody/stories:Q8_0", "mine=stories:F32", "--threads", "1"], { env });
        t.after(() => server.stop());
        assert.deepEqual(await ids(server), ["somebody/stories:Q8_0", "mine"]);
        for (const model of ["somebody/stories:Q8_0", "mine"]) {
            const reply = await server.post("/v1/completions", { model, prompt: "Once", max_tokens: 2 });
            assert.equal(reply.status, 200, await reply.text());
        }
    });

    it("that are not there are named, with how to get them, before anything listens", (t) => {
        const env = { ...process.env, RUVLLM_MODELS: scratch(t) };
        const run = spawnSync(program, ["serve", "somebody/nothing:Q4_K_M", "--store", "none", "--listen", "127.0.0.1:0"], { encoding: "utf8", env, timeout: 20000 });
        assert.equal(run.status, 1);
        assert.match(run.stderr, /somebody\/nothing/);
        assert.match(run.stderr, /ruvllm (pull|list)/);
        assert.equal(run.stdout, "");
    });
});

describe("blocks of those that give way", () => {
    it("go to the spill folder and come back, and the metrics count them", async (t) => {
        const folder = scratch(t);
        const server = await Server.start([`text=${models.text}`, "--threads", "1", "--max-sequences", "1", "--spill-dir", folder, "--spill-bytes", "64M"]);
        t.after(() => server.stop());
        const counted = async () => {
            const text = await (await server.fetch("/metrics")).text();
            return Object.fromEntries(["blocks_spilled", "blocks_restored", "spill_failures"].map((name) => [name, Number(text.match(new RegExp(`^ruvllm_kv_${name}_total\\{model_name="text"\\} (\\d+)$`, "m"))[1])]));
        };
        assert.deepEqual(await counted(), { blocks_spilled: 0, blocks_restored: 0, spill_failures: 0 });
        const ask = (more) => server.post("/v1/completions", { model: "text", prompt: "Once upon a time", temperature: 0, max_tokens: 400, ignore_eos: true, ...more });
        const expected = (await (await ask()).json()).choices[0].text;
        // An answer under way, and one that goes first.
        for (let i = 0; i < 10 && (await counted()).blocks_restored === 0; i++) {
            const slow = ask({ prompt_cache: false });
            await eventually(async () => (await (await server.fetch("/metrics")).text()).match(/^ruvllm_requests_running\S* 1$/m), "it runs");
            const urgent = await ask({ prompt: "The dog", max_tokens: 4, priority: 10 });
            assert.equal(urgent.status, 200);
            assert.equal((await (await slow).json()).choices[0].text, expected);
        }
        const seen = await counted();
        assert.ok(seen.blocks_spilled > 0 && seen.blocks_restored > 0, JSON.stringify(seen));
        assert.equal(seen.spill_failures, 0);
        assert.deepEqual(readdirSync(folder), []); // the file has no name
    });

    it("need a folder that is there, and a folder at all", () => {
        const fails = (...args) => spawnSync(program, ["serve", models.text, "--store", "none", "--listen", "127.0.0.1:0", "--threads", "1", ...args], { encoding: "utf8", timeout: 20000 });
        assert.equal(fails("--spill-bytes", "1G").status, 2);
        const wrong = fails("--spill-dir", "/no/such/folder");
        assert.equal(wrong.status, 1);
        assert.match(wrong.stderr, /\/no\/such\/folder/);
    });
});

describe("the witness log", () => {
    it("forgets what is older than its days, and only that", async (t) => {
        const folder = scratch(t);
        const store = join(folder, "store.db");
        const requests = async (server, n) => {
            for (let i = 0; i < n; i++) assert.equal((await server.post("/v1/tokenize", { model: "text", prompt: "a" })).status, 200);
        };
        let server = await Server.start([`text=${models.text}`, "--threads", "1"], { folder });
        await requests(server, 3);
        await server.stop();
        sql(store, "update witness set time_us = time_us - 10 * 86400000000");
        server = await Server.start([`text=${models.text}`, "--threads", "1"], { folder }); // keeps all
        await requests(server, 2);
        await server.stop();
        assert.equal(sql(store, "select count(*) from witness"), "[(5,)]");
        server = await Server.start([`text=${models.text}`, "--threads", "1", "--witness-days", "11"], { folder });
        await server.stop();
        assert.equal(sql(store, "select count(*) from witness"), "[(5,)]");
        server = await Server.start([`text=${models.text}`, "--threads", "1", "--witness-days", "9"], { folder });
        await eventually(() => sql(store, "select count(*) from witness") === "[(2,)]", "the old ones are gone");
        await eventually(() => server.log().some((line) => /^3 entries of the witness log were older than 9 days/.test(line.message)), "and the log says so");
        await server.stop();
    });
});

describe("sessions", () => {
    it("are listed by the page, each once, also while one is updated", async (t) => {
        const server = await Server.start([`chat=${models.chat}`, "--threads", "1"]);
        t.after(() => server.stop());
        const n = 2345;
        sql(server.store, `with recursive i(k) as (select 1 union all select k + 1 from i where k < ${n})
            insert into session (tenant, id, model, title, snapshot, n_tokens, created_us, updated_us, messages)
            select 'local', 's' || k, 'chat', '', '', 0, k, 1000000 + k / 3, '[]' from i`); // three of each time
        const page = async (query = "") => {
            const reply = await server.fetch(`/v1/sessions${query}`);
            assert.equal(reply.status, 200, await reply.clone().text());
            return reply.json();
        };
        for (const limit of [undefined, 1000, 469, 7]) {
            const seen = [];
            let answer = await page(limit ? `?limit=${limit}` : "");
            for (;;) {
                assert.ok(answer.data.length <= (limit ?? 1000));
                seen.push(...answer.data.map((session) => session.id));
                assert.equal(answer.has_more, answer.next !== undefined);
                if (!answer.has_more) break;
                if (limit === 469 && seen.length === 938) sql(server.store, `update session set updated_us = updated_us + 1000000 where id = '${seen.at(-1)}'`); // where the page ended
                answer = await page(`?after=${answer.next}${limit ? `&limit=${limit}` : ""}`);
            }
            assert.equal(seen.length, n);
            assert.equal(new Set(seen).size, n);
            if (limit === 7) break;
        }
        const whole = await page("?limit=1000");
        assert.equal((await page(`?limit=345&after=${(await page(`?limit=1000&after=${whole.next}`)).next}`)).has_more, false); // exactly to the end
    });

    it("are a 400 for a page that is none", async (t) => {
        const server = await Server.start([`text=${models.text}`, "--threads", "1"]);
        t.after(() => server.stop());
        const wrong = ["limit=0", "limit=1001", "limit=-1", "limit=1.5", "limit=", "limit=x", "limit=1&limit=2", "limit=99999999999999999999", "after=", "after=x", "after=1", "after=1.", "after=.a", "after=-1.a", "after=99999999999999999999.a", "after=1.a/b",
            `after=1.${"a".repeat(65)}`, `after=1.${"a".repeat(300)}`, "order=asc", "limit", "=1", "limit=%31", "&", "limit=1&"];
        for (const query of wrong) {
            const reply = await server.fetch(`/v1/sessions?${query}`);
            assert.equal(reply.status, 400, query);
            const { error } = await reply.json();
            assert.equal(error.type, "invalid_request_error");
            assert.ok(["invalid_value", "unknown_field", "duplicate_field"].includes(error.code), `${query}: ${error.code}`);
        }
        assert.equal((await server.fetch("/v1/sessions?")).status, 200);
    });
});
