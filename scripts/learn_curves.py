"""Curves of learning as SVG: a column for each model, a line of panels for each quantity, legible in light and dark."""

import math

WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 190, 58, 40, 26
TITLES = {
    "2": "A skill from votes alone: answers to unseen prompts that have the word, and what it costs",
    "5": "A domain from corrected samples, at once: change of NLL on another part of it, and what it costs",
    "7": "Five domains, one after the other: what each earlier one has lost at the end, and what it costs",
}
LABELS = {"skill": "answers with the word", "self": "self: NLL of own text", "held": "held out: change of NLL",
          "kept": "lost since it was learned"}
STYLE = """<style>
  .ground { fill: #ffffff } .text { fill: #24292f } .faint { stroke: #d0d7de } .axis { stroke: #57606a }
  .s0 { stroke: #0969da; fill: #0969da } .s1 { stroke: #bc4c00; fill: #bc4c00 } .s2 { stroke: #1a7f37; fill: #1a7f37 }
  .s3 { stroke: #8250df; fill: #8250df }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117 } .text { fill: #e6edf3 } .faint { stroke: #30363d } .axis { stroke: #8b949e }
    .s0 { stroke: #58a6ff; fill: #58a6ff } .s1 { stroke: #ffa657; fill: #ffa657 } .s2 { stroke: #56d364; fill: #56d364 }
    .s3 { stroke: #d2a8ff; fill: #d2a8ff }
  }
  polyline { fill: none !important; stroke-linejoin: round } .run { stroke-width: 1; opacity: 0.45 } .mean { stroke-width: 2.5 }
  text { stroke: none !important }
</style>"""


def steps(low, high, n=4):
    """About n round numbers from low to high."""
    span = (high - low) or 1
    unit = 10 ** math.floor(math.log10(span / n))
    step = next(m * unit for m in (1, 2, 5, 10) if span / (m * unit) <= n + 1)
    first = math.ceil(low / step - 1e-9) * step
    return [first + i * step for i in range(int((high - first) / step + 1e-9) + 1)]


def percent(y, span):
    return "%.*f%%" % (0 if span >= 0.05 else 1 if span >= 0.005 else 2, 100 * y)


class Panel:
    """One quantity of one model: a thin line for each seed, a thick one for their mean."""

    def __init__(self, left, top, points):
        self.left, self.top = left, top
        xs, ys = [p[3] for p in points], [p[4] for p in points]
        self.x0, self.x1 = min(xs), max(max(xs), min(xs) + 1)
        self.y0, self.y1 = min(0, min(ys)), max(max(ys) * 1.08, min(0, min(ys)) + 1e-6)

    def place(self, x, y):
        return (self.left + (x - self.x0) / (self.x1 - self.x0) * (WIDTH - LEFT - 12),
                self.top + (self.y1 - y) / (self.y1 - self.y0) * (HEIGHT - 44))

    def frame(self, out, title):
        out.append('<text class="text" x="%d" y="%d" font-weight="bold">%s</text>' % (self.left, self.top - 8, title))
        right, bottom = self.place(self.x1, self.y0)
        for y in steps(self.y0, self.y1):
            at = self.place(self.x0, y)[1]
            out.append('<line class="faint" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>' % (self.left, at, right, at))
            out.append('<text class="text" x="%.1f" y="%.1f" text-anchor="end">%s</text>'
                       % (self.left - 5, at + 4, percent(y, self.y1 - self.y0)))
        for x in steps(self.x0, self.x1):
            at = self.place(x, self.y0)[0]
            out.append('<text class="text" x="%.1f" y="%.1f" text-anchor="middle">%g</text>' % (at, bottom + 15, x))
        out.append('<line class="axis" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>' % (self.left, bottom, right, bottom))

    def line(self, out, points, kind, colour):
        at = " ".join("%.1f,%.1f" % self.place(x, y) for x, y in sorted(points))
        out.append('<polyline class="%s s%d" points="%s"/>' % (kind, colour, at))


def draw(points, row, path):
    """`points` are (rank, what, model, seed, x, y)."""
    points = [(rank, what, model, x, y, seed) for rank, what, model, seed, x, y in points]
    models = list(dict.fromkeys(p[2] for p in points))
    whats = list(dict.fromkeys(p[1] for p in points))
    ranks = list(dict.fromkeys(p[0] for p in points))
    width, height = WIDTH * len(models) + 10, TOP + (HEIGHT + GAP) * len(whats) + 24
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" '
           'font-size="11">' % (width, height, width, height), STYLE,
           '<rect class="ground" width="100%" height="100%"/>',
           '<text class="text" x="%d" y="16" font-size="13">%s</text>' % (LEFT, TITLES.get(row, "Row %s" % row))]
    for line, what in enumerate(whats):
        for column, model in enumerate(models):
            here = [p for p in points if p[1] == what and p[2] == model]
            if not here:
                continue
            panel = Panel(column * WIDTH + LEFT, TOP + line * (HEIGHT + GAP) + 16, here)
            panel.frame(out, "%s: %s" % (model, LABELS.get(what, what)))
            for colour, rank in enumerate(ranks):
                seeds = {}
                for p in here:
                    if p[0] == rank:
                        seeds.setdefault(p[5], []).append((p[3], p[4]))
                for run in seeds.values():
                    panel.line(out, run, "run", colour)
                xs = sorted({x for run in seeds.values() for x, _ in run})
                means = [(x, [y for run in seeds.values() for at, y in run if at == x]) for x in xs]
                if means:
                    panel.line(out, [(x, sum(ys) / len(ys)) for x, ys in means], "mean", colour)
    bottom = height - 10
    for colour, rank in enumerate(ranks):
        if rank:
            out.append('<text class="s%d" x="%d" y="%d" font-weight="bold">rank %s</text>'
                       % (colour, LEFT + 70 * colour, bottom, rank[1:]))
    out.append('<text class="text" x="%d" y="%d">thick: the mean of the seeds, thin: each of them</text>'
               % (LEFT + 70 * len(ranks), bottom))
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n</svg>\n")
