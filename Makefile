# The front door: short names for what CMake's presets and the scripts do. `make` alone explains them.
.DEFAULT_GOAL := help
.PHONY: help setup models build test check check-format check-tidy format asan tsan fuzz fuzz-long bench bench-engine bench-kv \
	bench-serve bench-lora bench-grammar bench-spec bench-learn bench-store server-load schema-campaign spec-campaign parity kv-random store-kill \
	learn-outage install deb clean

PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
MODELS_DIR ?= $(or $(RUVLLM_DEPS_DIR),$(HOME)/.cache/ruvllm-deps)/models
FUZZ_TARGETS := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
SERVER_LOAD := test_load_soak test_load_cancel test_load_overload test_load_slow test_load_end test_load_tenants \
	test_cve_proxy test_cve_key_timing
FORMATTED = $(shell git ls-files '*.c' '*.h')

help:
	@echo 'RuvLLM, from a fresh clone to the first answer:'
	@echo
	@echo '    make setup      install packages, build ggml and libllama into a cache (minutes once, then seconds)'
	@echo '    make models     fetch TinyLlama, make the synthetic models'
	@echo '    make build      optimised build in build/release; the program is build/release/apps/cli/ruvllm'
	@echo
	@echo 'While working:'
	@echo '    make test       debug build with -Werror and the fast tests: run it before every commit'
	@echo '    make check      layers, sources, formatting and clang-tidy; any warning fails'
	@echo '    make format     let clang-format rewrite the sources'
	@echo
	@echo 'Before a merge:'
	@echo '    make parity     the slow tests in full: our numbers and tokens against libllama on real and synthetic models'
	@echo '    make asan       address and undefined-behaviour sanitizers'
	@echo '    make tsan       thread sanitizer'
	@echo '    make kv-random  a million random operations on blocks, prefix tree and scheduler'
	@echo '    make store-kill 1000 kills while events stream and while tenants vote, into SQLite and into PostgreSQL'
	@echo '    make learn-outage  PostgreSQL away for a minute while a server answers and learns'
	@echo '    make fuzz       every fuzz target for FUZZ_SECONDS (60); found inputs stay in build/fuzz-found'
	@echo '    make fuzz-long  10^8 executions of the GGUF reader, 10^7 of every other target (hours)'
	@echo '    make server-load  the server under load and attack, the full forms (about half an hour)'
	@echo '    make schema-campaign  1000 random schemas on each of three models, judged by ajv (minutes; CAMPAIGN_FILE: goes on where it was)'
	@echo '    make spec-campaign  answers with guessing ahead and without, 200 texts on each of three models'
	@echo '    .ci/run         all of it, as CI does'
	@echo
	@echo 'Figures and installation:'
	@echo '    make bench         the small ones in bench/, one name=value line a figure'
	@echo '    make bench-engine  us and llama.cpp, interleaved, as ratios'
	@echo '    make bench-kv      keys and values in fewer bits: what they cost, beside llama.cpp'
	@echo '    make bench-serve   many sequences at once beside llama.cpp, and what serving promises'
	@echo '    make bench-lora    what adapters cost a step, beside llama.cpp'
	@echo '    make bench-grammar what answers with a shape cost a token, beside llama.cpp, and 64 of them in a batch'
	@echo '    make bench-spec    tokens a second with guessing ahead, over those without'
	@echo '    make bench-learn   what feedback gains and what it costs; ROWS=1,2 MODELS=... SEEDS=3 (an hour and a quarter)'
	@echo '    make bench-store   events into the store: how many a second, how soon acknowledged'
	@echo '    make install       to PREFIX (/usr/local)'
	@echo '    make deb           Debian packages for any machine like this one, in build/package'
	@echo '    make clean         remove build/; the cache of `make setup` stays'

setup:
	scripts/setup.sh

models:
	scripts/models.sh

build:
	cmake --preset release
	cmake --build --preset release

test:
	cmake --workflow --preset dev

check: check-format
	python3 scripts/check_layers.py
	python3 scripts/check_source.py
	cmake --preset dev >build/check.log || { cat build/check.log; exit 1; }
	python3 scripts/check_tidy.py build/dev

check-format:
	@mkdir -p build
	clang-format --dry-run -Werror $(FORMATTED)

format:
	clang-format -i $(FORMATTED)

asan tsan:
	cmake --workflow --preset $@

fuzz:
	set -e; for target in $(FUZZ_TARGETS); do scripts/fuzz.sh $$target $(FUZZ_SECONDS); done

fuzz-long:
	set -e; for target in $(FUZZ_TARGETS); do \
	    case $$target in gguf) runs=100000000 ;; *) runs=10000000 ;; esac; \
	    FUZZ_WORKERS=$$(nproc) scripts/fuzz.sh $$target runs=$$runs; \
	done

bench: build
	set -e; for program in bandwidth sampler tokenize attention sched; do build/release/bench/bench_$$program; done

bench-engine: build
	python3 scripts/bench_engine.py

bench-kv: build
	python3 scripts/bench_kv.py --svg docs/internals/kv.svg

bench-serve: build
	python3 scripts/bench_serve.py
	for part in capacity prefix paged migration needle; do build/release/bench/bench_serving $(MODELS_DIR)/tinyllama-q8_0.gguf $$part; done
	build/release/bench/bench_serving $(MODELS_DIR)/qwen2.5-0.5b-q8_0.gguf latency

bench-lora: build
	python3 scripts/bench_lora.py

bench-grammar: build
	build/release/bench/bench_grammar $(MODELS_DIR)/qwen2.5-0.5b-q8_0.gguf
	build/release/bench/bench_grammar beside $(MODELS_DIR)/qwen2.5-0.5b-q8_0.gguf
	build/release/bench/bench_grammar rows $(MODELS_DIR)/qwen2.5-0.5b-q8_0.gguf

bench-spec: build
	for case in copy free; do build/release/bench/bench_spec $(MODELS_DIR)/tinyllama-q4_k_m.gguf $$case || exit 1; done
	for case in draft free; do \
	    build/release/bench/bench_spec $(MODELS_DIR)/tinyllama-q4_k_m.gguf $$case $(MODELS_DIR)/stories15M-q8_0.gguf || exit 1; done
	for right in 0.8 0.5 0; do \
	    build/release/bench/bench_spec $(MODELS_DIR)/qwen2.5-1.5b-q4_k_m.gguf shape $(MODELS_DIR)/qwen2.5-0.5b-q4_0.gguf $$right || exit 1; done

bench-learn: build
	python3 scripts/bench_learn.py $(if $(ROWS),--rows $(ROWS)) $(if $(MODELS),--models $(MODELS)) --seeds $(or $(SEEDS),3)

bench-store: build
	build/release/bench/bench_store build/bench-store.db
	XDG_STATE_HOME=$(CURDIR)/build/state RUVLLM_TEST_POSTGRES_FSYNC=1 python3 tests/support/with_postgres.py run sh -c \
	    'build/release/bench/bench_store "$$(echo "$$RUVLLM_TEST_POSTGRES" | sed s/@/postgres/)"'

parity: build
	RUVLLM_PARITY=full ctest --preset release -L slow

SCHEMAS ?= 1000
schema-campaign: build
	RUVLLM=build/release/apps/cli/ruvllm RUVLLM_DEPS_DIR=$(patsubst %/models,%,$(MODELS_DIR)) RUVLLM_MODELS_DIR=$(MODELS_DIR) \
	    node tests/server/schema_campaign.mjs $(SCHEMAS) $(CAMPAIGN_FILE)

PROMPTS ?= 200
spec-campaign: build
	RUVLLM_SPEC_PROMPTS=$(PROMPTS) ctest --test-dir build/release -R '^test_guess_campaign$$' -V

# One after the other: each wants the machine for itself. All are run, then the first failure is told.
server-load: build
	status=0; for suite in $(SERVER_LOAD); do \
	    RUVLLM_LOAD=full RUVLLM_KEY_CHECKS=1000000 ctest --test-dir build/release -R "^$$suite$$" -V || status=1; \
	done; \
	RUVLLM=build/release/apps/cli/ruvllm RUVLLM_DEPS_DIR=$(patsubst %/models,%,$(MODELS_DIR)) RUVLLM_LOAD=full \
	    node --test --test-reporter=spec tests/server/test_load_speed.mjs || status=1; exit $$status

kv-random: build
	RUVLLM_KV_RANDOM_OPS=1000000 build/release/tests/test_kv_random

store-kill: build
	set -e; for suite in test_store_kill test_learner_kill; do \
	    RUVLLM_KILLS=1000 build/release/tests/$$suite; \
	    RUVLLM_KILLS=1000 python3 tests/support/with_postgres.py run build/release/tests/$$suite; \
	done

learn-outage: build
	RUVLLM_OUTAGE_SECONDS=60 ctest --test-dir build/release -R '^test_learn_outage$$' -V

install: build
	cmake --install build/release --prefix $(PREFIX)

deb:
	scripts/setup.sh package
	cmake --preset package
	cmake --build --preset package
	cd build/package && cpack -G DEB

clean:
	rm -rf build
