"""The server as the unit and the manifest start it: their own command lines, with paths and ports of a test."""

import ctypes
import http.client
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time

from fixture import (DEPLOY, PROGRAM, SOURCE, STORIES, FolderCase, clean_environment, free_port, main, read, replaced, run,
                     wait_for_port)

sys.path.insert(0, os.path.join(SOURCE, "tests", "server"))
from hub_server import HubServer  # noqa: E402

PR_SET_MDWE, MDWE_REFUSE_EXEC_GAIN = 65, 1


def ask(port, path, key=None, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Host": "localhost", "Content-Type": "application/json"}
    if key:
        headers["Authorization"] = "Bearer " + key
    connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, headers)
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply.status, text


def make_key(store):
    return run(PROGRAM, "key", "create", "--tenant", "test", "--store", store, env=clean_environment()).stdout.strip()


class Unit(FolderCase):
    """What systemd does for the service: hands over the socket, listens for news, forbids code made at run time."""

    def start(self, listener, news, command):
        def confine():
            os.dup2(listener.fileno(), 3)
            os.set_inheritable(3, True)
            ctypes.CDLL(None).prctl(PR_SET_MDWE, MDWE_REFUSE_EXEC_GAIN, 0, 0, 0)  # kernels before 6.3 do not know it
            os.umask(0o077)

        environment = clean_environment(LISTEN_FDS="1", NOTIFY_SOCKET=news, WATCHDOG_USEC="1000000")
        with open(os.path.join(self.folder, "log"), "wb") as log:
            process = subprocess.Popen(["sh", "-c", "LISTEN_PID=$$ exec " + command], env=environment, preexec_fn=confine,
                                       close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def test_unit_starts_a_server_that_is_ready_alive_and_ends_gently(self):
        store = os.path.join(self.folder, "ruvllm.db")
        key = make_key(store)
        os.mkdir(os.path.join(self.folder, "models"))
        os.symlink(STORIES, os.path.join(self.folder, "models", "tiny.gguf"))
        unit = read(DEPLOY, "systemd", "ruvllm.service.in")
        arguments = re.search(r'^Environment=RUVLLM_SERVE="(.*)"$', unit, re.M)[1]
        command = replaced(re.search(r"^ExecStart=(.*)$", unit, re.M)[1],
                           [("@RUVLLM_PROGRAM@", shlex.quote(PROGRAM)), ("$RUVLLM_SERVE", arguments)])
        command = command.replace("/var/lib/ruvllm", self.folder)
        news = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        news.bind(os.path.join(self.folder, "news"))
        news.settimeout(1)
        self.addCleanup(news.close)
        with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
            port = listener.getsockname()[1]
            early = socket.create_connection(("127.0.0.1", port))  # before there is a server
            early.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            process = self.start(listener, os.path.join(self.folder, "news"), command)
            self.wait_for_news(news, "READY=1", process)
        early.settimeout(30)
        self.assertIn(b" 200 ", early.recv(100))
        early.close()
        status, text = ask(port, "/v1/completions", key, {"model": "tiny", "prompt": "Once upon", "max_tokens": 8})
        self.assertEqual(status, 200, text)
        self.assertEqual(ask(port, "/v1/models")[0], 401)
        self.wait_for_news(news, "WATCHDOG=1", process)
        process.send_signal(signal.SIGTERM)
        self.wait_for_news(news, "STOPPING=1", process)
        self.assertEqual(process.wait(60), 0)
        for name in os.listdir(self.folder):
            if name.startswith("ruvllm.db"):
                self.assertEqual(os.stat(os.path.join(self.folder, name)).st_mode & 0o077, 0, name)

    def wait_for_news(self, news, wanted, process):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            try:
                if wanted in news.recv(4096).decode():
                    return
            except TimeoutError:
                pass
        self.fail("no %s; the server says %s" % (wanted, read(self.folder, "log")))


class Pod(FolderCase):
    def test_manifest_fetches_a_model_serves_it_and_drains(self):
        text = read(DEPLOY, "kubernetes", "deployment.yaml")
        model = re.search(r'name: RUVLLM_MODEL, value: "(.*)"', text)[1]
        script = re.search(r"args:\n +- >-\n((?: {14}.*\n)+)", text)[1]
        fetch = re.search(r"args: \[(pull.*)\]", text)[1].replace("$(RUVLLM_MODEL)", model).split(", ")
        hub, port = HubServer(), free_port()
        self.addCleanup(hub.close)
        with open(STORIES, "rb") as file:
            hub.add(model.split(":")[0], "model.%s.gguf" % model.split(":")[1], file.read())
        folder = os.path.join(self.folder, "bin")
        os.mkdir(folder)
        os.symlink(PROGRAM, os.path.join(folder, "ruvllm"))
        environment = clean_environment(RUVLLM_MODEL=model, RUVLLM_MODELS=os.path.join(self.folder, "models"),
                                        HF_ENDPOINT=hub.url)
        environment["PATH"] = folder + ":" + environment["PATH"]
        run(PROGRAM, *fetch, env=environment)
        key = make_key(os.path.join(self.folder, "ruvllm.db"))

        command = replaced(" ".join(script.split()), [("0.0.0.0:8080", "127.0.0.1:%d" % port), ("/state", self.folder)])
        process = subprocess.Popen(["bash", "-euc", command], env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        wait_for_port(port, process)
        while ask(port, "/readyz")[0] != 200:
            time.sleep(0.05)
        status, answer = ask(port, "/v1/completions", key, {"model": "default", "prompt": "Once", "max_tokens": 4})
        self.assertEqual(status, 200, answer)
        self.check_probe(port)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 0)
        self.assertNotEqual(self.probe(port).returncode, 0)

    def probe(self, port):
        """The image's health check, as the shell gets it."""
        check = re.search(r"HEALTHCHECK.*?CMD (\[.*?\])\n", read(SOURCE, "Dockerfile"), re.S)[1]
        command = [part.replace("/8080", "/%d" % port) for part in json.loads(check)]
        return run(*command, env=clean_environment(), check=False)

    def check_probe(self, port):
        done = self.probe(port)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    main(PROGRAM, STORIES, "bash")
