"""learn run: the loss falls, what it writes makes the model predict better, a stopped run goes on, clean refusals."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from harness import DATA, MINIMIND, STORIES, STORIES_TINY, command_line, environment, main, run, run_json

PLAY = os.path.join(DATA, "text", "tinyshakespeare.txt")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Learn(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ruvllm-learn-")
        self.out = os.path.join(self.folder, "adapter.gguf")
        self.data = os.path.join(self.folder, "play.jsonl")
        text = read(PLAY)
        pieces = [text[i * 300:(i + 1) * 300] for i in range(40)]
        self.write(self.data, [{"prompt": p[:60], "response": p[60:]} for p in pieces])
        self.unseen = os.path.join(self.folder, "unseen.txt")
        with open(self.unseen, "w", encoding="utf-8") as file:
            file.write(text[20000:26000])

    def tearDown(self):
        shutil.rmtree(self.folder)

    def write(self, path, lines):
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    def learn(self, model, *options, data=None, out=None):
        done = run("learn", "run", model, data or self.data, "-o", out or self.out, "--json", *options, timeout=280)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
        return lines[-1], lines[:-1]

    def perplexity(self, model, *options):
        done = run("perplexity", model, "-f", self.unseen, "--ctx", "128", "--chunks", "8", "--json", *options, timeout=280)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return json.loads(done.stdout.decode().splitlines()[-1])["perplexity"]

    def assert_refused(self, args, *texts, code=1):
        done = run("learn", *args)
        self.assertEqual(done.returncode, code, done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr.decode())
        self.assertFalse(os.path.exists(self.out))

    def test_what_is_learned_helps_the_decoder_on_text_nobody_trained_on(self):
        for model, rate in ((STORIES_TINY, "3e-3"), (STORIES, "2e-3")):
            out = os.path.join(self.folder, os.path.basename(model) + ".adapter")
            report, epochs = self.learn(model, "--epochs", "2", "--rate", rate, "--length", "160", "--held-out", "0.2", out=out)
            self.assertTrue(report["written"])
            self.assertLess(report["held_out_after"], 0.93 * report["held_out_before"])
            self.assertEqual(len(epochs), 2)
            self.assertLess(self.perplexity(model, "--adapter", out), 0.75 * self.perplexity(model))

    def test_nothing_is_written_when_nothing_is_gained(self):
        report, _ = self.learn(STORIES_TINY, "--rate", "0", "--epochs", "1")
        self.assertFalse(report["written"])
        self.assertFalse(os.path.exists(self.out))

    def test_a_stopped_run_goes_on_to_the_same_adapter(self):
        options = ("--epochs", "3", "--batch-tokens", "200", "--length", "160", "--rate", "1e-3")
        whole = os.path.join(self.folder, "whole.gguf")
        self.learn(STORIES_TINY, *options, out=whole)
        process = subprocess.Popen(command_line("learn", "run", STORIES_TINY, self.data, "-o", self.out, *options),
                                   env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.readline()  # the first epoch is over
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=120)[0].decode()
        if process.returncode == 0:
            self.skipTest("the run was over before the signal came")
        self.assertEqual(process.returncode, 130)
        self.assertIn("goes on from there", output)
        self.assertTrue(os.path.exists(self.out + ".run"))
        self.assertFalse(os.path.exists(self.out))
        report, _ = self.learn(STORIES_TINY, *options)
        self.assertTrue(report["resumed"])
        self.assertFalse(os.path.exists(self.out + ".run"))
        with open(whole, "rb") as a, open(self.out, "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_a_run_that_is_killed_goes_on_from_what_was_kept(self):
        options = ("--epochs", "40", "--batch-tokens", "200", "--length", "160", "--checkpoint-every", "1")
        process = subprocess.Popen(command_line("learn", "run", STORIES_TINY, self.data, "-o", self.out, *options),
                                   env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 120
        while not os.path.exists(self.out + ".run") and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.05)
        process.kill()
        process.communicate()
        self.assertTrue(os.path.exists(self.out + ".run"))
        self.assertFalse(os.path.exists(self.out))
        report, _ = self.learn(STORIES_TINY, *options)
        self.assertTrue(report["resumed"])

    def test_of_two_answers_the_better_one_is_learned(self):
        text = read(PLAY)
        pairs = [{"prompt": text[i * 200:i * 200 + 40], "chosen": text[i * 200 + 40:i * 200 + 120],
                  "rejected": "Once there was a little girl named Lily. She liked to play."} for i in range(24)]
        self.write(self.data, pairs)
        report, _ = self.learn(STORIES_TINY, "--epochs", "3", "--rate", "2e-3", "--held-out", "0.25")
        self.assertTrue(report["written"])
        self.assertAlmostEqual(report["held_out_before"], 0.6931, delta=0.001)  # nothing is preferred yet
        self.assertLess(report["held_out_after"], 0.3)
        self.write(self.data, [dict(pair, score=1) for pair in pairs])
        os.remove(self.out)
        self.assert_refused(("run", STORIES_TINY, self.data, "-o", self.out), "a pair", "no score")

    def test_what_was_said_in_a_chat_is_learned_looked_at_and_gone_back_from(self):
        store = os.path.join(self.folder, "store.db")
        said = []
        for i in range(6):
            said += ["Who lives in house %d?" % i, "/fix The old king of Denmark lives in house %d, my lord." % i, "/clear"]
        done = run("chat", MINIMIND, "--learn", "--store", store, "--ctx", "512", "--temp", "0", "-n", "8",
                   stdin="\n".join(said) + "\n", timeout=280)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        mine = ("--store", store, "--tenant", "local", "--json")
        before = run_json("learn", "status", MINIMIND, *mine)
        self.assertEqual(before["lessons"], 6)
        done = run("learn", "run", MINIMIND, *mine, "-t", "1", "--epochs", "4", "--length", "96", "--max-forgetting", "10",
                   timeout=800)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        report = json.loads(done.stdout.decode().splitlines()[-1])  # a line for each epoch comes before it
        self.assertTrue(report["written"])
        self.assertEqual((report["corrections"], report["generation"]), (6, before["generation"] + 1))
        self.assertLess(report["held_out_after"], report["held_out_before"])
        events = run_json("learn", "history", MINIMIND, *mine)["events"]
        kinds = [event["kind"] for event in events]
        self.assertEqual((kinds[0], kinds.count("correction")), ("deep", 6))
        self.assertIn("held_out_after", events[0]["reason"])
        shown = run("learn", "history", MINIMIND, "--store", store, "--tenant", "local").stdout.decode()
        self.assertRegex(shown, r"deep +- +held out \d+\.\d+ -> \d+\.\d+; forgotten ")
        done = run("learn", "export", MINIMIND, "--store", store, "--tenant", "local", "-o", self.out)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        info = run_json("adapter", "info", MINIMIND, self.out, "--json")
        self.assertGreater(info["pairs"], 0)
        back = run_json("learn", "rollback", MINIMIND, str(before["generation"]), *mine)["generation"]
        self.assertEqual((back, run_json("learn", "status", MINIMIND, *mine)["generation"]), (report["generation"] + 1, back))
        shown = run("learn", "history", MINIMIND, "--store", store, "--tenant", "local", "-n", "1").stdout.decode()
        self.assertIn("back to %d" % before["generation"], shown)
        done = run("learn", "rollback", MINIMIND, "99", *mine)
        self.assertEqual(done.returncode, 1)
        self.assertIn("99", done.stderr.decode())

    def test_what_cannot_be_used_is_refused_by_line(self):
        bad = os.path.join(self.folder, "bad.jsonl")
        for line, text in ((b"{\"prompt\": 1}", "needs 'prompt'"), (b"nonsense", "no JSON"), (b"[1]", "no object"),
                           (b"{\"text\": \"a b c\", \"score\": 2}", "'score'"),
                           (b"{\"messages\": [{\"role\": \"user\"}, {}]}", "message 1")):
            with open(bad, "wb") as file:
                file.write(b"{\"text\": \"Once upon a time there was a boy\"}\n\n" + line + b"\n")
            self.assert_refused(("run", STORIES_TINY, bad, "-o", self.out), "line 3", text)
        self.assert_refused(("run", STORIES_TINY, self.data, "-o", self.out, "--modules", "q,x"), "no module 'x'")
        self.assert_refused(("run", STORIES_TINY, self.data), "-o", code=2)
        self.assert_refused(("walk",), "learn run", code=2)
        missing = os.path.join(self.folder, "none.db")
        self.assert_refused(("status", STORIES_TINY, "--store", missing), "none.db")
        self.assert_refused(("rollback", STORIES_TINY, "--store", missing), "which generation", code=2)
        self.assert_refused(("run", STORIES_TINY, "--tenant", "a", "-o", self.out), "no output", code=2)


if __name__ == "__main__":
    main()
