/*
 * What the browser remembers: the key, the settings, and a copy of each conversation.
 *
 * The server's sessions are the original; the copy shows a conversation at once, carries what the server does not keep
 * (names, timings) and survives a server without sessions. Each conversation has an entry of its own, so that two tabs
 * do not overwrite each other. Entries are filed under the key in use: whoever comes with another key does not see
 * them.
 */

const PREFIX = "ruvllm.";

/* A browser may refuse storage altogether; then the page works until it is closed. */
const inMemory = () => {
    const items = new Map();
    return {
        getItem: (name) => items.get(name) ?? null,
        setItem: (name, value) => items.set(name, value),
        removeItem: (name) => items.delete(name),
        key: (i) => [...items.keys()][i] ?? null,
        get length() {
            return items.size;
        },
    };
};

function storageOr(name) {
    try {
        window[name].getItem(PREFIX);
        return window[name];
    } catch {
        return inMemory();
    }
}

const local = storageOr("localStorage");
const tab = storageOr("sessionStorage");

/* ---- the key: never in an address, in this tab only unless the user wants it remembered ---- */

export const readKey = () => tab.getItem(`${PREFIX}key`) ?? local.getItem(`${PREFIX}key`);

export function saveKey(key, remember) {
    forgetKey();
    (remember ? local : tab).setItem(`${PREFIX}key`, key);
}

export function forgetKey() {
    tab.removeItem(`${PREFIX}key`);
    local.removeItem(`${PREFIX}key`);
}

/* A file name for the key's conversations. Not a secret and not a proof: 32 bits tell keys apart, no more. */
function drawer() {
    const key = readKey();
    if (key === null) return "open";
    let hash = 0x811c9dc5; // FNV-1a
    for (const c of key) hash = Math.imul(hash ^ c.codePointAt(0), 0x01000193);
    return (hash >>> 0).toString(16);
}

/* ---- conversations ---- */

const sessionPrefix = () => `${PREFIX}session.${drawer()}.`;

export function newSession(model) {
    const bytes = crypto.getRandomValues(new Uint8Array(12));
    const id = `page-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
    const now = Date.now();
    return { id, title: "", model, system: readSettings().system, created: now, updated: now, messages: [] };
}

/* Conversations of the key in use, newest first. An entry that is not ours to read is left alone. */
export function listSessions() {
    const prefix = sessionPrefix();
    const sessions = [];
    for (let i = 0; i < local.length; i++) {
        const name = local.key(i);
        const session = name.startsWith(prefix) ? readSession(name.slice(prefix.length)) : null;
        if (session) sessions.push(session);
    }
    return sessions.sort((a, b) => b.updated - a.updated);
}

export function readSession(id) {
    try {
        const session = JSON.parse(local.getItem(sessionPrefix() + id));
        return session && Array.isArray(session.messages) ? session : null;
    } catch {
        return null;
    }
}

/* False when the browser's storage is full. */
export function saveSession(session) {
    try {
        local.setItem(sessionPrefix() + session.id, JSON.stringify(session));
        return true;
    } catch {
        return false;
    }
}

export const dropSession = (id) => local.removeItem(sessionPrefix() + id);

export function dropAllSessions() {
    for (const session of listSessions()) dropSession(session.id);
}

/* Which conversation a reload opens: this tab's, or the last one of any tab. */
export const openSessionId = () => tab.getItem(`${PREFIX}open`) ?? local.getItem(`${PREFIX}open`);

export function saveOpenSessionId(id) {
    for (const storage of [tab, local]) {
        if (id === null) storage.removeItem(`${PREFIX}open`);
        else storage.setItem(`${PREFIX}open`, id);
    }
}

/* ---- settings: a field that is absent takes the server's default ---- */

export function readSettings() {
    try {
        return { system: "", ...JSON.parse(local.getItem(`${PREFIX}settings`) ?? "{}") };
    } catch {
        return { system: "" };
    }
}

export const saveSettings = (settings) => local.setItem(`${PREFIX}settings`, JSON.stringify(settings));

export function saveTheme(theme) {
    if (theme === null) local.removeItem(`${PREFIX}theme`);
    else local.setItem(`${PREFIX}theme`, theme);
}
