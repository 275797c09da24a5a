// Request smuggling behind real proxies (hardening row 14): what one connection sends never becomes, or answers, a request of another.
//
// Through each of nginx and HAProxy, and directly: every malformed request carries a hidden one; a marked request follows on the same
// connection, and others go by on connections of their own meanwhile. The hidden one must never be answered as somebody else's, and every
// request that the server saw must be one that somebody sent on purpose.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";

import { address, ask, figure, sleep, Wire } from "../server/load.mjs";
import { eventually, models, Server } from "../server/server.mjs";

const folder = mkdtempSync(join(tmpdir(), "ruvllm-proxy-"));
const post = (headers, rest) => `POST /v1/tokenize HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n\r\n${rest}`;
const get = (line, headers = "Host: localhost") => `${line}\r\n${headers}\r\n\r\n`;
const chunked = "Transfer-Encoding: chunked";
// What a smuggler hides. It asks for a path that nobody else asks for.
const hidden = "GET /v1/models/hidden HTTP/1.1\r\nHost: localhost\r\n\r\n";

const framings = {
    "both lengths": post(`Content-Length: 5\r\n${chunked}`, `0\r\n\r\n${hidden}`),
    "both lengths, the other way round": post(`${chunked}\r\nContent-Length: 5`, `0\r\n\r\n${hidden}`),
    "a length that covers the hidden one": post(`Content-Length: ${hidden.length + 5}\r\n${chunked}`, `0\r\n\r\n${hidden}`),
    "two equal lengths": post("Content-Length: 5\r\nContent-Length: 5", `hello${hidden}`),
    "two different lengths": post(`Content-Length: 5\r\nContent-Length: ${hidden.length + 5}`, `hello${hidden}`),
    "zero and a length": post(`Content-Length: 0\r\nContent-Length: ${hidden.length}`, hidden),
    "a list of lengths": post("Content-Length: 5, 5", `hello${hidden}`),
    "a length with plus": post("Content-Length: +5", `hello${hidden}`),
    "a length with minus": post("Content-Length: -5", `hello${hidden}`),
    "a length in hex": post("Content-Length: 0x5", `hello${hidden}`),
    "a length with an inner space": post("Content-Length: 5 0", `hello${hidden}`),
    "a length over 64 bits": post("Content-Length: 18446744073709551621", `hello${hidden}`),
    "an empty length": post("Content-Length:", `hello${hidden}`),
    "a length with letters": post("Content-Length: 5a", `hello${hidden}`),
    "a length with a fraction": post("Content-Length: 5.0", `hello${hidden}`),
    "a space before the colon of a length": post("Content-Length : 5", `hello${hidden}`),
    "a tab before the colon of a coding": post("Transfer-Encoding\t: chunked", `0\r\n\r\n${hidden}`),
    "gzip, chunked": post("Transfer-Encoding: gzip, chunked", `0\r\n\r\n${hidden}`),
    "chunked, chunked": post("Transfer-Encoding: chunked, chunked", `0\r\n\r\n${hidden}`),
    "chunked twice": post(`${chunked}\r\n${chunked}`, `0\r\n\r\n${hidden}`),
    "identity": post("Transfer-Encoding: identity", hidden),
    "identity and a length": post("Transfer-Encoding: identity\r\nContent-Length: 5", `hello${hidden}`),
    "xchunked": post("Transfer-Encoding: xchunked", `0\r\n\r\n${hidden}`),
    "xchunked and a length": post("Transfer-Encoding: xchunked\r\nContent-Length: 5", `hello${hidden}`),
    "chunked with a parameter": post("Transfer-Encoding: chunked;q=1", `0\r\n\r\n${hidden}`),
    "quoted chunked": post('Transfer-Encoding: "chunked"', `0\r\n\r\n${hidden}`),
    "a vertical tab before chunked": post("Transfer-Encoding: \vchunked", `0\r\n\r\n${hidden}`),
    "a form feed before chunked": post("Transfer-Encoding: \fchunked", `0\r\n\r\n${hidden}`),
    "an empty coding": post("Transfer-Encoding:", `0\r\n\r\n${hidden}`),
    "a folded coding": post("Transfer-Encoding:\r\n chunked", `0\r\n\r\n${hidden}`),
    "a coding hidden by a bare LF": post(`X: y\n${chunked}`, `0\r\n\r\n${hidden}`),
    "a coding hidden by a bare CR": post(`X: y\r${chunked}`, `0\r\n\r\n${hidden}`),
    "a coding hidden by a NUL": post(`X: y\0${chunked}`, `0\r\n\r\n${hidden}`),
    "a coding in HTTP/1.0": `POST /v1/tokenize HTTP/1.0\r\nHost: localhost\r\n${chunked}\r\n\r\n0\r\n\r\n${hidden}`,
    "a chunk size with a sign": post(chunked, `+5\r\nhello\r\n0\r\n\r\n${hidden}`),
    "a chunk size with 0x": post(chunked, `0x5\r\nhello\r\n0\r\n\r\n${hidden}`),
    "a chunk size over 64 bits": post(chunked, `10000000000000005\r\nhello\r\n0\r\n\r\n${hidden}`),
    "an empty chunk size": post(chunked, `\r\nhello\r\n0\r\n\r\n${hidden}`),
    "a chunk size ended by a bare LF": post(chunked, `5\nhello\r\n0\r\n\r\n${hidden}`),
    "a chunk longer than its size": post(chunked, `5\r\nhellooo\r\n0\r\n\r\n${hidden}`),
    "a chunk without its CR LF": post(chunked, `5\r\nhello0\r\n\r\n${hidden}`),
    "a chunk extension with a bare LF": post(chunked, `5;a\nb\r\nhello\r\n0\r\n\r\n${hidden}`),
    "a last chunk ended by bare LFs": post(chunked, `0\n\n${hidden}`),
    "a trailer with a space before its colon": post(chunked, `0\r\nX : y\r\n\r\n${hidden}`),
    "bare LFs only": `GET /v1/models HTTP/1.1\nHost: localhost\n\n${hidden}`,
    "a header without a colon": get("GET /v1/models HTTP/1.1", "Host: localhost\r\nnothing") + hidden,
    "two hosts": get("GET /v1/models HTTP/1.1", "Host: localhost\r\nHost: other") + hidden,
    "another host in the target": get("GET http://other/v1/models HTTP/1.1") + hidden,
    "two spaces in the request line": get("GET  /v1/models HTTP/1.1") + hidden,
    "a space in the target": get("GET /v1/models x HTTP/1.1") + hidden,
    "a line break in the target": get("GET /v1/models\rx HTTP/1.1") + hidden,
    "HTTP/1.2": get("GET /v1/models HTTP/1.2") + hidden,
    "HTTP/0.9": `GET /v1/models\r\n\r\n${hidden}`,
    "a length for a GET": get("GET /v1/models HTTP/1.1", `Host: localhost\r\nContent-Length: ${hidden.length}`) + hidden,
};
// These are well formed and ask for two requests, or one with a body: nothing about them is refused.
const fair = new Set(["a length for a GET"]);

const freePort = () => new Promise((resolve) => {
    const holder = createServer().listen(0, "127.0.0.1", () => {
        const { port } = holder.address();
        holder.close(() => resolve(port));
    });
});

const proxies = {
    nginx: (port, upstream) => {
        writeFileSync(join(folder, "nginx.conf"), `daemon off; master_process off; worker_processes 1; pid ${folder}/nginx.pid; error_log ${folder}/nginx.log;
events { worker_connections 256; }
http { access_log off; client_body_temp_path ${folder}/a; proxy_temp_path ${folder}/b; fastcgi_temp_path ${folder}/c; uwsgi_temp_path ${folder}/d; scgi_temp_path ${folder}/e;
upstream ours { server 127.0.0.1:${upstream}; keepalive 8; }
server { listen 127.0.0.1:${port}; location / { proxy_pass http://ours; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host localhost; proxy_request_buffering off; } } }`);
        return ["nginx", ["-c", join(folder, "nginx.conf"), "-p", folder]];
    },
    haproxy: (port, upstream) => {
        writeFileSync(join(folder, "haproxy.cfg"), `global\n  maxconn 256\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 20s\n  timeout server 20s\n  http-reuse always
frontend f\n  bind 127.0.0.1:${port}\n  default_backend b\nbackend b\n  server s 127.0.0.1:${upstream}\n`);
        return ["haproxy", ["-db", "-f", join(folder, "haproxy.cfg")]];
    },
};

let server;
before(async () => {
    server = await Server.start([`text=${models.text}`, "--threads", "1"]);
});
after(async () => {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
});

// A request that says who asked: the answer names the marker as a model that is not there.
const marked = (marker) => `GET /v1/models/${marker} HTTP/1.1\r\nHost: localhost\r\n\r\n`;

// Sends a framing and the marked request behind it, while others ask; says what is wrong with what came back.
async function attack(where, name, i, via) {
    const wire = new Wire(where);
    await wire.open;
    wire.send(Buffer.from(framings[name], "latin1"));
    await Promise.race([wire.ended, wire.until(/HTTP\/1\.\d \d/), sleep(1500)]);
    wire.socket.write(marked(`attacker-${via}-${i}`));
    const wrong = [];
    for (let k = 0; k < 3; k++) {
        const marker = `victim-${via}-${i}-${k}`;
        const reply = await ask(where, `/v1/models/${marker}`);
        if (reply.status !== 404 || !reply.body.includes(marker)) wrong.push(`${name}: '${marker}' was told ${reply.status} ${reply.body.slice(0, 200)}`);
        if (/hidden|attacker/.test(reply.wire.text)) wrong.push(`${name}: '${marker}' was told of another's`);
        if (reply.wire.text.split(/HTTP\/1\.1 \d{3} /).length !== 2) wrong.push(`${name}: '${marker}' got several answers`);
    }
    await Promise.race([wire.ended, sleep(200)]);
    wire.close();
    if (/victim/.test(wire.text)) wrong.push(`${name}: the attacker was told of a victim`);
    return { wrong, text: wire.text };
}

describe("directly", () => {
    it("refuses each and closes, and no hidden request is heard", async () => {
        let refused = 0;
        for (const [i, name] of Object.keys(framings).entries()) {
            const { wrong, text } = await attack(address(server), name, i, "direct");
            assert.deepEqual(wrong, []);
            if (fair.has(name)) continue;
            assert.match(text, /^HTTP\/1\.1 (400|505|501|421)/, `${name}: ${text.slice(0, 100)}`);
            assert.equal(text.split(/HTTP\/1\.1 \d{3} /).length, 2, `${name} was answered twice: ${text}`);
            refused++;
        }
        figure("framings", refused);
        assert.ok(refused >= 40);
        await sleep(100);
        assert.ok(!server.said.err.includes("/v1/models/hidden"));
        assert.ok(!server.said.err.includes("attacker-direct-0\""));
    });
});

for (const [proxy, configure] of Object.entries(proxies)) {
    describe(`behind ${proxy}`, () => {
        it("never mixes connections up", async (t) => {
            if (spawnSync(proxy, ["-v"]).error) return t.skip(`${proxy} is not installed`);
            const port = await freePort();
            const child = spawn(...configure(port, new URL(server.url).port), { stdio: ["ignore", "ignore", "pipe"] });
            let said = "";
            child.stderr.on("data", (bytes) => (said += bytes));
            const ended = new Promise((resolve) => child.on("exit", resolve));
            const where = { host: "127.0.0.1", port };
            try {
                await eventually(async () => (await ask(where, "/healthz")).status === 200, `${proxy} answers: ${said}`, 10000);
                const from = server.said.err.length;
                const wrong = [];
                let seen = 0;
                for (const [i, name] of Object.keys(framings).entries()) {
                    const mark = server.said.err.length;
                    const outcome = await attack(where, name, i, proxy);
                    wrong.push(...outcome.wrong);
                    // The hidden request was heard: only where the proxy itself took it for one, and then it answered it as well.
                    await sleep(20);
                    const heard = server.said.err.slice(mark).split("/v1/models/hidden").length - 1;
                    const answered = outcome.text.split("'hidden'").length - 1;
                    if (heard > answered) wrong.push(`${name}: the server heard a request that ${proxy} did not send: ${outcome.text.slice(0, 300)}`);
                    seen += heard;
                }
                figure(`${proxy}_framings`, Object.keys(framings).length);
                figure(`${proxy}_taken_for_two_requests_by_both`, seen);
                figure(`${proxy}_desynchronised`, wrong.length);
                assert.deepEqual(wrong, []);
                // Every line of the server's log is a request that somebody sent.
                for (const line of server.said.err.slice(from).split("\n").filter(Boolean).map((text) => JSON.parse(text)))
                    if (line.event === "request") assert.match(line.path ?? "", /^\/(healthz|v1\/(tokenize|models(\/(hidden|(victim|attacker)-[\w-]+))?))$/, JSON.stringify(line));
            } finally {
                child.kill("SIGTERM");
                await ended;
            }
        });
    });
}
