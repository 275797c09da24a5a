"""pull, list, rm and push against a hub on this machine, well-behaved and not; then the model that was fetched runs."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from harness import PROGRAM, SOURCE, STORIES_TINY, Terminal, command_line, environment, main

sys.path.insert(0, os.path.join(SOURCE, "tests", "server"))
from hub_server import HubServer  # noqa: E402

NAME = "kar/stories"
FILE = "stories260K.Q8_0.gguf"

with open(STORIES_TINY, "rb") as model:
    DATA = model.read() if os.access(STORIES_TINY, os.R_OK) else b""
DIGEST = hashlib.sha256(DATA).hexdigest()


def traversals():
    """More than 100 names that try to leave the folder, or to be something else than a name."""
    steps = ["..", "../..", "../../etc", "/etc", "~", "...", "./..", "a/../..", "..%2f..", "%2e%2e", "..\\..", "C:\\x",
             "\u2025", "..\u200b", ".hidden", "..;", "a/..b/../..", "a//b", " ..", "..\t", "a\nb", "a\x1b[2Jb", "x" * 97]
    shapes = ["%s", "%s/x", "o/%s", "o/n/%s", "%s/%s"]
    names = [shape.replace("%s", step) for step in steps for shape in shapes]
    return [name for name in names if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*/[A-Za-z0-9_-][A-Za-z0-9._-]*", name)
            or ".." in name or len(name) > 97]


class HubCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ruvllm-hub-")
        self.models = os.path.join(self.folder, "models")
        self.hub = HubServer()
        self.hub.add(NAME, FILE, DATA)
        self.env = self.environment()

    def tearDown(self):
        self.hub.close()
        shutil.rmtree(self.folder)

    def environment(self, **extra):
        env = {k: v for k, v in environment().items() if not k.startswith("HF_") and not k.lower().endswith("_proxy")}
        env.pop("SSL_CERT_FILE", None)
        env.update(HF_ENDPOINT=self.hub.url, RUVLLM_MODELS=self.models)
        env.update(extra)
        return env

    def ruvllm(self, *args, env=None, stdin=b"", timeout=60):
        return subprocess.run(command_line(*args), capture_output=True, timeout=timeout, env=env or self.env, input=stdin)

    def path(self, file=FILE, name=NAME):
        return os.path.join(self.models, name, file)

    def there(self):
        """Every file below the test's folder, by its path there."""
        return sorted(os.path.relpath(os.path.join(top, name), self.folder)
                      for top, _, names in os.walk(self.folder) for name in names)

    def assert_fetched(self, done, file=FILE, data=DATA):
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertEqual(done.stdout.decode(), self.path(file) + "\n")
        with open(self.path(file), "rb") as got:
            self.assertEqual(got.read(), data)
        self.assertEqual(sorted(os.listdir(os.path.dirname(self.path(file)))), sorted([file, file + ".json"]))

    def assert_refused(self, done, *texts, code=1):
        self.assertEqual(done.returncode, code, done.stderr.decode())
        self.assertEqual(done.stdout, b"")
        for text in texts:
            self.assertIn(text, done.stderr.decode())

    def fetches(self):
        return [headers for method, path, headers in self.hub.requests if "/resolve/" in path]


class Pull(HubCase):
    def test_a_model_is_fetched_checked_and_noted(self):
        done = self.ruvllm("pull", NAME)
        self.assert_fetched(done)
        self.assertIn("ruvllm chat %s:%s" % (NAME, FILE), done.stderr.decode())
        with open(self.path() + ".json", encoding="utf-8") as file:
            note = json.load(file)
        self.assertEqual(note["sha256"], DIGEST)
        self.assertEqual(note["n_bytes"], len(DATA))
        self.assertEqual(note["revision"], self.hub.commit)
        self.assertEqual(note["source"], "%s/%s/resolve/main/%s" % (self.hub.url, NAME, FILE))
        self.assertLess(abs(note["time"] - time.time()), 60)
        self.assertEqual(self.hub.bytes_sent, len(DATA))

    def test_what_is_here_is_not_fetched_again(self):
        self.assert_fetched(self.ruvllm("pull", NAME))
        self.assert_fetched(self.ruvllm("pull", NAME + ":q8_0"))
        os.unlink(self.path() + ".json")
        done = self.ruvllm("pull", NAME, "--json")
        self.assertEqual(json.loads(done.stdout)["path"], self.path())
        self.assertEqual(self.hub.bytes_sent, len(DATA))

    def test_a_file_that_changed_on_the_hub_is_fetched_anew(self):
        self.hub.add(NAME, FILE, DATA + b"\0" * 32)
        self.assert_fetched(self.ruvllm("pull", NAME), data=DATA + b"\0" * 32)
        self.hub.add(NAME, FILE, DATA)
        self.assert_fetched(self.ruvllm("pull", NAME))

    def test_the_file_is_chosen_by_quantisation_or_name(self):
        for quantization in ("Q8_0", "Q5_K_M", "Q4_K_S", "Q4_K_M", "F16"):
            self.hub.add("o/many", "m-%s.gguf" % quantization, DATA)
        self.hub.add("o/many", "sub/x.iq4_nl.gguf", DATA)
        self.hub.add("o/many", "README.md", b"no model")
        for wish, file in {"o/many": "m-Q4_K_M.gguf", "o/many:q4_k_s": "m-Q4_K_S.gguf", "o/many:F16": "m-F16.gguf",
                           "o/many:IQ4_NL": "x.iq4_nl.gguf", "o/many:m-Q8_0.gguf": "m-Q8_0.gguf"}.items():
            done = self.ruvllm("pull", "-q", wish)
            self.assertEqual(done.stdout.decode(), os.path.join(self.models, "o/many", file) + "\n", done.stderr)
            self.assertEqual(done.stderr, b"")
        self.assert_refused(self.ruvllm("pull", "o/many:Q4_K"), "there is no 'Q4_K'", "m-Q4_K_M.gguf")
        self.hub.add("o/many", "n-Q8_0.gguf", DATA)
        self.assert_refused(self.ruvllm("pull", "o/many:Q8_0"), "fits several files", "n-Q8_0.gguf")

    def test_a_long_list_of_files_is_read_to_its_end(self):
        for i in range(25):
            self.hub.add(NAME, "part%02d.F16.gguf" % i, b"x")
        self.hub.mischief.page_size = 7
        self.assert_fetched(self.ruvllm("pull", NAME + ":Q8_0"))
        self.hub.mischief.next_page = "http://127.0.0.2:1/api"
        self.assert_refused(self.ruvllm("pull", NAME + ":Q8_0"), "another host")

    def test_split_models_are_refused_in_words(self):
        for part in (1, 2):
            self.hub.add("o/split", "big-Q4_K_M-%05d-of-00002.gguf" % part, DATA)
        self.assert_refused(self.ruvllm("pull", "o/split"), "split over several files", "not supported")
        self.assert_refused(self.ruvllm("pull", "o/split:Q4_K_M"), "split over several files")

    def test_what_is_missing_says_so(self):
        self.assert_refused(self.ruvllm("pull", "no/body"), "no model 'no/body'", "404")
        self.hub.mischief.api_status = [401]
        self.assert_refused(self.ruvllm("pull", NAME), "HF_TOKEN")
        self.hub.repositories["o/empty"] = {"README.md": b"x"}
        self.assert_refused(self.ruvllm("pull", "o/empty"), "no GGUF files")
        self.assert_refused(self.ruvllm("pull", NAME, env=self.environment(HF_ENDPOINT="ftp://x")), "https://host")
        self.assertFalse(os.path.exists(self.path()))

    def test_revisions(self):
        self.assert_fetched(self.ruvllm("pull", NAME, "--revision", "refs/pr/1"))
        self.assertTrue(any("/tree/refs%2Fpr%2F1" in path for _, path, _ in self.hub.requests))
        self.assert_refused(self.ruvllm("pull", NAME, "--revision", "../x"), "no branch, tag or commit")

    def test_limits(self):
        self.assert_refused(self.ruvllm("pull", NAME, "--max-size", "100K"), "more than the limit of 102400")
        self.hub.mischief.listed_size = 1 << 60
        self.assert_refused(self.ruvllm("pull", NAME), "MiB are free")
        self.assertEqual(self.fetches(), [])
        self.assert_refused(self.ruvllm("pull", NAME, "--max-size", "x"), "a size such as 8G", code=2)

    def test_no_model_is_a_usage_error(self):
        self.assert_refused(self.ruvllm("pull"), "owner/name", code=2)
        self.assert_refused(self.ruvllm("pull", "alone"), "owner/name")


class Trouble(HubCase):
    def test_a_cut_connection_is_taken_up_where_it_stopped(self):
        self.hub.mischief.cut_at = [100000, 200000]
        self.assert_fetched(self.ruvllm("pull", NAME))
        ranges = [headers.get("Range") for headers in self.fetches()]
        self.assertEqual(ranges, [None, "bytes=100000-", "bytes=300000-"])
        self.assertEqual(self.fetches()[1]["If-Range"], '"%s"' % DIGEST)
        self.assertEqual(self.hub.bytes_sent, len(DATA))

    def test_many_cuts_are_fine_while_something_moves(self):
        self.hub.mischief.cut_at = [90000] * 8
        self.assert_fetched(self.ruvllm("pull", NAME, "--retries", "1"))
        self.assertEqual(self.hub.bytes_sent, len(DATA))

    def test_the_next_call_goes_on_too(self):
        self.hub.mischief.cut_at = [150000]
        done = self.ruvllm("pull", NAME, "--retries", "0")
        self.assert_refused(done, "what came is kept")
        self.assertEqual(os.path.getsize(self.path() + ".partial"), 150000)
        self.assertFalse(os.path.exists(self.path()))
        self.assert_fetched(self.ruvllm("pull", NAME))
        self.assertEqual(self.hub.bytes_sent, len(DATA))

    def test_a_changed_etag_starts_anew(self):
        for ignore in (False, True):
            self.hub.mischief.ignore_if_range = ignore
            self.hub.mischief.etag = '"one"'
            self.hub.mischief.cut_at = [150000]
            self.ruvllm("pull", NAME, "--retries", "0")
            self.hub.mischief.etag = '"two"'
            self.hub.bytes_sent = 0
            self.assert_fetched(self.ruvllm("pull", NAME))
            self.assertGreaterEqual(self.hub.bytes_sent, len(DATA))
            self.ruvllm("rm", "-y", NAME)

    def test_a_hub_that_knows_no_ranges_starts_anew(self):
        self.hub.mischief.cut_at = [150000]
        self.hub.mischief.ignore_range = True
        self.assert_fetched(self.ruvllm("pull", NAME))
        self.assertEqual(self.hub.bytes_sent, 150000 + len(DATA))

    def test_a_partial_file_of_another_version_starts_anew(self):
        other = DATA[:-1] + b"x"
        self.hub.add(NAME, FILE, other)
        self.hub.mischief.cut_at = [150000]
        self.ruvllm("pull", NAME, "--retries", "0")
        self.hub.add(NAME, FILE, DATA)
        self.assert_fetched(self.ruvllm("pull", NAME))
        self.assertNotIn("Range", self.fetches()[-1])

    def test_a_spoilt_partial_file_is_noticed(self):
        self.hub.mischief.cut_at = [150000]
        self.ruvllm("pull", NAME, "--retries", "0")
        with open(self.path() + ".partial", "r+b") as file:
            file.seek(1000)
            file.write(b"spoilt")
        self.assert_refused(self.ruvllm("pull", NAME), "SHA-256", "removed")
        self.assertEqual(self.there(), [])
        self.assert_fetched(self.ruvllm("pull", NAME))

    def test_a_partial_file_that_is_too_long_starts_anew(self):
        self.hub.mischief.cut_at = [150000]
        self.ruvllm("pull", NAME, "--retries", "0")
        with open(self.path() + ".partial", "ab") as file:
            file.write(b"\0" * len(DATA))
        self.assert_fetched(self.ruvllm("pull", NAME))

    def test_a_wrong_size_is_refused(self):
        self.hub.mischief.wrong_length = 1000
        self.assert_refused(self.ruvllm("pull", NAME), "bytes and sends %d" % (len(DATA) + 1000))
        self.hub.mischief.wrong_length = 0
        self.hub.mischief.listed_size = len(DATA) - 5
        self.assert_refused(self.ruvllm("pull", NAME), "bytes and sends")
        self.assertFalse(os.path.exists(self.path()))

    def test_a_wrong_hash_is_refused_and_removed(self):
        self.hub.mischief.listed_sha256 = "ab" * 32
        self.assert_refused(self.ruvllm("pull", NAME), "SHA-256", "abababab", "removed")
        self.assertEqual(self.there(), [])

    def test_a_file_nobody_vouches_for_is_refused(self):
        self.hub.mischief.no_sha256 = True
        self.assert_refused(self.ruvllm("pull", NAME), "states no SHA-256")
        for digest in ("xyz", "AB" * 32, "a" * 63, "../../x"):
            self.hub.mischief.no_sha256 = False
            self.hub.mischief.listed_sha256 = digest
            self.assert_refused(self.ruvllm("pull", NAME), "states no SHA-256")

    def test_what_is_no_gguf_is_refused_and_removed(self):
        for bad in (b"<html>log in</html>" * 100, DATA[:100000], b"GGUF" + b"\xff" * 5000):
            self.hub.add(NAME, FILE, bad)
            self.assert_refused(self.ruvllm("pull", NAME), "no model this program can read", "removed")
            self.assertEqual(self.there(), [])

    def test_an_endless_body_ends(self):
        self.hub.mischief.endless = True
        self.assert_refused(self.ruvllm("pull", NAME), "more than the %d bytes" % len(DATA))
        self.assertLessEqual(os.path.getsize(self.path() + ".partial"), len(DATA))

    def test_answers_that_are_no_list(self):
        self.hub.repositories["o/odd"] = {"x.gguf": DATA}
        for body in (b"", b"{}", b"[" * 100000, b"null", b"[1,2,{}]", b'[{"type":"file","path":5}]', b"\xff\xfe"):
            server_tree = self.hub.server.RequestHandlerClass.tree
            try:
                self.hub.server.RequestHandlerClass.tree = lambda handler, *_: handler.reply(200, body)
                self.assert_refused(self.ruvllm("pull", "o/odd"))
            finally:
                self.hub.server.RequestHandlerClass.tree = server_tree

    def test_a_busy_hub_is_asked_again_when_it_says(self):
        self.hub.mischief.status = [429]
        self.hub.mischief.retry_after = 1
        begin = time.monotonic()
        self.assert_fetched(self.ruvllm("pull", NAME))
        self.assertGreaterEqual(time.monotonic() - begin, 1.0)

    def test_errors_of_the_hub_are_tried_again(self):
        self.hub.mischief.status = [503, 500]
        self.hub.mischief.api_status = [502, 429]
        self.assert_fetched(self.ruvllm("pull", NAME))
        self.hub.mischief.api_status = [503, 503, 503]
        self.assert_refused(self.ruvllm("pull", NAME, "--retries", "2"), "gave up after 3 attempts", "503")

    def test_a_hub_that_asks_for_hours_is_not_waited_for(self):
        self.hub.mischief.status = [429]
        self.hub.mischief.retry_after = 3600
        self.assert_refused(self.ruvllm("pull", NAME), "come back in 3600 seconds")

    def test_a_connection_that_stalls_is_given_up(self):
        self.hub.mischief.piece = 100000
        self.hub.mischief.delay = 20
        begin = time.monotonic()
        done = self.ruvllm("pull", NAME, "--stall-timeout", "1", "--retries", "0")
        self.assertLess(time.monotonic() - begin, 15)
        self.assert_refused(done, "the connection to '127.0.0.1' failed", "what came is kept")

    def test_nobody_there(self):
        env = self.environment(HF_ENDPOINT="http://127.0.0.1:9")
        self.assert_refused(self.ruvllm("pull", NAME, "--retries", "1", env=env), "gave up after 2 attempts", "127.0.0.1")


class Redirects(HubCase):
    def setUp(self):
        super().setUp()
        self.env["HF_TOKEN"] = "hf_secret"
        self.other = HubServer()
        self.other.add(NAME, FILE, DATA)

    def tearDown(self):
        self.other.close()
        super().tearDown()

    def test_the_token_goes_to_the_hub_and_to_no_other(self):
        self.hub.mischief.redirect = self.other.url + "/cdn/{repository}/{path}"
        self.assert_fetched(self.ruvllm("pull", NAME))
        self.assertEqual(set(self.hub.tokens()), {"Bearer hf_secret"})
        self.assertEqual(self.other.tokens(), [None])
        self.assertEqual(self.other.bytes_sent, len(DATA))

    def test_a_redirect_on_the_hub_itself_keeps_the_token(self):
        self.hub.mischief.redirect = "/cdn/{repository}/{path}"
        self.assert_fetched(self.ruvllm("pull", NAME))
        self.assertEqual(set(self.hub.tokens()), {"Bearer hf_secret"})
        self.assertIn("/cdn/%s/%s" % (NAME, FILE), [path for _, path, _ in self.hub.requests])

    def test_a_redirected_transfer_resumes_too(self):
        self.hub.mischief.redirect = self.other.url + "/cdn/{repository}/{path}"
        self.other.mischief.cut_at = [100000]
        self.assert_fetched(self.ruvllm("pull", NAME))
        self.assertEqual(self.other.bytes_sent, len(DATA))
        self.assertEqual(self.other.tokens(), [None, None])

    def test_other_schemes_and_hosts_are_refused(self):
        for target in ("file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x", "dict://127.0.0.1:11211/",
                       "http://198.51.100.7/x", "http://192.168.0.1/x", "http://127.0.0.1.example/x", "javascript:1",
                       "http://user:pass@127.0.0.1/x", "http://0/x", "http://169.254.169.254/latest"):
            self.hub.mischief.redirect = target
            self.assert_refused(self.ruvllm("pull", NAME), "the hub")
            self.assertFalse(os.path.exists(self.path()))
        self.assertEqual(self.other.requests, [])

    def test_a_circle_ends(self):
        self.hub.mischief.redirect_loop = True
        self.assert_refused(self.ruvllm("pull", NAME), "more than 5 times")
        self.assertEqual(len(self.fetches()), 6)

    def test_the_token_is_never_shown_nor_sent_unprotected(self):
        env = self.environment(HF_ENDPOINT="http://hub.example", HF_TOKEN="hf_secret")
        done = self.ruvllm("pull", NAME, env=env)
        self.assert_refused(done, "unprotected http")
        self.assertNotIn("hf_secret", done.stderr.decode())
        self.hub.mischief.api_status = [403]
        self.assertNotIn("hf_secret", self.ruvllm("pull", NAME).stderr.decode())
        for odd in ("a b", "x\ny", "\u00e9"):
            self.assert_refused(self.ruvllm("pull", NAME, env=self.environment(HF_TOKEN=odd)), "HF_TOKEN")


@unittest.skipUnless(shutil.which("openssl"), "needs openssl to make a certificate")
class Https(HubCase):
    def setUp(self):
        super().setUp()
        self.certificate = os.path.join(self.folder, "certificate")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", self.certificate + ".key", "-out", self.certificate + ".crt", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
                       check=True, capture_output=True)
        with open(self.certificate, "wb") as both:
            for part in (".key", ".crt"):
                with open(self.certificate + part, "rb") as file:
                    both.write(file.read())
        self.secure = HubServer(certificate=self.certificate)
        self.secure.add(NAME, FILE, DATA)
        self.env = self.environment(HF_ENDPOINT=self.secure.url, SSL_CERT_FILE=self.certificate + ".crt",
                                    HF_TOKEN="hf_secret")

    def tearDown(self):
        self.secure.close()
        super().tearDown()

    def test_https_works_and_is_never_left_for_http(self):
        for target in (self.hub.url + "/cdn/{repository}/{path}", "file:///etc/passwd", "ftp://127.0.0.1/x"):
            self.secure.mischief.redirect = target
            self.assert_refused(self.ruvllm("pull", NAME), "refused")
        self.assertEqual(self.hub.requests, [])
        self.secure.mischief.redirect = "/cdn/{repository}/{path}"
        self.assert_fetched(self.ruvllm("pull", NAME))

    def test_a_hub_nobody_vouches_for_is_refused(self):
        env = self.environment(HF_ENDPOINT=self.secure.url, HF_TOKEN="hf_secret")
        self.assert_refused(self.ruvllm("pull", NAME, env=env), "the connection to '127.0.0.1' failed", "certificate")
        self.assertEqual(self.secure.requests, [])


class Names(HubCase):
    def test_hostile_names_are_refused_wherever_they_come_from(self):
        names = traversals()
        self.assertGreater(len(names), 100)
        keep = os.path.join(self.folder, "keep")
        with open(keep, "w", encoding="utf-8") as file:
            file.write("x")
        for name in names:
            for command in (["pull", name], ["rm", "-y", name], ["pull", NAME + ":" + name]):
                if "\0" not in name:
                    done = self.ruvllm(*command)
                    self.assertIn(done.returncode, (1, 2), command)
                    self.assertEqual(done.stdout, b"")
                    self.assertNotIn(b"\x1b[2J", done.stderr)
        self.assertEqual(self.hub.requests, [])
        self.assertEqual(self.there(), ["keep"])

    def test_hostile_names_in_the_hubs_list_are_left_out(self):
        for name in [n + ".gguf" for n in traversals()]:
            base = name.split("/")
            if all(re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,95}", part) and ".." not in part for part in base):
                continue
            self.hub.repositories["o/evil"] = {name: DATA}
            self.assert_refused(self.ruvllm("pull", "o/evil"), "unsafe names")
        self.assertEqual([path for _, path, _ in self.hub.requests if "resolve" in path], [])
        self.assertEqual(self.there(), [])

    def test_symbolic_links_are_not_followed(self):
        outside = os.path.join(self.folder, "outside")
        os.makedirs(os.path.join(outside, "stories"))
        victim = os.path.join(outside, "stories", FILE)
        with open(victim, "wb") as file:
            file.write(b"precious")
        os.makedirs(self.models)
        os.symlink(outside, os.path.join(self.models, "kar"))
        self.assert_refused(self.ruvllm("pull", NAME), "cannot open the folder")
        self.assert_refused(self.ruvllm("rm", "-y", NAME), "not here")
        os.unlink(os.path.join(self.models, "kar"))
        os.makedirs(os.path.join(self.models, NAME))
        os.symlink(victim, self.path())
        os.symlink(victim, self.path() + ".partial")
        self.assert_refused(self.ruvllm("rm", "-y", NAME), "not here")
        self.assert_refused(self.ruvllm("pull", NAME), ".partial")
        os.unlink(self.path() + ".partial")
        self.assert_fetched(self.ruvllm("pull", NAME))
        with open(victim, "rb") as file:
            self.assertEqual(file.read(), b"precious")


class Together(HubCase):
    def test_two_pulls_at_once_do_not_harm_each_other(self):
        self.hub.mischief.piece = 30000
        self.hub.mischief.delay = 0.05
        first = subprocess.Popen(command_line("pull", NAME), env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 20
        while not os.path.exists(self.path() + ".partial") and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assert_refused(self.ruvllm("pull", NAME), "another process")
        self.assert_refused(self.ruvllm("rm", "-y", NAME), "another process")
        out, err = first.communicate(timeout=60)
        self.assertEqual(first.returncode, 0, err)
        self.assert_fetched(self.ruvllm("pull", NAME))
        self.assertEqual(self.hub.bytes_sent, len(DATA))

    def test_eight_pulls_at_once_leave_one_good_file(self):
        self.hub.mischief.piece = 100000
        self.hub.mischief.delay = 0.02
        pulls = [subprocess.Popen(command_line("pull", NAME), env=self.env, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) for _ in range(8)]
        codes = [pull.wait(timeout=60) for pull in pulls]
        self.assertIn(0, codes)
        self.assertLessEqual(set(codes), {0, 1})
        self.assert_fetched(self.ruvllm("pull", NAME))

    def test_ctrl_c_keeps_what_came_and_says_how_to_go_on(self):
        self.hub.mischief.piece = 50000
        self.hub.mischief.delay = 0.2
        pull = subprocess.Popen(command_line("pull", NAME), env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 20
        while self.hub.bytes_sent < 150000 and time.monotonic() < deadline:
            time.sleep(0.01)
        pull.send_signal(signal.SIGINT)
        out, err = pull.communicate(timeout=20)
        self.assertEqual(pull.returncode, 130)
        self.assertEqual(out, b"")
        self.assertRegex(err.decode(), r"stopped; .*B are kept. To go on: ruvllm pull %s" % NAME)
        kept = os.path.getsize(self.path() + ".partial")
        self.assertGreaterEqual(kept, 50000)
        entry = json.loads(self.ruvllm("list", "--json").stdout)["models"][0]
        self.assertTrue(entry["partial"])
        self.assertEqual(entry["n_bytes"], kept)
        self.hub.mischief.delay = 0
        self.assert_fetched(self.ruvllm("pull", NAME))
        self.assertEqual(self.fetches()[-1]["Range"], "bytes=%d-" % kept)  # and so only the rest was sent

    def test_killed_at_any_time_the_next_pull_ends_well(self):
        self.hub.mischief.piece = 20000
        self.hub.mischief.delay = 0.01
        for i in range(6):
            pull = subprocess.Popen(command_line("pull", NAME), env=self.env, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
            time.sleep(0.02 + 0.04 * i)
            pull.kill()
            pull.wait()
        self.hub.mischief.delay = 0
        self.assert_fetched(self.ruvllm("pull", NAME))

    def test_the_terminal_shows_bytes_speed_and_time_left(self):
        self.hub.mischief.piece = 60000
        self.hub.mischief.delay = 0.2
        terminal = Terminal("pull", NAME, env=self.env)
        try:
            terminal.wait_for(r"fetching .*\[=+ *\].*\d+%  .*iB of 1\.\d+ MiB, .*iB/s, .*left")
            self.assertEqual(terminal.wait_end(60), 0)
        finally:
            terminal.close()


class Here(HubCase):
    def test_offline_uses_what_is_here_and_asks_nobody(self):
        offline = self.environment(HF_HUB_OFFLINE="1")
        self.assert_refused(self.ruvllm("pull", NAME, env=offline), "unset HF_HUB_OFFLINE")
        self.assert_refused(self.ruvllm("pull", NAME, "--offline"), "leave out --offline")
        self.assertEqual(self.hub.requests, [])
        self.assert_fetched(self.ruvllm("pull", NAME))
        n = len(self.hub.requests)
        self.assert_fetched(self.ruvllm("pull", NAME, env=offline))
        self.assert_fetched(self.ruvllm("pull", NAME + ":Q8_0", "--offline"))
        self.assert_refused(self.ruvllm("push", self.path(), "a/b", env=offline), "HF_HUB_OFFLINE")
        self.assertEqual(len(self.hub.requests), n)

    def test_list_shows_what_is_here(self):
        self.assertEqual(json.loads(self.ruvllm("list", "--json").stdout), {"folder": self.models, "models": []})
        self.assertIn("ruvllm pull", self.ruvllm("list").stderr.decode())
        self.ruvllm("pull", NAME)
        self.hub.add("a/b", "b-q4_0.gguf", DATA)
        self.ruvllm("pull", "a/b")
        models = json.loads(self.ruvllm("list", "--json").stdout)["models"]
        self.assertEqual([m["name"] for m in models], ["a/b:b-q4_0.gguf", NAME + ":" + FILE])
        self.assertEqual([m["quantization"] for m in models], ["Q4_0", "Q8_0"])
        self.assertEqual({m["sha256"] for m in models}, {DIGEST})
        self.assertEqual(models[1]["path"], self.path())
        self.assertRegex(models[1]["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        text = self.ruvllm("list").stdout.decode()
        self.assertRegex(text, r"NAME +QUANTISATION +SIZE +WHEN\n.*a/b:b-q4_0.gguf +Q4_0 +1.\d+ MiB +\d{4}-")

    def test_list_survives_what_others_put_there(self):
        self.ruvllm("pull", NAME)
        with open(self.path() + ".json", "wb") as file:
            file.write(b'{"sha256": 5, "source": "\\u001b[2J", "time": -1')
        for odd in ("x", "kar/file", "kar/stories/notes.txt", "kar/stories/.hidden.gguf", "a b/c/d.gguf"):
            path = os.path.join(self.models, odd)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write("x")
        models = json.loads(self.ruvllm("list", "--json").stdout)["models"]
        self.assertEqual([m["name"] for m in models], [NAME + ":" + FILE])
        self.assertEqual(models[0]["sha256"], "")

    def test_rm_removes_what_it_says_and_nothing_else(self):
        self.hub.add(NAME, "stories.F16.gguf", DATA)
        self.ruvllm("pull", NAME + ":Q8_0")
        self.ruvllm("pull", NAME + ":F16")
        self.assert_refused(self.ruvllm("rm", NAME), "--yes", code=2)
        self.assert_refused(self.ruvllm("rm", "-y", NAME + ":Q2_K"), "no 'Q2_K' here")
        self.assertEqual(self.ruvllm("rm", "-y", "stories:F16").returncode, 0)
        self.assertEqual(sorted(os.listdir(os.path.dirname(self.path()))), [FILE, FILE + ".json"])
        done = self.ruvllm("rm", "-y", NAME)
        self.assertIn("1.1", done.stderr.decode())
        self.assertEqual(os.listdir(self.models), [])
        self.assert_refused(self.ruvllm("rm", "-y", NAME), "not here")

    def test_rm_asks(self):
        self.ruvllm("pull", NAME)
        for answer, is_left in (("n\n", True), ("\n", True), ("y\n", False)):
            terminal = Terminal("rm", NAME, env=self.env)
            try:
                terminal.wait_for(r"Remove %s\? \[y/N\]" % NAME)
                terminal.type(answer)
                self.assertEqual(terminal.wait_end(), 1 if is_left else 0)
            finally:
                terminal.close()
            self.assertEqual(os.path.exists(self.path()), is_left)

    def test_a_fetched_model_runs_by_its_name(self):
        self.assert_refused(self.ruvllm("run", NAME, "Once"), "cannot find model '%s'" % NAME, "ruvllm pull " + NAME)
        self.ruvllm("pull", NAME)
        wanted = self.ruvllm("run", STORIES_TINY, "Once upon a time", "-n", "12", "--temp", "0").stdout
        self.assertGreater(len(wanted), 20)
        for name in (NAME, NAME + ":q8_0", "stories", "stories:" + FILE):
            done = self.ruvllm("run", name, "Once upon a time", "-n", "12", "--temp", "0")
            self.assertEqual(done.stdout, wanted, done.stderr)
        self.assertEqual(self.ruvllm("info", NAME).returncode, 0)
        self.assert_refused(self.ruvllm("run", NAME + ":Q4_0", "x"), "ruvllm pull %s:Q4_0" % NAME)
        self.assert_refused(self.ruvllm("run", "nobody", "x"), "ruvllm list")

    def test_a_path_that_exists_wins_over_a_name(self):
        self.ruvllm("pull", NAME)
        os.makedirs(os.path.join(self.folder, "kar"))
        with open(os.path.join(self.folder, NAME), "wb") as file:
            file.write(b"no model")
        done = subprocess.run([os.path.abspath(PROGRAM), "info", NAME], cwd=self.folder, env=self.env, capture_output=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("GGUF", done.stderr.decode())

    def test_a_name_two_owners_have_needs_the_owner(self):
        self.hub.add("two/stories", FILE, DATA)
        self.ruvllm("pull", NAME)
        self.ruvllm("pull", "two/stories")
        self.assert_refused(self.ruvllm("run", "stories", "x"), "kar/stories", "two/stories")
        self.assert_refused(self.ruvllm("rm", "-y", "stories"), "write the owner")

    def test_where_models_are_kept(self):
        env = self.environment()
        del env["RUVLLM_MODELS"]
        env["XDG_DATA_HOME"] = os.path.join(self.folder, "data")
        self.assertEqual(json.loads(self.ruvllm("list", "--json", env=env).stdout)["folder"],
                         os.path.join(self.folder, "data", "ruvllm", "models"))
        del env["XDG_DATA_HOME"]
        env["HOME"] = self.folder
        self.assertEqual(json.loads(self.ruvllm("list", "--json", env=env).stdout)["folder"],
                         os.path.join(self.folder, ".local", "share", "ruvllm", "models"))


class Push(HubCase):
    def setUp(self):
        super().setUp()
        self.env = self.environment(HF_TOKEN=self.hub.token)
        self.file = os.path.join(self.folder, "tiny-F32.gguf")
        shutil.copy(STORIES_TINY, self.file)

    def push(self, *args, **kwargs):
        return self.ruvllm("push", self.file, "me/new", *args, **kwargs)

    def test_a_model_is_uploaded_with_a_card(self):
        done = self.push("--private")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.decode(), self.hub.url + "/me/new/blob/main/tiny-F32.gguf\n")
        files = self.hub.repositories["me/new"]
        self.assertEqual(files["tiny-F32.gguf"], DATA)
        card = files["README.md"].decode()
        for text in ("tiny-F32.gguf", DIGEST, "%d bytes" % len(DATA), "F32", "ruvllm pull me/new:tiny-F32.gguf", "llama"):
            self.assertIn(text, card)
        self.assertEqual(self.hub.created, [{"type": "model", "organization": "me", "name": "new", "private": True}])

    def test_what_was_uploaded_can_be_fetched(self):
        self.push()
        done = self.ruvllm("pull", "me/new")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(self.models, "me/new/tiny-F32.gguf"), "rb") as file:
            self.assertEqual(file.read(), DATA)

    def test_a_card_that_is_there_stays_and_bytes_that_are_there_are_not_sent(self):
        self.hub.add("me/new", "README.md", b"mine")
        self.push()
        self.push()
        self.assertEqual(self.hub.repositories["me/new"]["README.md"], b"mine")
        self.assertEqual(len([r for r in self.hub.requests if r[0] == "PUT"]), 1)
        self.assertEqual(len(self.hub.commits), 2)
        self.assertEqual(self.hub.created, [])

    def test_the_token_stays_with_the_hub(self):
        other = HubServer()
        try:
            other.shared_with = self.hub
            self.hub.mischief.upload_url = other.url
            self.assertEqual(self.push().returncode, 0)
            self.assertEqual(other.tokens(), [None])
            self.assertEqual(self.hub.repositories["me/new"]["tiny-F32.gguf"], DATA)
        finally:
            other.close()
        self.hub.uploads.clear()
        self.hub.mischief.upload_url = "http://198.51.100.7"
        self.assert_refused(self.push(), "unprotected http to another host")

    def test_refusals_say_what_to_do(self):
        self.assert_refused(self.push(env=self.environment()), "HF_TOKEN")
        self.assert_refused(self.push(env=self.environment(HF_TOKEN="wrong")), "401")
        self.hub.mischief.multipart = True
        self.assert_refused(self.push(), "not supported", "multipart")
        self.assert_refused(self.ruvllm("push", self.file, "x"), "owner/name")
        self.assert_refused(self.ruvllm("push", self.file, "x/y:z"), "without what comes behind a colon")
        self.assert_refused(self.ruvllm("push", self.file), "a file and a repository", code=2)
        bad = os.path.join(self.folder, "bad.gguf")
        with open(bad, "wb") as file:
            file.write(b"nothing")
        self.assert_refused(self.ruvllm("push", bad, "me/new"), "GGUF")
        odd = os.path.join(self.folder, "a b.gguf")
        shutil.copy(STORIES_TINY, odd)
        self.assert_refused(self.ruvllm("push", odd, "me/new"), "letters, digits")
        self.assertEqual(self.hub.commits, [])


if __name__ == "__main__":
    main()
