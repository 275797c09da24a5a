/*
 * The server, as the page sees it: one function a route. Every failure is an ApiError with a sentence for the user and
 * a hint what to do; nobody above looks at statuses or bodies.
 */
import { readKey } from "./store.js";

export class ApiError extends Error {
    /* kind: gone, key, forbidden, busy, context, model, refused, server, cut */
    constructor(kind, message, hint, more = {}) {
        super(message);
        this.kind = kind;
        this.hint = hint;
        this.status = more.status ?? 0; // of HTTP; 0 when there was none
        this.retryAfter = more.retryAfter ?? 0; // seconds
        this.detail = more.detail ?? ""; // what the server said, word for word
    }
}

const gone = () =>
    new ApiError(
        "gone",
        "The server does not answer.",
        "Check that ruvllm serve is running and that this address is right, then try again.",
    );

const BY_STATUS = {
    401: ["key", "The server asks for a key.", "Enter a key made with ruvllm key create."],
    403: ["forbidden", "The server does not allow this.", "Use another key, or do as the server says."],
    404: ["model", "The server does not have what was asked for.", "Choose another model at the top of the page."],
    413: ["context", "The request is larger than the server takes.", "Shorten the message or start a new chat."],
    429: ["busy", "The server has too much to do right now.", "Wait for the countdown, then try again."],
    501: ["refused", "The server cannot do this with this model.", "Choose another model at the top of the page."],
};

/* Seconds, or an HTTP date as the header also allows. */
function secondsOf(header) {
    const seconds = /^\d+$/.test(header ?? "") ? Number(header) : (Date.parse(header ?? "") - Date.now()) / 1000;
    return Number.isFinite(seconds) && seconds > 0 ? Math.min(Math.ceil(seconds), 3600) : 0;
}

function errorFrom(status, error, retryAfter) {
    const detail = typeof error?.message === "string" ? error.message : "";
    const more = { status, detail, retryAfter };
    if (error?.code === "context_length_exceeded")
        return new ApiError(
            "context",
            "The conversation does not fit into the model’s context.",
            "Start a new chat, edit an earlier message to go on from there, or lower the maximum of tokens.",
            more,
        );
    if (BY_STATUS[status]) return new ApiError(...BY_STATUS[status], more);
    if (status >= 500)
        return new ApiError(
            status === 503 ? "busy" : "server",
            "The server could not do it.",
            "Try again; if it stays so, the server’s log tells more.",
            more,
        );
    return new ApiError("refused", "The server refused the request.", "Check the settings, then try again.", more);
}

async function failure(response) {
    let body = null;
    try {
        body = await response.json();
    } catch {
        /* not JSON, so not from our server: a proxy's page says nothing a user could use */
    }
    return errorFrom(response.status, body?.error, secondsOf(response.headers.get("Retry-After")));
}

async function request(method, path, { body, signal } = {}) {
    const headers = {};
    const key = readKey();
    if (key !== null) headers.Authorization = `Bearer ${key}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let response;
    try {
        response = await fetch(path, {
            method,
            headers,
            signal,
            cache: "no-store",
            credentials: "omit",
            redirect: "error",
            body: body === undefined ? undefined : JSON.stringify(body),
        });
    } catch (error) {
        throw error.name === "AbortError" ? error : gone();
    }
    if (!response.ok) throw await failure(response);
    return response;
}

async function requestJson(method, path, options) {
    const response = await request(method, path, options);
    try {
        return await response.json();
    } catch {
        throw new ApiError(
            "server",
            "The server’s answer cannot be read.",
            "Check that this address is a ruvllm server.",
        );
    }
}

/*
 * Models as {id, context, canChat, learns}; context is the number of tokens a model takes, or null while the server has not
 * loaded it. A model without a chat template cannot chat.
 */
export async function listModels() {
    const list = await requestJson("GET", "/v1/models");
    return (list.data ?? []).map((model) => ({
        id: model.id,
        context: model.context ?? null,
        canChat: model.chat_template !== false,
        learns: model.learning === true,
    }));
}

/* ---- learning ---- */

/* A score of 0 or 1 for an answer. Resolves to what came of it once that is kept: {generation, sequence, ...}. */
export const vote = (id, score) => requestJson("POST", "/v1/feedback", { body: { response_id: id, score } });

/* What the answer should have been; resolves as a vote does. */
export const correct = (id, correction) =>
    requestJson("POST", "/v1/feedback", { body: { response_id: id, correction } });

/* The model answers again as it did with this generation of what it learned; 0: as it came. */
export const goBack = (model, generation) =>
    requestJson("POST", "/v1/learning/rollback", { body: { model, generation } });

/* Answers are from now on as if this piece of feedback had never been given. */
export const forget = (model, event) => requestJson("POST", "/v1/learning/forget", { body: { model, event } });

export const setPaused = (model, paused) =>
    requestJson("POST", `/v1/learning/${paused ? "pause" : "resume"}`, { body: { model } });

/* What a model has learned for this key, as the server says it; null when the model is not loaded or does not learn. */
export async function learned(model) {
    const list = await requestJson("GET", "/v1/learning");
    return (list.data ?? []).find((each) => each.model === model && each.learning) ?? null;
}

/* A page of what was said and what came of it, {data, next}, newest first; null: this server keeps no log. */
export function learnedEvents(model, before) {
    const query = new URLSearchParams({ model, limit: "50", ...(before ? { before } : {}) });
    return orNull(requestJson("GET", `/v1/learning/history?${query}`));
}

/* What was learned as a file. */
export async function exportLearned(model) {
    const response = await request("GET", `/v1/learning/export?${new URLSearchParams({ model })}`);
    return response.blob();
}

const isMissing = (error) => error.status === 404 || error.status === 501;

/* null instead of the failure that says the server has no such thing. */
async function orNull(promise) {
    try {
        return await promise;
    } catch (error) {
        if (isMissing(error)) return null;
        throw error;
    }
}

/* Conversations on the server as {id, title, model, updated}, or null when this server keeps none. */
export async function listSessions() {
    const list = await orNull(requestJson("GET", "/v1/sessions"));
    return list && (list.data ?? []).map(sessionFrom);
}

/* One conversation with its messages, or null when the server does not have it or not its words. */
export async function readSession(id) {
    const session = await orNull(requestJson("GET", `/v1/sessions/${encodeURIComponent(id)}`));
    return session && Array.isArray(session.messages) ? { ...sessionFrom(session), messages: session.messages } : null;
}

/* The server counts time in seconds. */
function sessionFrom({ id, title, model, created, updated }) {
    return { id, title: title ?? "", model, updated: (updated ?? created ?? 0) * 1000 };
}

/* One that is not there is as good as deleted. */
export const deleteSession = (id) => orNull(request("DELETE", `/v1/sessions/${encodeURIComponent(id)}`));

/* ---- streaming ---- */

/*
 * Cuts a stream of bytes into events and yields the data of each. Lines may end in any of the three ways and be cut
 * anywhere, also within a character; lines that begin with a colon are pings.
 */
export async function* eventsOf(stream) {
    const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let data = [];
    try {
        for (;;) {
            const { value, done } = await reader.read();
            if (done) return;
            rest += value;
            const lines = rest.split(/\r\n|\n|\r(?!$)/);
            rest = lines.pop();
            for (const line of lines) {
                if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
                else if (line === "" && data.length) {
                    yield data.join("\n");
                    data = [];
                }
            }
        }
    } finally {
        reader.read().catch(() => {}); // who stops early would leave the end unread and hold the connection
    }
}

/*
 * Sends a chat request and calls onText(piece) as the answer comes. Returns {id, finish, usage, model, firstMs, totalMs,
 * textMs}: finish and usage as the server gave them, firstMs to the first piece, textMs between the first and the
 * last, both null when nothing came. A stream that ends before it says it is finished is an error of kind `cut`.
 */
export async function streamChat(body, { signal, onText }) {
    const began = performance.now();
    const result = { id: null, finish: null, usage: null, model: body.model, firstMs: null, textMs: null, totalMs: 0 };
    const response = await request("POST", "/v1/chat/completions", {
        signal,
        body: { ...body, stream: true, stream_options: { include_usage: true } },
    });
    try {
        for await (const data of eventsOf(response.body)) {
            if (data === "[DONE]") break;
            takeChunk(JSON.parse(data), result, performance.now() - began, onText);
        }
    } catch (error) {
        if (error instanceof ApiError || error.name === "AbortError") throw error;
        throw cut(); // the connection broke, or what came was no JSON
    }
    if (result.finish === null) throw cut();
    result.totalMs = performance.now() - began;
    return result;
}

const cut = () =>
    new ApiError(
        "cut",
        "The connection ended before the answer did.",
        "What came so far is kept. Check that the server is running, then regenerate the answer.",
    );

/* An error in the middle of a stream has no status of its own. */
const STATUS_OF_TYPE = { authentication_error: 401, invalid_request_error: 400, rate_limit_error: 429 };

function takeChunk(chunk, result, now, onText) {
    if (chunk.error) throw errorFrom(STATUS_OF_TYPE[chunk.error.type] ?? 500, chunk.error, 0);
    if (chunk.id) result.id = chunk.id;
    if (chunk.usage) result.usage = chunk.usage;
    if (chunk.model) result.model = chunk.model;
    const choice = chunk.choices?.[0];
    if (choice?.finish_reason) result.finish = choice.finish_reason;
    const text = choice?.delta?.content;
    if (!text) return;
    result.firstMs ??= now;
    result.textMs = now - result.firstMs;
    onText(text, result.firstMs);
}
