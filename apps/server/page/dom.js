/* Small helpers to build the page's nodes. Text only ever enters through textContent: nothing here parses HTML. */

const SVG = "http://www.w3.org/2000/svg";

/*
 * Makes an element. `attrs` holds attributes; `text` becomes its text, a key that begins with `on` a listener, true an
 * empty attribute, and false, null or undefined no attribute. Children that are null or false are left out.
 */
export function el(tag, attrs = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attrs)) {
        if (value === false || value === null || value === undefined) continue;
        if (name === "text") node.textContent = value;
        else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
        else node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== null && child !== false && child !== undefined));
    return node;
}

/* The same for a drawing. */
export function svg(tag, attrs = {}, ...children) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attrs)) {
        if (name === "text") node.textContent = value;
        else if (value !== null && value !== undefined) node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null));
    return node;
}

/* One of the symbols at the top of index.html, hidden from screen readers: the button around it carries the name. */
export function icon(name) {
    return svg("svg", { class: "icon", "aria-hidden": "true" }, svg("use", { href: `#icon-${name}` }));
}

/* A button that shows only an icon; `label` is its name and tooltip. */
export function iconButton(name, label, onclick, attrs = {}) {
    return el(
        "button",
        { type: "button", class: "icon-button", "aria-label": label, title: label, onclick, ...attrs },
        icon(name),
    );
}

export const byId = (id) => document.getElementById(id);

/* Puts a text on the clipboard; false when the browser refuses. Plain http beyond loopback has no clipboard API. */
export async function copyText(text) {
    if (navigator.clipboard) {
        try {
            await navigator.clipboard.writeText(text);
            return true;
        } catch {
            /* refused: try the older way */
        }
    }
    const area = el("textarea", { class: "sr-only", "aria-hidden": "true" });
    const before = document.activeElement;
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    before?.focus();
    return done;
}

/* Copies and lets the button say for a moment whether that worked. */
export async function copyFrom(button, text) {
    const label = button.getAttribute("aria-label");
    const done = await copyText(text);
    button.dataset.state = done ? "done" : "failed";
    button.setAttribute("aria-label", done ? "Copied" : "The browser refused to copy");
    setTimeout(() => {
        delete button.dataset.state;
        button.setAttribute("aria-label", label);
    }, 1500);
}
