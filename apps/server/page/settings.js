/*
 * The dialogs: settings, key, and the question before something is deleted. A number that is out of its range is
 * marked and not taken; a field that is empty is not sent, so that the server's default holds.
 */
import { byId } from "./dom.js";
import { readKey, readSettings, saveKey, saveSettings } from "./store.js";

const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_tokens", "seed"];

/* The sampling fields of a request. */
export function samplingFields() {
    const settings = readSettings();
    return Object.fromEntries(
        NUMBERS.filter((name) => typeof settings[name] === "number").map((name) => [name, settings[name]]),
    );
}

/* A click beside a dialog closes it, as Escape does. */
export function closeOnBackdrop(dialog) {
    dialog.addEventListener("click", (event) => {
        if (event.target === dialog) dialog.close();
    });
}

/* hooks: system() and setSystem(text) of the open conversation, keyForgotten() */
export class SettingsDialog {
    constructor(hooks) {
        this.hooks = hooks;
        this.dialog = byId("settings");
        this.system = byId("system");
        closeOnBackdrop(this.dialog);
        byId("settings-open").addEventListener("click", () => this.open());
        byId("settings-close").addEventListener("click", () => this.dialog.close());
        byId("settings-reset").addEventListener("click", () => this.reset());
        byId("key-forget").addEventListener("click", () => this.forget());
        this.system.addEventListener("input", () => this.takeSystem());
        for (const name of NUMBERS) byId(name).addEventListener("input", () => this.takeNumber(name));
    }

    open() {
        const settings = readSettings();
        for (const name of NUMBERS) {
            byId(name).value = settings[name] ?? "";
            this.mark(byId(name));
        }
        this.system.value = this.hooks.system();
        byId("key-forget").hidden = readKey() === null;
        this.dialog.showModal();
    }

    takeSystem() {
        this.hooks.setSystem(this.system.value);
        saveSettings({ ...readSettings(), system: this.system.value });
    }

    takeNumber(name) {
        const input = byId(name);
        if (!this.mark(input)) return;
        const settings = readSettings();
        if (input.value === "") delete settings[name];
        else settings[name] = input.valueAsNumber;
        saveSettings(settings);
    }

    /* Says below a field what it takes when it holds something else. */
    mark(input) {
        const valid = input.validity.valid;
        const error = byId(`${input.id}-error`);
        input.setAttribute("aria-invalid", String(!valid));
        const whole = input.step === "1" ? "a whole number" : "a number";
        error.textContent = valid ? "" : `Not used: enter ${whole} from ${input.min} to ${input.max}.`;
        return valid;
    }

    reset() {
        saveSettings({ system: readSettings().system });
        for (const name of NUMBERS) {
            byId(name).value = "";
            this.mark(byId(name));
        }
    }

    forget() {
        this.dialog.close();
        this.hooks.keyForgotten();
    }
}

/* Asks for a key; resolves to whether one was given. Several requests that fail at once ask once. */
export class KeyDialog {
    constructor() {
        this.dialog = byId("key");
        this.input = byId("key-input");
        this.asking = null;
        byId("key-form").addEventListener("submit", (event) => {
            event.preventDefault();
            this.take();
        });
        byId("key-cancel").addEventListener("click", () => this.dialog.close());
    }

    ask() {
        this.asking ??= new Promise((resolve) => {
            byId("key-wrong").hidden = readKey() === null;
            this.input.value = "";
            this.given = false;
            this.dialog.addEventListener(
                "close",
                () => {
                    this.asking = null;
                    this.input.value = "";
                    resolve(this.given);
                },
                { once: true },
            );
            this.dialog.showModal();
        });
        return this.asking;
    }

    take() {
        const key = this.input.value.trim();
        /* Header values are ASCII; fetch would throw at anything else. */
        if (!/^[\x21-\x7e]+$/.test(key)) {
            byId("key-wrong").hidden = false;
            return this.input.focus();
        }
        saveKey(key, byId("key-remember").checked);
        this.given = true;
        this.dialog.close();
    }
}

export const confirmDelete = (title) =>
    confirmThat({
        title: "Delete this conversation?",
        text: `“${title}” is deleted here and on the server. This cannot be undone.`,
        yes: "Delete",
    });

/* Asks before something that cannot be undone; resolves to whether the user agreed. */
export function confirmThat({ title, text, yes, no = "Keep it" }) {
    const dialog = byId("confirm");
    byId("confirm-title").textContent = title;
    byId("confirm-text").textContent = text;
    byId("confirm-yes").textContent = yes;
    byId("confirm-no").textContent = no;
    return new Promise((resolve) => {
        let agreed = false;
        byId("confirm-yes").onclick = () => {
            agreed = true;
            dialog.close();
        };
        byId("confirm-no").onclick = () => dialog.close();
        dialog.addEventListener("close", () => resolve(agreed), { once: true });
        dialog.showModal();
    });
}
