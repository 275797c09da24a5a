#!/usr/bin/env python3
"""What adapters cost a step, ours and llama.cpp's, as ratios to the same step without them.

Runs bench_lora for each model, ours first and then llama.cpp's, and prints its name=value lines: see bench/bench_lora.c
for what they mean. Each ratio is the median of rounds that run both in turn. Compare only on a machine that does nothing
else.
"""

import argparse
import os
import sys

from llama_tools import BUILD, model_path, run

MODELS = "qwen2.5-0.5b-q8_0,tinyllama-q4_k_m"
FLOORS = {"16x8": 0.90, "head16x2": 0.99, "prefill512": 0.95}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=MODELS, help="names in the models folder, or paths, with commas")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ours-only", action="store_true", help="leave llama.cpp out")
    parser.add_argument("--check", action="store_true", help="fail when a ratio is below its floor")
    parser.add_argument("--build", default=BUILD, help="build folder to measure")
    return parser.parse_args()


def main():
    a = parse_arguments()
    low = []
    for name in a.models.split(","):
        model = model_path(name)
        command = [os.path.join(a.build, "bench", "bench_lora"), model, str(a.threads), str(a.rounds)]
        for side in [[]] if a.ours_only else [[], ["llama"]]:
            out = run(command + side)
            print(out, end="", flush=True)
            for line in out.splitlines():
                key, value = line.split("=")
                figure = key.split(".")[1]
                if figure in FLOORS and not key.endswith(("range", "tok_s")) and float(value) < FLOORS[figure]:
                    low.append("%s (%s < %.2f)" % (key, value, FLOORS[figure]))
    if low:
        print("below the floor: %s" % ", ".join(low))
    return 1 if a.check and low else 0


if __name__ == "__main__":
    sys.exit(main())
