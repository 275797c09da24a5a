// Starts the real server for a suite and stops it afterwards. Exit code 77 of a suite: something it needs is not there.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { openApi } from "./validate.mjs";

export function skip(why) {
    console.error(`\n*** SERVER TEST SKIPPED: ${why}\n`);
    process.exit(77);
}

const deps = process.env.RUVLLM_DEPS_DIR ?? "";
export const modules = join(deps, "node", "node_modules");
const data = join(process.env.RUVLLM_TEST_DATA ?? "", "models");

export const program = process.env.RUVLLM ?? "";
export const models = { chat: join(data, "minimind2-26m-f16.gguf"), text: join(data, "stories260K.gguf") };

for (const path of [program, models.chat, models.text, join(modules, "openai")])
    if (!existsSync(path)) skip(`'${path}' is not there; run \`make setup\` and set RUVLLM_TEST_DATA`);

export const { default: OpenAI } = await import(pathToFileURL(join(modules, "openai", "index.mjs")));

// A key in a store, with all that is told of it.
export function createKey(store, ...args) {
    const run = spawnSync(program, ["key", "create", ...args, "--store", store, "--json"], { encoding: "utf8" });
    assert.equal(run.status, 0, run.stderr);
    return JSON.parse(run.stdout);
}

// What the client says of a request that has to be refused with this status.
export async function failure(promise, status) {
    const error = await promise.then(() => assert.fail("it was accepted"), (reason) => reason);
    assert.ok(error instanceof OpenAI.APIError, String(error));
    assert.equal(error.status, status, error.message);
    assert.ok(error.error.message.length > 0 && error.error.type.length > 0);
    assert.ok("param" in error.error && "code" in error.error);
    return error.error;
}

// ---- every reply is held against the API's document ----

const api = openApi(fileURLToPath(new URL("../../apps/server/api/openapi.json", import.meta.url)));
const templates = Object.keys(api.document.paths).map((path) => ({ path, pattern: new RegExp(`^${path.replace(/\{model\}/, ".+").replace(/\{\w+\}/g, "[^/]+")}$`) }));

// What a reply says that the document does not allow, or null. Paths and methods that do not exist are not in it.
function complaint(method, url, status, type, text) {
    const known = templates.find(({ pattern }) => pattern.test(new URL(url).pathname));
    if (!known || !api.document.paths[known.path][method] || !text) return null;
    try {
        if (type.startsWith("text/event-stream")) {
            for (const event of text.split("\n\n").filter((line) => line.startsWith("data: ") && !line.endsWith("[DONE]")))
                api.checkReply(method, known.path, status, type, JSON.parse(event.slice(6)));
        } else {
            api.checkReply(method, known.path, status, type, type.startsWith("application/json") ? JSON.parse(text) : text);
        }
        return null;
    } catch (error) {
        return `${error.message} in ${text.slice(0, 300)}`;
    }
}

const complaints = [];
const checks = new Set();
export async function checkedFetch(url, options = {}) {
    const reply = await fetch(url, options);
    const copy = reply.clone();
    const check = copy.text().then((text) => {
        const wrong = complaint((options.method ?? "GET").toLowerCase(), reply.url, reply.status, reply.headers.get("content-type") ?? "", text);
        if (wrong) complaints.push(wrong);
    }, () => {}); // broken off by the test
    checks.add(check.finally(() => checks.delete(check)));
    return reply;
}

// Waits for a line of standard output, or of the log, that matches; fails with all that was said when the program ends first.
function waitFor(child, said, pattern, where = "out") {
    return new Promise((resolve, reject) => {
        const look = () => {
            const found = said[where].match(pattern);
            if (found) resolve(found);
        };
        (where === "out" ? child.stdout : child.stderr).on("data", look);
        child.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${said.out}${said.err}`)));
        look();
    });
}

export class Server {
    // `args` go after those every test wants: a free port and a store of its own. `via` is a command that runs it. One that learns has
    // the model's preparations behind it, unless `isEarly`: answers that are computed beside them have other bits.
    static async start(args, { folder, env, store, via = [], isEarly = false } = {}) {
        const server = new Server();
        server.folder = folder ?? mkdtempSync(join(tmpdir(), "ruvllm-server-"));
        server.ownsFolder = !folder;
        server.store = store ?? join(server.folder, "store.db");
        server.said = { out: "", err: "" };
        const all = ["serve", ...args, "--store", server.store];
        if (!args.includes("--listen")) all.push("--listen", "127.0.0.1:0");
        const [command, ...rest] = [...via, program, ...all];
        server.child = spawn(command, rest, { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
        server.child.stdout.on("data", (bytes) => (server.said.out += bytes));
        server.child.stderr.on("data", (bytes) => (server.said.err += bytes));
        server.ended = new Promise((resolve) => server.child.on("exit", (code, signal) => resolve({ code, signal })));
        server.url = (await waitFor(server.child, server.said, /listens on (\S+)/))[1];
        await waitFor(server.child, server.said, /^Ready\./m);
        if (args.includes("--learn") && !isEarly) await waitFor(server.child, server.said, /has all that learning takes|served without learning/, "err");
        return server;
    }

    client(key = "none", more = {}) {
        return new OpenAI({ apiKey: key, baseURL: `${this.url}/v1`, maxRetries: 0, fetch: checkedFetch, ...more });
    }

    fetch(path, options = {}) {
        return checkedFetch(this.url + path, options);
    }

    post(path, body, headers = {}) {
        const text = typeof body === "string" ? body : JSON.stringify(body);
        return this.fetch(path, { method: "POST", body: text, headers: { "content-type": "application/json", ...headers } });
    }

    // The log as objects; every line must be one, but for what a sanitizer says of code that is not ours.
    log() {
        return this.said.err.split("\n").slice(0, -1).filter((line) => !/\/ggml\/|Sanitizer|^ {4}#\d/.test(line)).filter(Boolean).map((line) => JSON.parse(line));
    }

    async stop(signal = "SIGTERM") {
        if (this.child.exitCode === null) this.child.kill(signal);
        const end = await this.ended;
        await Promise.all(checks);
        if (complaints.length) throw new Error(`replies do not fit the API's document:\n${complaints.splice(0).slice(0, 10).join("\n")}`);
        if (this.ownsFolder) rmSync(this.folder, { recursive: true, force: true });
        return end;
    }
}

// Until `check` gives something that is not false, for up to `ms`.
export async function eventually(check, what, ms = 5000) {
    const end = Date.now() + ms;
    for (;;) {
        const result = await check();
        if (result) return result;
        if (Date.now() > end) throw new Error(`never happened: ${what}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
}
