"""The programs of llama.cpp that our benches stand beside: where they are, and how to run one."""

import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEPS = os.environ.get("RUVLLM_DEPS_DIR") or os.path.expanduser("~/.cache/ruvllm-deps")
DATA = os.environ.get("RUVLLM_TEST_DATA") or os.path.join(ROOT, "..", "shared", "data")
BUILD = os.path.join(ROOT, "build", "release")


def run(command, env=None):
    """What a program prints; ends us, with what it said, when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode != 0:
        sys.exit("%s failed:\n%s" % (" ".join(command), done.stderr[-2000:]))
    return done.stdout


def run_llama(name, arguments):
    """The same for a tool of llama.cpp, with the libraries we link ourselves."""
    libraries = os.path.join(DEPS, "release", "lib") + ":" + os.path.join(DEPS, "tools", "lib")
    return run([os.path.join(DEPS, "tools", "bin", name)] + arguments, env=dict(os.environ, LD_LIBRARY_PATH=libraries))


def model_path(name):
    """A path as it is; a name from the models folder. Ends us when it is not there."""
    path = name if os.path.sep in name else os.path.join(DEPS, "models", name + ".gguf")
    if not os.access(path, os.R_OK):
        sys.exit("'%s' is not there; run `make models`" % path)
    return path
