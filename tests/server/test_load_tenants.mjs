// Many tenants at once: what one says never comes back to another, in whatever form; and time does not tell either.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";

import { address, areaUnderCurve, ask, createKey, crowd, figure, full, median, metrics, pick, randomNumbers, requestBytes, sanitized, small, Wire, threads } from "./load.mjs";
import { models, program, Server } from "./server.mjs";

const nTenants = pick(sanitized ? 8 : 16, 64);
const nRequests = pick(20, 200);
const folder = mkdtempSync(join(tmpdir(), "ruvllm-tenants-"));
const store = join(folder, "store.db");
const random = randomNumbers(7);
// Letters that no model says by itself.
const canary = (i) => `Zq${i.toString(36)}x${(i * 7919 + 104729).toString(36)}Vw`;

const mixed = [
    (c, i) => ["/v1/completions", { model: "text", prompt: `${c} once upon a time`, max_tokens: 1 + (i % 24), stream: i % 2 === 0, temperature: i % 3 }],
    (c, i) => ["/v1/completions", { model: "text", prompt: [`A ${c}`, `B ${c}`], max_tokens: 4, n: 2, logprobs: i % 5, echo: i % 2 === 0 }],
    (c, i) => ["/v1/chat/completions", { model: "chat", messages: [{ role: "user", content: `Say ${c}` }], max_tokens: 1 + (i % 3), stream: i % 2 === 0, logprobs: true, top_logprobs: 3 }],
    (c) => ["/v1/responses", { model: "chat", input: `Repeat ${c}`, max_output_tokens: 2 }],
    (c) => ["/v1/embeddings", { model: "text", input: c }],
    (c) => ["/v1/tokenize", { model: "text", prompt: c, with_pieces: true }],
    (c) => ["/v1/chat/template", { model: "chat", messages: [{ role: "user", content: c }] }],
    (c) => ["/v1/chat/completions", { model: "chat", messages: [{ role: "user", content: `I am ${c}` }], max_tokens: 2, session: `s-${c}` }],
    (c) => [`/v1/sessions/s-${c}`, undefined],
    () => ["/v1/sessions", undefined],
    () => ["/v1/models", undefined],
    // And what is refused: the refusal may name what the caller sent, never what another did.
    (c) => ["/v1/completions", { model: c, prompt: "x" }],
    (c) => ["/v1/completions", { model: "text", prompt: "x", temperature: c }],
    (c) => ["/v1/completions", { model: "text", prompt: `${c} `.repeat(400), max_tokens: 4 }],
    (c) => [`/v1/${c}`, undefined],
    (c) => ["/v1/chat/completions", `{"model": "chat", "messages": [${c}`],
];

let server, where, admin;
const tenants = [];
before(async () => {
    admin = createKey(store, "--tenant", "operators", "--admin");
    for (let i = 0; i < nTenants; i++) tenants.push({ canary: canary(i), ...createKey(store, "--tenant", `tenant-${i}`) });
    server = await Server.start([`text=${small}`, `chat=${models.chat}`, "--threads", threads], { folder });
    where = address(server);
    await ask(where, "/v1/chat/completions", { model: "chat", messages: [{ role: "user", content: "x" }], max_tokens: 1 }, { key: admin.key });
});
after(async () => {
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
    rmSync(folder, { recursive: true, force: true });
});

// Canaries of others in what somebody was told, also in the answer's tokens put together.
function foreign(text, own) {
    const told = text + [...text.matchAll(/"(?:text|content|piece)":"((?:[^"\\]|\\.)*)"/g)].map((found) => found[1]).join("");
    return tenants.map((tenant) => tenant.canary).filter((word) => word !== own && told.includes(word));
}

describe("tenants", () => {
    it("see nothing of each other in a crowd", async () => {
        const plan = Array.from({ length: nTenants * nRequests }, (_, i) => ({ tenant: tenants[i % nTenants], make: mixed[random(mixed.length)], i }));
        const statuses = {};
        let leaks = 0;
        await crowd(32, plan.length, async (at) => {
            const { tenant, make, i } = plan[at];
            const [path, body] = make(tenant.canary, i);
            if (random(16) === 0) { // some go before they are answered
                const wire = new Wire(where);
                wire.send(requestBytes(path, body, { key: tenant.key }));
                await wire.until(/HTTP/);
                assert.deepEqual(foreign(wire.text, tenant.canary), []);
                return wire.close();
            }
            const reply = await ask(where, path, body, { key: tenant.key });
            statuses[reply.status] = (statuses[reply.status] ?? 0) + 1;
            const found = foreign(reply.wire.text, tenant.canary);
            leaks += found.length;
            assert.deepEqual(found, [], `${path} told ${tenant.canary} of another: ${reply.wire.text.slice(0, 500)}`);
        });
        figure("tenants", nTenants);
        figure("tenants_requests", plan.length);
        figure("tenants_statuses", JSON.stringify(statuses));
        figure("tenants_leaks_in_answers", leaks);
        assert.ok(statuses[200] > plan.length / 2, JSON.stringify(statuses));
        assert.ok(!statuses[500] && !statuses[0], JSON.stringify(statuses));
    });

    it("leave no word in metrics and the witness log, and in the log only what they asked for by path", async () => {
        const shown = (await metrics(server, admin.key)).text;
        const witness = spawnSync(program, ["witness", "--store", store, "--json", "--limit", "1000"], { encoding: "utf8" });
        assert.equal(witness.status, 0, witness.stderr);
        assert.ok(witness.stdout.includes('"tenant-0"'));
        let leaks = 0;
        for (const tenant of tenants) {
            for (const text of [shown, witness.stdout, server.said.out]) leaks += text.includes(tenant.canary) + text.includes(tenant.key);
            leaks += server.said.err.includes(tenant.key);
        }
        for (const line of server.log()) {
            const { path, error, tenant, ...rest } = line;
            const own = tenants[Number((tenant ?? "").replace("tenant-", ""))]?.canary;
            leaks += foreign(JSON.stringify(line), own).length + tenants.some(({ canary: word }) => JSON.stringify(rest).includes(word));
        }
        figure("tenants_leaks_in_logs", leaks);
        assert.equal(leaks, 0);
    });

    it("see only their own sessions", async () => {
        for (const [i, tenant] of tenants.entries()) {
            const other = tenants[(i + 1) % nTenants];
            const list = await ask(where, "/v1/sessions", undefined, { key: tenant.key });
            assert.deepEqual(foreign(list.wire.text, tenant.canary), []);
            assert.equal((await ask(where, `/v1/sessions/s-${other.canary}`, undefined, { key: tenant.key })).status, 404);
            assert.equal((await ask(where, `/v1/sessions/s-${other.canary}`, undefined, { key: tenant.key, method: "DELETE" })).status, 404);
        }
    });

    it("cannot tell by time what another has said", async () => {
        const nProbes = pick(60, 1000);
        const [mine, victim] = tenants;
        // Prompts long enough that computing them takes a time one sees.
        const words = "the little dog ran to the big red house and saw a cat who sat on a mat by the door".split(" ");
        const prompt = (i) => `${i} ` + Array.from({ length: 110 }, () => words[random(words.length)]).join(" ");
        const time = async (key, text) => {
            const reply = await ask(where, "/v1/completions", { model: "text", prompt: text, max_tokens: 1 }, { key });
            assert.equal(reply.status, 200, reply.body);
            return { ms: reply.ms, cached: JSON.parse(reply.body).usage.prompt_tokens_details.cached_tokens };
        };
        const seen = { strange: [], others: [], own: [] };
        for (let i = 0; i < nProbes; i++) {
            const [unsaid, said] = [prompt(i), prompt(i)];
            await time(victim.key, said);
            const order = random(2) ? [["strange", unsaid], ["others", said]] : [["others", said], ["strange", unsaid]];
            for (const [what, text] of order) seen[what].push(await time(mine.key, text));
            seen.own.push(await time(mine.key, said)); // the proof that the probe works
        }
        const ms = (what) => seen[what].map((probe) => probe.ms);
        const across = areaUnderCurve(ms("others"), ms("strange"));
        const within = areaUnderCurve(ms("own"), ms("strange"));
        figure("timing_probes", nProbes);
        figure("timing_ms_unsaid", median(ms("strange")));
        figure("timing_ms_said_by_another", median(ms("others")));
        figure("timing_ms_said_by_oneself", median(ms("own")));
        figure("timing_auc_across_tenants", across);
        figure("timing_auc_within_tenant", within);
        assert.ok(seen.others.every((probe) => probe.cached === 0));
        assert.ok(seen.own.every((probe) => probe.cached > 0));
        if (sanitized) return;
        // 60 + 60 probes scatter by 0.05 around 0.5; sharing gives what `within` shows.
        assert.ok(Math.abs(across - 0.5) <= (full ? 0.05 : 0.2), `${across}`);
        assert.ok(within >= (full ? 0.95 : 0.8), `${within}`);
    });
});
