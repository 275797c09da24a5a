// What has broken other servers, asked of ours over the wire. The rows are those of README.md beside this file.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";

import { address, ask, createKey, figure, metrics, residentBytes, sanitized, sleep, Wire, threads } from "../server/load.mjs";
import { eventually, models, program, Server } from "../server/server.mjs";

const folder = mkdtempSync(join(tmpdir(), "ruvllm-cve-"));
const store = join(folder, "store.db");
const chat = (more) => ["/v1/chat/completions", { model: "chat", messages: [{ role: "user", content: "Hi" }], max_tokens: 1, ...more }];
const text = (more) => ["/v1/completions", { model: "text", prompt: "Once", max_tokens: 1, ...more }];

let server, where, key, admin;
before(async () => {
    key = createKey(store, "--tenant", "acme").key;
    admin = createKey(store, "--tenant", "operators", "--admin").key;
    server = await Server.start([`text=${models.text}`, `chat=${models.chat}`, "--threads", threads], { folder });
    where = address(server);
    assert.equal((await ask(where, ...chat(), { key })).status, 200);
});
after(async () => {
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
    rmSync(folder, { recursive: true, force: true });
});

const refused = async (path, body, status, pattern, why) => {
    const reply = await ask(where, path, body, { key });
    assert.equal(reply.status, status, `${why ?? JSON.stringify(body).slice(0, 200)}: ${reply.body.slice(0, 300)}`);
    if (pattern) assert.match(reply.body, pattern);
    return reply;
};

describe("row 6: templates", () => {
    it("cannot be sent with a request", async () => {
        for (const field of ["chat_template", "template", "chat_template_kwargs", "jinja", "documents", "add_generation_prompt", "continue_final_message"])
            for (const path of ["/v1/chat/completions", "/v1/chat/template"]) {
                const [, body] = chat({ [field]: "{{ ''.__class__ }}" });
                if (path === "/v1/chat/template") delete body.max_tokens;
                await refused(path, body, 400, new RegExp(field));
            }
    });
    it("read what users write as text", async () => {
        const content = "{{ 7 * 191 }}{% for i in range(9) %}x{% endfor %}";
        const reply = await ask(where, "/v1/chat/template", { model: "chat", messages: [{ role: "user", content }] }, { key });
        assert.equal(reply.status, 200, reply.body);
        assert.ok(JSON.stringify(JSON.parse(reply.body)).includes(content));
        assert.ok(!reply.body.includes("1337"));
    });
});

describe("row 8: special tokens", () => {
    it("are not made by users' text", async () => {
        for (const content of ["<|im_start|>system", "<|im_end|>", "<s>", "</s>", "<unk>", "<|endoftext|>"]) {
            const plain = JSON.parse((await ask(where, "/v1/tokenize", { model: "chat", prompt: `a ${content} b`, add_bos: false, parse_special: false }, { key })).body);
            const special = JSON.parse((await ask(where, "/v1/tokenize", { model: "chat", prompt: `a ${content} b`, add_bos: false, parse_special: true }, { key })).body);
            const asked = JSON.parse((await ask(where, "/v1/tokenize", { model: "chat", messages: [{ role: "user", content: `a ${content} b` }] }, { key })).body);
            const only = special.tokens.filter((id) => !plain.tokens.includes(id));
            const around = JSON.parse((await ask(where, "/v1/tokenize", { model: "chat", messages: [{ role: "user", content: "a b" }] }, { key })).body).tokens;
            const count = (list, id) => list.filter((one) => one === id).length;
            for (const id of only) assert.ok(count(asked.tokens, id) <= count(around, id), `${content} became token ${id}`);
        }
    });
});

describe("row 9: numbers", () => {
    it("are within their range or refused", async () => {
        const ranges = { max_tokens: [0, 2147483647], n: [1, 8], temperature: [0, 2], top_p: [0, 1], top_k: [0, 2147483647], min_p: [0, 1], typical_p: [0, 1], repetition_penalty: [0.01, 100],
            frequency_penalty: [-2, 2], presence_penalty: [-2, 2], penalty_window: [-1, 1048576], priority: [-10, 10], best_of: [1, 8], logprobs: [0, 5] };
        const whole = new Set(["max_tokens", "n", "top_k", "penalty_window", "priority", "best_of", "logprobs"]);
        let asked = 0;
        for (const [name, [min, max]] of Object.entries(ranges)) {
            const step = whole.has(name) ? 1 : 0.001;
            const bad = [min - step, max + step, "NaN", "Infinity", "-Infinity", "nan", "1e308", "-1e308", "1e999", '"1"', "[1]", "{}", "true", "99999999999999999999", ...(whole.has(name) ? ["0.5"] : [])];
            for (const value of bad) {
                const body = `{"model":"text","prompt":"Once",${name === "max_tokens" ? "" : '"max_tokens":1,'}"${name}":${value}}`;
                const reply = await ask(where, "/v1/completions", body, { key });
                assert.equal(reply.status, 400, `${name}=${value}: ${reply.body.slice(0, 200)}`);
                asked++;
            }
            for (const value of [min, max, null]) {
                const body = { model: "text", prompt: "Once", max_tokens: 1, n: 1, [name]: value };
                if (name === "best_of") body.n = value ?? 1;
                const reply = await ask(where, "/v1/completions", body, { key });
                assert.ok([200, 400].includes(reply.status), `${name}=${value}: ${reply.status}`);
                asked++;
            }
        }
        figure("numbers_asked", asked);
        assert.equal((await ask(where, ...text(), { key })).status, 200);
    });
    it("of tokens are within the vocabulary", async () => {
        for (const tokens of [[-1], [2147483648], [1e18], [1.5], [null], [[[1]]]]) await refused(...text({ prompt: tokens }), 400);
        for (const tokens of [[-1], [100000], [2147483647]]) await refused("/v1/detokenize", { model: "text", tokens }, 400);
        await refused(...text({ logit_bias: { "-1": 1 } }), 400);
        await refused(...text({ logit_bias: { 99999999: 1 } }), 400);
        await refused(...text({ logit_bias: { 1: 1e9 } }), 400);
    });
});

// Refused within 100 ms: the best of a few tries, because the machine may have other things to do.
const refusedSoon = async (path, body, pattern) => {
    let best = Infinity;
    for (let i = 0; i < 5 && (i === 0 || best >= 100); i++) {
        const start = performance.now();
        await refused(path, body, 400, pattern);
        best = Math.min(best, performance.now() - start);
    }
    if (!sanitized) assert.ok(best < 100, `${best} ms for ${JSON.stringify(body).slice(0, 200)}`);
};

describe("row 10: fan-out", () => {
    it("is capped before anything is allocated for it", async () => {
        const before = residentBytes(server.child.pid);
        for (const n of [9, 100, 1e6, 2147483647, 1e15]) {
            await refusedSoon(...text({ n }));
            await refusedSoon(...chat({ n }));
            await refusedSoon(...text({ best_of: n }));
        }
        await refusedSoon(...text({ prompt: Array(65).fill("a") }));
        await refusedSoon(...text({ prompt: Array(100000).fill("a") }));
        await refusedSoon("/v1/embeddings", { model: "text", input: Array(100000).fill("a") });
        await refused(...text({ prompt: "word ".repeat(100000) }), 400, /context|tokens/);
        await refusedSoon(...text({ stop: Array(1000).fill("a") }));
        const worst = await ask(where, ...text({ prompt: Array(64).fill("a"), n: 8, max_tokens: 16 }), { key });
        assert.ok([200, 400, 429].includes(worst.status), `${worst.status}`);
        await sleep(200);
        const more = residentBytes(server.child.pid) - before;
        figure("fan_out_rss_more_mib", more / (1 << 20));
        if (!sanitized) assert.ok(more < 32 << 20, `${more}`);
    });
});

describe("row 11: shapes", () => {
    const format = (schema) => ({ response_format: { type: "json_schema", json_schema: { name: "s", strict: true, schema } } });
    const tool = (parameters) => ({ tools: [{ type: "function", function: { name: "t", parameters } }], tool_choice: "required" });
    const deep = (n) => (n ? { type: "array", items: deep(n - 1) } : {});
    const hostile = {
        "60,000 parentheses in a grammar": { grammar: `root ::= ${"(".repeat(60000)}` },
        "and in an expression": { regex: "(".repeat(60000) },
        "and in a pattern": format({ type: "string", pattern: "(".repeat(30000) }),
        "and in a tool's pattern": tool({ type: "object", properties: { a: { type: "string", pattern: "(".repeat(30000) } } }),
        "a grammar that repeats a repetition": { grammar: 'root ::= "a"{100000}{100000}' },
        "an expression that does": { regex: "((((a{999}){999}){999}){999})" },
        "a pattern that does": format({ type: "string", pattern: "((a{999}){999}){999}" }),
        "a rule that is itself": { grammar: "root ::= root" },
        "a rule that is not there": { grammar: "root ::= nobody" },
        "a set that does not end": { regex: "[a" },
        "a pattern's set that does not end": format({ type: "string", pattern: "[a" }),
        "a type that is none": format({ type: "whatever" }),
        "a tool's type that is none": tool({ type: "whatever" }),
        "a reference to nowhere": format({ $ref: "#/$defs/nobody" }),
        "a reference elsewhere": format({ $ref: "http://127.0.0.1:1/schema" }),
        "too many levels": format(deep(70)),
        "a million elements": format({ type: "array", minItems: 1e6 }),
        "30,000 alternatives, all alike": format({ enum: Array(30000).fill("a") }),
        "more than 64 KiB": format({ enum: [`${"a".repeat(70000)}`] }),
    };

    for (const [name, more] of Object.entries(hostile)) it(`are refused soon: ${name}`, () => refusedSoon(...chat(more)));

    it("take no more memory, however many there are: a few are kept", async () => {
        const once = async (i) => assert.equal((await ask(where, ...chat(format({ enum: [i, `word ${i}`] })), { key })).status, 200);
        for (let i = 0; i < 120; i++) await once(i);
        const before = residentBytes(server.child.pid);
        for (let i = 120; i < 240; i++) await once(i);
        const more = residentBytes(server.child.pid) - before;
        figure("shapes_rss_more_mib", more / (1 << 20));
        if (!sanitized) assert.ok(more < 128 << 20, `${more}`); // each is 2.5 MiB; the heap is not without gaps
    });
});

describe("row 12: sizes", () => {
    it("of heads are 431", async () => {
        assert.equal((await ask(where, "/healthz", undefined, { headers: { "x-long": "a".repeat(20000) } })).status, 431);
        assert.equal((await ask(where, "/healthz", undefined, { headers: Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`x-${i}`, "abcdefghijklmnop"])) })).status, 431);
    });
    it("of bodies are 413 before they are read", async () => {
        const before = residentBytes(server.child.pid);
        for (let i = 0; i < 20; i++) {
            const wire = new Wire(where);
            wire.send(`POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${key}\r\ncontent-length: ${9 << 20}\r\n\r\n`);
            await wire.until(/\r\n\r\n/);
            assert.equal(wire.answer().status, 413);
            wire.close();
        }
        if (!sanitized) assert.ok(residentBytes(server.child.pid) - before < 8 << 20);
    });
    it("of depths are 400", async () => {
        for (const depth of [65, 1000, 1000000]) {
            await refused("/v1/completions", "[".repeat(depth), 400, null, `${depth} deep`);
            await refused("/v1/completions", `{"model":"text","prompt":${"[".repeat(depth)}${"]".repeat(depth)}}`, 400, null, `prompt ${depth} deep`);
            if (depth < 100000) await refused("/v1/chat/completions", `{"model":"chat","messages":${'[{"content":'.repeat(depth)}1${"}]".repeat(depth)}}`, 400, null, `messages ${depth} deep`);
        }
    });
});

describe("row 13: chunks", () => {
    it("of one byte each make one body", async () => {
        const body = JSON.stringify(text()[1]) + " ".repeat(60000);
        const wire = new Wire(where);
        wire.send(`POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer ${key}\r\ntransfer-encoding: chunked\r\n\r\n`);
        wire.socket.write(Array.from(body, (byte) => `1\r\n${byte}\r\n`).join("") + "0\r\n\r\n");
        await wire.ended;
        assert.equal(wire.answer().status, 200, wire.text);
    });
});

describe("row 15: who may ask", () => {
    it("is no web page of another name when there are no keys", async () => {
        const bare = await Server.start([`text=${models.text}`, "--threads", "1"]);
        const at = address(bare);
        const get = async (headers) => {
            const wire = new Wire(at);
            wire.send(`GET /v1/models HTTP/1.1\r\nconnection: close\r\n${headers}\r\n\r\n`);
            await wire.ended;
            return wire.answer().status;
        };
        for (const host of ["localhost", "LOCALHOST:1234", "127.0.0.1:80", "[::1]:8080"]) assert.equal(await get(`host: ${host}`), 200, host);
        for (const host of ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example:8080", "127.0.0.1.nip.io", "0.0.0.0", "localhost.", "xlocalhost", "[::2]", "2130706433"])
            assert.ok([400, 403].includes(await get(`host: ${host}`)), host);
        for (const origin of ["http://evil.example", "null", "https://localhost.evil.example", "http://localhost:1", "file://"])
            assert.equal(await get(`host: localhost\r\norigin: ${origin}`), 403, origin);
        assert.equal(await get(`host: localhost:7\r\norigin: http://localhost:7`), 200);
        await bare.stop();
    });
});

describe("row 16: keys", () => {
    it("are in no answer, metric, log or file", async () => {
        const canary = "rv-CanaryCanaryCanaryCanaryCanaryCanaryCanary1";
        for (const secret of [canary, key]) {
            await ask(where, "/v1/models", undefined, { key: secret });
            await ask(where, "/v1/models", undefined, { headers: { authorization: secret } });
            await ask(where, "/v1/nothing", undefined, { headers: { "x-api-key": secret, cookie: secret, traceparent: secret, "user-agent": secret } });
        }
        const seen = (await metrics(server, admin)).text;
        await sleep(1500); // the witness log is written
        const files = readdirSync(folder).filter((name) => name.startsWith("store")).map((name) => readFileSync(join(folder, name), "latin1")).join("");
        const witness = spawnSync(program, ["witness", "--store", store, "--json"], { encoding: "utf8" }).stdout;
        for (const secret of [canary, key, admin])
            for (const where of [seen, server.said.err, server.said.out, files, witness]) assert.ok(!where.includes(secret));
        for (const secret of [canary, `${key}x`]) {
            const reply = await ask(where, "/v1/models", undefined, { key: secret });
            assert.ok(!reply.wire.text.includes(secret));
        }
    });
});

describe("row 17: names", () => {
    it("are no paths, in whatever spelling", async () => {
        const targets = ["etc/passwd", "proc/self/environ", "dev/random", "store.db", "models/stories260K.gguf"];
        const ups = ["../", "..\\", "....//", "..;/", "%2e%2e/", "%2e%2e%2f", "..%2f", "..%5c", "%252e%252e%252f", "..%c0%af", "..%00/", "./", "/", "//", "file://", "~/", "C:\\", "\\\\host\\", "..\u2215", "\uff0e\uff0e/"];
        const names = [];
        for (const target of targets) for (const up of ups) for (const depth of [1, 2, 3, 6, 12]) names.push(up.repeat(depth) + target);
        let asked = 0;
        const marks = /root:x:|GGUF|SQLite format|PATH=/;
        for (const name of names) {
            const byBody = await ask(where, "/v1/completions", { model: name, prompt: "x", max_tokens: 1 }, { key });
            const bySession = await ask(where, ...chat({ session: name }), { key });
            const byPath = await ask(where, `/v1/models/${encodeURIComponent(name)}`, undefined, { key });
            const raw = await ask(where, `/v1/sessions/${name.replace(/[^\x21-\x7e]/g, "%20")}`, undefined, { key });
            assert.equal(byBody.status, 404, name);
            assert.equal(bySession.status, 400, name);
            assert.equal(byPath.status, 404, name);
            assert.ok([400, 404].includes(raw.status), `${name}: ${raw.status}`);
            for (const reply of [byBody, bySession, byPath, raw]) assert.ok(!marks.test(reply.body), name);
            asked += 4;
        }
        figure("traversal_strings", names.length);
        figure("traversal_requests", asked);
        assert.ok(names.length >= 500);
        for (const path of ["/page/../store.db", "/page/%2e%2e/store.db", "/page//etc/passwd", "/page/..", "/page/.", "/page/app.js/..", "/page/app.js%00", "/page/\\..\\x"]) assert.ok([400, 401, 404].includes((await ask(where, path)).status), path);
    });
});

describe("row 27: logs", () => {
    it("are lines of JSON whatever was asked, without words of prompts", async () => {
        const secret = "CanaryPromptWords";
        await ask(where, ...text({ prompt: `${secret} one` }), { key });
        await ask(where, ...chat({ messages: [{ role: "user", content: `${secret} two` }] }), { key });
        await ask(where, ...text({ prompt: [`${secret}`], temperature: 99 }), { key });
        await ask(where, "/v1/completions", `{"prompt": "${secret}"`, { key });
        await ask(where, ...text({ stop: secret, user: secret }), { key });
        for (const path of ['/v1/x","event":"forged', "/v1/%0a%7b%22event%22%3a%22forged%22%7d", "/v1/%1b%5b2J", "/v1/'\"<script>alert(1)</script>"]) await ask(where, path, undefined, { key });
        await ask(where, ...text({ model: 'a\n{"event":"forged"}\u001b[2J' }), { key });
        await ask(where, "/v1/models", undefined, { key, headers: { traceparent: '00-x","event":"forged', "x-request-id": "forged", "user-agent": "\u0009forged" } });
        await sleep(200);
        for (const line of server.log()) {
            assert.ok(["request", "log"].includes(line.event), JSON.stringify(line));
            // eslint-disable-next-line no-control-regex
            assert.ok(!/[\u0000-\u001f\u007f]/.test(JSON.stringify(line)));
        }
        assert.ok(!server.said.err.includes(secret));
        assert.ok(!server.said.out.includes(secret));
    });
    it("and errors tell no paths and no addresses", async () => {
        const replies = [await ask(where, ...text({ model: "nothing" }), { key }), await ask(where, "/v1/completions", "{", { key }), await ask(where, ...text({ prompt: "word ".repeat(5000) }), { key }),
            await ask(where, "/v1/sessions/none/restore", "{}", { key }), await ask(where, "/v1/embeddings", { model: "text", input: 7 }, { key })];
        for (const reply of replies) {
            assert.ok(reply.status >= 400);
            assert.ok(!/0x[0-9a-f]{6}|\/tmp|\/home|\/root|\.gguf|\.c:\d/.test(reply.body), reply.body);
        }
    });
});

describe("row 19: the network", () => {
    it("is never asked for anything: the server connects to nobody", async (t) => {
        if (spawnSync("strace", ["-V"]).error || sanitized) return t.skip("strace is not installed, or the build is sanitized");
        const out = join(folder, "trace");
        const child = spawn("strace", ["-f", "-qq", "-e", "trace=connect,sendto,sendmsg,shmget,execve", "-o", out, program, "serve", `chat=${models.chat}`, "--threads", "1", "--listen", "127.0.0.1:0", "--store", join(folder, "traced.db")]);
        let said = "";
        child.stdout.on("data", (bytes) => (said += bytes));
        t.after(() => child.kill("SIGKILL"));
        const [, url] = await eventually(() => said.match(/listens on (\S+)/), "it listens", 60000);
        await eventually(() => /^Ready\./m.test(said), "it is ready", 60000);
        const at = { host: new URL(url).hostname, port: Number(new URL(url).port) };
        const link = "http://127.0.0.1:9/image.png";
        for (const [path, body] of [
            chat(), chat({ stream: true }),
            chat({ messages: [{ role: "user", content: [{ type: "text", text: "see" }, { type: "image_url", image_url: { url: link } }] }] }),
            chat({ messages: [{ role: "user", content: [{ type: "input_audio", input_audio: { data: link, format: "wav" } }] }] }),
            ["/v1/responses", { model: "chat", input: [{ role: "user", content: [{ type: "input_image", image_url: link }] }] }],
            ["/v1/responses", { model: "chat", input: link, max_output_tokens: 1 }],
            chat({ model: link }), chat({ model: "some/hub-model" }), ["/v1/embeddings", { model: "chat", input: link }], ["/v1/models", undefined], ["/metrics", undefined]])
            assert.ok((await ask(at, path, body)).status >= 200);
        child.kill("SIGTERM");
        const traced = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").trim();
        if (traced) process.kill(Number(traced.split(" ")[0]), "SIGTERM");
        await new Promise((resolve) => (child.exitCode === null && child.signalCode === null ? child.on("exit", resolve) : resolve()));
        const calls = readFileSync(out, "utf8").split("\n");
        assert.ok(calls.some((line) => line.includes("execve(")), "the trace shows the start");
        assert.deepEqual(calls.filter((line) => /connect\(|shmget\(|sendto\(.*sa_family/.test(line)), []);
        assert.equal(calls.filter((line) => line.includes("execve(")).length, 1);
    });
});

describe("row 29: the stack", () => {
    it("of 256 KiB is enough for the hardest requests", async (t) => {
        const small = spawn("sh", ["-c", `ulimit -s 256; exec "$0" "$@"`, program, "serve", `chat=${models.chat}`, "--threads", threads, "--listen", "127.0.0.1:0", "--store", join(folder, "small.db")]);
        let said = "";
        small.stdout.on("data", (bytes) => (said += bytes));
        const ended = new Promise((resolve) => small.on("exit", (code, signal) => resolve({ code, signal })));
        t.after(() => small.kill("SIGKILL"));
        const [, url] = await eventually(() => said.match(/listens on (\S+)/), "it listens", 60000);
        await eventually(() => /^Ready\./m.test(said), "it is ready", 60000);
        const at = { host: new URL(url).hostname, port: Number(new URL(url).port) };
        assert.match(readFileSync(`/proc/${small.pid}/limits`, "utf8"), /Max stack size\s+262144/);
        for (const [path, body, status] of [
            [...chat({ n: 8, logprobs: true, top_logprobs: 20 }), 200],
            [...chat({ stream: true, session: "s", messages: [{ role: "user", content: "tell me a story of a bird ".repeat(10) }] }), 200],
            ["/v1/chat/template", { model: "chat", messages: Array.from({ length: 200 }, (_, i) => ({ role: i % 2 ? "assistant" : "user", content: "x" })) }, 200],
            ["/v1/completions", `{"model":"chat","prompt":${"[".repeat(1000000)}`, 400],
            ["/v1/chat/completions", { model: "chat", messages: [{ role: "user", content: "(".repeat(100000) }] }, 400],
            ["/v1/tokenize", { model: "chat", prompt: "a".repeat(1 << 20) }, 200],
            ["/v1/embeddings", { model: "chat", input: "word" }, 200],
            ["/v1/sessions/s/save", "{}", 200],
            ["/metrics", undefined, 200]]) {
            const reply = await ask(at, path, body);
            assert.equal(reply.status, status, `${path}: ${reply.body.slice(0, 200)}`);
        }
        small.kill("SIGTERM");
        assert.deepEqual(await ended, { code: 0, signal: null });
    });
});
