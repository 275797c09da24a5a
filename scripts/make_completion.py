#!/usr/bin/env python3
"""Writes the completion of bash, zsh and fish from what the program says about itself.

    make_completion.py PROGRAM [FOLDER]    writes ruvllm.bash, _ruvllm and ruvllm.fish (default deploy/completion)
    make_completion.py PROGRAM --check     says which of them is out of date, and fails then

The help texts are the source: a new command or option needs no line here. Values that come from a list are found by
asking with one that cannot be right, which the program answers with the list.
"""

import os
import re
import subprocess
import sys

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "deploy", "completion")
HEAD = "Completion of ruvllm for %s. Made by scripts/make_completion.py from the program's help: do not edit."
OPTION = re.compile(r"^  (?:-(\w), |    )--([a-z0-9-]+)(?: (\S+))?(?:  +(.*))?$")
# Placeholders that cannot be lists of choices.
FREE = {"PATH[=X]", "N", "X", "S", "FILE", "PATH", "DIR", "TEXT", "SIZE", "HEX", "ID=X", "NAME", "SPAN", "ADDRESS", "ORIGIN", "LIST"}
VERBS = {"key": ["create", "list", "revoke"], "adapter": ["import", "export", "merge", "info", "list"]}


def ask(program, *args):
    env = {"PATH": "/usr/bin:/bin", "COLUMNS": "100", "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
    return subprocess.run([program, *args], capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL)


def choices(program, command, name):
    """The values of an option that has a list of them, else none."""
    wrong = ask(program, command, "--%s=no-such-value" % name).stderr
    found = re.search(r"\bone of (.+?),? not\b", wrong)
    return found.group(1).split(", ") if found else []


class Option:
    def __init__(self, program, command, short, name, value, text):
        self.short, self.name, self.value, self.text = short, name, value, text
        self.choices = choices(program, command, name) if value and value not in FREE else []

    @property
    def takes(self):
        """What completes the value: 'files', 'folders', 'list', 'any', or None for a flag."""
        if not self.value:
            return None
        if self.choices:
            return "list"
        return {"FILE": "files", "PATH": "files", "DIR": "folders"}.get(self.value, "any")


class Command:
    def __init__(self, program, name, summary):
        self.name, self.summary, self.options = name, summary, []
        text = ask(program, "help", name).stdout
        self.arguments = re.match(r"Usage: ruvllm \S+ ?(.*?) ?\[OPTIONS\]", text).group(1)
        lines = text.split("\n")
        for i, line in enumerate(lines):
            found = OPTION.match(line)
            if found:
                self.options.append(Option(program, name, found[1], found[2], found[3], self.sentence(found[4], lines[i + 1:])))

    @staticmethod
    def sentence(first, below):
        """An option's text, which may begin on the next line and goes on while lines are indented."""
        parts = [first] if first else []
        for line in below:
            if not line.startswith(" " * 30):
                break
            parts.append(line.strip())
        return " ".join(parts).split(" (default")[0]


def commands(program):
    text = ask(program, "help").stdout
    listed = text[text.index("\nCommands\n"):]
    found = re.findall(r"^  ([a-z]+) +(.+)$", listed[:listed.index("\n\n", 2)], re.M)
    assert found, "the help lists no commands"
    return [Command(program, name, summary) for name, summary in found]


def bash(all_commands):
    out = ["# " + HEAD % "bash", "", "_ruvllm_words() { # command: its options", "    case $1 in"]
    for c in all_commands:
        words = " ".join(w for o in c.options for w in (["-" + o.short] if o.short else []) + ["--" + o.name])
        out.append("    %s) echo '%s' ;;" % (c.name, words))
    out += ["    esac", "}", "", "_ruvllm_value() { # command, option: '-' a flag, '@files', '@folders', '@any', or the choices",
            "    case $1:$2 in"]
    for c in all_commands:
        for o in c.options:
            if o.takes:
                what = " ".join(o.choices) if o.choices else "@" + o.takes
                names = (["%s:-%s" % (c.name, o.short)] if o.short else []) + ["%s:--%s" % (c.name, o.name)]
                out.append("    %s) echo '%s' ;;" % (" | ".join(names), what))
    out += ["    *) echo - ;;", "    esac", "}", "",
            "_ruvllm_arguments() { # command: words that can stand as its arguments", "    case $1 in",
            "    help) echo '%s' ;;" % " ".join(c.name for c in all_commands)]
    out += ["    %s) echo '%s' ;;" % (name, " ".join(verbs)) for name, verbs in VERBS.items()]
    out += ["    esac", "}", "", "_ruvllm()", "{",
            "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} kind",
            "    COMPREPLY=()",
            "    if ((COMP_CWORD == 1)); then",
            "        COMPREPLY=($(compgen -W '%s --help --version' -- \"$word\"))" % " ".join(c.name for c in all_commands),
            "        return",
            "    fi",
            "    # '--name=value' arrives as three words.",
            "    if [[ $word == '=' ]]; then",
            "        word=",
            "    elif [[ $before == '=' ]]; then",
            "        before=${COMP_WORDS[COMP_CWORD - 2]}",
            "    fi",
            "    kind=$(_ruvllm_value \"$command\" \"$before\")",
            "    case $kind in",
            "    -) ;;",
            "    @files) COMPREPLY=($(compgen -f -- \"$word\")) && return ;;",
            "    @folders) COMPREPLY=($(compgen -d -- \"$word\")) && return ;;",
            "    @any) return ;;",
            "    *) COMPREPLY=($(compgen -W \"$kind\" -- \"$word\")) && return ;;",
            "    esac",
            "    if [[ $word == -* ]]; then",
            "        COMPREPLY=($(compgen -W \"$(_ruvllm_words \"$command\")\" -- \"$word\"))",
            "    else",
            "        COMPREPLY=($(compgen -W \"$(_ruvllm_arguments \"$command\")\" -- \"$word\") $(compgen -f -X '!*.gguf' -- \"$word\")",
            "            $(compgen -d -- \"$word\"))",
            "    fi",
            "}",
            "",
            "complete -o filenames -F _ruvllm ruvllm"]
    return "\n".join(out) + "\n"


def zsh_text(text):
    """Inside single quotes and brackets of an option's description."""
    return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:").replace("'", "'\\''")


def zsh(all_commands):
    out = ["#compdef ruvllm", "# " + HEAD % "zsh", "", "_ruvllm_commands() {", "    local -a commands", "    commands=("]
    out += ["        '%s:%s'" % (c.name, zsh_text(c.summary)) for c in all_commands]
    out += ["    )", "    _describe command commands", "}", "", "_ruvllm() {", "    local curcontext=$curcontext state line",
            "    if ((CURRENT == 2)); then", "        _ruvllm_commands", "        return", "    fi",
            "    local command=$words[2]", "    shift words", "    ((CURRENT--))", "    case $command in"]
    actions = {"files": "_files", "folders": "_files -/", "any": " "}
    for c in all_commands:
        out += ["    %s)" % c.name, "        _arguments -s -S \\"]
        for o in c.options:
            value = ""
            if o.takes:
                action = "(%s)" % " ".join(o.choices) if o.choices else actions[o.takes]
                value = ":%s:%s" % (zsh_text(o.value), action)
            text = "[%s]%s'" % (zsh_text(o.text), value)
            long_name = "--%s%s" % (o.name, "=" if o.takes else "")
            if re.search("several times|repeated", o.text):
                before = "*"
            else:
                before = "(-%s --%s)" % (o.short, o.name) if o.short else ""
            if o.short:
                out.append("            '%s-%s%s%s \\" % (before, o.short, "+" if o.takes else "", text))
            out.append("            '%s%s%s \\" % (before, long_name, text))
        if c.name in VERBS:
            out.append("            '1:action:(%s)'" % " ".join(VERBS[c.name]))
        elif c.name == "help":
            out.append("            '1:command:_ruvllm_commands'")
        else:
            out.append("            '*:model:_files -g \"*.gguf(-.)\"'")
        out.append("        ;;")
    return "\n".join(out + ["    esac", "}", "", "_ruvllm \"$@\""]) + "\n"


def fish_text(text):
    return text.replace("\\", "\\\\").replace("'", "\\'")


def fish(all_commands):
    out = ["# " + HEAD % "fish", ""]
    names = " ".join(c.name for c in all_commands)
    for c in all_commands:
        out.append("complete -c ruvllm -n __fish_use_subcommand -f -a %s -d '%s'" % (c.name, fish_text(c.summary)))
    for c in all_commands:
        out.append("")
        when = "-n '__fish_seen_subcommand_from %s'" % c.name
        for o in c.options:
            parts = ["complete -c ruvllm", when] + (["-s", o.short] if o.short else []) + ["-l", o.name]
            if o.takes == "list":
                parts.append("-x -a '%s'" % " ".join(o.choices))
            elif o.takes == "folders":
                parts.append("-x -a '(__fish_complete_directories)'")
            elif o.takes:
                parts.append("-r" if o.takes == "files" else "-x")
            out.append(" ".join(parts + ["-d '%s'" % fish_text(o.text)]))
        if c.name in VERBS:
            out.append("complete -c ruvllm %s -f -a '%s'" % (when, " ".join(VERBS[c.name])))
        elif c.name == "help":
            out.append("complete -c ruvllm %s -f -a '%s'" % (when, names))
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = os.path.abspath(sys.argv[1])
    check = "--check" in sys.argv[2:]
    folder = FOLDER if check or len(sys.argv) < 3 else sys.argv[2]
    everything = commands(program)
    stale = []
    for name, text in (("ruvllm.bash", bash(everything)), ("_ruvllm", zsh(everything)), ("ruvllm.fish", fish(everything))):
        path = os.path.join(folder, name)
        if not check:
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
        elif not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
            stale.append(name)
    if stale:
        sys.exit("out of date: %s; run scripts/make_completion.py %s" % (", ".join(stale), sys.argv[1]))


if __name__ == "__main__":
    main()
