/*
 * What can be said of an answer: good, bad, or what it should have been; what came of it, and the way back. Shown where
 * the server learns and the answer has the id it is known by there. What the buttons do is in the `actions`
 * (learns(model), vote(id, score), correct(id, text), forget(model, event), undo(model, generation), voted()) and in
 * the `words` of the answer (correct(): ask for better ones, changed(): they are others now).
 */
import { el, iconButton } from "./dom.js";

export class VoteBar {
    constructor(actions, words) {
        this.actions = actions;
        this.words = words;
        this.message = null;
        this.good = iconButton("good", "Good answer: more like this", () => this.vote(1));
        this.bad = iconButton("bad", "Bad answer: less like this", () => this.vote(0));
        this.pencil = iconButton("correct", "Correct this answer", () => this.words.correct());
        this.note = el("span", { class: "vote-note", role: "status" });
        this.back = el("button", {
            type: "button",
            class: "link",
            title: "As if this had never been said",
            onclick: () => this.undo(),
            text: "Undo",
            hidden: true,
        });
        this.buttons = [this.good, this.bad, this.pencil, this.back];
        this.node = el("div", { class: "votes", hidden: true }, this.good, this.bad, this.pencil, this.note, this.back);
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
        this.pencil.setAttribute("aria-pressed", String(vote?.corrected === true));
        this.note.textContent = trouble || (vote ? `Learned: generation ${vote.generation}` : "");
        this.back.hidden = !vote;
    }

    async vote(score) {
        await this.run(async () => {
            const { generation, sequence } = await this.actions.vote(this.message.id, score);
            this.message.vote = { score, generation, sequence };
        });
    }

    /* The better words take the place of the old ones, which stay with the answer until they are wanted back. */
    async correct(text) {
        await this.run(async () => {
            const { generation, sequence } = await this.actions.correct(this.message.id, text);
            this.message.vote = { corrected: true, generation, sequence };
            this.message.original ??= this.message.content;
            this.message.content = text;
            this.words.changed();
        });
    }

    /*
     * A server with a log forgets what was said here and nothing else. One without goes back to what answered before,
     * and what was said after it goes too.
     */
    async undo() {
        await this.run(async () => {
            const { generation, sequence } = this.message.vote;
            if (sequence > 0) await this.actions.forget(this.message.model, sequence);
            else await this.actions.undo(this.message.model, generation - 1);
            delete this.message.vote;
            if (this.message.original === undefined) return;
            this.message.content = this.message.original;
            delete this.message.original;
            this.words.changed();
        });
    }

    async run(work) {
        let trouble = "";
        for (const button of this.buttons) button.disabled = true;
        try {
            await work();
            this.actions.voted();
        } catch (error) {
            trouble = error.detail || error.message; // the server says it best
        }
        for (const button of this.buttons) button.disabled = false;
        this.draw(trouble);
    }
}
