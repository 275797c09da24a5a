"""Compares the list of exported names with the public header, or with what the built library exports.

    check_symbols.py symbols.txt --header include/ruvllm.h --header include/ruvllm_kernels.h --header include/ruvllm_store.h
    check_symbols.py symbols.txt --nm nm --library libruvllm.so
    check_symbols.py symbols.txt --self-test

A new public function is a decision: it goes into the header, into the list and into docs/seed-map.md.
"""
import argparse
import re
import subprocess
import sys


def declared(text):
    """Functions a header exports: the name before the parenthesis of each RUVLLM_API declaration."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*|^\s*#[^\n]*", " ", text, flags=re.DOTALL | re.MULTILINE)
    return {m.group(1) for m in re.finditer(r"\bRUVLLM_API\b[^;(]*?(\w+)\s*\(", text)}


def exported(nm_output):
    """Names nm shows as defined, whatever their kind: a stray data symbol is as public as a function."""
    names = set()
    for line in nm_output.splitlines():
        parts = line.split()
        if len(parts) >= 2 and len(parts[-2]) == 1 and parts[-2].upper() != "U":
            names.add(parts[-1].split("@")[0])
    return names


def compare(listed, found, where):
    problems = [f"{name} is in {where} and not in the list" for name in sorted(found - set(listed))]
    problems += [f"{name} is in the list and not in {where}" for name in sorted(set(listed) - found)]
    if listed != sorted(set(listed)):
        problems.append("the list is not sorted, or repeats a name")
    return problems


def self_test():
    header = "#define RUVLLM_API x(y)\n/* RUVLLM_API int no(void); */\nRUVLLM_API const char *a(int b);\nRUVLLM_API void b(\n int c);\n"
    assert declared(header) == {"a", "b"}, declared(header)
    table = "0000000000001139 T a\n                 U puts@GLIBC_2.2.5\n0000000000004010 D b@@V1\n"
    assert exported(table) == {"a", "b"}, exported(table)
    assert compare(["a", "b"], {"a", "b"}, "x") == []
    assert len(compare(["a"], {"a", "b"}, "x")) == 1
    assert len(compare(["a", "b"], {"a"}, "x")) == 1
    assert len(compare(["b", "a"], {"a", "b"}, "x")) == 1
    print("check_symbols: self-test passed")
    return []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("list")
    parser.add_argument("--header", action="append", help="may be given several times: all together are the API")
    parser.add_argument("--library")
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    with open(args.list, encoding="utf-8") as file:
        listed = file.read().split()
    if args.self_test:
        problems = self_test()
    elif args.header:
        names = set()
        for header in args.header:
            with open(header, encoding="utf-8") as file:
                names |= declared(file.read())
        problems = compare(listed, names, "the headers")
    else:
        table = subprocess.run([args.nm, "-D", "--defined-only", args.library], check=True, capture_output=True, text=True)
        problems = compare(listed, exported(table.stdout), "the library")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
