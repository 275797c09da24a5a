/*
 * The votes on an answer: good or bad, what came of it, and the way back. Shown where the server learns and the answer
 * has the id it is known by there. What the buttons do is in the `actions` (learns(model), vote(id, score),
 * undo(model, generation), voted()).
 */
import { el, iconButton } from "./dom.js";

export class VoteBar {
    constructor(actions) {
        this.actions = actions;
        this.message = null;
        this.good = iconButton("good", "Good answer: more like this", () => this.vote(1));
        this.bad = iconButton("bad", "Bad answer: less like this", () => this.vote(0));
        this.note = el("span", { class: "vote-note", role: "status" });
        this.back = el("button", {
            type: "button",
            class: "link",
            title: "Forget this vote and those that came after it",
            onclick: () => this.undo(),
            text: "Undo",
            hidden: true,
        });
        this.node = el("div", { class: "votes", hidden: true }, this.good, this.bad, this.note, this.back);
    }

    /* The answer is whole, or its model may have become one that learns. */
    show(message) {
        this.message = message;
        this.node.hidden = !message.id || !this.actions.learns(message.model);
        this.draw("");
    }

    draw(trouble) {
        const vote = this.message.vote;
        this.good.setAttribute("aria-pressed", String(vote?.score === 1));
        this.bad.setAttribute("aria-pressed", String(vote?.score === 0));
        this.note.textContent = trouble || (vote ? `Learned: generation ${vote.generation}` : "");
        this.back.hidden = !vote;
    }

    async vote(score) {
        await this.run(async () => {
            const { generation } = await this.actions.vote(this.message.id, score);
            this.message.vote = { score, generation };
        });
    }

    /* To what answered before this vote. Votes that came after it go too: the server keeps states, not single votes. */
    async undo() {
        await this.run(async () => {
            await this.actions.undo(this.message.model, this.message.vote.generation - 1);
            delete this.message.vote;
        });
    }

    async run(work) {
        let trouble = "";
        this.good.disabled = this.bad.disabled = this.back.disabled = true;
        try {
            await work();
            this.actions.voted();
        } catch (error) {
            trouble = error.detail || error.message; // the server says it best
        }
        this.good.disabled = this.bad.disabled = this.back.disabled = false;
        this.draw(trouble);
    }
}
