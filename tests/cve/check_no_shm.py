#!/usr/bin/env python3
"""Fails when a program or library asks the system for shared memory, or starts other programs.

Shared memory that others can name has let strangers reach a server's memory (Triton CVE-2025-23319 and after), so ours
has none. Usage: check_no_shm.py FILE...
"""
import subprocess
import sys

FORBIDDEN = {"shm_open", "shmget", "shmat", "mq_open", "msgget", "semget", "system", "popen", "execve", "execvp", "execl",
             "execlp", "posix_spawn", "posix_spawnp", "dlopen"}


def main():
    bad = 0
    for path in sys.argv[1:]:
        names = subprocess.run(("nm", "-D", "--undefined-only", path), check=True, capture_output=True, text=True).stdout
        wanted = {line.split()[-1].split("@")[0] for line in names.splitlines() if line.strip()}
        if len(wanted) < 20:
            sys.exit(f"'{path}' has {len(wanted)} undefined symbols: nothing was checked")
        for name in sorted(wanted & FORBIDDEN):
            print(f"{path} uses {name}")
            bad += 1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
