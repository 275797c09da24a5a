// The program over TLS and over unix sockets, from its command line to an answer.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import tls from "node:tls";

import { models, program, Server } from "./server.mjs";

const folder = mkdtempSync(join(tmpdir(), "ruvllm-wire-"));
after(() => rmSync(folder, { recursive: true, force: true }));
const story = { model: "text", prompt: "Once", max_tokens: 4, ignore_eos: true };

function certificate(name) {
    const [cert, key] = [join(folder, `${name}.pem`), join(folder, `${name}.key`)];
    const run = spawnSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert], { encoding: "utf8" });
    assert.equal(run.status, 0, run.stderr);
    return { cert, key };
}

// One request by node's own client; resolves to status, headers and text.
function ask(client, options, body) {
    return new Promise((resolve, reject) => {
        const request = client.request({ ...options, agent: false, method: body ? "POST" : "GET", headers: { host: "localhost", ...(body && { "content-type": "application/json" }) } }, (reply) => {
            let text = "";
            reply.on("data", (bytes) => (text += bytes));
            reply.on("end", () => resolve({ status: reply.statusCode, headers: reply.headers, text, protocol: reply.socket.getProtocol?.() }));
            reply.on("error", reject);
        });
        request.on("error", reject);
        request.end(body ? JSON.stringify(body) : undefined);
    });
}

// The first words of a client, the same for every version but for the version: what comes back is the server's own verdict.
function hello(where, minor) {
    const suites = [0xc0, 0x2b, 0xc0, 0x2f, 0xc0, 0x09, 0xc0, 0x13, 0, 0x2f, 0, 0xff];
    const extensions = [0, 10, 0, 6, 0, 4, 0, 0x1d, 0, 0x17, 0, 11, 0, 2, 1, 0, 0, 13, 0, 6, 0, 4, 4, 3, 4, 1, 0, 23, 0, 0];
    const inner = [3, minor, ...Array(32).fill(7), 0, 0, suites.length, ...suites, 1, 0, 0, extensions.length, ...extensions];
    const bytes = Buffer.from([0x16, 3, 1, 0, inner.length + 4, 1, 0, 0, inner.length, ...inner]);
    return new Promise((resolve, reject) => {
        const socket = connect(where, () => socket.write(bytes));
        socket.setTimeout(10000, () => socket.destroy(new Error("no answer")));
        socket.on("error", reject);
        socket.once("data", (answer) => {
            socket.destroy();
            resolve(answer);
        });
    });
}

describe("TLS", () => {
    it("answers over 1.2 and 1.3, whole and in a stream, and refuses what is older", async (t) => {
        const { cert, key } = certificate("server");
        const server = await Server.start([`text=${models.text}`, "--threads", "1", "--tls-cert", cert, "--tls-key", key]);
        t.after(() => server.stop());
        assert.match(server.url, /^https:\/\/127\.0\.0\.1:\d+$/);
        const where = { host: "127.0.0.1", port: Number(new URL(server.url).port), ca: readFileSync(cert), servername: "localhost" };
        for (const version of ["TLSv1.2", "TLSv1.3"]) {
            const only = { ...where, minVersion: version, maxVersion: version };
            const whole = await ask(https, { ...only, path: "/v1/completions" }, story);
            assert.equal(whole.status, 200, whole.text);
            assert.equal(whole.protocol, version);
            assert.equal(JSON.parse(whole.text).usage.completion_tokens, 4);
            const stream = await ask(https, { ...only, path: "/v1/completions" }, { ...story, stream: true });
            assert.match(stream.headers["content-type"], /^text\/event-stream/);
            assert.ok(stream.text.endsWith("data: [DONE]\n\n"));
        }
        for (const minor of [1, 2]) {
            const alert = await hello(where, minor);
            assert.deepEqual([alert[0], ...alert.subarray(3, 7)], [0x15, 0, 2, 2, 70], `TLS 1.${minor - 1}`); // fatal: protocol_version
        }
        const taken = await hello(where, 3);
        assert.deepEqual([taken[0], taken[5], taken[10]], [0x16, 2, 3]); // a ServerHello of 1.2
        // Who does not know the certificate goes away, and plain text gets no answer.
        await assert.rejects(ask(https, { host: where.host, port: where.port, path: "/healthz" }), { code: "DEPTH_ZERO_SELF_SIGNED_CERT" });
        await assert.rejects(ask(http, { host: where.host, port: where.port, path: "/healthz" }));
        assert.equal((await ask(https, { ...where, path: "/healthz" })).status, 200);
    });

    it("keeps streams whole when it ends", async () => {
        const { cert, key } = certificate("ending");
        const server = await Server.start([`text=${models.text}`, "--threads", "1", "--tls-cert", cert, "--tls-key", key]);
        const socket = tls.connect({ host: "127.0.0.1", port: Number(new URL(server.url).port), ca: readFileSync(cert), servername: "localhost" });
        const body = JSON.stringify({ ...story, max_tokens: 300, stream: true });
        let text = "";
        socket.on("data", (bytes) => {
            if (!text) server.child.kill("SIGTERM");
            text += bytes;
        });
        socket.write(`POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
        await new Promise((resolve, reject) => socket.on("end", resolve).on("error", reject));
        assert.match(text, /data: \[DONE\]/);
        assert.deepEqual(await server.ended, { code: 0, signal: null });
        await server.stop();
    });

    it("says what is wrong with its files and ends", () => {
        const { cert, key } = certificate("one");
        const other = certificate("other");
        const run = (...args) => spawnSync(program, ["serve", models.text, "--store", "none", "--listen", "127.0.0.1:0", ...args], { encoding: "utf8", timeout: 20000 });
        writeFileSync(join(folder, "text.pem"), "no certificate");
        assert.equal(run("--tls-cert", cert).status, 2);
        for (const [c, k] of [[join(folder, "none.pem"), key], [cert, join(folder, "none.key")], [join(folder, "text.pem"), key], [cert, other.key]]) {
            const { status, stderr } = run("--tls-cert", c, "--tls-key", k);
            assert.equal(status, 1);
            assert.match(stderr, /TLS (certificate|key) '/);
        }
    });
});

describe("a unix socket", () => {
    it("answers, beside a port, and is gone afterwards", async () => {
        const path = join(folder, "ruvllm.sock");
        const server = await Server.start([`text=${models.text}`, "--threads", "1", "--listen", `unix:${path}`, "--listen", "127.0.0.1:0"]);
        assert.equal(server.url, `unix:${path}`);
        assert.ok(statSync(path).isSocket());
        assert.match(server.said.out, new RegExp(`curl --unix-socket ${path} http://localhost/v1/completions`));
        const health = await ask(http, { socketPath: path, path: "/healthz" });
        assert.equal(health.status, 200);
        const whole = await ask(http, { socketPath: path, path: "/v1/completions" }, story);
        assert.equal(whole.status, 200, whole.text);
        const stream = await ask(http, { socketPath: path, path: "/v1/completions" }, { ...story, stream: true });
        assert.ok(stream.text.endsWith("data: [DONE]\n\n"));
        assert.deepEqual(await server.stop(), { code: 0, signal: null });
        assert.ok(!existsSync(path));
    });

    it("replaces what a killed server left, and not what is something else", async () => {
        const path = join(folder, "again.sock");
        const start = () => Server.start([`text=${models.text}`, "--threads", "1", "--listen", `unix:${path}`]);
        const first = await start();
        await first.stop("SIGKILL");
        assert.ok(existsSync(path));
        const second = await start();
        assert.equal((await ask(http, { socketPath: path, path: "/healthz" })).status, 200);
        await second.stop();
        writeFileSync(path, "a file");
        const run = spawnSync(program, ["serve", models.text, "--store", "none", "--listen", `unix:${path}`], { encoding: "utf8", timeout: 20000 });
        assert.equal(run.status, 1);
        assert.match(run.stderr, /again\.sock/);
        assert.equal(readFileSync(path, "utf8"), "a file");
    });
});
