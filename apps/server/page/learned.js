/*
 * The panel of what was learned: where the model stands, a chart, a timeline of what was said and what came of it, and
 * the ways to pause, take along, go back and forget. It asks the server anew after everything it does, so that it shows
 * what is so and not what was meant. hooks: model(): the one that is chosen; forgotten(model, event).
 */
import * as api from "./api.js";
import { drawChart, isWayBack, short } from "./chart.js";
import { byId, el, icon } from "./dom.js";
import { download } from "./export.js";
import { closeOnBackdrop, confirmThat } from "./settings.js";

const backTo = ({ about }) => (about === 0 ? "Back to the model as it came" : `Back to generation ${about}`);

const KINDS = {
    vote: ({ score }) => (score === 1 ? "Good answer" : score === 0 ? "Bad answer" : `Scored ${short(score)}`),
    correction: () => "Corrected",
    pair: () => "Preferred another answer",
    tick: () => "Consolidated",
    gate: (event) => (isWayBack(event) ? backTo(event) : "Consolidated, and left as it was"),
    rollback: backTo,
    deep: () => "Trained",
};

const ICONS = { correction: "correct", pair: "correct", tick: "tick", gate: "alert", rollback: "back", deep: "learned" };
const iconOf = ({ kind, score }) => ICONS[kind] ?? (score >= 0.5 ? "good" : "bad");

const isFeedback = ({ kind }) => kind === "vote" || kind === "correction" || kind === "pair";

/* What a training run came to, which the log has as JSON; any other reason as it is. */
export function reasonOf({ kind, reason }) {
    if (kind !== "deep" || !reason) return reason;
    try {
        const { held_out_before: from, held_out_after: to, forgetting, votes, corrections, pairs } = JSON.parse(reason);
        const count = (n, word) => (n ? `${n.toLocaleString()} ${word}${n === 1 ? "" : "s"}` : null);
        const said = [count(votes, "vote"), count(corrections, "correction"), count(pairs, "pair")].filter(Boolean).join(", ");
        return `on ${said}: held-out feedback ${short(from)} → ${short(to)} nats a token, forgotten ${short(100 * forgetting)} %`;
    } catch {
        return reason;
    }
}

const time = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/* Marks what a later way back has undone. `events` newest first. */
export function markUndone(events) {
    let kept = Infinity; // what is newer than this was undone
    for (const event of events) {
        if (event.generation === null) continue;
        event.undone = event.generation > kept;
        if (!event.undone && isWayBack(event)) kept = event.about;
    }
}

export class LearnedPanel {
    constructor(hooks) {
        this.hooks = hooks;
        this.dialog = byId("learned");
        this.button = byId("learned-open");
        this.events = [];
        this.next = null;
        closeOnBackdrop(this.dialog);
        this.button.addEventListener("click", () => this.open());
        byId("learned-close").addEventListener("click", () => this.dialog.close());
        byId("learned-pause").addEventListener("click", () =>
            this.change(() => api.setPaused(this.model, !this.state.paused)),
        );
        byId("learned-reset").addEventListener("click", () => this.change(() => api.goBack(this.model, 0)));
        byId("learned-export").addEventListener("click", () => this.run(() => this.save()));
        byId("learned-more").addEventListener("click", () => this.run(() => this.readMore()));
    }

    /* Whether there is something to show at all. */
    offer(learns) {
        this.button.hidden = !learns;
    }

    async open() {
        this.model = this.hooks.model();
        byId("learned-model").textContent = this.model;
        this.dialog.showModal();
        await this.run(() => this.read());
    }

    async read() {
        const [state, page] = await Promise.all([api.learned(this.model), api.learnedEvents(this.model)]);
        this.state = state;
        this.hasLog = page !== null;
        this.events = page?.data ?? [];
        this.next = page?.next ?? null;
        this.draw();
    }

    async readMore() {
        const page = await api.learnedEvents(this.model, this.next);
        this.events.push(...(page?.data ?? []));
        this.next = page?.next ?? null;
        this.draw();
    }

    /* ---- actions ---- */

    change(work) {
        return this.run(async () => {
            await work();
            await this.read();
        });
    }

    async forget(event) {
        const agreed = await confirmThat({
            title: "Forget this?",
            text: "What you said here, and what it did, is removed from the server. This cannot be undone.",
            yes: "Forget it",
        });
        if (!agreed) return;
        await this.change(async () => {
            await api.forget(this.model, event.sequence);
            this.hooks.forgotten(this.model, event.sequence);
        });
    }

    async save() {
        const file = await api.exportLearned(this.model);
        download(`${this.model.replace(/[^A-Za-z0-9._-]+/g, "-")}-learned.gguf`, "application/octet-stream", file);
    }

    /* Trouble is told in the panel; the buttons wait meanwhile. */
    async run(work) {
        const trouble = byId("learned-trouble");
        trouble.hidden = true;
        this.dialog.classList.add("busy");
        try {
            await work();
        } catch (error) {
            trouble.textContent = error.detail || error.message;
            trouble.hidden = false;
        }
        this.dialog.classList.remove("busy");
    }

    /* ---- drawing ---- */

    draw() {
        markUndone(this.events);
        this.drawFacts();
        this.drawBudget();
        this.drawChart();
        const none = !this.hasLog
            ? "This server keeps no log: what was learned ends with it."
            : this.events.length === 0
              ? "Nothing yet. Vote on an answer, or correct one with the pencil."
              : "";
        byId("learned-none").textContent = none;
        byId("learned-none").hidden = none === "";
        byId("learned-events").replaceChildren(...this.events.map((event) => this.item(event)));
        byId("learned-more").hidden = this.next === null;
    }

    drawFacts() {
        const { generation = 0, votes = 0, lessons = 0, mean_score: mean, spent_kl: moved, paused } = this.state ?? {};
        const heldBack = this.state?.votes_held_back ?? 0;
        byId("learned-held-back").hidden = heldBack === 0;
        byId("learned-held-back").textContent =
            `Votes became all alike: the next ${heldBack.toLocaleString()} teach nothing. Going back to any generation ends that.`;
        const fact = (name, value) => el("div", {}, el("dt", { text: name }), el("dd", { text: value }));
        byId("learned-facts").replaceChildren(
            fact("Generation", generation.toLocaleString()),
            fact("Feedback", (votes + lessons).toLocaleString()),
            fact("Mean score", votes && mean !== null ? `${Math.round(mean * 100)} %` : "–"),
            fact("Moved in all", moved ? short(moved) : "0"),
        );
        byId("learned-pause").replaceChildren(icon(paused ? "play" : "pause"), paused ? "Go on learning" : "Pause");
        byId("learned-pause").disabled = this.state === null;
        byId("learned-export").disabled = byId("learned-reset").disabled = votes + lessons === 0;
    }

    /* How much of what may be changed is used up, where the server says it. */
    drawBudget() {
        const { anchor_kl: used, kl_budget: budget } = this.state ?? {};
        const known = typeof used === "number" && typeof budget === "number" && budget > 0;
        byId("learned-budget").hidden = !known;
        if (!known) return;
        const meter = byId("learned-meter");
        meter.max = budget;
        meter.high = budget * 0.85;
        meter.value = Math.min(used, budget);
        byId("learned-budget-text").textContent =
            `${short(used)} of ${short(budget)} nats a token on ordinary text; beyond that, what was learned is pulled back.`;
    }

    drawChart() {
        const chart = drawChart(this.events);
        const place = byId("learned-chart");
        const entry = (name, text) => el("span", { class: name }, el("i"), text);
        place.hidden = chart === null;
        if (chart === null) return place.replaceChildren();
        place.replaceChildren(
            chart,
            el(
                "p",
                { class: "legend" },
                entry("gained", "gained: the answer became likelier, or less likely, as you wanted"),
                entry("moved", "moved: what that may cost elsewhere"),
                el("span", { text: "in nats a token" }),
            ),
        );
    }

    item(event) {
        const tone = event.forgotten || event.undone || event.kind !== "vote" ? "" : event.score >= 0.5 ? "good" : "bad";
        const isNow = event.generation !== null && event.generation === this.state?.generation;
        const words = event.correction ?? event.answer ?? event.prompt;
        return el(
            "li",
            { class: `event ${tone}${event.undone ? " undone" : ""}` },
            icon(iconOf(event)),
            el(
                "div",
                {},
                el(
                    "p",
                    {},
                    event.forgotten ? "Forgotten" : KINDS[event.kind](event),
                    event.generation === null ? null : el("span", { class: "chip", text: String(event.generation) }),
                    isNow ? el("span", { class: "chip", text: "now" }) : null,
                    event.undone ? el("span", { class: "chip", text: "undone" }) : null,
                ),
                el("p", { class: "when", text: this.numbers(event) }),
                event.reason ? el("p", { class: "when", text: reasonOf(event) }) : null,
                words ? el("p", { class: "words", text: words, title: words }) : null,
                this.tools(event, isNow),
            ),
        );
    }

    numbers({ created, gain, kl }) {
        const parts = [time.format(created * 1000)];
        if (gain !== null) parts.push(`gained\u00a0${short(gain)}`);
        if (kl !== null) parts.push(`moved\u00a0${short(kl)}`);
        return parts.join(" · ");
    }

    tools(event, isNow) {
        const oldest = this.state?.oldest_generation ?? 0;
        const canReturn = event.generation !== null && !isNow && oldest > 0 && event.generation >= oldest;
        const link = (text, title, onclick) => el("button", { type: "button", class: "link", text, title, onclick });
        const tools = [
            canReturn &&
                link("Back to here", `Answers as with generation ${event.generation}`, () =>
                    this.change(() => api.goBack(this.model, event.generation)),
                ),
            isFeedback(event) && !event.forgotten && link("Forget this", "As if it had never been said", () => this.forget(event)),
        ].filter(Boolean);
        return tools.length ? el("p", {}, ...tools) : null;
    }
}
