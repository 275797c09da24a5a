"""What the suites of packaging and deployment share: the program, its server, proxies with the shipped configurations."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.path.abspath(os.environ.get("RUVLLM", "build/dev/apps/cli/ruvllm"))
BUILD = os.environ.get("RUVLLM_BUILD", "build/dev")
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEPLOY = os.path.join(SOURCE, "deploy")
DATA = os.environ.get("RUVLLM_TEST_DATA", os.path.join(SOURCE, "..", "shared", "data"))
STORIES = os.path.join(DATA, "models", "stories260K.gguf")


def read(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def clean_environment(**extra):
    """Nothing of the caller's that would help the program find its libraries or change what it does."""
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", **extra}


def run(*command, env=None, check=True, **kwargs):
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=env, stdin=subprocess.DEVNULL, **kwargs)
    if check and done.returncode != 0:
        raise AssertionError("%r ended with %d:\n%s%s" % (command, done.returncode, done.stdout, done.stderr))
    return done


def tell_story(program, env=None):
    """An answer computed from a real model: what every installation must be able to give."""
    done = run(program, "run", STORIES, "Once upon a time", "-n", "8", "--temp", "0", "-t", "1",
               env=env or clean_environment())
    return done.stdout


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(port, process, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError("%r ended with %d" % (process.args, process.returncode))
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("nobody listens on port %d" % port)


def make_certificate(folder):
    """cert.pem, key.pem and both in server.pem, for localhost."""
    key, cert = os.path.join(folder, "key.pem"), os.path.join(folder, "cert.pem")
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert)
    write(os.path.join(folder, "server.pem"), read(cert) + read(key))


def replaced(text, pairs):
    """`text` with every pair replaced; one that is not there any more is an error of the test."""
    for old, new in pairs:
        assert old in text, "the configuration has no %r" % old
        text = text.replace(old, new)
    return text


def nginx_config(folder, port, upstreams):
    """The shipped file with ports and paths of a test."""
    text = replaced(read(DEPLOY, "nginx.conf"), [
        ("/etc/ruvllm/tls", folder), ("listen 443 ", "listen 127.0.0.1:%d " % port),
        ("127.0.0.1:8080", "127.0.0.1:%d" % upstreams[0]), ("127.0.0.1:8081", "127.0.0.1:%d" % upstreams[1]),
        ("worker_processes auto;", "worker_processes 1;"), ("worker_rlimit_nofile 65536;", ""),
        ("worker_connections 16384;", "worker_connections 256;"),
        ("http {\n", "http {\n" + "".join("    %s_temp_path %s/%s;\n" % (kind, folder, kind)
                                         for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")))])
    return write(os.path.join(folder, "nginx.conf"), text)


def nginx_command(folder, config, *more):
    globals_ = "daemon off; pid %s/nginx.pid; error_log stderr;" % folder
    if os.getuid() == 0:
        globals_ += " user root;"
    return ["nginx", "-p", folder, "-c", config, "-g", globals_, *more]


def haproxy_config(folder, port, upstreams):
    text = replaced(read(DEPLOY, "haproxy.cfg"), [
        ("/etc/ruvllm/tls", folder), ("bind :443 ", "bind 127.0.0.1:%d " % port),
        ("127.0.0.1:8080", "127.0.0.1:%d" % upstreams[0]), ("127.0.0.1:8081", "127.0.0.1:%d" % upstreams[1]),
        ("maxconn 20000", "maxconn 200")])
    return write(os.path.join(folder, "haproxy.cfg"), text)


def haproxy_command(config, *more):
    return ["haproxy", "-f", config, *more]


class Process:
    """A program that runs until it is told to end; its output is in a file, for the message of a failure."""

    def __init__(self, command, port, folder, env=None):
        self.log = os.path.join(folder, os.path.basename(command[0]) + ".log")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=env or clean_environment())
        try:
            wait_for_port(port, self.process)
        except AssertionError as error:
            self.stop()
            raise AssertionError("%s\n%s" % (error, read(self.log))) from None

    def stop(self, seconds=30):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode


class FolderCase(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ruvllm-package-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)


def main(*needed):
    """Runs the suite; 77 when something it needs is not there, which CI treats as a failure."""
    missing = [name for name in needed if not (os.access(name, os.R_OK) or shutil.which(name, path=clean_environment()["PATH"]))]
    if missing:
        print("SKIPPED: not there: " + ", ".join(missing))
        sys.exit(77)
    unittest.main(verbosity=2)
