"""nginx and HAProxy with the shipped configurations: checked, in front of the real server, and in front of stand-ins that
show what a proxy did with a request. The stand-ins answer what only a test can wait for; nothing else is taken from them."""

import http.client
import json
import os
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from fixture import (PROGRAM, STORIES, FolderCase, Process, clean_environment, free_port, haproxy_command, haproxy_config,
                     main, make_certificate, nginx_command, nginx_config, run)


class StandIn(ThreadingHTTPServer):
    """Says its name. /stream sends one event, and the next one when the test has seen the first."""

    daemon_threads = True

    def __init__(self, name):
        self.name, self.seen, self.was_seen_in_time = name, threading.Event(), False
        super().__init__(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]

    def handle_error(self, *_):
        pass  # health checks break connections off


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        text = json.dumps({"name": self.server.name, "host": self.headers["Host"], "from": self.headers["X-Forwarded-For"]})
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.piece(b"data: first\n\n")
        self.server.was_seen_in_time = self.server.seen.wait(10)
        self.piece(b"data: second\n\n")
        self.piece(b"")

    def piece(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


class Proxy:
    """The cases, for each of the proxies."""

    def start(self, upstreams):
        raise NotImplementedError

    def check_config(self, upstreams):
        raise NotImplementedError

    def setUp(self):
        super().setUp()
        make_certificate(self.folder)
        self.port = free_port()

    def connect(self, alpn=None):
        context = ssl.create_default_context(cafile=os.path.join(self.folder, "cert.pem"))
        if alpn:
            context.set_alpn_protocols([alpn])
        connection = http.client.HTTPSConnection("localhost", self.port, context=context, timeout=60)
        connection.connect()
        return connection

    def ask(self, path, headers=None):
        connection = self.connect()
        connection.request("GET", path, headers=headers or {})
        reply = connection.getresponse()
        body = reply.read()
        connection.close()
        return reply.status, body

    def stand_ins(self):
        servers = [StandIn("one"), StandIn("two")]
        for server in servers:
            self.addCleanup(server.server_close)
            self.addCleanup(server.shutdown)
        return servers

    def test_configuration_is_valid(self):
        self.check_config([free_port(), free_port()])

    def test_edge_speaks_http2_and_hides_metrics(self):
        self.start([s.port for s in self.stand_ins()])
        connection = self.connect("h2")
        self.assertEqual(connection.sock.selected_alpn_protocol(), "h2")
        connection.close()
        self.assertEqual(self.ask("/metrics")[0], 404)
        self.assertEqual(self.ask("/healthz")[0], 200)

    def test_session_stays_on_its_server(self):
        self.start([s.port for s in self.stand_ins()])
        homes = {}
        for _ in range(3):
            for i in range(15):  # odd, so that taking turns does not look like staying
                status, body = self.ask("/v1/models", {"X-Session": "session-%d" % i})
                self.assertEqual(status, 200)
                homes.setdefault(i, set()).add(json.loads(body)["name"])
        self.assertTrue(all(len(names) == 1 for names in homes.values()), homes)
        self.assertEqual(set().union(*homes.values()), {"one", "two"})

    def test_caller_cannot_forge_where_it_comes_from(self):
        self.start([s.port for s in self.stand_ins()])
        seen = json.loads(self.ask("/v1/models", {"X-Forwarded-For": "10.9.8.7"})[1])
        self.assertEqual(seen["from"], "127.0.0.1")
        self.assertRegex(seen["host"], "^localhost")

    def test_events_are_not_held_back(self):
        servers = self.stand_ins()
        self.start([s.port for s in servers])
        connection = self.connect()
        connection.request("POST", "/stream", body=b"{}")
        reply = connection.getresponse()
        self.assertEqual(reply.readline(), b"data: first\n")
        for server in servers:
            server.seen.set()
        self.assertIn(b"data: second", reply.read())
        self.assertTrue(any(s.was_seen_in_time for s in servers), "the first event came only with the second")
        connection.close()

    def test_real_server_streams_through(self):
        store, port = os.path.join(self.folder, "ruvllm.db"), free_port()
        key = run(PROGRAM, "key", "create", "--tenant", "test", "--store", store, env=clean_environment()).stdout.strip()
        server = Process([PROGRAM, "serve", "tiny=" + STORIES, "--listen", "127.0.0.1:%d" % port, "--store", store, "-t", "1"],
                         port, self.folder)
        self.addCleanup(server.stop)
        self.start([port, port])
        self.wait_until_ready()
        self.assertEqual(self.ask("/v1/models")[0], 401)
        request = {"model": "tiny", "prompt": "Once upon a time", "max_tokens": 24, "temperature": 0, "stream": True}
        connection = self.connect()
        connection.request("POST", "/v1/completions", body=json.dumps(request),
                           headers={"Content-Type": "application/json", "Authorization": "Bearer " + key, "X-Session": "a"})
        reply = connection.getresponse()
        text = reply.read().decode()
        self.assertEqual(reply.status, 200, text)
        events = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
        self.assertEqual(events[-1], "[DONE]")
        story = "".join(choice["text"] for event in events[:-1] for choice in json.loads(event)["choices"])
        self.assertGreater(len(story), 40)
        connection.close()
        self.assertEqual(server.stop(), 0)

    def wait_until_ready(self):
        for _ in range(200):
            if self.ask("/readyz")[0] == 200:
                return
            threading.Event().wait(0.1)
        self.fail("the server did not become ready behind the proxy")


class Nginx(Proxy, FolderCase):
    def check_config(self, upstreams):
        run(*nginx_command(self.folder, nginx_config(self.folder, self.port, upstreams), "-t"), env=clean_environment())

    def start(self, upstreams):
        proxy = Process(nginx_command(self.folder, nginx_config(self.folder, self.port, upstreams)), self.port, self.folder)
        self.addCleanup(proxy.stop)


class Haproxy(Proxy, FolderCase):
    def check_config(self, upstreams):
        done = run(*haproxy_command(haproxy_config(self.folder, self.port, upstreams), "-c"), env=clean_environment())
        self.assertNotIn("WARNING", done.stdout + done.stderr)

    def start(self, upstreams):
        proxy = Process(haproxy_command(haproxy_config(self.folder, self.port, upstreams), "-db"), self.port, self.folder)
        self.addCleanup(proxy.stop)


if __name__ == "__main__":
    main(PROGRAM, STORIES, "nginx", "haproxy", "openssl")
