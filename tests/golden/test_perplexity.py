#!/usr/bin/env python3
"""`ruvllm perplexity` and llama-perplexity agree within 0.1 % on the trained models.

First 20 chunks (or what the text gives), context 256, TinyLlama 512, the texts the test data names for each model.
TinyLlama takes minutes: of its three files two chunks of one are enough unless RUVLLM_PARITY is "full", as
`make parity` has it; its weights' kernels are test_parity's to compare.
Both programs run on the same ggml build and compute one chunk at a time; minimind2 gets its begin-of-text token
forced on both sides, for without it the model is lost.
"""

import json
import os
import re
import subprocess
import sys

PROGRAM = os.environ.get("RUVLLM", "build/release/apps/cli/ruvllm")
DATA = os.environ.get("RUVLLM_TEST_DATA", "../shared/data")
DEPS = os.environ.get("RUVLLM_DEPS_DIR") or os.path.expanduser("~/.cache/ruvllm-deps")
MODELS = os.environ.get("RUVLLM_MODELS_DIR") or os.path.join(DEPS, "models")
JUDGE = os.path.join(DEPS, "tools", "bin", "llama-perplexity")
THREADS = os.environ.get("RUVLLM_TEST_THREADS", "2")
CHUNKS = 20
IS_FULL = os.environ.get("RUVLLM_PARITY") == "full"
SAMPLE = "tinyllama-q4_k_m.gguf"
MAX_DIFFERENCE = 0.001
SKIPPED = 77

STORIES = "tinystories_val_100k.txt"
WIKI = "wikitext2_24k.txt"
WIKI_SHORT = "wikitext2_6k.txt"

# Left wholly mapped by us, partly laid out anew by llama.cpp, which are other kernels: worth 0.3 % on a text this
# short. Both are told to leave it as it is.
AS_IN_FILE = {"tinyllama-iq2_xxs.gguf"}

# file, text, context, is BOS forced
CASES = [
    (os.path.join(DATA, "models", "stories260K.gguf"), STORIES, 256, False),
    (os.path.join(DATA, "models", "stories15M-f16.gguf"), STORIES, 256, False),
    (os.path.join(MODELS, "stories15M-q8_0.gguf"), STORIES, 256, False),
    (os.path.join(MODELS, "stories15M-q4_0.gguf"), STORIES, 256, False),
    (os.path.join(DATA, "models", "minimind2-26m-f16.gguf"), WIKI, 256, True),
    (os.path.join(MODELS, "minimind2-26m-q8_0.gguf"), WIKI, 256, True),
    (os.path.join(MODELS, "minimind2-26m-q4_0.gguf"), WIKI, 256, True),
    (os.path.join(MODELS, "minimind2-26m-q4_k_m.gguf"), WIKI, 256, True),
    (os.path.join(MODELS, "tinyllama-iq2_xxs.gguf"), WIKI_SHORT, 512, False),
    (os.path.join(MODELS, "tinyllama-q4_k_m.gguf"), WIKI_SHORT, 512, False),
    (os.path.join(MODELS, "tinyllama-q8_0.gguf"), WIKI_SHORT, 512, False),
]


def is_wanted(model):
    name = os.path.basename(model)
    return IS_FULL or not name.startswith("tinyllama") or name == SAMPLE


def chunks(model):
    return 2 if os.path.basename(model) == SAMPLE and not IS_FULL else CHUNKS


def run(command, env=None):
    done = subprocess.run(command, capture_output=True, env=env, timeout=900)
    if done.returncode != 0:
        sys.exit("%s failed with %d:\n%s" % (command[0], done.returncode, done.stderr.decode(errors="replace")[-2000:]))
    return done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def layout(model):
    return ["--no-repack"] if os.path.basename(model) in AS_IN_FILE else []


def ours(model, text, context, is_forced):
    out, _ = run([PROGRAM, "perplexity", model, "-f", text, "--ctx", str(context), "--chunks", str(chunks(model)),
                  "--threads", THREADS, "--bos", "force" if is_forced else "auto", "--json"] + layout(model))
    result = json.loads(out)
    return result["perplexity"], result["chunks"]


def theirs(model, text, context, is_forced):
    # The libraries we link come first, so that both sides compute with the same kernels.
    libraries = os.path.join(DEPS, "release", "lib") + ":" + os.path.join(DEPS, "tools", "lib")
    command = [JUDGE, "-m", model, "-f", text, "-c", str(context), "-b", str(context), "--chunks", str(chunks(model)),
               "-t", THREADS] + layout(model)
    if is_forced:
        command += ["--override-kv", "tokenizer.ggml.add_bos_token=bool:true"]
    out, err = run(command, env=dict(os.environ, LD_LIBRARY_PATH=libraries))
    found = re.search(r"Final estimate: PPL = ([0-9.]+)", out + err)
    if not found:
        sys.exit("llama-perplexity gave no estimate:\n" + err[-2000:])
    return float(found.group(1))


def main():
    missing = [p for p in [JUDGE] + [c[0] for c in CASES] if not os.access(p, os.R_OK)]
    if missing:
        print("\n*** REAL-DATA TEST SKIPPED: '%s' is not there; run `make setup models`\n" % missing[0],
              file=sys.stderr)
        return SKIPPED
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    n_failed = 0
    for model, text, context, is_forced in CASES:
        name = os.path.basename(model)[: -len(".gguf")]
        if wanted not in name or not is_wanted(model):
            continue
        path = os.path.join(DATA, "text", text)
        we, n_chunks = ours(model, path, context, is_forced)
        they = theirs(model, path, context, is_forced)
        difference = we / they - 1
        is_good = abs(difference) <= MAX_DIFFERENCE
        n_failed += not is_good
        print("perplexity %-24s ctx %d chunks %2d  ours %.4f  llama-perplexity %.4f  %+.4f %%%s"
              % (name, context, n_chunks, we, they, 100 * difference, "" if is_good else "  TOO FAR"), flush=True)
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
