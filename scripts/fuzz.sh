#!/bin/sh
# Fuzzes one target with libFuzzer, ASan and UBSan. Fails when it finds anything.
#
#   scripts/fuzz.sh gguf 60                 for a minute
#   scripts/fuzz.sh gguf runs=100000000     for that many executions, shared among the workers
#
# FUZZ_WORKERS: processes at once (1). FUZZ_MAX_LEN: longest input tried (4096, or what tests/fuzz/<target>.max_len
# says). FUZZ_BUILT: set where the target is known to be built, so that several may run at once.
# The working corpus lives in build/fuzz-corpus/<target> and grows there from run to run; nothing is merged back into
# tests/fuzz/corpus/<target> by itself. What breaks the target is kept in build/fuzz-found/<target>; run it again with
# build/fuzz/tests/fuzz/fuzz_<target>_replay FILE.
set -eu

if [ $# -ne 2 ]; then
    echo "usage: $0 TARGET SECONDS|runs=N" >&2
    exit 2
fi
target=$1
limit=$2
workers=${FUZZ_WORKERS:-1}
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"

if [ ! -f "tests/fuzz/fuzz_$target.c" ]; then
    echo "$0: no such target: tests/fuzz/fuzz_$target.c" >&2
    exit 2
fi
case $limit in
runs=*[!0-9]* | runs=) echo "$0: '$limit' is not runs=N" >&2; exit 2 ;;
runs=*)
    total=${limit#runs=}
    stop="-runs=$(((total + workers - 1) / workers))"
    ;;
*[!0-9]*) echo "$0: '$limit' is neither seconds nor runs=N" >&2; exit 2 ;;
*) stop="-max_total_time=$limit" ;;
esac

if [ -z "${FUZZ_BUILT:-}" ]; then
    cmake --preset fuzz >/dev/null
    cmake --build --preset fuzz -j "${FUZZ_BUILD_JOBS:-2}" --target "fuzz_$target" "fuzz_${target}_replay"
fi

corpus=$root/build/fuzz-corpus/$target
found=$root/build/fuzz-found/$target
logs=$root/build/fuzz-logs/$target
mkdir -p "$corpus" "$found" "$logs"
max_len=4096
if [ -f "tests/fuzz/$target.max_len" ]; then
    max_len=$(cat "tests/fuzz/$target.max_len")
fi
# Inputs that take long are mutated less often: a few of them would otherwise take most of the time.
set -- "$stop" -malloc_limit_mb=64 -rss_limit_mb=2048 -timeout=5 -max_len="${FUZZ_MAX_LEN:-$max_len}" \
    -entropic_scale_per_exec_time=1 -artifact_prefix="$found/" -print_final_stats=1
if [ -f "tests/fuzz/$target.dict" ]; then
    set -- "$@" -dict="$root/tests/fuzz/$target.dict"
fi
if [ "$workers" -gt 1 ]; then
    set -- "$@" -jobs="$workers" -workers="$workers"
else
    set -- "$@" -reload=0 # nobody else adds to the corpus
fi
# libFuzzer writes new inputs to the first folder; the second is only read.
set -- "$@" "$corpus" "$root/tests/fuzz/corpus/$target"

# What is freed is watched within an input: a longer memory would only be slow. So would long stacks of allocations.
ASAN_OPTIONS=${ASAN_OPTIONS:-quarantine_size_mb=16:malloc_context_size=12}
UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export ASAN_OPTIONS UBSAN_OPTIONS
cd "$logs" # where the workers' logs go
if ! "$root/build/fuzz/tests/fuzz/fuzz_$target" "$@"; then
    echo "$0: fuzz_$target failed; what it found is in build/fuzz-found/$target" >&2
    exit 1
fi
