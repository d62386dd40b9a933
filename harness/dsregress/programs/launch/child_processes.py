"""Recognizes, by their command lines, those child processes of a program that train."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence

from dsregress.probe.launch_line import INSTALLED, LaunchLine, LaunchLineError, parse, parse_words

_SHELLS = frozenset(("sh", "bash", "dash", "zsh"))
#: Commands that only start the next one.
_PREFIXES = frozenset(("env", "exec", "nohup", "time", "nice", "sudo"))


def launch_line_of(words: Sequence[str]) -> LaunchLine | None:
    """Return the launch line of a process; None if its words are no launch line. A single word is a line for a shell."""
    try:
        line = parse(words[0]) if len(words) == 1 else parse_words(words)
    except LaunchLineError:
        return None
    return None if line.launcher == INSTALLED or _is_tool(line) else line


def trains(words: Sequence[str]) -> bool:
    """Return True if a process, or one that its shell starts, is a launcher or runs a script or a module."""
    return any(launch_line_of(command) is not None for command in _commands(words))


def _commands(words: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the commands in the words of a process, each of at least two words."""
    if len(words) == 1:
        yield from _commands_of_shell(words[0])
        return
    left = list(words)
    while left and os.path.basename(left[0]) in _PREFIXES:
        del left[0]
    if left and os.path.basename(left[0]) in _SHELLS:
        option = next((at for at, word in enumerate(left[1:], 1) if word.startswith("-") and word.endswith("c")), 0)
        if option and left[option + 1 :]:
            yield from _commands_of_shell(left[option + 1])
    elif len(left) > 1:
        yield left


def _commands_of_shell(line: str) -> Iterator[Sequence[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    command: list[str] = []
    try:
        for word in lexer:
            if set(word) <= set("();<>|&"):
                yield from _commands(command) if len(command) > 1 else ()
                command = []
            else:
                command.append(word)
    except ValueError:  # no closing quotation
        return
    if len(command) > 1:
        yield from _commands(command)


def _is_tool(line: LaunchLine) -> bool:
    """Return True if Python runs something that does not train."""
    if line.launcher != "python":
        return False
    tools = ("pip", "venv", "ensurepip", "compileall")
    return line.program.partition(".")[0] in tools if line.is_module else not line.program.endswith(".py")
