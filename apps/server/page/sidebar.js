/*
 * The list of conversations. Arrow keys, Home and End move in it, Enter opens, F2 renames, Delete deletes; only one
 * entry at a time is in the tab order. What happens then is in the `actions`: open(id), rename(id, title), remove(id).
 */
import { byId, el, iconButton } from "./dom.js";

const DAY = 24 * 3600 * 1000;

/* Today, yesterday, and so on: enough to find something again. */
function ageOf(time) {
    const midnight = new Date().setHours(0, 0, 0, 0);
    if (time >= midnight) return "Today";
    if (time >= midnight - DAY) return "Yesterday";
    if (time >= midnight - 6 * DAY) return "This week";
    return "Earlier";
}

export class Sidebar {
    constructor(actions) {
        this.actions = actions;
        this.list = byId("sessions");
        this.narrow = matchMedia("(max-width: 52rem)");
        this.list.addEventListener("keydown", (event) => this.onKey(event));
        byId("drawer-open").addEventListener("click", () => this.setDrawer(true));
        byId("drawer-close").addEventListener("click", () => this.setDrawer(false));
        byId("scrim").addEventListener("click", () => this.setDrawer(false));
        this.narrow.addEventListener("change", () => this.setDrawer(false));
        this.setDrawer(false);
    }

    /* On a phone the list is a drawer: shut, it is out of reach of keyboard and screen reader too. */
    setDrawer(open) {
        const wasOpen = document.body.classList.contains("drawer");
        document.body.classList.toggle("drawer", open && this.narrow.matches);
        byId("sidebar").inert = this.narrow.matches && !open;
        byId("main").inert = this.narrow.matches && open;
        byId("drawer-open").setAttribute("aria-expanded", String(open));
        if (open && this.narrow.matches) byId("drawer-close").focus();
        else if (wasOpen) byId("drawer-open").focus();
    }

    get isDrawerOpen() {
        return document.body.classList.contains("drawer");
    }

    /* sessions: {id, title, updated}, newest first. */
    show(sessions, openId) {
        const focused = this.list.contains(document.activeElement)
            ? document.activeElement.closest("li")?.dataset.id
            : null;
        const nodes = [];
        let age = null;
        for (const session of sessions) {
            if (ageOf(session.updated) !== age) {
                age = ageOf(session.updated);
                nodes.push(el("li", { class: "age", role: "presentation", text: age }));
            }
            nodes.push(this.entry(session, session.id === openId));
        }
        this.list.replaceChildren(...nodes);
        byId("no-sessions").hidden = sessions.length > 0;
        const buttons = this.buttons();
        const current = buttons.find((button) => button.parentNode.dataset.id === openId) ?? buttons[0];
        if (current) current.tabIndex = 0;
        if (focused) this.focusEntry(buttons.find((button) => button.parentNode.dataset.id === focused));
    }

    entry(session, isOpen) {
        const title = session.title || "Untitled";
        const item = el(
            "li",
            { class: "entry", "data-id": session.id },
            el("button", {
                type: "button",
                class: "open",
                tabindex: "-1",
                "aria-current": isOpen ? "true" : null,
                title,
                text: title,
                onclick: () => this.actions.open(session.id),
            }),
        );
        item.append(
            iconButton("edit", `Rename ${title}`, () => this.rename(item), {
                tabindex: "-1",
                class: "icon-button small",
            }),
            iconButton("trash", `Delete ${title}`, () => this.actions.remove(session.id), {
                tabindex: "-1",
                class: "icon-button small",
            }),
        );
        return item;
    }

    buttons() {
        return [...this.list.querySelectorAll("button.open")];
    }

    focusEntry(button) {
        if (!button) return;
        for (const other of this.buttons()) other.tabIndex = -1;
        button.tabIndex = 0;
        button.focus();
    }

    onKey(event) {
        const button = event.target.closest("button.open");
        const item = event.target.closest("li.entry");
        if (!button) return;
        const all = this.buttons();
        const at = all.indexOf(button);
        const target = { ArrowDown: all[at + 1], ArrowUp: all[at - 1], Home: all[0], End: all.at(-1) }[event.key];
        if (target) this.focusEntry(target);
        else if (event.key === "F2") this.rename(item);
        else if (event.key === "Delete") this.actions.remove(item.dataset.id);
        else return;
        event.preventDefault();
    }

    rename(item) {
        const button = item.querySelector("button.open");
        const input = el("input", {
            type: "text",
            class: "rename",
            "aria-label": "Name of the conversation",
            maxlength: "100",
        });
        let ended = false;
        const end = (keep) => {
            if (ended) return; // removing the field takes its focus, which ends it again
            ended = true;
            const title = input.value.trim();
            input.replaceWith(button);
            this.focusEntry(button);
            if (keep && title !== "" && title !== button.textContent) this.actions.rename(item.dataset.id, title);
        };
        input.value = button.textContent;
        input.addEventListener("blur", () => end(true));
        input.addEventListener("keydown", (event) => {
            if (event.key === "Enter") end(true);
            else if (event.key === "Escape") end(false);
            event.stopPropagation();
        });
        button.replaceWith(input);
        input.select();
    }
}
