#!/usr/bin/env python3
"""What keys and values in fewer bits cost: our tiers beside llama.cpp's quantised caches, by KL divergence to F16.

Ours comes from bench/bench_kv, theirs from llama-perplexity (--kl-divergence), both in steps of 64 tokens over the same
chunks of the same text, the second half of each chunk scored. Prints the lines of bench_kv, and

    kv.<model>.<context>.llama_q8_0.kl=     .ppl=   .bytes=
    kv.<model>.<context>.llama_q4_0.kl=     .ppl=   .bytes=
    kv.<model>.<context>.tiers.kl_ratio=    our tiers' KL divided by their q4_0's
    kv.<model>.<context>.tiers.bytes_ratio= our bytes divided by their q4_0's

--svg FILE draws KL against bytes.
"""

import argparse
import os
import re
import sys
import tempfile

from llama_tools import BUILD, DATA, model_path, run, run_llama

STEP = 64
BITS = {"q8_0": 34 / 32, "q4_0": 18 / 32, "f16": 2}  # bytes a number


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="tinyllama-q8_0,tinyllama-q4_k_m")
    parser.add_argument("--contexts", default="2048,4096")
    parser.add_argument("--chunks", type=int, default=3)
    parser.add_argument("--text", default=os.path.join(DATA, "text", "wikitext2_raw_test_crlf_noblank.txt"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--svg", help="draw the figures here")
    return parser.parse_args()


def theirs(model, context, a, figures, key):
    """llama-perplexity: once to keep the F16 logits, then each quantised cache against them."""
    base = ["-m", model, "-f", a.text, "-c", str(context), "-b", str(STEP), "-ub", str(STEP), "--chunks", str(a.chunks),
            "-t", str(a.threads), "-fa", "on"]
    if context > 2048:
        base += ["--rope-scaling", "yarn", "--rope-scale", str(context / 2048), "--yarn-orig-ctx", "2048"]
    with tempfile.TemporaryDirectory() as folder:
        logits = os.path.join(folder, "logits")
        run_llama("llama-perplexity", base + ["--kl-divergence-base", logits])
        for kind in ("q8_0", "q4_0"):
            out = run_llama("llama-perplexity", base + ["-ctk", kind, "-ctv", kind, "--kl-divergence-base", logits,
                                                        "--kl-divergence"])
            name = "%s.llama_%s" % (key, kind)
            for figure, pattern in ((".kl", r"Mean\s+KLD:\s+(-?[\d.]+)"), (".ppl", r"Mean PPL\(Q\)\s*:\s*([\d.]+)")):
                found = re.search(pattern, out)
                if not found:
                    sys.exit("llama-perplexity prints no line like '%s'" % pattern)
                figures[name + figure] = float(found.group(1))
            figures[name + ".bytes"] = figures[key + ".f16.bytes"] * BITS[kind] / BITS["f16"]


def ours(model, context, a, figures, name):
    out = run([os.path.join(BUILD, "bench", "bench_kv"), model, a.text, str(context), str(a.chunks), name])
    for line in out.splitlines():
        if "=" in line:
            key, value = line.split("=")
            figures[key] = float(value)
            print(line, flush=True)


def draw(figures, keys, path):
    """KL (logarithmic) against bytes a token, one panel a model and context."""
    import math
    width, height, pad = 340, 260, 50
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">'
           % (width * len(keys), height + 30), '<rect width="100%" height="100%" fill="white"/>']
    for i, key in enumerate(keys):
        points = [(k[len(key) + 1:-3], figures[k], figures[k[:-3] + ".bytes"]) for k in figures
                  if k.startswith(key + ".") and k.endswith(".kl") and figures[k] > 0]
        most = max(b for _, _, b in points) * 1.15
        low = math.floor(math.log10(min(k for _, k, _ in points)))
        high = math.ceil(math.log10(max(k for _, k, _ in points)))
        left = i * width + pad
        place = lambda b, k: (left + b / most * (width - pad - 30),
                              20 + (high - math.log10(k)) / max(1, high - low) * (height - pad))
        out.append('<text x="%d" y="14" font-weight="bold">%s</text>' % (left, key[3:]))
        for power in range(low, high + 1):
            x, y = place(0, 10 ** power)
            out.append('<line x1="%.0f" y1="%.0f" x2="%.0f" y2="%.0f" stroke="#ddd"/>' % (x, y, x + width - pad - 30, y))
            out.append('<text x="%.0f" y="%.0f" text-anchor="end">1e%d</text>' % (x - 4, y + 4, power))
        for n, (name, kl, b) in enumerate(sorted(points, key=lambda p: p[1])):
            x, y = place(b, kl)
            colour = "#c33" if name.startswith("llama") else "#06c"
            side = (6, "start") if n % 2 else (-6, "end")  # neighbours keep out of each other's way
            out.append('<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>' % (x, y, colour))
            out.append('<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>'
                       % (x + side[0], y + 4, side[1], colour, name))
        out.append('<text x="%d" y="%d">bytes a token (right is more), KL to F16 (down is better)</text>'
                   % (left, height + 16))
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n</svg>\n")


def main():
    a = parse_arguments()
    figures, keys = {}, []
    for name in a.models.split(","):
        model = model_path(name)
        for context in [int(c) for c in a.contexts.split(",")]:
            key = "kv.%s.%d" % (name, context)
            keys.append(key)
            ours(model, context, a, figures, name)
            before = set(figures)
            theirs(model, context, a, figures, key)
            for policy in ("tiers", "tiers_hot128"):
                figures["%s.%s.kl_ratio" % (key, policy)] = figures["%s.%s.kl" % (key, policy)] / figures[
                    key + ".llama_q4_0.kl"]
                figures["%s.%s.bytes_ratio" % (key, policy)] = figures["%s.%s.bytes" % (key, policy)] / figures[
                    key + ".llama_q4_0.bytes"]
            for line in sorted(set(figures) - before):
                print("%s=%.6g" % (line, figures[line]), flush=True)
    if a.svg:
        draw(figures, keys, a.svg)
    return 0


if __name__ == "__main__":
    sys.exit(main())
