// A stand-in for `ruvllm serve`, for the page's own tests only: it computes nothing. It serves the page's files under
// the Content-Security-Policy of the server and answers the routes the page uses with what a test puts into
// `behaviour`, so that the page can be shown what a healthy server seldom does: refusals, cuts, pauses, hostile text.
import { createServer } from "node:http";
import { readFileSync, readdirSync } from "node:fs";
import { extname, join } from "node:path";

const TYPES = { ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml" };

export const POLICY = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
].join("; ");

export const DEFAULTS = {
    answer: "The stub says **hello**.",
    pieceLength: 8, // characters in each event
    pauseMs: 0, // between events
    key: null, // wanted in Authorization
    failures: [], // {status, error, headers} for the next chat requests, one each
    cutAfter: -1, // events after which the connection is broken
    endAfter: -1, // events after which the stream ends as if it were complete
    errorAfter: -1, // events after which an error event ends the stream
    keepsSessions: true,
    context: 4096,
    learns: false,
    keepsLog: true, // of feedback
    spools: false, // what is said waits for the database, and has no number yet
};

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function filesOf(folder) {
    const files = new Map();
    for (const name of readdirSync(folder)) files.set(`/page/${name}`, readFileSync(join(folder, name)));
    files.set("/", files.get("/page/index.html"));
    return files;
}

function bodyOf(request) {
    return new Promise((resolve) => {
        let text = "";
        request.setEncoding("utf8");
        request.on("data", (piece) => (text += piece));
        request.on("end", () => resolve(text));
    });
}

class Stub {
    constructor(folder) {
        this.folder = folder;
        this.files = filesOf(folder);
        this.reset();
        this.server = createServer((request, response) => this.serve(request, response));
    }

    reset(behaviour = {}) {
        this.behaviour = { ...DEFAULTS, ...behaviour, failures: [...(behaviour.failures ?? [])] };
        this.chats = []; // bodies of the chat requests
        this.sessions = new Map();
        this.n_aborted = 0;
        this.votes = []; // bodies of feedback and what else was asked of learning
        this.events = []; // of the log, oldest first
        this.paused = false;
    }

    json(response, status, value, headers = {}) {
        response.writeHead(status, { "Content-Type": "application/json", ...headers });
        response.end(JSON.stringify(value));
    }

    fail(response, status, message, more = {}, headers = {}) {
        this.json(
            response,
            status,
            { error: { message, type: "stub_error", param: null, code: null, ...more } },
            headers,
        );
    }

    async serve(request, response) {
        const path = new URL(request.url, "http://stub").pathname;
        if (!path.startsWith("/v1/")) return this.serveFile(path, response);
        if (this.behaviour.key && request.headers.authorization !== `Bearer ${this.behaviour.key}`)
            return this.fail(response, 401, "a key is needed");
        if (path === "/v1/models") return this.serveModels(response);
        if (path.startsWith("/v1/sessions"))
            return this.serveSessions(request.method, path.slice("/v1/sessions".length), response);
        if (path === "/v1/chat/completions") return this.serveChat(JSON.parse(await bodyOf(request)), response);
        if (path === "/v1/feedback") return this.serveFeedback(JSON.parse(await bodyOf(request)), response);
        if (path.startsWith("/v1/learning")) return this.serveLearning(request, response);
        return this.fail(response, 404, "no such route");
    }

    /* A new event of the log, of which `more` is known. */
    addEvent(more) {
        const sequence = this.events.length + 1;
        const unknown = { score: null, advantage: null, kl: null, gain: null };
        const texts = { prompt: null, answer: null, correction: null, reason: null };
        const created = 1763200000 + 60 * sequence;
        this.events.push({
            ...{ object: "learning.event", sequence, generation: sequence, about: sequence - 1, created },
            ...{ forgotten: false, ...unknown, ...texts, ...more },
        });
        return sequence;
    }

    serveFeedback(body, response) {
        if (!this.behaviour.learns) return this.fail(response, 501, "this server does not learn");
        if (this.paused) return this.fail(response, 409, "learning is paused for this tenant");
        if (body.response_id?.endsWith("gone")) return this.fail(response, 404, "the answer is too old to learn from");
        this.votes.push(body);
        const { score = 1, correction } = body;
        const sequence = this.addEvent({
            ...{ kind: correction ? "correction" : "vote", score, advantage: score * 2 - 1, correction },
            ...{ gain: 0.16 / (1 + this.events.length / 4), kl: 0.012 / (1 + this.events.length / 4) },
        });
        const result = { object: "feedback", generation: sequence };
        const hasNumber = this.behaviour.keepsLog && !this.behaviour.spools;
        this.json(response, 200, { ...result, sequence: hasNumber ? sequence : 0 });
    }

    async serveLearning(request, response) {
        const { pathname, searchParams } = new URL(request.url, "http://stub");
        const what = pathname.slice("/v1/learning".length + 1);
        if (what === "") return this.serveLearned(response);
        if (!this.behaviour.learns) return this.fail(response, 501, "this server does not learn");
        if (what === "history") return this.serveHistory(searchParams, response);
        if (what === "export") {
            response.writeHead(200, { "Content-Type": "application/octet-stream" });
            return response.end("GGUF of the stub");
        }
        const body = JSON.parse(await bodyOf(request));
        this.votes.push({ ...body, what });
        if (what === "pause" || what === "resume") this.paused = what === "pause";
        if (what === "rollback") this.addEvent({ kind: "rollback", about: body.generation });
        if (what === "forget") {
            const event = this.events[body.event - 1];
            if (!event || event.forgotten) return this.fail(response, 404, "there is no such event");
            Object.assign(event, { forgotten: true, generation: null, gain: null, kl: null, correction: null });
        }
        this.json(response, 200, { object: `learning.${what}`, generation: this.events.length });
    }

    serveLearned(response) {
        const votes = this.events.filter(({ kind, forgotten }) => kind === "vote" && !forgotten);
        const data = ["stub-small", "stub-large"].map((model) => ({
            ...{ object: "learning", model, learning: this.behaviour.learns, generation: this.events.length },
            ...{ votes: votes.length, mean_score: 0.5, oldest_generation: Math.max(1, this.events.length - 31) },
            ...{ spent_kl: votes.reduce((sum, { kl }) => sum + kl, 0), paused: this.paused, votes_held_back: this.behaviour.heldBack ?? 0 },
        }));
        this.json(response, 200, { object: "list", data });
    }

    serveHistory(query, response) {
        if (!this.behaviour.keepsLog) return this.fail(response, 501, "without a store there is no log");
        const before = Number(query.get("before") ?? Infinity);
        const older = this.events.filter(({ sequence }) => sequence < before).reverse();
        const data = older.slice(0, Number(query.get("limit")));
        const next = data.length < older.length ? data.at(-1).sequence : null;
        this.json(response, 200, { object: "list", model: query.get("model"), data, has_more: next !== null, next });
    }

    serveFile(path, response) {
        const content = this.files.get(path);
        response.setHeader("Content-Security-Policy", POLICY);
        if (!content) return this.fail(response, 404, "no such file");
        response.writeHead(200, {
            "Content-Type": TYPES[extname(path) || ".html"],
            "X-Content-Type-Options": "nosniff",
        });
        response.end(content);
    }

    serveModels(response) {
        const model = (id) => ({
            id,
            object: "model",
            created: 0,
            owned_by: "stub",
            loaded: true,
            chat_template: id !== "stub-text",
            context: this.behaviour.context,
            learning: this.behaviour.learns,
        });
        this.json(response, 200, {
            object: "list",
            data: [model("stub-text"), model("stub-small"), model("stub-large")],
        });
    }

    serveSessions(method, id, response) {
        if (!this.behaviour.keepsSessions) return this.fail(response, 404, "no such route");
        if (id === "") {
            const data = [...this.sessions.values()].map(({ messages, ...session }) => session);
            return this.json(response, 200, { object: "list", data });
        }
        const session = this.sessions.get(decodeURIComponent(id.slice(1)));
        if (!session) return this.fail(response, 404, "no such session");
        if (method === "DELETE") this.sessions.delete(session.id);
        this.json(response, 200, session);
    }

    async serveChat(body, response) {
        this.chats.push(body);
        const failure = this.behaviour.failures.shift();
        if (failure)
            return this.fail(response, failure.status, failure.message ?? "refused", failure.error, failure.headers);
        response.on("close", () => response.writableFinished || this.n_aborted++);
        response.writeHead(200, { "Content-Type": "text/event-stream" });
        const text = await this.stream(body, response);
        if (text !== null && body.session) this.keep(body, text);
    }

    keep(body, text) {
        const now = Math.floor(Date.now() / 1000);
        const messages = [...body.messages, { role: "assistant", content: text }];
        const title = messages.find((message) => message.role === "user").content.slice(0, 80);
        const session = {
            id: body.session,
            object: "session",
            created: now,
            updated: now,
            model: body.model,
            title,
            messages,
        };
        this.sessions.set(body.session, session);
    }

    /* Resolves to the text when all of it was sent. */
    async stream(body, response) {
        const { answer, pieceLength, pauseMs, cutAfter, endAfter, errorAfter } = this.behaviour;
        const text = typeof answer === "function" ? answer(body) : answer;
        const pieces = text.match(new RegExp(`[^]{1,${pieceLength}}`, "gu")) ?? [];
        const send = (value) =>
            response.write(
                `data: ${JSON.stringify({ id: `chatcmpl-${this.chats.length}`, object: "chat.completion.chunk", model: body.model, ...value })}\n\n`,
            );
        send({ choices: [{ index: 0, delta: { role: "assistant", content: "" } }] });
        response.write(": ping\n\n");
        for (const [i, content] of pieces.entries()) {
            if (i === cutAfter) return (await sleep(100), response.destroy(), null); // what was sent must arrive first
            if (i === endAfter) return (response.end(), null);
            if (i === errorAfter)
                return (
                    response.end(
                        `data: ${JSON.stringify({ error: { message: "the model fell over", type: "server_error" } })}\n\n`,
                    ),
                    null
                );
            if (response.destroyed) return null;
            send({ choices: [{ index: 0, delta: { content } }] });
            if (pauseMs) await sleep(pauseMs);
        }
        const usage = { prompt_tokens: 10 * body.messages.length, completion_tokens: pieces.length, total_tokens: 0 };
        send({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
        send({ choices: [], usage });
        response.end("data: [DONE]\n\n");
        return text;
    }

    listen(port = 0) {
        return new Promise((resolve) =>
            this.server.listen(port, "127.0.0.1", () => {
                this.port = this.server.address().port;
                this.url = `http://127.0.0.1:${this.port}/`;
                resolve();
            }),
        );
    }

    close() {
        this.server.closeAllConnections();
        return new Promise((resolve) => this.server.close(resolve));
    }
}

export async function startStub(folder) {
    const stub = new Stub(folder);
    await stub.listen();
    return stub;
}
