/*
 * One conversation and the answer that may be coming: send, stop, regenerate, edit. It owns the session's messages;
 * whoever made it saves and draws in the hooks:
 *
 *     body(session)          the fields of a request besides messages
 *     started(answer), grown(answer), finished(answer), failed(error), truncated(count), added(message), changed()
 *     askKey()               a promise: true when the user gave a key
 */
import { streamChat } from "./api.js";

export class Conversation {
    constructor(session, hooks) {
        this.session = session;
        this.hooks = hooks;
        this.abort = null; // an AbortController while an answer is coming
        this.done = Promise.resolve();
    }

    get isBusy() {
        return this.abort !== null;
    }

    get messages() {
        return this.session.messages;
    }

    send(text) {
        const message = { role: "user", content: text };
        this.messages.push(message);
        if (this.session.title === "") this.session.title = titleOf(text);
        this.hooks.added(message);
        return this.answer();
    }

    /* Asks again for the last answer. */
    regenerate() {
        while (this.messages.at(-1)?.role === "assistant") this.messages.pop();
        this.hooks.truncated(this.messages.length);
        return this.answer();
    }

    /* Goes on from the user's message at `index`, in other words. */
    edit(index, text) {
        this.messages.length = index;
        this.hooks.truncated(index);
        return this.send(text);
    }

    /* Resolves when what came so far is in its place. */
    stop() {
        this.abort?.abort();
        return this.done;
    }

    answer() {
        if (this.isBusy || this.messages.at(-1)?.role !== "user") return this.done;
        this.abort = new AbortController();
        this.done = this.run();
        return this.done;
    }

    async run() {
        const { session, hooks } = this;
        const fields = hooks.body(session);
        const answer = { role: "assistant", content: "", model: fields.model };
        const messages = this.requestMessages();
        let failure = null;
        session.updated = Date.now();
        this.messages.push(answer);
        hooks.started(answer);
        try {
            const result = await streamChat(
                { ...fields, messages },
                {
                    signal: this.abort.signal,
                    onText: (piece, firstMs) => {
                        answer.content += piece;
                        answer.firstMs = firstMs;
                        hooks.grown(answer);
                    },
                },
            );
            takeResult(answer, result);
        } catch (error) {
            failure = error;
            answer.finish = error.name === "AbortError" ? "stopped" : "cut";
        }
        this.abort = null;
        session.updated = Date.now();
        this.settle(answer, failure);
        if (failure?.kind === "key" && (await hooks.askKey())) await this.regenerate();
        else if (failure && failure.name !== "AbortError") hooks.failed(failure);
    }

    /* What came is kept, also of an answer that was stopped or cut; an answer without a word is not an answer. */
    settle(answer, failure) {
        if (failure && answer.content === "") {
            this.messages.pop();
            this.hooks.truncated(this.messages.length);
        }
        this.hooks.finished(answer);
        this.hooks.changed();
    }

    requestMessages() {
        const messages = this.messages.map(({ role, content }) => ({ role, content }));
        return this.session.system ? [{ role: "system", content: this.session.system }, ...messages] : messages;
    }
}

/* Text that arrives within a few milliseconds came in one packet, which says nothing about the model's speed. */
const MIN_MEASURED_MS = 50;

/* Speed is measured, or absent: tokens after the first by the time between the first piece of text and the last. */
function takeResult(answer, result) {
    answer.finish = result.finish;
    answer.id = result.id;
    answer.model = result.model;
    answer.totalMs = Math.round(result.totalMs);
    if (!result.usage) return;
    answer.usage = result.usage;
    if (result.usage.completion_tokens > 1 && result.textMs >= MIN_MEASURED_MS)
        answer.rate = (result.usage.completion_tokens - 1) / (result.textMs / 1000);
}

/* The first line of what was asked, at most 60 characters, cut between words where that is possible. */
export function titleOf(text) {
    const line = text.trim().split("\n", 1)[0].replace(/\s+/g, " ");
    if (line.length <= 60) return line;
    const space = line.lastIndexOf(" ", 59);
    return `${line.slice(0, space > 30 ? space : 59)}…`;
}

/* Tokens in the context after the last answer, or null when the server has not said. */
export function contextUsed(session) {
    const last = session.messages.at(-1);
    return last?.usage ? last.usage.prompt_tokens + last.usage.completion_tokens : null;
}
