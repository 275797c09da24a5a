#!/usr/bin/env python3
"""A PostgreSQL server for a test, in a folder of its own, reachable by a socket in it and by nothing else.

    with_postgres.py run COMMAND...     starts one, runs the command, ends it; the exit status is the command's
    with_postgres.py each PROGRAM...    the same for several programs, one after the other; 0 when all give 0
    with_postgres.py stop|start FOLDER  for the command: takes the server away and brings it back
    with_postgres.py freeze|thaw FOLDER likewise: all its processes stand still, connections stay open

The command finds RUVLLM_TEST_POSTGRES (a URL without the database's name: see postgres_fixture.h) and
RUVLLM_TEST_POSTGRES_FOLDER. PostgreSQL refuses to run as root: then it runs as the user postgres or nobody.
"""
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile

SETTINGS = """
listen_addresses = ''
max_connections = 200
shared_buffers = 16MB
fsync = %s
logging_collector = off
log_min_messages = warning
max_wal_size = 256MB
autovacuum = off
"""


def programs():
    """The folder of initdb and postgres: Debian keeps them off the path."""
    found = shutil.which("initdb")
    if found:
        return pathlib.Path(found).parent
    folders = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    if not folders:
        sys.exit("with_postgres: there is no PostgreSQL here; run `make setup`")
    return folders[-1].parent


def server_user():
    """None when we may be the server ourselves."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    sys.exit("with_postgres: as root it takes a user 'postgres' or 'nobody' to run the server")


def run(command, **more):
    user = server_user()
    who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    return subprocess.run([str(word) for word in command], cwd="/", **who, **more)


def start(folder):
    done = run([programs() / "pg_ctl", "-D", folder / "data", "-w", "-t", "240", "-l", folder / "server.log", "start"],
               stdout=subprocess.DEVNULL)  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"with_postgres: the server did not start:\n{(folder / 'server.log').read_text()}")


def signal_all(folder, number):
    """The server's first process, which has its number in a file, then those it has started."""
    try:
        first = int((folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(first, number)
    except (OSError, ValueError, IndexError):
        return  # it does not run
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()  # what is before may hold anything
            if int(fields[1]) == first:
                os.kill(int(stat.parent.name), number)
        except (OSError, IndexError):
            continue  # it ended just now


def freeze(folder):
    signal_all(folder, signal.SIGSTOP)


def thaw(folder):
    signal_all(folder, signal.SIGCONT)


def stop(folder, mode="immediate"):
    thaw(folder)  # who stands still does not hear
    run([programs() / "pg_ctl", "-D", folder / "data", "-w", "-t", "240", "-m", mode, "stop"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip


def make(folder):
    user = server_user()
    if user:
        os.chown(folder, user.pw_uid, user.pw_gid)
    made = run([programs() / "initdb", "-D", folder / "data", "-U", "ruvllm", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C"],
               capture_output=True, text=True)  # fmt: skip
    if made.returncode != 0:
        sys.exit(f"with_postgres: initdb failed: {made.stderr}")
    fsync = "on" if os.environ.get("RUVLLM_TEST_POSTGRES_FSYNC") else "off"
    with open(folder / "data" / "postgresql.conf", "a") as settings:
        settings.write(SETTINGS % fsync + f"unix_socket_directories = '{folder}'\n")


def run_with(commands):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ruvllm-pg-", dir="/tmp"))
    os.chmod(folder, 0o755)  # the tests reach the socket as another user
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        make(folder)
        start(folder)
        environment = dict(os.environ, RUVLLM_TEST_POSTGRES=f"postgresql:///@?host={folder}&user=ruvllm&connect_timeout=60",
                           RUVLLM_TEST_POSTGRES_FOLDER=str(folder))  # fmt: skip
        return max(abs(subprocess.run(command, env=environment).returncode) for command in commands)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would leave the server behind
        stop(folder)
        shutil.rmtree(folder, ignore_errors=True)


def main():
    if len(sys.argv) >= 3 and sys.argv[1] == "run":
        return run_with([sys.argv[2:]])
    if len(sys.argv) >= 3 and sys.argv[1] == "each":
        return run_with([[program] for program in sys.argv[2:]])
    verbs = {"start": start, "stop": stop, "freeze": freeze, "thaw": thaw}
    if len(sys.argv) == 3 and sys.argv[1] in verbs:
        verbs[sys.argv[1]](pathlib.Path(sys.argv[2]))
        return 0
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main())
