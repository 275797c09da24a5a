/*
 * The page: puts the parts together and holds what they share, which is the open conversation, the models and the list
 * of sessions. Everything that fails ends in showError(), everything the user does begins in one of the functions
 * below `actions`.
 */
import * as api from "./api.js";
import * as store from "./store.js";
import { ChatView } from "./chat_view.js";
import { Conversation, contextUsed } from "./conversation.js";
import { LearnedPanel } from "./learned.js";
import { KeyDialog, SettingsDialog, confirmDelete, samplingFields } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import { byId, el } from "./dom.js";
import { download, fileName, toJson, toMarkdown } from "./export.js";
import { forgetVote } from "./votes.js";

let models = []; // {id, context, canChat, learns}
let remote = null; // the server's list of sessions; null: it keeps none, or has not been asked
let current = null; // the open Conversation

const view = new ChatView({
    regenerate: () => current.regenerate(),
    edit: (index, text) => current.edit(index, text),
    learns: (model) => models.some((each) => each.id === model && each.learns),
    vote: api.vote,
    correct: api.correct,
    forget: api.forget,
    keepsLog: async (model) => (await api.learnedEvents(model)) !== null,
    undo: api.goBack,
    voted: () => save(current.session),
});
const learned = new LearnedPanel({ model: () => picker.value, forgotten: dropVote });
const sidebar = new Sidebar({ open: openById, rename: renameSession, remove: removeSession });
const keyDialog = new KeyDialog();
const settings = new SettingsDialog({
    system: () => current.session.system ?? "",
    setSystem: (text) => {
        current.session.system = text;
        save(current.session);
    },
    keyForgotten: forgetKey,
});

const input = byId("input");
const picker = byId("model");

function announce(text) {
    byId("announce").textContent = text;
}

/* ---- the open conversation ---- */

/* An empty conversation is not worth keeping. */
function save(session) {
    if (session.messages.length === 0) return;
    if (!store.saveSession(session))
        view.showError({
            message: "The browser’s storage is full.",
            hint: "Export conversations you want to keep and delete some of them.",
        });
}

function open(session) {
    current?.stop();
    current = new Conversation(session, hooksFor(session));
    store.saveOpenSessionId(session.messages.length ? session.id : null);
    if (session.model && models.some((model) => model.id === session.model)) picker.value = session.model;
    view.show(session.messages);
    view.setBusy(false);
    refresh();
}

/* What a conversation tells is drawn only while it is the open one; it is saved in any case. */
function hooksFor(session) {
    const shown = () => current.session === session;
    const ifShown = (draw) => (value) => {
        if (shown()) draw(value);
    };
    return {
        body: requestFields,
        added: ifShown((message) => {
            view.clearNotice();
            view.add(message);
        }),
        started: ifShown((answer) => {
            view.clearNotice();
            view.startAnswer(answer);
            view.setBusy(true);
            store.saveOpenSessionId(session.id);
            save(session);
            refresh();
        }),
        grown: ifShown((answer) => view.growAnswer(answer.content)),
        truncated: ifShown((count) => view.truncate(count)),
        finished: ifShown((answer) => finish(session, answer)),
        changed: () => {
            save(session);
            refresh();
            learnContext();
        },
        failed: ifShown(showFailure),
        askKey,
    };
}

function finish(session, answer) {
    view.setBusy(false);
    if (session.messages.at(-1) === answer) {
        view.finishAnswer(answer);
        announce(`${answer.finish === "stopped" ? "Stopped" : "Answer"}: ${answer.content}`);
    } else if (answer.finish === "stopped") {
        view.showError({ message: "Stopped before the answer began.", hint: "" }, () => current.answer());
    }
}

/* The key is asked for where the user is, not announced as a failure. */
async function askKey() {
    const given = await keyDialog.ask();
    if (given) refreshFromServer();
    return given;
}

function showFailure(error) {
    view.showError(error, error.kind === "context" ? null : () => current.regenerate());
    if (error.kind === "model") loadModels().catch(() => {}); // the failure on the screen is the one that matters
}

/* What was forgotten in the panel is no longer shown on its answer, in whichever conversation that is. */
function dropVote(model, event) {
    const others = store.listSessions().filter(({ id }) => id !== current.session.id);
    for (const session of [current.session, ...others]) {
        const own = session.messages.filter((message) => message.model === model);
        if (own.filter((message) => forgetVote(message, event)).length > 0) save(session);
    }
    view.show(current.session.messages);
}

/* Everything of a request but its messages. A server without sessions would refuse the id of one. */
function requestFields(session) {
    session.model = picker.value;
    return { model: picker.value, ...(remote === null ? {} : { session: session.id }), ...samplingFields() };
}

/* ---- what is around it ---- */

function refresh() {
    const { session } = current;
    byId("title").textContent = session.title || "New chat";
    document.title = session.title ? `${session.title} · RuvLLM` : "RuvLLM";
    byId("send").hidden = current.isBusy;
    byId("stop").hidden = !current.isBusy;
    byId("export").hidden = session.messages.length === 0;
    byId("local-only").hidden = remote !== null || models.length === 0;
    learned.offer(models.some((model) => model.id === picker.value && model.learns));
    showContext(session);
    sidebar.show(allSessions(), session.id);
}

function showContext(session) {
    const limit = models.find((model) => model.id === picker.value)?.context ?? null;
    const used = contextUsed(session);
    const meter = byId("context-meter");
    byId("context").hidden = used === null;
    if (used === null) return;
    meter.hidden = limit === null;
    if (limit !== null) {
        meter.max = limit;
        meter.high = limit * 0.85;
        meter.value = used;
    }
    byId("context-text").textContent =
        limit === null ? `${used.toLocaleString()} tokens` : `${used.toLocaleString()} / ${limit.toLocaleString()}`;
}

/* Ours and the server's; of one that is in both lists ours knows more. */
function allSessions() {
    const own = store.listSessions();
    const known = new Set(own.map((session) => session.id));
    const others = (remote ?? []).filter((session) => !known.has(session.id));
    return [...own, ...others].sort((a, b) => b.updated - a.updated);
}

function showModels() {
    const wanted = current.session.model ?? store.readSettings().model;
    picker.replaceChildren(
        ...models.map((model) =>
            el("option", {
                value: model.id,
                text: model.canChat ? model.id : `${model.id} (cannot chat)`,
            }),
        ),
    );
    picker.disabled = models.length === 0;
    const chosen = models.find((model) => model.id === wanted) ?? models.find((model) => model.canChat);
    if (chosen) picker.value = chosen.id;
}

async function loadModels() {
    models = await api.listModels();
    showModels();
    view.showVotes();
    if (models.length === 0)
        throw new api.ApiError("model", "The server has no model.", "Start it with one: ruvllm serve model.gguf.");
}

/* A model says how much it takes once it is loaded, which a first answer does. */
async function learnContext() {
    const model = models.find((each) => each.id === picker.value);
    if (!model || model.context !== null) return;
    try {
        const list = await api.listModels();
        Object.assign(model, list.find((each) => each.id === model.id));
        showContext(current.session);
        view.showVotes();
    } catch {
        /* the meter goes without its limit until the next answer */
    }
}

/* Models and sessions; asked for at the start and whenever the key changes. */
async function refreshFromServer() {
    try {
        await loadModels();
        remote = await api.listSessions();
    } catch (error) {
        if (error.kind === "key") return askKey();
        if (!current.isBusy) view.showError(error, refreshFromServer);
    }
    refresh();
}

/* ---- actions ---- */

function newChat() {
    open(store.newSession(picker.value || undefined));
    sidebar.setDrawer(false);
    input.focus();
}

async function openById(id) {
    sidebar.setDrawer(false);
    const own = store.readSession(id);
    if (own) return open(restored(own));
    try {
        const session = await api.readSession(id);
        if (!session)
            throw new api.ApiError(
                "refused",
                "The server does not give out the words of this conversation.",
                "It can only be opened in the browser it was held in.",
            );
        open({
            ...store.newSession(session.model),
            ...session,
            system: systemOf(session.messages),
            messages: wordsOf(session.messages),
        });
    } catch (error) {
        view.showError(error);
    }
}

/* A page that was closed while an answer came left it without an end, or without a word. */
function restored(session) {
    const last = session.messages.at(-1);
    if (last?.role === "assistant" && !last.finish) {
        if (last.content === "") session.messages.pop();
        else last.finish = "cut";
    }
    return session;
}

const systemOf = (messages) => messages.find((message) => message.role === "system")?.content ?? "";
const wordsOf = (messages) =>
    messages.filter((message) => message.role !== "system").map((message) => ({ finish: "stop", ...message }));

function renameSession(id, title) {
    const session = current.session.id === id ? current.session : store.readSession(id);
    if (session) {
        session.title = title;
        save(session);
    }
    refresh();
}

async function removeSession(id) {
    const session = allSessions().find((each) => each.id === id);
    if (!(await confirmDelete(session?.title || "Untitled"))) return;
    if (current.session.id === id) await current.stop();
    try {
        if (remote !== null) await api.deleteSession(id);
    } catch (error) {
        return view.showError(error, () => removeSession(id)); // kept here, so that it can be deleted there
    }
    remote = remote && remote.filter((each) => each.id !== id);
    store.dropSession(id);
    if (current.session.id === id) newChat();
    else refresh();
}

function forgetKey() {
    current.stop();
    store.dropAllSessions();
    store.forgetKey();
    remote = null;
    newChat();
    refreshFromServer();
}

function send() {
    const text = input.value.trim();
    if (text === "" || current.isBusy) return;
    if (models.length === 0) return refreshFromServer(); // the words stay where they are until somebody can take them
    input.value = "";
    grow();
    view.scrollToEnd();
    current.send(text);
}

function toggleTheme() {
    const root = document.documentElement;
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    const next = (root.dataset.theme ?? system) === "dark" ? "light" : "dark";
    if (next === system) delete root.dataset.theme;
    else root.dataset.theme = next;
    store.saveTheme(next === system ? null : next);
}

/* The field grows with its text up to the height the style sheet allows. */
function grow() {
    input.style.height = "auto";
    input.style.height = `${input.scrollHeight + 2}px`;
}

function onInputKey(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
}

function onKey(event) {
    if ((event.ctrlKey || event.metaKey) && !event.shiftKey && event.key.toLowerCase() === "k") {
        event.preventDefault();
        newChat();
    } else if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
        if (byId("export").open) byId("export").removeAttribute("open");
        else if (sidebar.isDrawerOpen) sidebar.setDrawer(false);
        else if (current.isBusy) current.stop();
    }
}

function exportAs(kind) {
    const { session } = current;
    byId("export").removeAttribute("open");
    if (kind === "json") download(fileName(session, "json"), "application/json", toJson(session));
    else download(fileName(session, "md"), "text/markdown", toMarkdown(session));
}

function start() {
    byId("composer").addEventListener("submit", (event) => {
        event.preventDefault();
        send();
    });
    byId("stop").addEventListener("click", () => current.stop());
    byId("new-chat").addEventListener("click", newChat);
    byId("theme").addEventListener("click", toggleTheme);
    byId("export-json").addEventListener("click", () => exportAs("json"));
    byId("export-markdown").addEventListener("click", () => exportAs("markdown"));
    picker.addEventListener("change", () => {
        store.saveSettings({ ...store.readSettings(), model: picker.value });
        refresh();
    });
    document.addEventListener("click", (event) => {
        if (!byId("export").contains(event.target)) byId("export").removeAttribute("open");
    });
    input.addEventListener("input", grow);
    input.addEventListener("keydown", onInputKey);
    document.addEventListener("keydown", onKey);
    window.addEventListener("storage", refresh); // another tab changed the list
    window.addEventListener("pagehide", () => save(current.session)); // also what has come of an answer
    const last = store.readSession(store.openSessionId());
    open(last ? restored(last) : store.newSession());
    refreshFromServer();
    if (!sidebar.narrow.matches) input.focus();
}

start();
