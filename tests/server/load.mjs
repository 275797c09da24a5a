// What the load tests share: plain sockets, figures of a process, and the choice between the short form (ctest) and the full one (make server-load).
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";

import { models } from "./server.mjs";

export { createKey } from "./server.mjs";

export const full = process.env.RUVLLM_LOAD === "full";
// Sanitizers multiply memory and time: there only what is true at any speed is asserted.
export const sanitized = (process.env.RUVLLM_SANITIZE ?? "") !== "";
// Threads that share a busy machine wait for each other at every step: the short forms use one.
export const threads = process.env.RUVLLM_LOAD_THREADS ?? (full ? "2" : "1");
export const pick = (short, long) => (full ? long : short);
export const now = () => performance.now();
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const made = join(process.env.RUVLLM_DEPS_DIR ?? "", "models");
const first = (...paths) => paths.find((path) => existsSync(path));
// Small ones for the short form; the full one asks what people use.
export const small = full && !sanitized ? first(join(made, "stories15M-q8_0.gguf"), models.text) : models.text;
export const large = first(join(made, "qwen2.5-0.5b-q8_0.gguf"), join(made, "tinyllama-q4_k_m.gguf"));

// One figure a line.
export function figure(name, value) {
    console.log(`${name}=${typeof value === "number" ? Number(value.toFixed(3)) : value}`);
}

export function percentile(values, share) {
    const sorted = [...values].sort((a, b) => a - b);
    return sorted.length ? sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] : 0;
}
export const median = (values) => percentile(values, 0.5);

// How well a threshold on the values tells `low` from `high`: 0.5 is not at all, 1 is always.
export function areaUnderCurve(low, high) {
    const all = [...low.map((value) => ({ value, high: 0 })), ...high.map((value) => ({ value, high: 1 }))].sort((a, b) => a.value - b.value);
    let ranks = 0;
    for (let i = 0; i < all.length; ) {
        let end = i;
        while (end < all.length && all[end].value === all[i].value) end++;
        for (let k = i; k < end; k++) ranks += all[k].high ? (i + end + 1) / 2 : 0;
        i = end;
    }
    return (ranks - (high.length * (high.length + 1)) / 2) / (low.length * high.length);
}

// A row of small numbers that is the same every time.
export function randomNumbers(seed) {
    let state = seed >>> 0 || 1;
    return (below) => {
        state ^= state << 13;
        state ^= state >>> 17;
        state ^= state << 5;
        state >>>= 0;
        return state % below;
    };
}

// ---- what the system says about the server ----

export function residentBytes(pid) {
    return Number(readFileSync(`/proc/${pid}/status`, "utf8").match(/VmRSS:\s+(\d+)/)[1]) * 1024;
}
export const descriptors = (pid) => readdirSync(`/proc/${pid}/fd`).length;
// Seconds of a core, from /proc; a tick is 10 ms.
export function cpuSeconds(pid) {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /, "").split(" ");
    return (Number(fields[11]) + Number(fields[12])) / 100;
}

// ---- requests as bytes ----

export const address = (server) => ({ host: new URL(server.url).hostname, port: Number(new URL(server.url).port) });

export function requestBytes(path, body, { method = body === undefined ? "GET" : "POST", headers = {}, key } = {}) {
    const text = body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body);
    const lines = [`${method} ${path} HTTP/1.1`, "host: localhost"];
    if (key) lines.push(`authorization: Bearer ${key}`);
    for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
    if (body !== undefined) lines.push("content-type: application/json", `content-length: ${Buffer.byteLength(text)}`);
    return `${lines.join("\r\n")}\r\n\r\n${text}`;
}

export function parseAnswer(text) {
    const end = text.indexOf("\r\n\r\n");
    const [line, ...rows] = text.slice(0, end < 0 ? text.length : end).split("\r\n");
    const headers = Object.fromEntries(rows.map((row) => [row.slice(0, row.indexOf(":")).toLowerCase(), row.slice(row.indexOf(":") + 1).trim()]));
    return { status: Number(line.split(" ")[1] ?? 0), headers, body: end < 0 ? "" : text.slice(end + 4) };
}

// A connection that gathers what comes. `open` resolves when connected, `ended` when the other side closed or broke off.
export class Wire {
    constructor(where) {
        this.text = "";
        this.began = now();
        this.socket = connect(where);
        this.socket.setNoDelay(true);
        this.open = new Promise((resolve, reject) => this.socket.once("connect", resolve).once("error", reject));
        this.open.catch(() => {});
        this.socket.on("error", (error) => (this.error = error));
        this.ended = new Promise((resolve) => this.socket.once("close", () => resolve((this.endedAt = now()))));
        this.socket.on("data", (bytes) => {
            this.firstAt ??= now();
            this.text += bytes.toString("latin1");
            this.onText?.();
        });
    }
    send(bytes) {
        this.sentAt = now();
        this.socket.write(bytes);
    }
    // Until the text has what is looked for, or the connection ended.
    until(pattern) {
        return new Promise((resolve) => {
            this.onText = () => pattern.test(this.text) && resolve(true);
            this.ended.then(() => resolve(pattern.test(this.text)));
            this.onText();
        });
    }
    answer() {
        return { ...parseAnswer(this.text), ms: (this.firstAt ?? now()) - this.sentAt };
    }
    close() {
        this.socket.destroy();
    }
    reset() {
        this.socket.resetAndDestroy();
    }
}

// One request on a connection of its own.
export async function ask(where, path, body, options = {}) {
    const wire = new Wire(where);
    wire.send(requestBytes(path, body, { ...options, headers: { connection: "close", ...options.headers } }));
    await wire.ended;
    return { ...wire.answer(), wire };
}

// ---- the server's own numbers ----

export async function metrics(server, key) {
    const { status, body } = await ask(address(server), "/metrics", undefined, { key });
    assert.equal(status, 200);
    const value = (name) => [...body.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)\r?$`, "gm"))].reduce((sum, found) => sum + Number(found[1]), 0);
    const blocks = value("ruvllm_kv_blocks_f16") + value("ruvllm_kv_blocks_q8") + value("ruvllm_kv_blocks_q4");
    return {
        running: value("ruvllm_requests_running"),
        waiting: value("ruvllm_requests_waiting"),
        calls: value("ruvllm_calls") - 1, // but this one
        blocks,
        held: blocks - value("ruvllm_kv_blocks_idle"),
        generated: value("ruvllm_generated_tokens_total"),
        value,
        text: body,
    };
}

// `n` workers that call `work(i)` for i = 0 .. count - 1.
export async function crowd(n, count, work) {
    let next = 0;
    await Promise.all(Array.from({ length: n }, async () => {
        while (next < count) await work(next++);
    }));
}
