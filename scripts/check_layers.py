#!/usr/bin/env python3
"""Checks that dependencies between the folders point one way and that names tell their file.

    check_layers.py [root]        prints one line a violation, `file:line: what is wrong`; exit status 1 if any
    check_layers.py --self-test   proves on a made-up tree that each rule can fail

Rules: which module may include which (ALLOWED), which folder is the home of a third-party header (HOMES), unique base
names, header guards, and that a function declared in src/<module>/<file>.h begins with rv_<file>.
"""
import fnmatch
import pathlib
import re
import sys
import tempfile

ALLOWED = {
    "base": "",
    "kernels": "base",
    "store": "base",
    "text": "base",
    "model": "base kernels",
    "memory": "base kernels",
    "kv": "base kernels model",
    "sample": "base kernels text",
    "graph": "base kernels model kv",
    "sched": "base kernels model text memory kv sample graph",
    "learn": "base kernels store text model memory kv graph",
    "engine": "base kernels store text model memory kv sample graph sched learn",
}
MODULES = {module: set(lower.split()) | {module} for module, lower in ALLOWED.items()}

# Third-party headers and the only places that may see them. gguf.h has none: our own reader takes its place.
HOMES = {
    "gguf.h": [],
    "ggml*.h": ["src/model/*", "src/kv/*", "src/graph/*", "src/learn/*"],
    "llama*.h": ["src/engine/backend_llama.c"],
    "sqlite3.h": ["src/store/*"],
    "libpq-fe.h": ["src/store/*"],
    "yyjson.h": ["src/text/*", "src/model/*", "src/sample/*", "src/engine/hub_*.c", "apps/*"],
    "curl/*.h": ["src/engine/hub_http.c"],
    "sodium.h": ["src/base/*"],
    "histedit.h": ["apps/cli/*"],
    "editline/*.h": ["apps/cli/*"],
    "pcre2.h": ["src/text/*"],
    "utf8proc.h": ["src/text/*"],
    "event2/*.h": ["apps/server/http/*"],
    "llhttp.h": ["apps/server/http/*"],
    "openssl/*.h": ["apps/server/http/*"],
    "*intrin.h": ["src/kernels/*"],
    "arm_neon.h": ["src/kernels/*"],
}

# What callers of the library see, and every folder may.
PUBLIC = {"ruvllm.h", "ruvllm_adapter.h", "ruvllm_hub.h", "ruvllm_kernels.h", "ruvllm_learn.h", "ruvllm_learn_log.h", "ruvllm_sona.h",
          "ruvllm_store.h", "ruvllm_train.h"}

# Headers of the language and the system, which every folder may use.
SYSTEM = set(
    """assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h iso646.h limits.h locale.h math.h setjmp.h signal.h
    stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h stdnoreturn.h string.h tgmath.h threads.h
    time.h uchar.h wchar.h wctype.h dirent.h dlfcn.h fcntl.h fnmatch.h getopt.h glob.h langinfo.h libgen.h netdb.h poll.h
    pthread.h pwd.h regex.h sched.h semaphore.h spawn.h strings.h syslog.h termios.h unistd.h utime.h malloc.h""".split()
)
SYSTEM_FOLDERS = ("sys/", "linux/", "netinet/", "arpa/", "net/")

# Files whose functions are a vocabulary of their own rather than verbs on one noun.
OWN_WORDS = {
    "src/base/alloc.h": ["rv_size_", "rv_malloc", "rv_calloc", "rv_realloc_array", "rv_strndup", "rv_strdup", "rv_free"],
    "src/base/error.h": ["rv_fail", "rv_assert_failed"],
}

# Runs of files that are one thing split by concept; their functions share the family's name.
FAMILIES = {"src/text/jinja_": "rv_jinja_"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def sources(root, top):
    folder = root / top
    return sorted(p for p in folder.rglob("*") if p.suffix in (".c", ".h")) if folder.is_dir() else []


def name_of(root, path):
    return path.relative_to(root).as_posix()


def project_include_problem(root, name, path, header):
    """Why `name` may not include the project's `header`, or None."""
    parts = name.split("/")
    if header.endswith(".c"):
        return f"includes the source file {header}"
    if header in PUBLIC:
        return None
    beside = (path.parent / header).is_file()
    target = header.split("/")[0] if "/" in header else None
    if parts[0] == "src":
        module = parts[1]
        if header == "ruvllm_version.h" and module == "engine":
            return None
        if target in MODULES:
            return None if target in MODULES[module] else f"module {module} may not include {target}"
        return None if beside else f"module {module} may not include {header}"
    if parts[0] == "apps":
        if beside or target == "base" or (target == parts[1] and (root / "apps" / header).is_file()):
            return None
        if parts[1] == "cli" and header == "server/serve.h":
            return None  # `ruvllm serve` is one of the commands
        return f"apps may not include {header}: only the public headers, base/ and their own folder"
    if parts[0] == "examples":
        return f"examples may not include {header}: only the public headers"
    return None


def system_include_problem(name, header):
    """Why `name` may not include <header>, or None."""
    if header in SYSTEM or header.startswith(SYSTEM_FOLDERS):
        return None
    for pattern, homes in HOMES.items():
        if fnmatch.fnmatchcase(header, pattern):
            if any(fnmatch.fnmatchcase(name, home) for home in homes):
                return None
            where = ", ".join(homes) if homes else "nowhere"
            return f"module {'/'.join(name.split('/')[:2])} may not include {header} (its home: {where})"
    return f"module {'/'.join(name.split('/')[:2])} may not include {header}, which has no home in check_layers.py"


def check_includes(root):
    for top in ("src", "apps", "examples"):
        for path in sources(root, top):
            name = name_of(root, path)
            if top == "src" and name.split("/")[1] not in MODULES:
                yield name, 1, f"module {name.split('/')[1]} is not in the table of check_layers.py"
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
                found = INCLUDE.match(line)
                if not found:
                    continue
                quote, header = found.groups()
                known = header.split("/")[0] in MODULES or header in PUBLIC or header.endswith(".c")
                if quote == '"' or known:
                    problem = project_include_problem(root, name, path, header)
                else:
                    problem = system_include_problem(name, header)
                if problem:
                    yield name, number, problem
    for top in ("tests", "bench"):
        for path in sources(root, top):
            for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
                found = INCLUDE.match(line)
                if found and found.group(2).endswith(".c"):
                    yield name_of(root, path), number, f"includes the source file {found.group(2)}"


def check_base_names(root):
    seen = {}
    for top in ("src", "apps"):
        for path in sources(root, top):
            if path.name == "main.c":
                continue
            other = seen.setdefault(path.name, path)
            if other != path:
                yield name_of(root, path), 1, f"base name is taken by {name_of(root, other)}"


def check_guards(root):
    for top in ("src", "apps", "tests"):
        for path in sources(root, top):
            if path.suffix != ".h":
                continue
            name = name_of(root, path)
            words = [re.sub(r"\W", "_", part).upper() for part in name[:-2].split("/")]
            full = words[1:] if top == "src" else words
            wanted = {"_".join(["RV", *full, "H"]), "_".join(["RV", *words[-2:], "H"])}
            text = path.read_text(encoding="utf-8", errors="replace")
            found = re.search(r"^#ifndef (\w+)\n#define (\w+)$", text, re.MULTILINE)
            if not found or found.group(1) != found.group(2) or found.group(1) not in wanted:
                yield name, 1, f"header guard is not {min(wanted, key=len)}"


def blank(match):
    """As many newlines as the match had, so that line numbers stay true."""
    return "\n" * match.group(0).count("\n")


def declared_functions(text):
    """Yields (line, name) of the non-static functions a header declares."""
    text = re.sub(r"/\*.*?\*/", blank, text, flags=re.DOTALL)
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.MULTILINE)
    inner = re.compile(r"\{[^{}]*\}")
    while inner.search(text):
        text = inner.sub(lambda m: blank(m) + ";", text)
    start = 0
    for statement in text.split(";"):
        line = text.count("\n", 0, start + len(statement) - len(statement.lstrip())) + 1
        start += len(statement) + 1
        words = re.sub(r"__attribute__\s*\(\(.*?\)\)|\bRV_\w+\s*\([^)]*\)", " ", statement).strip()
        if re.match(r"(typedef|static|extern\s+\"C\")\b", words):
            continue
        found = re.match(r"[\w\s*]*?\b(\w+)\s*\(", words)
        if found and not words[found.end() :].lstrip().startswith("*"):
            yield line, found.group(1)


def check_names(root):
    for path in sources(root, "src"):
        if path.suffix != ".h":
            continue
        name = name_of(root, path)
        prefixes = OWN_WORDS.get(name, [f"rv_{path.stem}"])
        prefixes = prefixes + [prefix for start, prefix in FAMILIES.items() if name.startswith(start)]
        for line, function in declared_functions(path.read_text(encoding="utf-8", errors="replace")):
            if not any(function.startswith(prefix) for prefix in prefixes):
                yield name, line, f"function {function} does not tell its file: it begins with none of {' '.join(prefixes)}"


def check(root):
    problems = []
    for rule in (check_includes, check_base_names, check_guards, check_names):
        problems.extend(rule(root))
    return sorted(problems)


def header(guard, body=""):
    return f"#ifndef {guard}\n#define {guard}\n{body}\n#endif\n"


def self_test():
    clean = {
        "src/base/buf.h": header("RV_BASE_BUF_H", "struct rv_buf { int (*grow)(int); };\nvoid rv_buf_add(struct rv_buf *b);"),
        "src/base/buf.c": '#include "base/buf.h"\n#include <sodium.h>\n#include <string.h>\n',
        "src/graph/decoder.c": '#include "kv/kv_cache.h"\n#include <ggml.h>\n#include "ruvllm.h"\n',
        "src/kv/kv_cache.h": header("RV_KV_KV_CACHE_H", "RV_CHECKED ruvllm_status rv_kv_cache_new(void)\n    RV_PRINTF(1, 2);"),
        "src/text/jinja_value.h": header("RV_TEXT_JINJA_VALUE_H", "int rv_jinja_list_push(void);"),
        "src/engine/hub_http.c": "#include <curl/curl.h>\n",
        "apps/cli/main.c": '#include "options.h"\n#include "base/buf.h"\n#include <yyjson.h>\n',
        "apps/cli/options.h": header("RV_CLI_OPTIONS_H"),
        "apps/server/main.c": '#include "ruvllm.h"\n',
        "examples/basic.c": "#include <ruvllm.h>\n#include <stdio.h>\n",
        "tests/support/test.h": header("RV_TESTS_SUPPORT_TEST_H"),
    }
    wrong = [
        ("src/base/x.c", '#include "model/gguf_file.h"\n', "module base may not include model"),
        ("src/sched/x.c", '#include "learn/learner.h"\n', "module sched may not include learn"),
        ("src/learn/x.c", '#include "sched/request.h"\n', "module learn may not include sched"),
        ("src/text/x.c", '#include <sample/sampler.h>\n', "module text may not include sample"),
        ("src/kv/x.c", '#include "graph/decoder.h"\n', "module kv may not include graph"),
        ("src/engine/x.c", "#include <ggml.h>\n", "may not include ggml.h"),
        ("src/engine/x.c", "#include <llama.h>\n", "may not include llama.h"),
        ("src/model/x.c", "#include <gguf.h>\n", "its home: nowhere"),
        ("src/text/x.c", "#include <curl/curl.h>\n", "may not include curl/curl.h"),
        ("src/text/x.c", "#include <fancy.h>\n", "has no home"),
        ("src/utils/x.c", "", "module utils is not in the table"),
        ("apps/cli/x.c", '#include "text/vocab.h"\n', "apps may not include text/vocab.h"),
        ("examples/x.c", '#include "base/buf.h"\n', "examples may not include base/buf.h"),
        ("tests/unit/x.c", '#include "base/buf.c"\n', "includes the source file"),
        ("src/text/buf.c", "", "base name is taken by src/base/buf.c"),
        ("src/text/x.h", header("RV_X_H"), "header guard is not RV_TEXT_X_H"),
        ("src/text/x.h", header("RV_TEXT_X_H", "int rv_y_len(void);"), "function rv_y_len does not tell its file"),
        ("src/text/x.h", header("RV_TEXT_X_H", "/* a\n */\nint x_len(void);"), "function x_len does not tell its file"),
    ]
    failures = []
    for extra in [None, *wrong]:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            files = dict(clean)
            if extra:
                files[extra[0]] = extra[1]
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            found = [f"{name}:{line}: {what}" for name, line, what in check(root)]
        if extra is None and found:
            failures.append(f"a clean tree is refused: {found}")
        if extra and not (len(found) == 1 and found[0].startswith(extra[0]) and extra[2] in found[0]):
            failures.append(f"{extra[0]} should give '{extra[2]}', gave {found}")
    for failure in failures:
        print(f"self-test: {failure}")
    print(f"check_layers: {len(wrong) + 1 - len(failures)} of {len(wrong) + 1} self-tests passed")
    return 1 if failures else 0


def main():
    if "--self-test" in sys.argv[1:]:
        return self_test()
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[1])
    problems = check(root)
    for name, line, what in problems:
        print(f"{name}:{line}: {what}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
