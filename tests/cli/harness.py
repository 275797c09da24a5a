"""What the command-line suites share: the program, the data, a terminal to run it in."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.environ.get("RUVLLM", "build/dev/apps/cli/ruvllm")
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.environ.get("RUVLLM_TEST_DATA", os.path.join(SOURCE, "..", "shared", "data"))
STORIES_TINY = os.path.join(DATA, "models", "stories260K.gguf")
STORIES = os.path.join(DATA, "models", "stories15M-f16.gguf")
MINIMIND = os.path.join(DATA, "models", "minimind2-26m-f16.gguf")
COMMANDS = ["run", "chat", "serve", "pull", "list", "rm", "info", "tokenize", "perplexity", "bench", "quantize", "adapter",
            "learn", "push", "key", "witness", "doctor", "version", "help"]


def environment(**extra):
    """The caller's environment without what would change the program's behaviour."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("RUVLLM_") and k not in ("NO_COLOR", "TERM")}
    env["TERM"] = "xterm-256color"
    env["XDG_STATE_HOME"] = tempfile.gettempdir() + "/ruvllm-test-state-%d" % os.getpid()
    env.update(extra)
    return env


def command_line(*args):
    """The whole command. One thread for what computes: threads that wait for each other crawl on a busy machine."""
    one_thread = ["-t1"] if args and args[0] in ("run", "chat", "perplexity", "doctor") else []
    return [PROGRAM, *args[:1], *one_thread, *args[1:]]


def run(*args, stdin=b"", env=None, timeout=120):
    """Runs the program to its end; stdout and stderr as bytes."""
    if isinstance(stdin, str):
        stdin = stdin.encode()
    return subprocess.run(command_line(*args), input=stdin, capture_output=True, timeout=timeout,
                          env=env or environment())


def run_json(*args, **kwargs):
    done = run(*args, **kwargs)
    assert done.returncode == 0, (done.returncode, done.stderr.decode())
    return json.loads(done.stdout)


class Terminal:
    """The program in a terminal of its own: bytes typed in, everything it showed in `shown`."""

    def __init__(self, *args, env=None):
        self.shown = ""
        self.status = None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(PROGRAM, command_line(*args), env or environment())

    def type(self, text):
        os.write(self.fd, text.encode())

    def _read(self, seconds):
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return True
        try:
            piece = os.read(self.fd, 65536)
        except OSError:  # the other side is closed
            return False
        self.shown += piece.decode(errors="replace")
        return bool(piece)

    def wait_for(self, pattern, seconds=60, start=None):
        """Waits until `pattern` is shown behind `start` (default: behind what earlier waits have seen)."""
        begin = self.seen if start is None else start
        deadline = time.monotonic() + seconds
        while True:
            found = re.compile(pattern, re.S).search(self.shown, begin)
            if found:
                self.seen = found.end()
                return found
            if time.monotonic() > deadline or not self._read(0.1):
                raise AssertionError("%r was not shown; the terminal has:\n%s" % (pattern, self.shown[begin:]))

    seen = 0

    def is_alive(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
        return self.status is None

    def wait_end(self, seconds=30):
        """The exit code, negative for a signal."""
        deadline = time.monotonic() + seconds
        while self.is_alive():
            if time.monotonic() > deadline:
                raise AssertionError("the program did not end; the terminal has:\n" + self.shown)
            if not self._read(0.05):
                time.sleep(0.05)
        return os.waitstatus_to_exitcode(self.status)

    def close(self):
        if self.is_alive():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


def main():
    """Runs the suite; 77 when the data is not there, which CI treats as a failure."""
    missing = [path for path in (STORIES_TINY, STORIES, MINIMIND) if not os.access(path, os.R_OK)]
    if missing:
        print("SKIPPED: not there: " + ", ".join(missing))
        sys.exit(77)
    unittest.main(verbosity=2)
