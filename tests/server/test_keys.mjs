// Keys, tenants, rates and rights, with a store that has keys in it.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";

import { models, OpenAI, program, Server, eventually } from "./server.mjs";

const folder = mkdtempSync(join(tmpdir(), "ruvllm-keys-"));
let server;

function key(...args) {
    const run = spawnSync(program, ["key", ...args, "--store", join(folder, "store.db"), "--json"], { encoding: "utf8" });
    assert.equal(run.status, 0, run.stderr);
    return run.stdout.trim() ? JSON.parse(run.stdout) : null;
}

const bearer = ({ key: text }) => ({ authorization: `Bearer ${text}` });
const story = (client, prompt = "Once") => client.completions.create({ model: "text", prompt, max_tokens: 2 });

let acme, other, admin, slow;
before(async () => {
    acme = key("create", "--tenant", "acme");
    other = key("create", "--tenant", "other");
    admin = key("create", "--tenant", "operators", "--admin");
    slow = key("create", "--tenant", "slow", "--rpm", "2");
    server = await Server.start([`text=${models.text}`, `chat=${models.chat}`, "--threads", "1", "--cors-origin", "https://app.example"], { folder });
});
after(async () => {
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
    rmSync(folder, { recursive: true, force: true });
});

describe("keys", () => {
    it("opens nothing but health and the page without one, also what does not exist", async () => {
        for (const path of ["/healthz", "/readyz", "/", "/page/style.css"]) assert.equal((await server.fetch(path)).status, 200, path);
        for (const path of ["/metrics", "/openapi.json", "/v1/models", "/v1/models/text", "/v1/sessions", "/v1/sessions/x", "/v1/nothing", "/x", "//healthz", "/healthz/", "/v1/../healthz2"])
            assert.equal((await server.fetch(path)).status, 401, path);
        for (const path of ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/tokenize", "/v1/detokenize", "/v1/chat/template", "/v1/sessions/x/save", "/healthz"])
            assert.equal((await server.post(path, {})).status, 401, path);
        assert.equal((await server.fetch("/v1/models", { method: "OPTIONS" })).status, 401);
    });

    it("is a 401 with an error body for a wrong one", async () => {
        const error = await story(server.client("rv-wrong")).catch((reason) => reason);
        assert.ok(error instanceof OpenAI.AuthenticationError);
        assert.equal(error.error.code, "invalid_api_key");
        const reply = await server.fetch("/v1/models", { headers: { authorization: "Basic eA==" } });
        assert.equal(reply.status, 401);
        assert.equal(reply.headers.get("www-authenticate"), "Bearer");
    });

    it("shows the API's document, the one these tests check against, to who has a key", async () => {
        const reply = await server.fetch("/openapi.json", { headers: bearer(acme) });
        assert.equal(reply.status, 200);
        assert.equal(reply.headers.get("content-type"), "application/json");
        assert.equal(await reply.text(), readFileSync(new URL("../../apps/server/api/openapi.json", import.meta.url), "utf8"));
        const again = await server.fetch("/openapi.json", { headers: { ...bearer(acme), "if-none-match": reply.headers.get("etag") } });
        assert.equal(again.status, 304);
        assert.equal((await server.fetch("/page/openapi.json")).status, 404); // it is no part of the page, which is open
    });

    it("serves a right one and tells it 404 and 405", async () => {
        assert.ok((await story(server.client(acme.key))).choices[0].text);
        assert.equal((await server.fetch("/v1/nothing", { headers: bearer(acme) })).status, 404);
        assert.equal((await server.fetch("/v1/completions", { headers: bearer(acme) })).status, 405);
        const options = await server.fetch("/v1/completions", { method: "OPTIONS", headers: bearer(acme) });
        assert.equal(options.status, 204);
        assert.equal(options.headers.get("allow"), "POST");
    });

    it("shows metrics to an admin only", async () => {
        assert.equal((await server.fetch("/metrics", { headers: bearer(acme) })).status, 403);
        assert.equal((await server.fetch("/metrics", { headers: bearer(admin) })).status, 200);
    });

    it("stops a revoked key within a second", async () => {
        const gone = key("create", "--tenant", "gone");
        assert.ok(await story(server.client(gone.key)));
        spawnSync(program, ["key", "revoke", gone.id, "--store", join(folder, "store.db")]);
        const began = Date.now();
        await eventually(async () => (await server.fetch("/v1/models", { headers: bearer(gone) })).status === 401, "the key is refused", 3000);
        assert.ok(Date.now() - began < 1500);
    });

    it("limits requests a minute and says when to come back", async () => {
        const client = server.client(slow.key);
        await story(client);
        await story(client);
        const error = await story(client).catch((reason) => reason);
        assert.ok(error instanceof OpenAI.RateLimitError);
        const seconds = Number(error.headers.get("retry-after"));
        assert.ok(seconds >= 1 && seconds <= 30);
        assert.ok(await story(server.client(acme.key))); // another key is not held up
    });

    it("keeps sessions of tenants apart", async () => {
        const plain = await server.post("/v1/completions", { model: "text", prompt: "x", max_tokens: 1, session: "same" }, bearer(acme));
        assert.equal(plain.status, 400); // sessions are for conversations
        const messages = [{ role: "user", content: "canary-of-acme" }];
        const stored = await server.post("/v1/chat/completions", { model: "chat", messages, max_tokens: 1, session: "same" }, bearer(acme));
        assert.equal(stored.status, 200);
        const get = (who, path) => server.fetch(path, { headers: bearer(who) });
        assert.equal((await get(acme, "/v1/sessions/same")).status, 200);
        assert.equal((await get(other, "/v1/sessions/same")).status, 404);
        assert.equal((await get(admin, "/v1/sessions/same")).status, 404);
        assert.deepEqual((await (await get(other, "/v1/sessions")).json()).data, []);
        for (const [method, path] of [["DELETE", "/v1/sessions/same"], ["POST", "/v1/sessions/same/save"], ["POST", "/v1/sessions/same/restore"]])
            assert.equal((await server.fetch(path, { method, headers: bearer(other) })).status, 404);
        const page = await (await get(admin, "/metrics")).text();
        assert.ok(!page.includes("canary") && !server.said.err.includes("canary"));
    });

    it("shares no prefix between tenants", async () => {
        const prompt = "There was a little dog who lived in a big house by the river and every day he went to play. ".repeat(3);
        const first = await story(server.client(acme.key), prompt);
        const again = await story(server.client(acme.key), prompt);
        const foreign = await story(server.client(other.key), prompt);
        assert.ok(again.usage.prompt_tokens_details.cached_tokens > 0);
        assert.equal(foreign.usage.prompt_tokens_details.cached_tokens, 0);
        assert.equal(first.usage.prompt_tokens, foreign.usage.prompt_tokens);
    });

    it("lets a listed origin ask and no other", async () => {
        const preflight = (origin) => server.fetch("/v1/completions", { method: "OPTIONS", headers: { origin, "access-control-request-method": "POST" } });
        const good = await preflight("https://app.example");
        assert.equal(good.status, 204);
        assert.equal(good.headers.get("access-control-allow-origin"), "https://app.example");
        const bad = await preflight("https://evil.example");
        assert.equal(bad.status, 401);
        assert.equal(bad.headers.get("access-control-allow-origin"), null);
    });

    it("names keys by their id in the log and never by themselves", async () => {
        await eventually(() => server.log().some((line) => line.key === acme.id && line.tenant === "acme"), "the line is written");
        for (const one of [acme, other, admin, slow]) assert.ok(!server.said.err.includes(one.key));
        assert.ok(!server.said.out.includes(acme.key));
    });

    it("writes a witness entry for each request", async () => {
        await eventually(() => {
            const run = spawnSync(program, ["witness", "--store", join(folder, "store.db"), "--json"], { encoding: "utf8" });
            return run.status === 0 && /"tenant":\s*"acme"/.test(run.stdout) && /\/v1\/completions/.test(run.stdout);
        }, "the entry is in the store");
    });
});
