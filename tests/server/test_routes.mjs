// Every route of the table that is linked into the server, asked over the wire without a key, with a wrong one, and in disguises.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";

import { address, ask, createKey, Wire } from "./load.mjs";
import { models, Server } from "./server.mjs";

const folder = mkdtempSync(join(tmpdir(), "ruvllm-routes-"));
const open = ["GET /", "GET /page/*", "GET /healthz", "GET /readyz"];
const routes = spawnSync(process.env.RUVLLM_PRINT_ROUTES, { encoding: "utf8" }).stdout.trim().split("\n").map((line) => {
    const [method, pattern, access] = line.split(" ");
    return { method, pattern, access, name: `${method} ${pattern}`, path: pattern.replace("**", "a/b").replace("*", "x") };
});
const closed = routes.filter(({ name }) => !open.includes(name));
const body = (method) => (method === "POST" ? "{}" : undefined);

let server, where, user;
before(async () => {
    user = createKey(join(folder, "store.db"), "--tenant", "somebody");
    server = await Server.start([`text=${models.text}`, "--threads", "1"], { folder });
    where = address(server);
});
after(async () => {
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
    rmSync(folder, { recursive: true, force: true });
});

describe("the route table", () => {
    it("says open of four routes and no others", () => {
        assert.ok(routes.length >= 20, `${routes.length} routes`);
        assert.deepEqual(routes.filter(({ access }) => access === "open").map(({ name }) => name), open);
    });

    it("is a 401 without a key for every route but those", async () => {
        for (const { method, path, name } of closed) {
            const reply = await ask(where, path, body(method), { method });
            assert.equal(reply.status, 401, name);
            assert.equal(reply.headers["www-authenticate"], "Bearer", name);
            assert.equal(JSON.parse(reply.body).error.code, "missing_api_key", name);
        }
    });

    it("is a 401 with what is no key", async () => {
        const wrong = ["Bearer", "Bearer ", "Bearer rv-wrong", `Bearer ${user.key}x`, `Bearer ${user.key.slice(0, -1)}`, `Bearer ${user.id}`, `Basic ${user.key}`, user.key, `Bearer ${user.key}, Bearer x`, "Bearer ' OR 1=1 --", `Bearer ${"a".repeat(4000)}`];
        for (const authorization of wrong)
            for (const { method, path, name } of closed) {
                const reply = await ask(where, path, body(method), { method, headers: { authorization } });
                assert.equal(reply.status, 401, `${name} with '${authorization.slice(0, 60)}'`);
            }
    });

    it("is a 401 for every method of every path that is not open, and for paths that are none", async () => {
        for (const path of new Set([...closed.map((route) => route.path), "/v1", "/v1/", "/admin", "/debug", "/v1/nothing"]))
            for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"])
                assert.equal((await ask(where, path, body(method), { method })).status, 401, `${method} ${path}`);
    });

    it("is not opened by paths that look like open ones", async () => {
        const disguises = ["//v1/models", "/./v1/models", "/page/../v1/models", "/healthz/../v1/models", "/v1/models?/healthz", "/v1/models#/healthz", "/%76%31/models", "/v1%2fmodels",
            "/page/..%2fv1%2fmodels", "/healthz;/v1/models", "/healthz/v1/models", "/HEALTHZ/../metrics", "/page/../metrics", "/page/%2e%2e/metrics", "/metrics/", "/metrics?x=/page/app.js", "/v1/models\\healthz"];
        for (const path of disguises) {
            const { status } = await ask(where, path);
            assert.ok([400, 401, 404].includes(status), `${path}: ${status}`);
        }
        for (const [target, host] of [["http://localhost/v1/models", "localhost"], ["http://localhost/metrics", "localhost"]]) {
            const wire = new Wire(where);
            wire.send(`GET ${target} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`);
            await wire.ended;
            assert.equal(wire.answer().status, 401, target);
        }
    });

    it("gives a key what is open to keys, and to admins only what is theirs", async () => {
        for (const { method, path, access, name } of closed) {
            const { status } = await ask(where, path, body(method), { method, key: user.key });
            if (access === "admin") assert.equal(status, 403, name);
            else assert.ok(![401, 403, 405].includes(status), `${name}: ${status}`);
        }
    });
});
