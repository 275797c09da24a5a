// Starting, ending, and what happens in between: drain, bad starts, models that come and go.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";

import { models, program, Server, eventually } from "./server.mjs";

const long = { model: "text", prompt: "Once", max_tokens: 300, ignore_eos: true };

// The texts of a stream until it ends.
async function read(reply) {
    const decoder = new TextDecoder();
    let all = "";
    for await (const bytes of reply.body) all += decoder.decode(bytes, { stream: true });
    return all;
}

describe("ending", () => {
    it("finishes every stream after SIGTERM and refuses what is new", async () => {
        const server = await Server.start([`text=${models.text}`, "--threads", "1"]);
        const replies = await Promise.all(Array.from({ length: 8 }, () => server.post("/v1/completions", { ...long, stream: true })));
        const texts = replies.map(read);
        server.child.kill("SIGTERM");
        for (const text of await Promise.all(texts)) assert.ok(text.endsWith("data: [DONE]\n\n"), text.slice(-200));
        assert.deepEqual(await server.ended, { code: 0, signal: null });
        await assert.rejects(server.fetch("/healthz"));
        await server.stop();
    });

    it("cuts off what takes longer than the drain", async () => {
        const server = await Server.start([`text=${models.text}`, "--threads", "1", "--drain", "0"]);
        const reply = await server.post("/v1/completions", { ...long, n: 8, stream: true });
        const text = read(reply).catch(() => "cut");
        server.child.kill("SIGTERM");
        assert.deepEqual(await server.ended, { code: 0, signal: null });
        assert.ok(!(await text).endsWith("[DONE]\n\n"));
        await server.stop();
    });

    it("ends at once on the second signal", async () => {
        const server = await Server.start([`text=${models.text}`, "--threads", "1"]);
        const reply = await server.post("/v1/completions", { ...long, n: 8, stream: true });
        const text = read(reply).catch(() => "cut");
        server.child.kill("SIGINT");
        setTimeout(() => server.child.kill("SIGINT"), 20);
        assert.deepEqual(await server.ended, { code: 0, signal: null });
        await text;
        await server.stop();
    });
});

describe("starting", () => {
    const fails = (...args) => {
        const run = spawnSync(program, ["serve", ...args, "--store", "none"], { encoding: "utf8", timeout: 20000 });
        assert.notEqual(run.status, 0);
        return run.stderr;
    };

    it("refuses to listen for others without a key", () => {
        assert.match(fails(models.text, "--listen", "0.0.0.0:0"), /key/);
    });
    it("says what is wrong with the model and ends", () => {
        assert.match(fails("nothing.gguf", "--listen", "127.0.0.1:0"), /nothing/);
    });
    it("wants a model", () => {
        assert.match(fails(), /model/);
    });
    it("wants names that are different and plain", () => {
        assert.match(fails(`a=${models.text}`, `a=${models.chat}`), /two models/);
        assert.match(fails(`a b=${models.text}`), /not a model name/);
    });
    it("says when an address is taken", async () => {
        const server = await Server.start([`text=${models.text}`, "--threads", "1"]);
        assert.match(fails(models.text, "--listen", new URL(server.url).host), /127\.0\.0\.1/);
        await server.stop();
    });
    it("shows what --auto came to, as the engine has it", async () => {
        for (const threads of [1, 2]) {
            const server = await Server.start([`text=${models.text}`, "--auto", "--threads", String(threads), "--kv-bytes", "8M", "--device", "CPU"]);
            assert.match(server.said.out, new RegExp(`auto {4}${threads} threads? on CPU, 8\\.0 MiB for keys and values, .* beside the weights`), server.said.out);
            const [, budget] = (await (await server.fetch("/metrics")).text()).match(/^ruvllm_kv_bytes_budget\S* (\d+)/m);
            assert.equal((budget / (1 << 20)).toFixed(1), "8.0");
            await server.stop();
        }
    });

    it("takes sockets of a service manager and tells it when it is ready", async () => {
        const folder = mkdtempSync(join(tmpdir(), "ruvllm-notify-"));
        const script = `
import os, socket, subprocess, sys
listener = socket.create_server(("127.0.0.1", 0))
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); notify.bind(sys.argv[1] + "/notify")
child = os.fork()
if child == 0:
    if listener.fileno() == 3: os.set_inheritable(3, True)
    else: os.dup2(listener.fileno(), 3, inheritable=True)
    os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()), NOTIFY_SOCKET=sys.argv[1] + "/notify", WATCHDOG_USEC="200000")
    os.execv(sys.argv[2], [sys.argv[2], "serve", sys.argv[3], "--store", "none", "--threads", "1"])
notify.settimeout(20)
seen = []
while "READY=1" not in seen or "WATCHDOG=1" not in seen: seen.append(notify.recv(100).decode())
s = socket.create_connection(listener.getsockname()); s.sendall(b"GET /readyz HTTP/1.1\\r\\nhost: localhost\\r\\n\\r\\n"); print(s.recv(100).decode().split("\\r\\n")[0])
s.close()
os.kill(child, 15)
while "STOPPING=1" not in seen: seen.append(notify.recv(100).decode())
print(os.waitpid(child, 0)[1])
`;
        const run = spawnSync("python3", ["-c", script, folder, program, models.text], { encoding: "utf8", timeout: 60000 });
        rmSync(folder, { recursive: true, force: true });
        assert.match(run.stdout, /HTTP\/1\.1 200 OK[^]*\n0\n$/, run.stderr);
    });
});

describe("models", () => {
    it("serves a folder, loads on demand and unloads what idles", async () => {
        const folder = mkdtempSync(join(tmpdir(), "ruvllm-models-"));
        copyFileSync(models.text, join(folder, "one.gguf"));
        copyFileSync(models.text, join(folder, "two.gguf"));
        writeFileSync(join(folder, "broken.gguf"), "no model");
        writeFileSync(join(folder, "notes.txt"), "");
        const server = await Server.start([`text=${models.text}`, "--models-dir", folder, "--threads", "1", "--idle-unload", "1"]);
        const loaded = async () => Object.fromEntries((await (await server.fetch("/v1/models")).json()).data.map((m) => [m.id, m.loaded]));
        assert.deepEqual(Object.keys(await loaded()), ["text", "broken", "one", "two"]);
        assert.equal((await loaded()).two, false);
        const asks = await Promise.all(Array.from({ length: 5 }, () => server.post("/v1/completions", { model: "two", prompt: "Once", max_tokens: 2 })));
        assert.ok(asks.every((reply) => reply.status === 200));
        const broken = await server.post("/v1/completions", { model: "broken", prompt: "Once", max_tokens: 2 });
        assert.equal(broken.status, 500);
        assert.ok(!(await broken.text()).includes(folder)); // no paths in errors
        await eventually(async () => (await loaded()).two === false, "it is unloaded", 8000);
        assert.equal((await server.post("/v1/completions", { model: "two", prompt: "Once", max_tokens: 2 })).status, 200);
        await server.stop();
        rmSync(folder, { recursive: true, force: true });
    });

    it("keeps within the memory budget by unloading what nobody uses", async () => {
        const args = [`a=${models.text}`, `b=${models.text}`, "--threads", "1", "--kv-bytes", "4M", "--memory-budget", "9M"];
        const server = await Server.start(args);
        for (const model of ["b", "a", "b"]) {
            const reply = await server.post("/v1/completions", { model, prompt: "Once", max_tokens: 2 });
            assert.equal(reply.status, 200, await reply.text());
            const { data } = await (await server.fetch("/v1/models")).json();
            assert.deepEqual(data.filter((m) => m.loaded).map((m) => m.id), [model]);
        }
        await server.stop();
    });

    it("is not ready before its model is loaded", async () => {
        const child = spawn(program, ["serve", models.chat, "--listen", "127.0.0.1:0", "--store", "none", "--threads", "1"]);
        let said = "";
        child.stdout.on("data", (bytes) => (said += bytes));
        const [, url] = await eventually(() => said.match(/listens on (\S+)/), "it listens");
        const first = await fetch(`${url}/readyz`);
        assert.ok([200, 503].includes(first.status));
        if (first.status === 503) assert.equal(first.headers.get("retry-after"), "1");
        assert.equal((await fetch(`${url}/healthz`)).status, 200);
        await eventually(async () => (await fetch(`${url}/readyz`)).status === 200, "it is ready", 20000);
        child.kill("SIGTERM");
        await new Promise((resolve) => child.on("exit", resolve));
    });
});

describe("clients that go away", () => {
    it("leave nothing behind, at whatever point they go", async () => {
        const server = await Server.start([`text=${models.text}`, "--threads", "1", "--max-sequences", "8"]);
        const gauge = async (name) => Number((await (await fetch(`${server.url}/metrics`)).text()).match(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)`, "m"))[1]);
        let seed = 1;
        const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
        const paths = ["/v1/completions", "/v1/embeddings", "/v1/tokenize", "/v1/sessions", "/v1/models"];
        const one = async () => {
            const control = new AbortController();
            const path = paths[Math.floor(random() ** 2 * paths.length)];
            const body = path === "/v1/completions" ? { ...long, stream: random() < 0.7, n: 1 + Math.floor(random() * 3) }
                : path === "/v1/embeddings" ? { model: "text", input: ["a b c ".repeat(30), "d e f ".repeat(30)] }
                : path === "/v1/tokenize" ? { model: "text", prompt: "a b c ".repeat(50) } : undefined;
            setTimeout(() => control.abort(), random() * 120);
            const options = body ? { method: "POST", body: JSON.stringify(body), signal: control.signal } : { signal: control.signal };
            await fetch(server.url + path, options).then((reply) => reply.text()).catch(() => {});
        };
        for (let round = 0; round < 10; round++) await Promise.all(Array.from({ length: 20 }, one));
        await eventually(async () => (await gauge("ruvllm_calls")) === 1 && (await gauge("ruvllm_requests_running")) === 0, "all is quiet", 20000);
        assert.equal(await gauge("ruvllm_requests_waiting"), 0);
        assert.ok((await gauge("ruvllm_cancelled_total")) > 0);
        assert.deepEqual(await server.stop(), { code: 0, signal: null });
    });

    it("do not hold up others by reading slowly", async () => {
        const server = await Server.start([`text=${models.text}`, "--threads", "1"]);
        const slow = await Promise.all(Array.from({ length: 4 }, () => fetch(`${server.url}/v1/completions`, {
            method: "POST", body: JSON.stringify({ ...long, n: 8, stream: true, logprobs: 5 }),
        }))); // bodies unread
        const quick = await server.post("/v1/completions", { model: "text", prompt: "Once", max_tokens: 4 });
        assert.equal(quick.status, 200);
        for (const reply of slow) assert.ok((await read(reply)).endsWith("data: [DONE]\n\n")); // and nothing of theirs was lost
        await server.stop();
    });
});
