#!/usr/bin/env python3
"""Our engine against llama.cpp, on the same ggml build and in the same minutes.

Each round runs llama-bench and `ruvllm bench` one after the other, who goes first changing from round to round, and
gives one ratio of ours to theirs; the median of the rounds is printed, as name=value lines:

    engine.pp512.<model>.t<threads>=1.02             prompt of 512 tokens, ours / theirs
    engine.tg128.<model>.t<threads>=1.11             128 tokens generated
    engine.tg128.<model>.t<threads>.ours=23.5        medians, tokens a second
    engine.tg128.<model>.t<threads>.bandwidth.ours=0.45   weights read a second against what memory gives

Both load the model for every round, so that neither profits from where its pages came to lie the last time.
Compare only on a machine that does nothing else. --quick is for seeing that it works, not for figures.
"""

import argparse
import json
import os
import statistics
import sys

from llama_tools import BUILD, model_path, run, run_llama

MODELS = ["qwen2.5-0.5b-q8_0", "qwen2.5-1.5b-q4_k_m", "tinyllama-q4_k_m"]
FLOOR = 0.97


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS), help="names in the models folder, or paths, with commas")
    parser.add_argument("--threads", default="1,2", help="thread counts (default 1,2)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each pair (default 5)")
    parser.add_argument("--repeats", type=int, default=3, help="runs within a round, their median counts (default 3)")
    parser.add_argument("--prompt", type=int, default=512, help="prompt tokens; 0 leaves the test out")
    parser.add_argument("--gen", type=int, default=128, help="generated tokens; 0 leaves the test out")
    parser.add_argument("--attention", default="auto", help="whose attention ours is: auto, own or ggml (default auto)")
    parser.add_argument("--quick", action="store_true", help="one round, first model, pp64 and tg16")
    parser.add_argument("--build", default=BUILD, help="build folder to measure")
    parser.add_argument("--check", action="store_true", help="fail when a ratio is below %.2f" % FLOOR)
    arguments = parser.parse_args()
    arguments.models = arguments.models.split(",")
    arguments.threads = [int(t) for t in arguments.threads.split(",")]
    if arguments.quick:
        arguments.rounds, arguments.repeats, arguments.prompt, arguments.gen = 1, 1, 64, 16
        arguments.models = arguments.models[:1]
    return arguments


def theirs(model, threads, arguments):
    """Tokens a second by test name, from llama-bench with the libraries we link ourselves."""
    out = run_llama("llama-bench", ["-m", model, "-t", str(threads), "-r", str(arguments.repeats),
                                    "-p", str(arguments.prompt), "-n", str(arguments.gen), "-o", "json"])
    return {("pp%d" % r["n_prompt"] if r["n_prompt"] else "tg%d" % r["n_gen"]): statistics.median(r["samples_ts"])
            for r in json.loads(out)}


def ours(model, threads, arguments):
    out = run([os.path.join(arguments.build, "apps", "cli", "ruvllm"), "bench", model, "-t", str(threads),
               "-r", str(arguments.repeats), "-p", str(arguments.prompt), "-n", str(arguments.gen), "--json",
               "--attention", arguments.attention])
    return {r["test"]: statistics.median(r["tokens_per_second"]) for r in json.loads(out)["results"]}


def bytes_per_token(model, arguments):
    """Weights read for one token: all of them, but an embedding that is not the head gives only a row."""
    out = run([os.path.join(arguments.build, "apps", "cli", "ruvllm"), "info", "--tensors", "--json", model])
    sizes = {t["name"]: t["n_bytes"] for t in json.loads(out)["file"]["tensors"]}
    total = sum(sizes.values())
    return total - sizes["token_embd.weight"] if "output.weight" in sizes else total


def bandwidth(threads, arguments):
    """Bytes a second that many threads can read."""
    out = run([os.path.join(arguments.build, "bench", "bench_bandwidth"), str(threads)])
    return float(out.split("=")[1]) * 1e9


def measure(model, threads, arguments):
    """One dictionary of lists, a value a round: (side, test) and bandwidth."""
    figures = {}
    for i in range(arguments.rounds):
        sides = [("ours", ours), ("theirs", theirs)]
        for side, measured in sides if i % 2 == 0 else reversed(sides):
            for test, rate in measured(model, threads, arguments).items():
                figures.setdefault((side, test), []).append(rate)
        figures.setdefault("bandwidth", []).append(bandwidth(threads, arguments))
    return figures


def report(name, threads, figures, n_bytes):
    """Prints the figures of one model and thread count; the ratios by test."""
    ratios = {}
    ceiling = statistics.median(figures["bandwidth"])
    for side, test in [k for k in figures if k != "bandwidth" and k[0] == "ours"]:
        pairs = zip(figures[("ours", test)], figures[("theirs", test)])
        each = [a / b for a, b in pairs]
        key = "engine.%s.%s.t%d" % (test, name, threads)
        ratios[key] = statistics.median(each)
        print("%s=%.3f" % (key, ratios[key]))
        print("%s.range=%.3f..%.3f" % (key, min(each), max(each)))
        for side in ("ours", "theirs"):
            rate = statistics.median(figures[(side, test)])
            print("%s.%s=%.2f" % (key, side, rate))
            if test.startswith("tg"):
                print("%s.bandwidth.%s=%.3f" % (key, side, rate * n_bytes / ceiling))
    print("engine.bandwidth.%s.t%d=%.2f" % (name, threads, ceiling * 1e-9), flush=True)
    return ratios


def main():
    arguments = parse_arguments()
    ratios = {}
    for name in arguments.models:
        model = model_path(name)
        name = os.path.basename(model).removesuffix(".gguf")
        n_bytes = bytes_per_token(model, arguments)
        for threads in arguments.threads:
            ratios.update(report(name, threads, measure(model, threads, arguments), n_bytes))
    low = [k for k, v in ratios.items() if v < FLOOR]
    if low:
        print("below %.2f: %s" % (FLOOR, " ".join(low)))
    return 1 if arguments.check and low else 0


if __name__ == "__main__":
    sys.exit(main())
