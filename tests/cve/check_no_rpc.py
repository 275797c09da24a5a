#!/usr/bin/env python3
"""Fails when a program or library, or any ggml library it loads, has a symbol of ggml's RPC backend.

ggml's remote backend has let strangers read and write a server's memory (CVE-2024-42477 and after). Ours must not
contain it. Usage: check_no_rpc.py FILE...
"""
import re
import subprocess
import sys

FORBIDDEN = "ggml_backend_rpc"


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def loaded_ggml(path):
    """The libggml files that ldd resolves for a binary."""
    found = set()
    for line in output_of("ldd", path).splitlines():
        match = re.match(r"\s*(libggml\S*) => (\S.*?) \(0x", line)
        if match:
            found.add(match.group(2))
        elif "libggml" in line and "not found" in line:
            sys.exit(f"cannot resolve: {line.strip()}")
    return found


def main():
    files = set(sys.argv[1:])
    libraries = set()
    for path in sys.argv[1:]:
        libraries |= loaded_ggml(path)
    if not libraries:
        sys.exit("no libggml is loaded by " + ", ".join(sorted(files)) + ": nothing was checked")
    bad = 0
    for path in sorted(files | libraries):
        for line in output_of("nm", "-D", path).splitlines():
            if FORBIDDEN in line:
                print(f"{path}: {line.strip()}")
                bad += 1
    print(f"{len(files | libraries)} files checked, {bad} forbidden symbols")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
