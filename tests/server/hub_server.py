"""A model hub on this machine, for tests: it speaks the hub's API and misbehaves on request.

    hub = HubServer()
    hub.add("owner/name", "model.Q8_0.gguf", data)
    hub.url                      # the endpoint
    hub.requests                 # what was asked: method, path, headers
    hub.mischief.cut_at = 1000   # see Mischief

Standard library only. Every request is handled on a thread of its own; `close` ends it.
"""

import base64
import hashlib
import http.server
import json
import re
import socket
import ssl
import threading
import time
import urllib.parse


class Mischief:
    """What the hub does wrong; everything is off at first. Counters are used up as they strike."""

    def __init__(self):
        self.cut_at = []  # for each of the next transfers: close the connection after this many bytes of the body
        self.status = []  # for each of the next requests for a file: answer with this status and nothing else
        self.api_status = []  # the same for the list of files
        self.retry_after = None  # seconds, with those answers
        self.wrong_length = 0  # added to the length the file is sent with
        self.listed_size = None  # what the list claims
        self.listed_sha256 = None
        self.no_sha256 = False
        self.redirect = None  # where requests for files are sent
        self.redirect_loop = False
        self.endless = False  # a body without length and without end
        self.delay = 0.0  # seconds between pieces
        self.piece = 65536  # bytes
        self.etag = None  # another tag than the digest
        self.ignore_if_range = False
        self.ignore_range = False
        self.page_size = 0  # entries of the list a page; 0: all
        self.next_page = None  # address of the next page, instead of ours
        self.multipart = False  # wants uploads in parts
        self.upload_url = None  # where uploads are sent instead of here


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    @property
    def hub(self):
        return self.server.hub

    def note(self):
        with self.hub.lock:
            self.hub.requests.append((self.command, self.path, dict(self.headers.items())))

    def reply(self, status, body=b"", headers=None, content_type="application/json"):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_GET(self):
        self.note()
        path, _, query = self.path.partition("?")
        try:
            found = re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)", path)
            if found:
                return self.tree(found.group(1), urllib.parse.parse_qs(query))
            found = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
            if found:
                return self.resolve(found.group(1), urllib.parse.unquote(found.group(3)))
            found = re.fullmatch(r"/cdn/([^/]+/[^/]+)/(.+)", path)
            if found:
                return self.send_file(found.group(1), found.group(2))
            return self.reply(404, {"error": "no such page"})
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def struck(self, statuses):
        """Answers with the next status of the list; False when it is empty."""
        with self.hub.lock:
            status = statuses.pop(0) if statuses else None
        if status is None:
            return False
        retry_after = self.hub.mischief.retry_after
        self.reply(status, {"error": "as asked"}, {"Retry-After": str(retry_after)} if retry_after is not None else {})
        return True

    def tree(self, repository, query):
        mischief = self.hub.mischief
        if self.struck(mischief.api_status):
            return None
        files = self.hub.repositories.get(repository)
        if files is None:
            return self.reply(404, {"error": "Repository not found"})
        entries = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": "folder"}]
        for path, data in files.items():
            size = len(data) if mischief.listed_size is None else mischief.listed_size
            entry = {"type": "file", "oid": "0" * 40, "size": size, "path": path}
            if not mischief.no_sha256 and path != "README.md":
                digest = mischief.listed_sha256 or hashlib.sha256(data).hexdigest()
                entry["lfs"] = {"oid": digest, "size": size, "pointerSize": 134}
            entries.append(entry)
        headers = {"X-Repo-Commit": self.hub.commit}
        if mischief.page_size:
            start = int(query.get("cursor", ["0"])[0])
            end = start + mischief.page_size
            if end < len(entries):
                following = mischief.next_page or self.hub.url + self.path.split("?")[0] + "?cursor=%d" % end
                headers["Link"] = '<%s>; rel="next"' % following
            entries = entries[start:end]
        return self.reply(200, entries, headers)

    def resolve(self, repository, path):
        mischief = self.hub.mischief
        if self.struck(mischief.status):
            return None
        target = mischief.redirect
        if mischief.redirect_loop:
            target = self.path
        if target:
            return self.reply(302, b"", {"Location": target.format(repository=repository, path=path),
                                         "X-Repo-Commit": self.hub.commit})
        return self.send_file(repository, path)

    def start_of(self, etag, size):
        """Where the answer begins: after what the client has, if it may be continued."""
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if not found or self.hub.mischief.ignore_range:
            return 0
        condition = self.headers.get("If-Range")
        if condition and condition != etag and not self.hub.mischief.ignore_if_range:
            return 0
        return int(found.group(1))

    def send_file(self, repository, path):
        mischief = self.hub.mischief
        data = self.hub.repositories.get(repository, {}).get(path)
        if data is None:
            return self.reply(404, {"error": "Entry not found"})
        etag = mischief.etag or '"%s"' % hashlib.sha256(data).hexdigest()
        start = self.start_of(etag, len(data))
        if start >= len(data) and start:
            return self.reply(416, b"", {"Content-Range": "bytes */%d" % len(data)})
        if mischief.endless:
            return self.send_endless(data)
        self.send_response(206 if start else 200)
        self.send_header("ETag", etag)
        self.send_header("X-Repo-Commit", self.hub.commit)
        if start:
            self.send_header("Content-Range", "bytes %d-%d/%d" % (start, len(data) - 1, len(data)))
        self.send_header("Content-Length", str(len(data) - start + mischief.wrong_length))
        self.end_headers()
        with self.hub.lock:
            cut = mischief.cut_at.pop(0) if mischief.cut_at else None
        return self.send_pieces(data[start:], cut)

    def send_pieces(self, data, cut):
        mischief = self.hub.mischief
        sent = 0
        while sent < len(data):
            piece = data[sent:sent + mischief.piece]
            if cut is not None and sent + len(piece) >= cut:
                piece = piece[:cut - sent]
            self.wfile.write(piece)
            sent += len(piece)
            with self.hub.lock:
                self.hub.bytes_sent += len(piece)
            if cut is not None and sent >= cut:
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            if mischief.delay:
                self.wfile.flush()
                time.sleep(mischief.delay)
        if mischief.wrong_length:
            self.close_connection = True

    def send_endless(self, data):
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        self.wfile.write(data)
        while not self.hub.is_closed:
            self.wfile.write(b"\0" * 65536)

    def do_POST(self):
        self.note()
        body = self.body()
        if self.headers.get("Authorization") != "Bearer " + self.hub.token:
            return self.reply(401, {"error": "Invalid token"})
        if self.path == "/api/repos/create":
            wish = json.loads(body)
            self.hub.created.append(wish)
            self.hub.repositories.setdefault(wish["organization"] + "/" + wish["name"], {})
            return self.reply(200, {"url": "x"})
        found = re.fullmatch(r"/([^/]+/[^/]+)\.git/info/lfs/objects/batch", self.path)
        if found:
            return self.batch(json.loads(body))
        if self.path == "/lfs/verify":
            wish = json.loads(body)
            is_there = len(self.hub.uploads.get(wish["oid"], b"")) == wish["size"]
            return self.reply(200 if is_there else 404, {})
        found = re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/([^/]+)", self.path)
        if found:
            return self.commit(found.group(1), body)
        return self.reply(404, {"error": "no such page"})

    def batch(self, wish):
        answer = {"transfer": "multipart" if self.hub.mischief.multipart else "basic", "objects": []}
        for thing in wish["objects"]:
            there = {"oid": thing["oid"], "size": thing["size"]}
            if thing["oid"] not in self.hub.uploads:
                href = (self.hub.mischief.upload_url or self.hub.url) + "/lfs/put/" + thing["oid"]
                there["actions"] = {"upload": {"href": href, "header": {"X-Upload-Key": "sesame"}},
                                    "verify": {"href": self.hub.url + "/lfs/verify"}}
            answer["objects"].append(there)
        return self.reply(200, answer, content_type="application/vnd.git-lfs+json")

    def commit(self, repository, body):
        lines = [json.loads(line) for line in body.decode().splitlines()]
        files = self.hub.repositories.get(repository)
        if files is None or lines[0]["key"] != "header":
            return self.reply(400, {"error": "bad commit"})
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "file":
                assert value["encoding"] == "base64"
                files[value["path"]] = base64.b64decode(value["content"], validate=True)
            elif line["key"] == "lfsFile":
                data = self.hub.uploads.get(value["oid"])
                if data is None or len(data) != value["size"] or value["algo"] != "sha256":
                    return self.reply(400, {"error": "no such upload"})
                files[value["path"]] = data
        self.hub.commits.append(lines)
        return self.reply(200, {"commitOid": self.hub.commit})

    def do_PUT(self):
        self.note()
        found = re.fullmatch(r"/lfs/put/([0-9a-f]{64})", self.path)
        data = self.body()
        if not found or self.headers.get("X-Upload-Key") != "sesame" or hashlib.sha256(data).hexdigest() != found.group(1):
            return self.reply(400, {"error": "bad upload"})
        (self.hub.shared_with or self.hub).uploads[found.group(1)] = data
        return self.reply(200)


class Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        """Clients that hang up are part of the tests."""


class HubServer:
    token = "hf_testing"
    commit = "0123456789abcdef0123456789abcdef01234567"

    def __init__(self, host="127.0.0.1", certificate=None):
        """`certificate`: a PEM file with certificate and key; the hub speaks https then."""
        self.lock = threading.Lock()
        self.repositories = {}  # "owner/name" -> {path: bytes}
        self.requests = []
        self.uploads = {}  # digest -> bytes
        self.commits = []
        self.created = []
        self.bytes_sent = 0  # of files
        self.mischief = Mischief()
        self.is_closed = False
        self.shared_with = None  # a hub that takes what is uploaded here
        self.server = Listener((host, 0), Handler)
        self.server.hub = self
        self.port = self.server.server_address[1]
        self.url = "http%s://%s:%d" % ("s" if certificate else "", host, self.port)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def add(self, repository, path, data):
        self.repositories.setdefault(repository, {})[path] = data

    def tokens(self):
        """What was sent as Authorization, request by request; None where nothing was."""
        return [headers.get("Authorization") for _, _, headers in self.requests]

    def close(self):
        self.is_closed = True
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
