"""The chat that learns: what is said of answers changes the next ones, stays, and is taken back."""

import json
import os
import shutil
import tempfile
import unittest

from harness import MINIMIND, Terminal, environment, main, run

CTRL_C = "\x03"
# The prompt as it is drawn, in colour.
PROMPT = r"\x1b\[1;32m>\x1b\[0m "


class Learning(unittest.TestCase):
    """Votes change the next answers, are kept in the store, and are taken back."""

    @classmethod
    def setUpClass(cls):
        """A store that knows the model, which takes a while to make, and nothing else."""
        cls.made = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.made)
        done = run("chat", MINIMIND, "--learn", "--store", os.path.join(cls.made, "store.db"), "--ctx", "512", timeout=240)
        assert done.returncode == 0, done.stderr.decode()

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.store = os.path.join(self.folder, "store.db")
        shutil.copy(os.path.join(self.made, "store.db"), self.store)

    def chat(self, lines, *more, store=None):
        args = ["chat", MINIMIND, "--learn", "--store", store or self.store, "--ctx", "512", "--temp", "0", "-n", "12",
                "--repeat-penalty", "1"]
        done = run(*args, *more, stdin="\n".join(lines) + "\n", timeout=240)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode(), done.stderr.decode()

    def test_votes_change_answers_over_restarts_and_are_taken_back(self):
        ask = ["/clear", "Tell me about the sea."]
        first, _ = self.chat(ask)
        taught, err = self.chat((ask + ["/bad"]) * 6 + ask)
        self.assertEqual(err, "")
        for generation in range(1, 7):
            self.assertIn("learned: generation %d, " % generation, taught)
        last = taught.split("conversation cleared\n")[-1]
        self.assertNotEqual(last, first.split("conversation cleared\n")[-1])
        again, _ = self.chat(ask + ["/learned"])
        self.assertIn("conversation cleared\n" + last, again)
        self.assertIn("generation  6\n", again)
        self.assertRegex(again, r"votes +6, mean score 0\.\d+")
        self.assertEqual(len([line for line in again.splitlines() if " bad " in line and "gained" in line]), 6)

    def test_undo_is_as_if_it_had_not_been_said(self):
        ask = ["/clear", "Tell me about the sea."]
        shown, err = self.chat(ask + ["/bad", "/good", "/undo", "/undo"] + ask + ["/learned", "/undo"])
        turns = shown.split("conversation cleared\n")
        answer = turns[1].splitlines()[0]
        self.assertEqual(turns[2].splitlines()[0], answer)
        self.assertEqual(shown.count("taken back"), 2)
        self.assertEqual(turns[2].count("forgotten"), 2)
        self.assertIn("nothing was said in this chat", err)

    def test_a_correction_is_said_when_asked_again(self):
        ask = ["/clear", "What is the colour of my boat?"]
        shown, err = self.chat(ask + ["/fix It is green.", "/save %s/talk.json" % self.folder] + ask + ["/undo"] + ask)
        self.assertEqual(err, "")
        turns = [turn.splitlines()[0] for turn in shown.split("conversation cleared\n")[1:]]
        self.assertNotEqual(turns[0], "It is green.")
        self.assertEqual(turns[1][:12], "It is green.")
        self.assertEqual(turns[2], turns[0])
        with open(self.folder + "/talk.json", encoding="utf-8") as file:
            self.assertEqual(json.load(file)["messages"][-1]["content"], "It is green.")
        _, err = self.chat(["Hello", "/fix"])
        self.assertIn("/fix needs what the answer should have been", err)

    def test_in_memory_only(self):
        shown, _ = self.chat(["Hello", "/bad", "/learned", "/undo", "/learned"], store="none")
        self.assertIn("in memory only", shown)
        self.assertIn("generation  2\n", shown)  # the way back is one too
        self.assertFalse(os.path.exists("none"))

    def test_what_cannot_be_judged(self):
        _, err = self.chat(["/good", "Hello", "/clear", "/bad"])
        self.assertEqual(err.count("there is no whole answer to judge"), 2)
        done = run("chat", MINIMIND, "-n", "2", stdin="Hello\n/good\n/learned\n/undo\n")
        self.assertEqual(done.stderr.decode().count("this chat does not learn"), 3)
        self.assertEqual(run("chat", MINIMIND, "--store", self.store, stdin="").returncode, 2)
        self.assertEqual(run("chat", MINIMIND, "--learn", "--adapter", "x", stdin="").returncode, 2)

    def test_in_a_terminal(self):
        env = environment(XDG_STATE_HOME=self.folder)
        terminal = Terminal("chat", MINIMIND, "--learn", "--store", self.store, "--ctx", "512", "--logit-bias", "2=-inf",
                            env=env)
        self.addCleanup(terminal.close)
        terminal.wait_for(PROMPT, seconds=240)
        terminal.type("Tell me a long story\n")
        terminal.wait_for(r"story\r\n.*\w+.*\w+")
        terminal.type(CTRL_C)
        terminal.wait_for(r"tokens .* stopped\]", seconds=20)
        terminal.wait_for(PROMPT)
        terminal.type("/go\t\n")  # completed
        terminal.wait_for("there is no whole answer to judge")
        terminal.wait_for(PROMPT)
        terminal.type("/quit\n")
        self.assertEqual(terminal.wait_end(), 0)


if __name__ == "__main__":
    main()
