/*
 * Markdown to DOM nodes, for text nobody vouches for.
 *
 * HTML in the text stays text: nodes are made with createElement and textContent, and the only attribute that carries
 * a part of the text is a link's address, after its scheme was checked. Work is linear in the text: blocks nest at
 * most MAX_BLOCKS deep and inline marks at most MAX_MARKS; what is deeper shows as it was written.
 *
 * Blocks: headings, paragraphs, fenced code, lists, quotes, tables, rules. Inline: code, strong, emphasis,
 * strike-through, links, bare addresses. A single line break is a break, as people expect of a chat.
 */
import { el, iconButton, copyFrom } from "./dom.js";

const MAX_BLOCKS = 12;
const MAX_MARKS = 16;
const MAX_COLUMNS = 64;
const MAX_ADDRESS = 2048;

/* Patterns look at the beginning of a line only: one that must also match its end can backtrack over all of it. */
const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]|$)/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( +|$)/;
const DELIMITER = /^:?-+:?$/;
const SAFE_LINK = /^(?:https?:\/\/|mailto:)/i;

/* RULE is the one pattern for a whole line, so the line must be short. */
const isRule = (line) => line.length <= 200 && RULE.test(line);
const isBlank = (line) => line.trim() === "";
const indentOf = (line) => line.length - line.trimStart().length;

/* ---- blocks: lines to a list of {type, first, ...}; `first` is the line a block begins at ---- */

/* What opens a code block: {mark, info}, or null. A fence of backticks has none in the rest of its line. */
function fenceAt(line) {
    const match = FENCE.exec(line);
    const info = match && line.slice(match[0].length).trim();
    return match && !(match[1][0] === "`" && info.includes("`")) ? { mark: match[1], info } : null;
}

function startsBlock(line) {
    return fenceAt(line) !== null || HEADING.test(line) || QUOTE.test(line) || ITEM.test(line) || isRule(line);
}

function readFence(lines, i, open) {
    const mark = open.mark;
    const indent = indentOf(lines[i]);
    const body = [];
    let next = i + 1;
    for (; next < lines.length; next++) {
        const line = lines[next].trim();
        if (line.length >= mark.length && line[0] === mark[0] && line === mark[0].repeat(line.length)) break;
        body.push(lines[next].slice(Math.min(indent, indentOf(lines[next]))));
    }
    return {
        type: "code",
        first: i,
        next: next + 1,
        language: open.info.slice(0, 40).split(/\s/)[0],
        text: body.join("\n"),
    };
}

function readQuote(lines, i, depth) {
    const inner = [];
    let next = i;
    for (; next < lines.length; next++) {
        const line = lines[next];
        if (QUOTE.test(line)) inner.push(line.replace(QUOTE, ""));
        else if (!isBlank(line) && !isBlank(inner.at(-1)) && !startsBlock(line)) inner.push(line);
        else break;
    }
    return { type: "quote", first: i, next, blocks: readBlocks(inner, depth + 1) };
}

/*
 * Two spaces are enough, also below `1. `: models write that. An item as far left as this one is the next of its list.
 */
function belongsToItem(line, mark, width) {
    const indent = indentOf(line);
    return indent >= width || (indent >= 2 && (indent > mark[1].length || !ITEM.test(line)));
}

/*
 * The lines of one item: those indented to its text, blank ones between them, and lazy continuations of its last
 * paragraph.
 */
function readItem(lines, i, mark, depth) {
    const width = mark[3].length > 4 ? mark[0].length - mark[3].length + 1 : mark[0].length + (mark[3] ? 0 : 1);
    const inner = [lines[i].slice(width)];
    let blank = false;
    let next = i + 1;
    for (; next < lines.length; next++) {
        const line = lines[next];
        if (isBlank(line)) {
            blank = true;
            inner.push("");
        } else if (belongsToItem(line, mark, width)) {
            blank = false;
            inner.push(line.slice(Math.min(width, indentOf(line))));
        } else if (!blank && !startsBlock(line)) {
            inner.push(line);
        } else break;
    }
    while (inner.length > 1 && inner.at(-1) === "") {
        inner.pop();
        next--;
    }
    return { next, blocks: readBlocks(inner, depth + 1) };
}

function readList(lines, i, open, depth) {
    const ordered = /\d/.test(open[2]);
    const kind = open[2].at(-1);
    const items = [];
    let next = i;
    while (next < lines.length) {
        let at = next;
        while (at < lines.length && items.length && isBlank(lines[at])) at++;
        const mark = at < lines.length && !isRule(lines[at]) && ITEM.exec(lines[at]);
        if (!mark || mark[2].at(-1) !== kind) break;
        const item = readItem(lines, at, mark, depth);
        items.push(item.blocks);
        next = item.next;
    }
    return { type: "list", first: i, next, ordered, start: ordered ? parseInt(open[2], 10) : 1, items };
}

/* Cells of a row; a pipe after a backslash or between backticks belongs to its cell. */
function cellsOf(line) {
    const cells = [];
    let cell = "";
    let code = false;
    const row = line.trim().replace(/^\|/, "");
    for (let i = 0; i < row.length; i++) {
        if (row[i] === "\\" && row[i + 1] === "|") {
            cell += "|";
            i++;
        } else if (row[i] === "|" && !code) {
            cells.push(cell.trim());
            cell = "";
        } else {
            if (row[i] === "`") code = !code;
            cell += row[i];
        }
    }
    if (cell.trim() !== "") cells.push(cell.trim());
    return cells;
}

function isTable(lines, i) {
    if (!lines[i].includes("|") || i + 1 >= lines.length || !lines[i + 1].includes("-")) return false;
    const cells = cellsOf(lines[i + 1]);
    if (cells.length > MAX_COLUMNS || !cells.every((cell) => DELIMITER.test(cell))) return false;
    return cells.length === cellsOf(lines[i]).length;
}

function readTable(lines, i) {
    const align = cellsOf(lines[i + 1]).map((cell) => {
        if (cell.endsWith(":")) return cell.startsWith(":") ? "center" : "right";
        return "left";
    });
    const rows = [];
    let next = i + 2;
    for (; next < lines.length && lines[next].includes("|") && !startsBlock(lines[next]); next++)
        rows.push(cellsOf(lines[next]).slice(0, align.length));
    return { type: "table", first: i, next, align, head: cellsOf(lines[i]), rows };
}

function readParagraph(lines, i, depth) {
    let next = i + 1;
    while (
        next < lines.length &&
        !isBlank(lines[next]) &&
        !(depth < MAX_BLOCKS && startsBlock(lines[next])) &&
        !isTable(lines, next)
    )
        next++;
    return {
        type: "paragraph",
        first: i,
        next,
        text: lines
            .slice(i, next)
            .map((line) => line.trimStart())
            .join("\n")
            .trimEnd(),
    };
}

function readBlock(lines, i, depth) {
    const line = lines[i];
    const fence = fenceAt(line);
    if (fence) return readFence(lines, i, fence);
    let match = HEADING.exec(line);
    if (match)
        return {
            type: "heading",
            first: i,
            next: i + 1,
            level: match[1].length,
            text: trimClosing(line.slice(match[0].length)),
        };
    if (isRule(line)) return { type: "rule", first: i, next: i + 1 };
    if (depth < MAX_BLOCKS) {
        if (QUOTE.test(line)) return readQuote(lines, i, depth);
        match = ITEM.exec(line);
        if (match) return readList(lines, i, match, depth);
    }
    if (isTable(lines, i)) return readTable(lines, i);
    return readParagraph(lines, i, depth);
}

/* `## Title ##` is `Title`; by hand, since a pattern for it backtracks. */
function trimClosing(text) {
    const trimmed = text.trimEnd();
    let end = trimmed.length;
    while (end > 0 && trimmed[end - 1] === "#") end--;
    return end < trimmed.length && (end === 0 || /\s/.test(trimmed[end - 1]))
        ? trimmed.slice(0, end).trim()
        : trimmed.trim();
}

function readBlocks(lines, depth) {
    const blocks = [];
    for (let i = 0; i < lines.length;) {
        if (isBlank(lines[i])) {
            i++;
            continue;
        }
        const block = readBlock(lines, i, depth);
        blocks.push(block);
        i = block.next;
    }
    return blocks;
}

/* ---- inline: one pass makes pieces and matches marks, a second builds nodes ---- */

/*
 * For each length of a run of backticks, where such runs begin: so that an opening one finds its end without a search.
 */
function backtickRuns(text) {
    const runs = new Map();
    for (let i = text.indexOf("`"); i >= 0; i = text.indexOf("`", i)) {
        let end = i;
        while (text[end] === "`") end++;
        if (!runs.has(end - i)) runs.set(end - i, { at: [], seen: 0 });
        runs.get(end - i).at.push(i);
        i = end;
    }
    return runs;
}

function closingBackticks(runs, length, after) {
    const run = runs.get(length);
    if (!run) return -1; // the run's first backtick was escaped
    while (run.seen < run.at.length && run.at[run.seen] < after) run.seen++;
    return run.seen < run.at.length ? run.at[run.seen] : -1;
}

/*
 * The address in `(address)` or `(address "title")` at `i`; ends at the next bracket, so many broken links cost one
 * pass.
 */
function addressAt(text, i) {
    let depth = 0;
    let end = i + 1;
    for (; end < text.length && end - i < MAX_ADDRESS; end++) {
        const c = text[end];
        if (c === "(") depth++;
        else if (c === ")" && depth-- === 0) return { address: text.slice(i + 1, end), end: end + 1 };
        else if (/[\s[\]<]/.test(c)) break;
    }
    if (text[end] !== " ") return null;
    const title = /^ +(?:"[^"\n]{0,200}"|'[^'\n]{0,200}')\)/.exec(text.slice(end, end + 220));
    return title && { address: text.slice(i + 1, end), end: end + title[0].length };
}

const isWord = (c) => c !== undefined && /[\p{L}\p{N}_]/u.test(c);
const isSpace = (c) => c === undefined || /\s/.test(c);

class Inline {
    constructor(text) {
        this.text = text;
        this.pieces = []; // {kind: text | code | link | open | close | break, ...}
        this.open = []; // marks that may still be closed, innermost last
        this.runs = backtickRuns(text);
        this.from = 0; // text from here to the cursor is not yet a piece
        this.scan();
    }

    flush(to) {
        if (to > this.from) this.pieces.push({ kind: "text", text: this.text.slice(this.from, to) });
    }

    push(piece, from, to) {
        this.flush(from);
        this.pieces.push(piece);
        this.from = to;
        return to;
    }

    scan() {
        const special = /[\\`*_~[\]\n]|https?:\/\//g;
        for (let i = 0; ;) {
            special.lastIndex = i;
            const match = special.exec(this.text);
            if (!match) break;
            i = this.step(match[0], match.index);
        }
        this.flush(this.text.length);
    }

    /* Handles what stands at `i` and returns where to go on. */
    step(what, i) {
        const text = this.text;
        if (what === "\n") return this.push({ kind: "break" }, text[i - 1] === "\\" ? i - 1 : i, i + 1);
        if (what === "\\") return /[!-/:-@[-`{-~]/.test(text[i + 1] ?? "") ? this.escape(i) : i + 1;
        if (what === "`") return this.code(i);
        if (what === "[") return this.bracket(i);
        if (what === "]") return this.closeBracket(i);
        if (what.length > 1) return this.bareAddress(i);
        return this.mark(what, i);
    }

    escape(i) {
        this.flush(i);
        this.from = i + 1;
        return i + 2;
    }

    code(i) {
        let length = 0;
        while (this.text[i + length] === "`") length++;
        const end = closingBackticks(this.runs, length, i + length);
        if (end < 0) return i + length;
        let code = this.text.slice(i + length, end).replaceAll("\n", " ");
        if (code.startsWith(" ") && code.endsWith(" ") && code.trim() !== "") code = code.slice(1, -1);
        return this.push({ kind: "code", text: code }, i, end + length);
    }

    opening(piece, from, to) {
        this.push(piece, from, to);
        if (this.open.length === MAX_MARKS) this.open.shift();
        this.open.push(piece);
        return to;
    }

    bracket(i) {
        const image = this.text[i - 1] === "!" && i > this.from;
        return this.opening({ kind: "open", mark: "[", text: image ? "![" : "[" }, image ? i - 1 : i, i + 1);
    }

    closeBracket(i) {
        const at = this.open.findLastIndex((piece) => piece.mark === "[");
        if (at < 0) return i + 1;
        const opener = this.open[at];
        const link = this.text[i + 1] === "(" ? addressAt(this.text, i + 1) : null;
        this.open.splice(at, 1);
        if (!link || !SAFE_LINK.test(link.address)) return i + 1;
        this.open.length = at; // marks that opened inside the link end with it
        this.open = this.open.filter((piece) => piece.mark !== "["); // no links in links
        opener.matched = true;
        opener.address = link.address;
        return this.push({ kind: "close" }, i, link.end);
    }

    bareAddress(i) {
        const inLink = this.open.some((piece) => piece.mark === "[");
        let end = i;
        while (end < this.text.length && !/[\s<>"`*[\]|]/.test(this.text[end])) end++;
        const trailing = this.text.slice(i, end).includes("(") ? /[.,;:!?'_~]/ : /[.,;:!?'_~)]/;
        while (trailing.test(this.text[end - 1])) end--;
        const address = this.text.slice(i, end);
        if (inLink || isWord(this.text[i - 1]) || address.length > MAX_ADDRESS || address.length < 10)
            return Math.max(end, i + 4);
        return this.push({ kind: "link", text: address }, i, end);
    }

    /* A run of * or _ or ~~. Runs longer than three are decoration and stay text. */
    mark(c, i) {
        const text = this.text;
        let end = i;
        while (text[end] === c) end++;
        const length = end - i;
        if (length > 3 || (c === "~" && length !== 2)) return end;
        const before = text[i - 1];
        const after = text[end];
        const canClose = !isSpace(before) && !(c === "_" && isWord(after));
        const canOpen = !isSpace(after) && !(c === "_" && isWord(before));
        let rest = length;
        this.flush(i);
        this.from = i;
        while (rest > 0 && canClose) {
            const closed = this.close(c, rest);
            if (!closed) break;
            rest -= closed;
            this.from += closed;
        }
        if (rest > 0 && canOpen) {
            if (rest === 3) this.opening({ kind: "open", mark: c, text: c }, this.from, this.from + 1);
            const size = end - this.from;
            this.opening({ kind: "open", mark: c.repeat(size), text: c.repeat(size) }, this.from, end);
        }
        return end;
    }

    /* Closes the innermost mark of c or cc that `rest` characters can close; returns how many it took. */
    close(c, rest) {
        const at = this.open.findLastIndex((piece) => piece.mark[0] === c && piece.mark.length <= rest);
        if (at < 0) return 0;
        const opener = this.open[at];
        if (opener === this.pieces.at(-1)) return 0; // nothing in between: `**` alone is text
        opener.matched = true;
        this.open.length = at;
        this.pieces.push({ kind: "close" });
        return opener.mark.length;
    }

    build(parent) {
        const stack = [parent];
        for (const piece of this.pieces) {
            const top = stack.at(-1);
            if (piece.kind === "text") top.append(piece.text);
            else if (piece.kind === "break") top.append(el("br"));
            else if (piece.kind === "code") top.append(el("code", { text: piece.text }));
            else if (piece.kind === "link") top.append(anchor(piece.text, piece.text));
            else if (piece.kind === "close") stack.pop();
            else if (!piece.matched) top.append(piece.text);
            else {
                const node = piece.mark === "[" ? anchor(piece.address) : el(TAGS[piece.mark]);
                top.append(node);
                stack.push(node);
            }
        }
    }
}

const TAGS = { "*": "em", _: "em", "**": "strong", __: "strong", "~~": "del" };

function anchor(address, text) {
    return el("a", { href: address, rel: "noopener noreferrer", target: "_blank", text });
}

function inline(parent, text) {
    new Inline(text).build(parent);
    return parent;
}

/* ---- nodes ---- */

function codeNode(block) {
    const copy = iconButton("copy", "Copy code", (event) => copyFrom(event.currentTarget, block.text));
    return el(
        "figure",
        { class: "code" },
        el("figcaption", {}, el("span", { text: block.language || "text" }), copy),
        el(
            "pre",
            { tabindex: "0", "aria-label": `Code${block.language ? `, ${block.language}` : ""}` },
            el("code", { text: block.text }),
        ),
    );
}

function tableNode(block) {
    const row = (cells, tag) =>
        el(
            "tr",
            {},
            ...cells.map((cell, i) =>
                inline(el(tag, { class: `align-${block.align[i]}`, scope: tag === "th" ? "col" : null }), cell),
            ),
        );
    return el(
        "div",
        { class: "table", tabindex: "0", role: "region", "aria-label": "Table" },
        el(
            "table",
            {},
            el("thead", {}, row(block.head, "th")),
            el("tbody", {}, ...block.rows.map((cells) => row(cells, "td"))),
        ),
    );
}

/* An item whose only text is one paragraph takes it without a <p>, so that short lists stay close together. */
function itemNode(blocks) {
    const item = el("li");
    const nodes = blocks.map(blockNode);
    if (blocks[0]?.type === "paragraph" && blocks.slice(1).every((block) => block.type === "list"))
        nodes[0] = inline(document.createDocumentFragment(), blocks[0].text);
    item.append(...nodes);
    return item;
}

const NODES = {
    code: codeNode,
    table: tableNode,
    rule: () => el("hr"),
    paragraph: (block) => inline(el("p"), block.text),
    heading: (block) => inline(el(`h${Math.min(block.level + 2, 6)}`, { class: `level-${block.level}` }), block.text),
    quote: (block) => el("blockquote", {}, ...block.blocks.map(blockNode)),
    list: (block) =>
        el(
            block.ordered ? "ol" : "ul",
            { start: block.ordered && block.start !== 1 ? block.start : null },
            ...block.items.map(itemNode),
        ),
};

const blockNode = (block) => NODES[block.type](block);

/*
 * A text that grows, shown in `parent`, which belongs to the view. update() takes the whole text so far. Once a
 * top-level block is followed by a whole line of another it can no longer change, so only what comes after such blocks
 * is read and built again.
 */
export class MarkdownView {
    constructor(parent) {
        this.parent = parent;
        this.reset();
    }

    reset() {
        this.parent.replaceChildren();
        this.settled = ""; // the text whose nodes are final
        this.n_settled = 0;
    }

    update(text) {
        if (!text.startsWith(this.settled)) this.reset();
        const lines = text
            .slice(this.settled.length)
            .replaceAll("\t", "    ")
            .split(/\r\n|\n|\r/);
        const blocks = readBlocks(lines, 0);
        while (this.parent.childNodes.length > this.n_settled) this.parent.lastChild.remove();
        this.parent.append(...blocks.map(blockNode));
        this.settle(text, blocks, lines.length - 1);
    }

    /*
     * The last line may still grow into something else (`-` into the second row of a table), so a block that begins
     * there does not settle the one before. Offsets are counted in the text as it came: tabs were changed only in the
     * copy that was read.
     */
    settle(text, blocks, lastLine) {
        const n = blocks.length - (blocks.at(-1)?.first === lastLine ? 2 : 1);
        if (n < 1) return;
        const rest = text.slice(this.settled.length);
        const ends = /\r\n|\n|\r/g;
        for (let line = 0; line < blocks[n].first; line++) ends.exec(rest);
        this.settled = text.slice(0, this.settled.length + ends.lastIndex);
        this.n_settled += n;
    }
}

/* The nodes of a text that is complete. */
export function renderMarkdown(parent, text) {
    new MarkdownView(parent).update(text);
    return parent;
}
