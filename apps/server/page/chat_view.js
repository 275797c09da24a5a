/*
 * The conversation on the screen: messages, their buttons, the error below them. It changes nothing but nodes: what a
 * button does is in the `actions` it is given (regenerate(), edit(index, text), and those of votes.js).
 */
import { MarkdownView } from "./markdown.js";
import { VoteBar } from "./votes.js";
import { byId, copyFrom, el, icon, iconButton } from "./dom.js";

const FINISH_NOTES = {
    length: "Ended at the limit of tokens",
    stopped: "Stopped",
    cut: "Cut off",
    content_filter: "Ended by a filter",
};

const NEAR_END = 64; // pixels from the bottom within which the view follows new text

export class ChatView {
    constructor(actions) {
        this.actions = actions;
        this.scroller = byId("scroller");
        this.list = byId("messages");
        this.notice = byId("notice");
        this.jump = byId("jump");
        this.views = []; // {item, markdown, stats} for each message
        this.frame = 0;
        this.follows = true;
        this.scroller.addEventListener("scroll", () => this.noteScroll(), { passive: true });
        this.jump.addEventListener("click", () => this.scrollToEnd());
    }

    /* ---- all of it ---- */

    show(messages) {
        cancelAnimationFrame(this.frame);
        this.frame = 0;
        this.clearNotice();
        this.views = [];
        this.list.replaceChildren();
        messages.forEach((message) => this.add(message));
        this.noteCount();
        this.scrollToEnd();
    }

    noteCount() {
        byId("welcome").hidden = this.views.length > 0;
        const lastAnswer = this.views.at(-1);
        for (const view of this.views) view.item.classList.toggle("last", view === lastAnswer);
    }

    truncate(count) {
        for (const view of this.views.splice(count)) view.item.remove();
        this.noteCount();
    }

    /* While an answer comes, buttons that would change the conversation are hidden. */
    setBusy(busy) {
        document.body.classList.toggle("busy", busy);
        this.list.setAttribute("aria-busy", String(busy));
    }

    /* ---- one message ---- */

    add(message) {
        const index = this.views.length;
        const view = message.role === "user" ? this.userView(message, index) : this.answerView(message);
        this.views.push(view);
        this.list.append(view.item);
        this.noteCount();
        if (this.follows) this.scrollToEnd();
    }

    userView(message, index) {
        const body = el("div", { class: "body plain", text: message.content });
        const item = el("li", { class: "message user" }, el("h2", { class: "sr-only", text: "You" }), body);
        item.append(
            el(
                "div",
                { class: "tools" },
                this.copyButton(() => message.content),
                iconButton("edit", "Edit and send again", () => this.startEdit(item, body, message, index), {
                    class: "icon-button changes",
                }),
            ),
        );
        return { item };
    }

    answerView(message) {
        const body = el("div", { class: "body prose" });
        const stats = el("span", { class: "stats" });
        const votes = new VoteBar(this.actions, {
            correct: () => this.startCorrection(view),
            changed: () => this.showWords(view),
        });
        const view = { body, stats, votes, message, markdown: new MarkdownView(body), text: message.content };
        view.item = el(
            "li",
            { class: "message answer" },
            el("h2", { class: "who", text: message.model || "Answer" }),
            body,
            el(
                "div",
                { class: "tools" },
                this.copyButton(() => view.text),
                iconButton("redo", "Regenerate this answer", () => this.actions.regenerate(), {
                    class: "icon-button changes only-last",
                }),
                votes.node,
                stats,
            ),
        );
        view.markdown.update(message.content);
        this.showStats(view, message);
        votes.show(message);
        return view;
    }

    /* The words of an answer were replaced by better ones, or came back. */
    showWords(view) {
        view.text = view.message.content;
        view.markdown.update(view.text);
    }

    copyButton(text) {
        return iconButton("copy", "Copy message", (event) => copyFrom(event.currentTarget, text()));
    }

    /* ---- the answer in the making ---- */

    startAnswer(message) {
        this.add(message);
        this.views.at(-1).item.classList.add("pending");
    }

    /* Takes the whole text so far; draws it at most once a frame. */
    growAnswer(text) {
        const view = this.views.at(-1);
        view.text = text;
        if (this.frame) return;
        this.frame = requestAnimationFrame(() => {
            this.frame = 0;
            this.draw(view);
        });
    }

    draw(view) {
        view.item.classList.toggle("pending", view.text === "");
        view.markdown.update(view.text);
        if (this.follows) this.scrollToEnd();
        else this.jump.hidden = false;
    }

    finishAnswer(message) {
        const view = this.views.at(-1);
        cancelAnimationFrame(this.frame); // frames do not come to a hidden page; the end is drawn at once
        this.frame = 0;
        view.text = message.content;
        this.draw(view);
        view.item.classList.remove("pending");
        this.showStats(view, message);
        view.votes.show(message);
    }

    /* Which models learn has changed. */
    showVotes() {
        for (const { votes, message } of this.views) votes?.show(message);
    }

    showStats(view, message) {
        const parts = [];
        if (FINISH_NOTES[message.finish]) parts.push(FINISH_NOTES[message.finish]);
        if (message.usage) parts.push(count(message.usage.completion_tokens, "token"));
        if (message.rate) parts.push(`${message.rate.toFixed(1)} tokens/s`);
        if (message.firstMs) parts.push(`first after ${duration(message.firstMs)}`);
        view.stats.textContent = parts.map((part) => part.replaceAll(" ", "\u00a0")).join(" · ");
        view.item.querySelector(".who").textContent = message.model || "Answer";
    }

    /* ---- editing ---- */

    startEdit(item, body, message, index) {
        this.openForm(item, body, message.content, {
            label: "Edit the message",
            hint: "What follows this message is replaced.",
            button: "Send",
            save: (text) => this.actions.edit(index, text),
            focus: () => item.querySelector(".changes").focus(),
        });
    }

    startCorrection(view) {
        this.openForm(view.item, view.body, view.message.content, {
            label: "What the answer should have been",
            hint: "Write what the answer should have been. It is learned from.",
            button: "Teach this",
            save: (text) => text !== view.message.content.trim() && view.votes.correct(text),
            focus: () => view.votes.pencil.focus(),
        });
    }

    /* A field with a text in the place of `body`; save(text) gets what was made of it. */
    openForm(item, body, content, { label, hint, button, save: take, focus }) {
        const area = el("textarea", { class: "edit", "aria-label": label, rows: Math.min(12, content.split("\n").length + 1) });
        const end = () => {
            form.remove();
            item.classList.remove("editing");
            focus();
        };
        const save = () => {
            const text = area.value.trim();
            if (text === "") return area.focus();
            end();
            take(text);
        };
        const form = el(
            "div",
            { class: "edit-form" },
            area,
            el(
                "div",
                { class: "row" },
                el("span", { class: "hint", text: hint }),
                el("button", { type: "button", class: "button", onclick: end, text: "Cancel" }),
                el("button", { type: "button", class: "button primary", onclick: save, text: button }),
            ),
        );
        area.value = content;
        area.addEventListener("keydown", (event) => {
            if (event.key === "Escape") end();
            else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) save();
            else return;
            event.preventDefault();
            event.stopPropagation();
        });
        item.classList.add("editing");
        body.after(form);
        area.focus();
    }

    /* ---- errors ---- */

    clearNotice() {
        clearInterval(this.countdown);
        this.notice.replaceChildren();
        this.notice.hidden = true;
    }

    /*
     * Shows what went wrong and what to do. `retry`, when given, gets a button, which a busy server keeps shut for a
     * while.
     */
    showError(error, retry) {
        this.clearNotice();
        const button =
            retry &&
            el("button", {
                type: "button",
                class: "button",
                text: "Try again",
                onclick: () => {
                    this.clearNotice();
                    retry();
                },
            });
        this.notice.append(
            icon("alert"),
            el(
                "div",
                {},
                el("p", {}, el("strong", { text: error.message }), " ", error.hint),
                error.detail ? el("p", { class: "detail", text: `The server says: ${error.detail}` }) : null,
                button ? el("p", {}, button) : null,
            ),
        );
        this.notice.hidden = false;
        if (button && error.retryAfter > 0) this.countDown(button, error.retryAfter);
        if (this.follows) this.scrollToEnd();
    }

    countDown(button, seconds) {
        const until = Date.now() + seconds * 1000;
        const tick = () => {
            const left = Math.ceil((until - Date.now()) / 1000);
            button.disabled = left > 0;
            button.textContent = left > 0 ? `Try again in ${left} s` : "Try again";
            if (left <= 0) clearInterval(this.countdown);
        };
        this.countdown = setInterval(tick, 250);
        tick();
    }

    /* ---- scrolling: follow the end unless the reader has gone up ---- */

    noteScroll() {
        const { scrollTop, scrollHeight, clientHeight } = this.scroller;
        this.follows = scrollHeight - scrollTop - clientHeight < NEAR_END;
        if (this.follows) this.jump.hidden = true;
    }

    scrollToEnd() {
        this.follows = true;
        this.jump.hidden = true;
        this.scroller.scrollTop = this.scroller.scrollHeight;
    }
}

const count = (n, what) => `${n.toLocaleString()} ${what}${n === 1 ? "" : "s"}`;

export const duration = (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);
