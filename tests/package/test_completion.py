"""Completion of the three shells: up to date, complete, and in bash as a user meets it."""

import os
import re
import shutil
import unittest

from fixture import DEPLOY, PROGRAM, SOURCE, main, read, run

SCRIPT = os.path.join(SOURCE, "scripts", "make_completion.py")
FILES = ("ruvllm.bash", "_ruvllm", "ruvllm.fish")


def complete(*words):
    """What bash offers for the last of the words."""
    script = """source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ruvllm; printf '%s\\n' "${COMPREPLY[@]}" """
    done = run("bash", "-c", script, "bash", os.path.join(DEPLOY, "completion", "ruvllm.bash"), "ruvllm", *words)
    return done.stdout.split()


class Completion(unittest.TestCase):
    def test_files_are_what_the_program_says_now(self):
        run("python3", SCRIPT, PROGRAM, "--check")

    def test_every_command_and_option_is_in_every_shell(self):
        overview = run(PROGRAM, "help").stdout
        commands = re.findall(r"^  ([a-z]+) +\S", overview[overview.index("\nCommands\n"):overview.index("\nEnvironment")], re.M)
        self.assertGreater(len(commands), 12)
        for command in commands:
            options = re.findall(r"^  (?:-\w, |    )--([a-z0-9-]+)", run(PROGRAM, "help", command).stdout, re.M)
            self.assertEqual({w for w in complete(command, "--") if w.startswith("--")}, {"--" + o for o in options})
            for option in options:
                self.assertRegex(read(DEPLOY, "completion", "_ruvllm"), r"--%s[=\[]" % option)
                self.assertRegex(read(DEPLOY, "completion", "ruvllm.fish"),
                                 r"seen_subcommand_from %s' .*-l %s " % (command, option))
        self.assertEqual(set(complete("")), set(commands) | {"--help", "--version"})

    def test_bash_offers_what_fits(self):
        self.assertEqual(complete("ser"), ["serve"])
        self.assertEqual(complete("serve", "--kv-cold", ""), ["q4", "q8", "f16"])
        self.assertEqual(complete("serve", "--kv-cold", "=", "q"), ["q4", "q8"])
        self.assertEqual(complete("key", "re"), ["revoke"])
        self.assertEqual(complete("serve", "--drain", ""), [])
        self.assertIn(os.path.join(SOURCE, "LICENSE"), complete("run", "-f", os.path.join(SOURCE, "LIC")))

    def test_shells_accept_their_files(self):
        for shell, name in zip(("bash", "zsh", "fish"), FILES):
            if shutil.which(shell):
                run(shell, "-n", os.path.join(DEPLOY, "completion", name))


if __name__ == "__main__":
    main(PROGRAM)
