"""The chat: scripted through a pipe, and in a terminal with the keys a person would press."""

import json
import os
import shutil
import tempfile
import unittest

from harness import MINIMIND, STORIES, Terminal, environment, main, run

UP = "\x1b[A"
CTRL_C = "\x03"
CTRL_D = "\x04"
# The prompt as it is drawn, in colour.
PROMPT = r"\x1b\[1;32m>\x1b\[0m "


class Piped(unittest.TestCase):
    def test_each_line_is_a_turn(self):
        done = run("chat", MINIMIND, "--json", "--temp", "0", "-n", "16", stdin="Hello\nWhat is your name?\n")
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        turns = [json.loads(line) for line in done.stdout.decode().splitlines()]
        self.assertEqual([t["turn"] for t in turns], [1, 2])
        self.assertEqual([t["user"] for t in turns], ["Hello", "What is your name?"])
        self.assertGreater(turns[1]["usage"]["prompt_tokens"], turns[0]["usage"]["prompt_tokens"])
        self.assertGreater(turns[1]["usage"]["cached_tokens"], 0)

    def test_a_backslash_continues_the_message(self):
        done = run("chat", MINIMIND, "--json", "-n", "1", stdin="one\\\ntwo\nthree\\\n")
        turns = [json.loads(line) for line in done.stdout.decode().splitlines()]
        self.assertEqual([t["user"] for t in turns], ["one\ntwo", "three\n"])

    def test_plain_answers(self):
        args = ["chat", MINIMIND, "--temp", "0", "-n", "8"]
        plain = run(*args, stdin="Hello\n").stdout.decode()
        self.assertEqual(plain, json.loads(run(*args, "--json", stdin="Hello\n").stdout)["text"] + "\n")

    def test_a_conversation_is_saved_and_loaded(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "talk.json")
            done = run("chat", MINIMIND, "--temp", "0", "-n", "8", "--system", "Be brief.", stdin="Hello\n/save %s\n" % path)
            self.assertIn("saved 3 messages", done.stdout.decode())
            with open(path, encoding="utf-8") as file:
                saved = json.load(file)["messages"]
            self.assertEqual([m["role"] for m in saved], ["system", "user", "assistant"])
            self.assertEqual(saved[0]["content"], "Be brief.")
            again = run("chat", MINIMIND, "--temp", "0", "-n", "8", "--json", "--load", path, stdin="And?\n")
            loaded = run("chat", MINIMIND, "--temp", "0", "-n", "8", "--json", stdin="/load %s\nAnd?\n" % path)
            turn = json.loads(again.stdout)
            self.assertEqual(json.loads(loaded.stdout.splitlines()[-1])["text"], turn["text"])
            self.assertEqual(run("chat", MINIMIND, "--load", path + ".no", stdin="").returncode, 1)
            with open(path, "w", encoding="utf-8") as file:
                file.write('{"messages": [{"role": "user"}]}')
            self.assertEqual(run("chat", MINIMIND, "--load", path, stdin="").returncode, 1)

    def test_commands(self):
        done = run("chat", MINIMIND, "--temp", "0", "-n", "4",
                   stdin="/system Be kind.\n/system\nHi\n/clear\n/system -\n/system\n/stats\n/regen\n/hlep\n/quit\nnever\n")
        text, err = done.stdout.decode(), done.stderr.decode()
        self.assertEqual(done.returncode, 0)
        for expected in ("system message set\nBe kind.\n", "conversation cleared, system message kept", "no system message",
                         "turns     1", "resident"):
            self.assertIn(expected, text)
        self.assertIn("there is no answer to make again", err)
        self.assertIn("did you mean '/help'?", err)

    def test_a_model_without_a_template_cannot_chat(self):
        done = run("chat", STORIES, stdin="Hello\n")
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn("template", done.stderr.decode())
        self.assertIn("ruvllm run", done.stderr.decode())

    def test_a_full_context_is_an_error_with_advice(self):
        done = run("chat", MINIMIND, "--ctx", "64", stdin="word " * 100 + "\nmore\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/clear", done.stderr.decode())


class InATerminal(unittest.TestCase):
    def setUp(self):
        self.state = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.state)

    def chat(self, *args):
        terminal = Terminal("chat", MINIMIND, *args, env=environment(XDG_STATE_HOME=self.state))
        self.addCleanup(terminal.close)
        terminal.wait_for(PROMPT)
        return terminal

    def test_ctrl_c_stops_the_answer_and_not_the_program(self):
        terminal = self.chat("--logit-bias", "2=-inf")  # an answer that never ends by itself
        terminal.type("Tell me a long story\n")
        terminal.wait_for(r"story\r\n.*\w+.*\w+")
        terminal.type(CTRL_C)
        terminal.wait_for(r"tok/s .* stopped\]", seconds=20)
        terminal.wait_for(PROMPT)
        self.assertTrue(terminal.is_alive())
        terminal.type("/stats\n")
        terminal.wait_for(r"turns +1")
        terminal.wait_for(PROMPT)
        terminal.type("/quit\n")
        self.assertEqual(terminal.wait_end(), 0)

    def test_ctrl_c_at_the_prompt_forgets_the_line(self):
        terminal = self.chat()
        terminal.type("half a messa")
        terminal.wait_for("messa")
        terminal.type(CTRL_C)
        terminal.wait_for(r"\^C")
        terminal.wait_for(PROMPT)
        terminal.type(CTRL_C)
        terminal.wait_for(PROMPT)
        self.assertTrue(terminal.is_alive())
        terminal.type(CTRL_D)
        self.assertEqual(terminal.wait_end(), 0)

    def test_an_answer_streams_and_ends_with_a_status_line(self):
        terminal = self.chat("--temp", "0", "-n", "12", "--system", "Be brief.")
        terminal.type("Hello\n")
        terminal.wait_for(r"\x1b\[2m\[12 tokens · [\d.]+ tok/s · prompt \d+ · context \d+ of \d+, \d+% · cut at --max-tokens\]")
        terminal.wait_for(PROMPT)
        terminal.type("/regen\n")
        terminal.wait_for(r"\[12 tokens")
        terminal.wait_for(PROMPT)
        terminal.type("/system\n")
        terminal.wait_for("Be brief")

    def test_help_and_clear(self):
        terminal = self.chat()
        terminal.type("/help\n")
        for command in ("/system", "/clear", "/regen", "/save", "/load", "/stats", "/quit"):
            terminal.wait_for(command)
        terminal.wait_for(PROMPT)
        terminal.type("/clear\n")
        terminal.wait_for("conversation cleared")

    def test_history_lasts_between_runs(self):
        terminal = self.chat("-n", "2")
        terminal.type("a memorable question\n")
        terminal.wait_for("tok/s")
        terminal.wait_for(PROMPT)
        terminal.type(UP)
        terminal.wait_for("a memorable question")
        terminal.type(CTRL_C + CTRL_D)
        self.assertEqual(terminal.wait_end(), 0)
        path = os.path.join(self.state, "ruvllm", "history")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        again = self.chat("-n", "2")
        again.type(UP)
        again.wait_for("a memorable question")

    def test_tab_completes_commands_and_utf8_is_typed(self):
        terminal = self.chat("-n", "2")
        terminal.type("/st\t\n")
        terminal.wait_for(r"turns +0")
        terminal.wait_for(PROMPT)
        terminal.type("/system Grüße 世界\n")
        terminal.wait_for("system message set")
        terminal.wait_for(PROMPT)
        terminal.type("/system\n")
        terminal.wait_for(r"/system\r\nGrüße 世界\r\n")


if __name__ == "__main__":
    main()
