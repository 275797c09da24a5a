/*
 * The chart of what was learned: for each generation a bar up for what was gained and one down for how far answers were
 * moved, each to its own scale, because the second is what the first costs. Dashed lines are ways back.
 */
import { svg } from "./dom.js";

const WIDTH = 432;
const UP = 72;
const DOWN = 36;
const LEFT = 44;
const BOTTOM = 16;
const MOST = 60; // bars that can be told apart

const isBar = ({ generation, gain, kl }) => generation !== null && gain !== null && kl !== null;

/* By hand, or because votes became all alike: then the gate went back. */
export const isWayBack = ({ kind, generation }) => kind === "rollback" || (kind === "gate" && generation !== null);

const largest = (values) => Math.max(...values, 1e-6);

/* Three digits, also of a small number. */
export const short = (value) => String(Number(value.toPrecision(2)));

function bar(x, width, event, scale) {
    const up = Math.max(0, (event.gain / scale.gain) * UP);
    const down = Math.max(0, (event.kl / scale.kl) * DOWN);
    const undone = event.undone ? " undone" : "";
    const title = `Generation ${event.generation}: gained ${short(event.gain)}, moved ${short(event.kl)}`;
    return svg(
        "g",
        {},
        svg("title", { text: event.undone ? `${title}; undone` : title }),
        svg("rect", { class: `gain${undone}`, x, y: UP - up, width, height: up, rx: 1 }),
        svg("rect", { class: `moved${undone}`, x, y: UP + 1, width, height: down, rx: 1 }),
    );
}

function wayBack(x, event) {
    return svg(
        "g",
        {},
        svg("title", { text: `Generation ${event.generation}: back to ${event.about}` }),
        svg("line", { class: "way-back", x1: x, x2: x, y1: 0, y2: UP + DOWN }),
    );
}

/* `events` newest first, each with `undone`. null when there is nothing to draw. */
export function drawChart(events) {
    const drawn = events.filter((event) => isBar(event) || isWayBack(event)).slice(0, MOST).reverse();
    const bars = drawn.filter((event) => !isWayBack(event));
    if (bars.length < 2) return null;
    const scale = { gain: largest(bars.map(({ gain }) => gain)), kl: largest(bars.map(({ kl }) => kl)) };
    const step = Math.min((WIDTH - LEFT) / drawn.length, 24);
    const width = Math.max(2, Math.min(step - 2, 14));
    const marks = drawn.map((event, i) => {
        const x = LEFT + i * step + (step - width) / 2;
        return isWayBack(event) ? wayBack(x + width / 2, event) : bar(x, width, event, scale);
    });
    const end = LEFT + drawn.length * step;
    const height = UP + DOWN + BOTTOM;
    const label = `${bars.length} pieces of feedback: at most ${short(scale.gain)} gained and ${short(scale.kl)} moved at once`;
    return svg(
        "svg",
        { class: "chart", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label },
        svg("text", { x: LEFT - 8, y: 10, "text-anchor": "end", text: short(scale.gain) }),
        svg("text", { x: LEFT - 8, y: UP + 4, "text-anchor": "end", text: "0" }),
        svg("text", { x: LEFT - 8, y: UP + DOWN, "text-anchor": "end", text: short(scale.kl) }),
        svg("line", { class: "axis", x1: LEFT, x2: WIDTH, y1: UP + 0.5, y2: UP + 0.5 }),
        ...marks,
        svg("text", { x: LEFT, y: height - 2, text: `generation ${drawn[0].generation}` }),
        svg("text", { x: Math.max(end, LEFT + 140), y: height - 2, "text-anchor": "end", text: String(drawn.at(-1).generation) }),
    );
}
