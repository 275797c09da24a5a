#!/usr/bin/env python3
"""Runs clang-tidy (settings: .clang-tidy) over every source of ours that the given build compiles.

    check_tidy.py build/dev [file...]     prints the warnings; exit status 1 if there is any
"""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys


def sources(build, root):
    """Our sources in the compilation database, each once, tests last (they are the slow ones)."""
    commands = json.loads((build / "compile_commands.json").read_text())
    paths = {pathlib.Path(entry["directory"], entry["file"]).resolve() for entry in commands}
    ours = [p for p in paths if p.is_relative_to(root) and not p.is_relative_to(build) and p.suffix == ".c"]
    return sorted(ours, key=lambda p: (p.is_relative_to(root / "tests"), p))


def tidy(build, path):
    # gcc's flags are in the database; clang must not stumble over those it does not know.
    command = ["clang-tidy", "-p", str(build), "--quiet", "--extra-arg=-Wno-unknown-warning-option", str(path)]
    run = subprocess.run(command, capture_output=True, text=True)
    return run.stdout.strip(), run.returncode, run.stderr


def main():
    root = pathlib.Path(__file__).resolve().parents[1]
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else root / "build/dev").resolve()
    chosen = [pathlib.Path(name).resolve() for name in sys.argv[2:]] or sources(build, root)
    n_bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, (output, status, errors) in zip(chosen, pool.map(lambda p: tidy(build, p), chosen)):
            if output or status:
                n_bad += 1
                print(output.replace(f"{root}/", "") or f"{path.relative_to(root)}: clang-tidy failed\n{errors}", flush=True)
    print(f"check_tidy: {len(chosen)} files, {n_bad} with warnings")
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
