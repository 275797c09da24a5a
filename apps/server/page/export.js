/* A conversation as a file. */
import { el } from "./dom.js";

/* Everything the page knows of it, in the shape of the API's messages. */
export function toJson(session) {
    const { id, title, model, system, created, updated, messages } = session;
    const all = system ? [{ role: "system", content: system }, ...messages] : messages;
    return `${JSON.stringify(
        {
            id,
            title,
            model,
            created: new Date(created).toISOString(),
            updated: new Date(updated).toISOString(),
            messages: all,
        },
        null,
        2,
    )}\n`;
}

/* Answers are Markdown already; what the user wrote is quoted, so that it is not read as such. */
export function toMarkdown(session) {
    const parts = [`# ${session.title || "Conversation"}`];
    const quote = (text) =>
        text
            .split("\n")
            .map((line) => `> ${line}`.trimEnd())
            .join("\n");
    if (session.system) parts.push("**System**", quote(session.system));
    for (const message of session.messages) {
        if (message.role === "user") parts.push("**You**", quote(message.content));
        else parts.push(`**${message.model || "Answer"}**`, message.content);
    }
    return `${parts.join("\n\n")}\n`;
}

export function download(name, type, text) {
    const address = URL.createObjectURL(new Blob([text], { type }));
    const link = el("a", { href: address, download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
}

/* A file name every system takes. */
export function fileName(session, extension) {
    const name = session.title
        .normalize("NFKD")
        .replace(/[^A-Za-z0-9]+/g, "-")
        .replace(/^-+|-+$/g, "")
        .slice(0, 48);
    return `${name || "conversation"}.${extension}`;
}
