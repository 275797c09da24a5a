/*
 * What can be said of an answer: good, bad, or what it should have been; what came of it, and the way back. Shown where
 * the server learns and the answer has the id it is known by there. What the buttons do is in the `actions`
 * (learns(model), keepsLog(model), vote(id, score), correct(id, text), forget(model, event), undo(model, generation),
 * voted()) and in the `words` of the answer (correct(): ask for better ones, changed(): they are others now).
 */
import { el, iconButton } from "./dom.js";

/* All that was said of an answer and not taken back, the last first: each has what was said before it. */
function said(message) {
    const all = [];
    for (let { vote } = message; vote; vote = vote.before) all.push(vote);
    return all;
}

/* Takes number `i` of them off the answer; with a correction go its words, unless there are later ones. */
function takeOff(message, i) {
    const all = said(message);
    const [gone] = all.splice(i, 1);
    if (gone.words !== undefined) {
        const later = all.slice(0, i).findLast(({ words }) => words !== undefined);
        if (later) later.words = gone.words;
        else message.content = gone.words;
    }
    const vote = all.reduceRight((before, each) => Object.assign(each, { before }), undefined);
    if (vote) message.vote = vote;
    else delete message.vote;
}

/* The same for an event of the server's log, if it is of this answer; tells whether it is. */
export function forgetVote(message, event) {
    const i = said(message).findIndex(({ sequence }) => sequence === event);
    if (i >= 0) takeOff(message, i);
    return i >= 0;
}

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
            this.message.vote = { score, generation, sequence, before: this.message.vote };
        });
    }

    /* The better words take the place of the old ones, which stay with what was said until they are wanted back. */
    async correct(text) {
        await this.run(async () => {
            const { generation, sequence } = await this.actions.correct(this.message.id, text);
            const words = this.message.content;
            this.message.vote = { corrected: true, generation, sequence, words, before: this.message.vote };
            this.message.content = text;
            this.words.changed();
        });
    }

    /*
     * What was said last is taken back. A server with a log forgets that and nothing else; one without goes back to what
     * answered before, and what was said of other answers after it goes too. What was said while the database was away
     * has a number by now that is not known here.
     */
    async undo() {
        await this.run(async () => {
            const { generation, sequence } = this.message.vote;
            const { model } = this.message;
            if (sequence > 0) await this.forget(model, sequence);
            else if (await this.actions.keepsLog(model)) throw new Error("It was said while the database was away: forget it under “What was learned”.");
            else await this.actions.undo(model, generation - 1);
            takeOff(this.message, 0);
            this.words.changed();
        });
    }

    /* What is forgotten already is what was wanted. */
    async forget(model, sequence) {
        try {
            await this.actions.forget(model, sequence);
        } catch (error) {
            if (error.status !== 404) throw error;
        }
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
