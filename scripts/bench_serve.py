#!/usr/bin/env python3
"""Many sequences at once, beside llama-batched-bench, on the same ggml build and in the same minutes.

Each round runs both, who goes first changing from round to round; prompts and answers of all sequences are counted
together. Prints medians of the rounds:

    serve.<sequences>.<model>.ratio=1.10     tokens a second, ours / theirs
    serve.<sequences>.<model>.ours=210.3     and what they are made of
    serve.<sequences>.<model>.theirs=191.0

Compare only on a machine that does nothing else.
"""

import argparse
import os
import statistics
import sys

from llama_tools import BUILD, model_path, run, run_llama


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="tinyllama-q4_k_m,qwen2.5-0.5b-q8_0")
    parser.add_argument("--sequences", default="1,4,16,64")
    parser.add_argument("--prompt", type=int, default=128, help="tokens of each prompt")
    parser.add_argument("--gen", type=int, default=64, help="tokens of each answer")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--kv", choices=["f16", "tiers"], default="f16", help="our keys and values; theirs are F16")
    return parser.parse_args()


def ours(model, n, a):
    out = run([os.path.join(BUILD, "bench", "bench_serve"), model, str(n), str(a.prompt), str(a.gen), str(a.threads),
               a.kv])
    return float(out.split("tok_s=")[1].split()[0])


def theirs(model, n, a):
    context = n * (a.prompt + a.gen)
    out = run_llama("llama-batched-bench", ["-m", model, "-npp", str(a.prompt), "-ntg", str(a.gen), "-npl", str(n),
                                            "-t", str(a.threads), "-tb", str(a.threads), "-c", str(context), "-fa", "on",
                                            "-kvu"])
    row = [line for line in out.splitlines() if line.startswith("|")][-1]
    return float(row.strip("| ").split("|")[-1])


def main():
    a = parse_arguments()
    for name in a.models.split(","):
        model = model_path(name)
        for n in [int(n) for n in a.sequences.split(",")]:
            rates = {ours: [], theirs: []}
            for i in range(a.rounds):
                for side in (ours, theirs) if i % 2 == 0 else (theirs, ours):
                    rates[side].append(side(model, n, a))
            key = "serve.%d.%s" % (n, os.path.basename(name))
            each = [x / y for x, y in zip(rates[ours], rates[theirs])]
            print("%s.ratio=%.3f" % (key, statistics.median(each)))
            print("%s.range=%.3f..%.3f" % (key, min(each), max(each)))
            print("%s.ours=%.2f" % (key, statistics.median(rates[ours])))
            print("%s.theirs=%.2f" % (key, statistics.median(rates[theirs])), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
