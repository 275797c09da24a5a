#!/usr/bin/env python3
"""Fails when library or program source uses assert(): NDEBUG removes it, and a check of input with it.

Our own RV_ASSERT stays in every build and states bugs only. Usage: check_no_assert.py ROOT
"""
import pathlib
import re
import sys

USE = re.compile(r"(?<![A-Za-z0-9_])assert\s*\(|#\s*include\s*<assert\.h>")


def main():
    root = pathlib.Path(sys.argv[1])
    files = [p for folder in ("src", "apps") for p in sorted((root / folder).rglob("*.[ch]"))]
    bad = 0
    for path in files:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if USE.search(line):
                print(f"{path.relative_to(root)}:{number}: {line.strip()}")
                bad += 1
    if not files:
        sys.exit("no source found")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
