#!/usr/bin/env python3
"""What feedback gains and what it costs: the rows of the table in docs/internals/bench-learn.md, by bench_learn and its like.

Runs every row on its models, with several seeds where chance has a part, and prints

    learn.<row>[.r<rank>][.<what>].<model>=<value> ci=[lo,hi] must=<bound> ok|below

The interval is of 95 %. Where a seed only draws more samples (one vote each, say) all are taken together; where a seed
is a whole course of learning, the interval is Student's over seeds, which with three of them is wide.

Writes docs/learning/figures.md as rows end, each in place of its figures of the run before, and curves as
docs/learning/row<N>.svg for rows that were run on all their models.
"""

import argparse
import concurrent.futures
import math
import os
import re
import statistics
import subprocess
import sys
import time

from learn_curves import draw
from llama_tools import BUILD, DATA, DEPS, ROOT

SMALL = ["stories260K", "stories15M-f16", "minimind2-26m-f16"]
LARGE = ["tinyllama-q4_k_m", "qwen2.5-0.5b-q8_0"]
STUDENT = [0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26]

# What a row needs: the models it is run on, and whether chance has a part. The first of large models has their first
# texts written, and "votes" has most at once.
ROWS = {
    "votes": (LARGE, False),
    "1": (SMALL, True),
    "2": (SMALL, True),
    "3": (SMALL, True),
    "4": (SMALL, True),
    "5": (SMALL, True),
    "6": (SMALL, True),
    "7": (SMALL, True),
    "8": (SMALL, False),
    "9": (SMALL, False),
    "10": (SMALL, True),
    "11": (SMALL, False),
    "12": (SMALL + LARGE, False),
    "13": (SMALL + LARGE, False),
    "14": (["stories15M-f16", "minimind2-26m-f16", "smollm2-135m-q8_0", "qwen2.5-0.5b-q8_0"], False),
    "15": (LARGE, False),
    "16": (SMALL, True),
    "26": (SMALL[:1], True),
}
OF_OTHERS = {"14", "15", "26", "votes"}  # rows of programs of their own
TIMED = {"11", "12", "13", "14", "15", "votes"}
LONG = {"2", "4", "6", "7", "10", "16"}  # minutes each: one seed but on the smallest model
FIRST_SEED = 6  # 1 to 5 were looked at when budgets and radii were chosen
KEEPS_STORE = {"12", "13"}  # and "votes": so that large models write their first texts once
SEQUENCES = {"stories15M-f16": 4, "smollm2-135m-q8_0": 0.5, "qwen2.5-0.5b-q8_0": 0.15}  # a second, row 14


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="", help="such as 1,2,votes; all that are there")
    parser.add_argument("--models", default="", help="names, or paths, with commas; each row's own")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--no-write", action="store_true", help="leave docs/learning as it is")
    parser.add_argument("--build", default=BUILD, help="build folder to measure")
    return parser.parse_args()


def find_model(name):
    """A trained one from the test data, or one that `make models` made; None where it is not there."""
    places = [name, os.path.join(DATA, "models", name + ".gguf"), os.path.join(DEPS, "models", name + ".gguf")]
    return next((p for p in places if os.path.isfile(p) and os.access(p, os.R_OK)), None)


def short_name(model):
    name = os.path.basename(model)
    name = name[:-5] if name.endswith(".gguf") else name
    return name[:-4] if name.endswith("-f16") else name


# ---- running --------------------------------------------------------------------------------------------------------

LINE = re.compile(r"(?:learn|votes)\.\S+?=(?P<value>\S+)")


class Figure:
    """One figure, over seeds."""

    def __init__(self, name):
        self.name, self.values, self.errors, self.bounds, self.side = name, [], [], [], None

    def add(self, line):
        fields = line.split()
        self.values.append(float(fields[0].split("=", 1)[1]))
        for field in fields[1:]:
            key, _, value = field.partition("=")
            if key == "se":
                self.errors.append(float(value))
            elif key == "must":
                self.side, bound = value[:2], value[2:]
                self.bounds.append(float(bound))

    def mean(self):
        return statistics.fmean(self.values)

    def interval(self):
        """None where there is nothing to say it by."""
        n = len(self.values)
        if len(self.errors) == n:
            half = 1.96 * math.sqrt(sum(e * e for e in self.errors)) / n
        elif n > 1:
            half = STUDENT[min(n - 1, len(STUDENT) - 1)] * statistics.stdev(self.values) / math.sqrt(n)
        else:
            return None
        return self.mean() - half, self.mean() + half

    def must(self):
        return statistics.fmean(self.bounds) if self.bounds else None

    def is_ok(self):
        if not self.bounds:
            return None
        return self.mean() >= self.must() if self.side == ">=" else self.mean() <= self.must()

    def cells(self):
        interval, ok = self.interval(), self.is_ok()
        return ("%.4g" % self.mean(), "[%.4g,%.4g]" % interval if interval else "-",
                "%s%.4g" % (self.side, self.must()) if self.bounds else "-", "-" if ok is None else "ok" if ok else "below")

    def text(self):
        value, interval, must, verdict = self.cells()
        return "%s=%s" % (self.name, value) + (" ci=%s" % interval if interval != "-" else "") + (
            " must=%s %s" % (must, verdict) if verdict != "-" else "")


def run(command, env=None):
    """What a program prints; ends us, with what it said, when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode != 0:
        sys.exit("%s failed:\n%s%s" % (" ".join(command), done.stdout[-2000:], done.stderr[-2000:]))
    return done.stdout


def commands(row, model, a):
    """What is run for a row and a model, one for each seed."""
    path, bench = find_model(model), os.path.join(a.build, "bench")
    store = os.path.join(a.build, "bench-learn", short_name(model) + ".db")
    os.makedirs(os.path.dirname(store), exist_ok=True)
    if row == "votes":
        return [[os.path.join(bench, "bench_votes"), path, "5", store]]
    if row == "14":
        reference = os.path.join(a.build, "tests", "golden", "bench_autograd")
        return [[os.path.join(bench, "bench_train"), path, short_name(model), "2", "2", "3"],
                [reference, path, short_name(model), "2", "2" if model in SMALL else "1"]]
    if row == "15":
        return [[os.path.join(bench, "bench_lora"), path, "2", "5"]]
    n_seeds = a.seeds if ROWS[row][1] and (row not in LONG or model == SMALL[0]) else 1
    seeds = range(FIRST_SEED, FIRST_SEED + n_seeds)
    if row == "26":
        return [[os.path.join(bench, "bench_poison"), path, "1000", "5", str(seed)] for seed in seeds]
    extra = ["long", store] if row in KEEPS_STORE else []
    return [[os.path.join(bench, "bench_learn"), path, row, str(seed)] + extra for seed in seeds]


def translate(row, model, lines):
    """Lines of programs that have figures of their own, as ours."""
    name = short_name(model)
    for line in lines:
        key, _, value = line.partition("=")
        if row == "14" and key == "deep.%s.seqs_per_s" % name:
            yield "learn.14.%s=%s" % (name, value) + (" must=>=%g" % SEQUENCES[model] if model in SEQUENCES else "")
        elif row == "14" and key == "reference.%s.seqs_per_s" % name:
            yield "learn.14.reference.%s=%s" % (name, value)
        elif row == "15" and key == "lora.16x8.%s" % name:
            yield "learn.15.%s=%s must=>=0.9" % (name, value)
        elif row not in ("14", "15"):
            yield line


def take(row, model, seed, out, figures, curves):
    """Reads what one run has printed into `figures` by name and `curves`, a list of (rank, what, model, seed, x, y)."""
    for line in translate(row, model, out.splitlines()):
        if line.startswith("curve."):
            key, y = line.split("=")
            key, x = key.split("@")
            parts = key[len("curve.%s." % row):-len("." + short_name(model))].split(".")
            rank = parts.pop(0) if re.fullmatch(r"r\d+", parts[0]) else ""
            curves.append((rank, ".".join(parts), short_name(model), seed, float(x), float(y)))
        elif LINE.match(line):
            name = line.split("=")[0]
            figures.setdefault(name, Figure(name)).add(line)


def cost_of(row, model):
    """What to begin with: courses of minutes, and of those the largest models, so that nothing long is left to the end."""
    return row in LONG, SMALL.index(model) if model in SMALL else 0


class Course:
    """A row on a model while it is measured: what it runs, a seed each, and what that has come to."""

    def __init__(self, row, model, a):
        self.row, self.model, self.figures, self.curves = row, model, [], []
        self.jobs = list(enumerate(commands(row, model, a), 1))
        self.running = []

    def start(self, pool, job):
        self.running.append(pool.submit(self.work, *job))

    def work(self, seed, command):
        began = time.monotonic()
        out = run(command)
        print("# row %s %s %d took %.0f s" % (self.row, short_name(self.model), seed, time.monotonic() - began), flush=True)
        return out

    def is_done(self):
        return all(future.done() for future in self.running)

    def end(self):
        """Reads what was printed, in the order of seeds, whichever came first."""
        figures = {}
        for (seed, _), future in zip(self.jobs, self.running):
            take(self.row, self.model, seed, future.result(), figures, self.curves)
        self.figures = list(figures.values())
        for figure in self.figures:
            print(figure.text(), flush=True)


def measure(courses, n_at_once):
    """Runs the courses' jobs, `n_at_once` of them; yields each course when its last job is done."""
    with concurrent.futures.ThreadPoolExecutor(n_at_once) as pool:
        jobs = [(course, job) for course in courses for job in course.jobs]
        if n_at_once > 1:
            jobs.sort(key=lambda pair: cost_of(pair[0].row, pair[0].model), reverse=True)
        for course, job in jobs:
            course.start(pool, job)
        left, futures = list(courses), [f for course in courses for f in course.running]
        for future in concurrent.futures.as_completed(futures):
            if future.exception():
                pool.shutdown(wait=False, cancel_futures=True)
            future.result()
            for course in [c for c in left if c.is_done()]:
                left.remove(course)
                course.end()
                yield course


def kill_store(a, figures):
    """Row 9's other half: the store alone, by its own test, which fails when an acknowledged event is lost or doubled."""
    out = run([os.path.join(a.build, "tests", "test_store_kill")],
              dict(os.environ, RUVLLM_KILLS="200"))
    found = re.search(r"(\d+) kills, (\d+) acknowledged", out)
    if not found:
        sys.exit("test_store_kill does not say what it did:\n%s" % out)
    for what, value in zip(("kills", "acknowledged"), found.groups()):
        figure = Figure("learn.9.store.%s.sqlite" % what)
        figure.add("%s=%s" % (figure.name, value))
        figures.append(figure)
        print(figure.text(), flush=True)


# ---- writing --------------------------------------------------------------------------------------------------------

HEAD = """# What learning gains, measured

Written by `make bench-learn`; a row's figures are of the last run that had it. What the rows mean is in
[internals/bench-learn.md](../internals/bench-learn.md). `must` is what was to be reached, and the last column says whether the figure does.
Intervals are of 95 %: over single votes where a figure counts those, else over seeds (Student's, which with three seeds is wide).

| figure | value | interval | must | |
|---|---|---|---|---|
"""


def order_of(name):
    """learn.2 before learn.10, votes last."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"[.]", name)]


def is_of(name, row, model):
    return name.startswith("votes." if row == "votes" else "learn.%s." % row) and name.endswith("." + model)


def write_table(path, figures, row, model):
    """The figures before of that row and model are forgotten, or of the same name."""
    rows = {}
    if os.path.exists(path):
        for line in open(path, encoding="utf-8"):
            found = re.match(r"\| `(\S+)` \|", line)
            if found and not is_of(found.group(1), row, model):
                rows[found.group(1)] = line
    for figure in figures:
        rows[figure.name] = "| `%s` | %s | %s | %s | %s |\n" % ((figure.name,) + figure.cells())
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEAD + "".join(rows[name] for name in sorted(rows, key=order_of)))


def write(course, done):
    """At once, so that a run that is stopped keeps what it has measured; curves when the row is `done` on all its models."""
    folder = os.path.join(ROOT, "docs", "learning")
    os.makedirs(folder, exist_ok=True)
    write_table(os.path.join(folder, "figures.md"), course.figures, course.row, short_name(course.model))
    same = {c.model: c for c in done if c.row == course.row}
    if course.curves and set(ROWS[course.row][0]) <= set(same):
        draw([point for model in ROWS[course.row][0] for point in same[model].curves], course.row,
             os.path.join(folder, "row%s.svg" % course.row))


def main():
    a = parse_arguments()
    wanted = a.rows.split(",") if a.rows else [
        r for r in ROWS if r in OF_OTHERS or os.path.exists(os.path.join(ROOT, "bench", "learn_row%s.c" % r))]
    courses, done, start = [], [], time.monotonic()
    for row in wanted:
        if row not in ROWS:
            sys.exit("there is no row '%s'" % row)
        models = a.models.split(",") if a.models else ROWS[row][0]
        for model in [m for m in models if not find_model(m)]:
            print("# row %s: '%s' is not there; run `make models`" % (row, model), flush=True)
        courses += [Course(row, m, a) for m in models if find_model(m)]
    # What measures time has the machine for itself; the rest runs as many at once as there are processors.
    for is_timed, n_at_once in ((True, 1), (False, os.cpu_count())):
        for course in measure([c for c in courses if (c.row in TIMED) == is_timed], n_at_once):
            if course.row == "9" and course.model == SMALL[0]:
                kill_store(a, course.figures)
            done.append(course)
            if course.figures and not a.no_write:
                write(course, done)
            print("# row %s %s after %.1f minutes" % (course.row, short_name(course.model), (time.monotonic() - start) / 60), flush=True)
    figures = [f for course in done for f in course.figures]
    low = [f.name for f in figures if f.is_ok() is False]
    print("# %d figures, %d below what they must be, %.1f minutes" % (len(figures), len(low), (time.monotonic() - start) / 60))
    for name in low:
        print("# below: %s" % name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
