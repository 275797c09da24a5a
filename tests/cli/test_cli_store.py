"""Keys and the witness log from the command line."""

import os
import re
import sqlite3
import stat
import tempfile
import unittest

from harness import environment, main, run, run_json

KEY = re.compile(r"^rv-[A-Za-z0-9][A-Za-z0-9_-]{42}$")


class Store(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "deep", "store.db")

    def tearDown(self):
        self.folder.cleanup()

    def key(self, *args):
        return run("key", *args, "--store", self.path)

    def assert_says(self, done, code, *texts):
        self.assertEqual(done.returncode, code, done.stderr.decode())
        for text in texts:
            self.assertIn(text, done.stderr.decode())

    def files(self):
        folder = os.path.dirname(self.path)
        everything = b""
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as file:
                everything += file.read()
        return everything


class Keys(Store):
    def test_create_prints_the_key_alone_and_keeps_it_nowhere(self):
        done = self.key("create", "--tenant", "acme")
        self.assertEqual(done.returncode, 0)
        key = done.stdout.decode().rstrip("\n")
        self.assertRegex(key, KEY)
        self.assertIn(key[3:11], done.stderr.decode())
        self.assertIn("cannot be shown again", done.stderr.decode())
        self.assertNotIn(key, done.stderr.decode())
        self.assertNotIn(key[11:].encode(), self.files())
        self.assertIn(b"acme", self.files())
        self.assertNotIn(key[11:], self.key("list").stdout.decode())
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(self.path)).st_mode), 0o700)

    def test_list_shows_what_was_asked_for(self):
        made = run_json("key", "create", "--tenant", "acme", "--name", "Zoë's laptop", "--rpm", "60", "--share", "2.5",
                        "--admin", "--expires", "30d", "--json", "--store", self.path)
        self.assertRegex(made["key"], KEY)
        self.key("create", "--tenant", "other")
        keys = run_json("key", "list", "--json", "--store", self.path)["keys"]
        self.assertEqual([key["tenant"] for key in keys], ["acme", "other"])
        first = dict(made)
        del first["key"]
        self.assertEqual(keys[0], first)
        self.assertEqual(first["id"], made["key"][3:11])
        self.assertEqual((first["name"], first["requests_per_minute"], first["share"]), ("Zoë's laptop", 60, 2.5))
        self.assertEqual((first["is_admin"], first["state"], first["revoked"]), (True, "valid", 0))
        # Two looks at the clock: a second may pass in between.
        self.assertAlmostEqual(first["expires"] - first["created"], 30 * 86400, delta=2)
        mine = run_json("key", "list", "--tenant", "other", "--json", "--store", self.path)["keys"]
        self.assertEqual(len(mine), 1)
        text = self.key("list").stdout.decode()
        self.assertEqual(len(text.splitlines()), 3)
        self.assertIn("Zoë's laptop", text)

    def test_a_revoked_key_stays_in_the_list(self):
        made = run_json("key", "create", "--tenant", "acme", "--json", "--store", self.path)
        self.assertEqual(self.key("revoke", made["id"]).stdout.decode(), "revoked %s\n" % made["id"])
        again = run_json("key", "revoke", made["id"], "--json", "--store", self.path)
        self.assertEqual(again, {"revoked": made["id"]})
        keys = run_json("key", "list", "--json", "--store", self.path)["keys"]
        self.assertEqual(keys[0]["state"], "revoked")
        self.assert_says(self.key("revoke", "AbCdEfGh"), 1, "no key 'AbCdEfGh'", "ruvllm key list")
        self.assert_says(self.key("revoke", "' OR 1=1"), 1, "8 characters")

    def test_the_default_store_is_in_the_state_folder(self):
        env = environment(XDG_STATE_HOME=os.path.join(self.folder.name, "state"))
        self.assertEqual(run("key", "create", "--tenant", "me", env=env).returncode, 0)
        self.assertTrue(os.path.exists(os.path.join(self.folder.name, "state", "ruvllm", "ruvllm.db")))

    def test_reading_makes_no_store(self):
        self.assert_says(self.key("list"), 1, "no such file", "ruvllm key create")
        self.assert_says(self.key("revoke", "AbCdEfGh"), 1, "no such file")
        self.assertFalse(os.path.exists(self.path))

    def test_wrong_usage_is_explained(self):
        self.assert_says(self.key(), 2, "say what to do")
        self.assert_says(self.key("lst"), 2, "did you mean 'list'?")
        self.assert_says(self.key("create"), 2, "no tenant given")
        self.assert_says(self.key("revoke"), 2, "no key given")
        self.assert_says(self.key("list", "--rpm", "5"), 2, "are for 'ruvllm key create'")
        self.assert_says(self.key("create", "acme", "--tenant", "acme"), 2, "unexpected argument")
        for span in ("", "d", "30", "30x", "-1d", "0d", "1.5d", " 1d", "99999999d", "36501d"):
            self.assert_says(self.key("create", "--tenant", "a", "--expires", span), 2, "'--expires' needs a span")
        for share in ("0", "-1", "1001", "nan"):
            self.assert_says(self.key("create", "--tenant", "a", "--share", share), 2, "'--share' needs")

    def test_hostile_tenants_are_refused(self):
        for tenant in ("", "../x", "a/b", "a b", "a'b", "é", "a" * 65, "'; DROP TABLE api_key; --"):
            self.assert_says(self.key("create", "--tenant", tenant), 1, "a tenant is named by")
        self.assertEqual(run_json("key", "list", "--json", "--store", self.path), {"keys": []})

    def test_what_is_no_store_is_left_alone(self):
        other = os.path.join(self.folder.name, "letter.txt")
        with open(other, "w", encoding="utf-8") as file:
            file.write("Dear mother, this is no database. " * 40)
        done = run("key", "create", "--tenant", "a", "--store", other)
        self.assert_says(done, 1, "not a SQLite database", "was not changed")
        with open(other, encoding="utf-8") as file:
            self.assertIn("Dear mother", file.read())
        done = run("key", "list", "--store", "postgres://me:hush@127.0.0.1:1/y")
        self.assert_says(done, 1, "cannot open store 'postgres://'", "server")
        self.assertNotIn(b"hush", done.stdout + done.stderr)


class Witness(Store):
    def setUp(self):
        super().setUp()
        self.key("create", "--tenant", "acme")
        with sqlite3.connect(self.path) as database:
            for i in range(5):
                database.execute(
                    "INSERT INTO witness (time_us, tenant, key_id, request_id, model, endpoint, finish_reason,"
                    " adapter_generation, status, prompt_tokens, cached_tokens, generated_tokens, queue_us, prefill_us,"
                    " decode_us, total_us) VALUES (?, ?, 'abcdefgh', 'r', ?, '/v1/completions', 'stop', 0, 200, ?, 1, 2,"
                    " 3, 4, 5, 6)",
                    (1700000000000000 + i, "acme" if i % 2 else "other", "small" if i < 3 else "large", i))
        database.close()

    def entries(self, *args):
        found = run_json("witness", *args, "--json", "--store", self.path)["entries"]
        return [entry["prompt_tokens"] for entry in found]

    def test_the_newest_come_first_and_filters_hold(self):
        self.assertEqual(self.entries(), [4, 3, 2, 1, 0])
        self.assertEqual(self.entries("--tenant", "acme"), [3, 1])
        self.assertEqual(self.entries("-m", "large"), [4, 3])
        self.assertEqual(self.entries("-n", "2"), [4, 3])
        self.assertEqual(self.entries("--since", "1h"), [])
        self.assertEqual(len(self.entries("--since", "36500d")), 5)

    def test_every_field_is_in_the_json(self):
        entry = run_json("witness", "-n", "1", "--json", "--store", self.path)["entries"][0]
        self.assertEqual(entry, {
            "time_us": 1700000000000004, "tenant": "other", "key_id": "abcdefgh", "request_id": "r", "model": "large",
            "adapter_generation": 0, "endpoint": "/v1/completions", "status": 200, "finish_reason": "stop",
            "prompt_tokens": 4, "cached_tokens": 1, "generated_tokens": 2, "queue_us": 3, "prefill_us": 4, "decode_us": 5,
            "total_us": 6})

    def test_people_get_a_table(self):
        text = run("witness", "--store", self.path).stdout.decode()
        self.assertEqual(len(text.splitlines()), 6)
        self.assertIn("2023-11-14 22:13", text)
        self.assertEqual(run("witness", "--tenant", "nobody", "--store", self.path).stdout, b"no entries\n")

    def test_wrong_usage_is_explained(self):
        for limit in ("0", "1001", "x"):
            self.assert_says(run("witness", "-n", limit, "--store", self.path), 2, "'--limit' needs")
        self.assert_says(run("witness", "--tenant", "a'b", "--store", self.path), 1, "a tenant is named by")


if __name__ == "__main__":
    main()
