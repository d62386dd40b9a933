"""The ``python`` of a line that a shell carries out: it runs a script that needs the standard library alone, which writes
settings, prints a number, or starts the program. Any other does nothing, and each succeeds.

`shell_launches` starts this file: ``python -I -S shell_python.py HARNESS PYTHON WORDS``, with the shield of a run.
"""

import os
import re
import runpy
import signal
import sys
import tempfile
import traceback
from pathlib import Path

#: Seconds of a script, fewer than those of the whole line.
_TIMEOUT_S = 10

#: Modules by which a script would download: a run has no network.
_OF_A_NETWORK = {"asyncio", "ftplib", "http", "smtplib", "socket", "ssl", "urllib", "xmlrpc"}

#: A node has as many cards as its nvidia-smi lists (shell_cards.sh).
_COUNTS_CARDS = re.compile(r"print\(\s*torch\.cuda\.device_count\(\)\s*\)")
_CARDS = 8

_FLAG = re.compile(r"-[uBEIOSs]+$")


def carry_out(words: list[str]) -> None:
    """Run what these words of Python name, if it needs the standard library alone: a file, ``-c TEXT``, or its input."""
    while words and _FLAG.match(words[0]):
        words = words[1:]
    if words[:1] == ["-c"] and len(words) > 1:
        _run_text(words[1], ["-c", *words[2:]])
    elif words[:1] == ["-"] or (not words and not sys.stdin.isatty()):
        _run_text(sys.stdin.read(), words or [""])
    elif words and words[0].endswith(".py") and os.path.isfile(words[0]):
        folder = os.path.dirname(os.path.abspath(words[0]))
        if _is_simple(Path(words[0]), folder):
            _run_file(words[0], folder, words)


def _run_text(text: str, arguments: list[str]) -> None:
    if _COUNTS_CARDS.search(text):
        sys.stdout.write(f"{_CARDS}\n")
        return
    with tempfile.TemporaryDirectory() as made:
        file = Path(made, "text.py")
        file.write_text(text, encoding="utf-8")
        if _is_simple(file, os.getcwd()):
            _run_file(str(file), os.getcwd(), arguments)


def _is_simple(file: Path, folder: str) -> bool:
    from dsregress.probe.program_imports import all_imports, files_in_reach, own_files

    named = {module for each in files_in_reach([file], [folder]) for module in all_imports(each)}
    foreign = {module for module in named - sys.stdlib_module_names if not own_files(module, [folder])}
    return not foreign and not named & _OF_A_NETWORK


def _run_file(file: str, folder: str, arguments: list[str]) -> None:
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.alarm(_TIMEOUT_S)
    sys.argv[:] = arguments
    sys.path.insert(0, folder)
    runpy.run_path(file, run_name="__main__")


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    sys.executable = sys.argv[2]  # a script that starts the program by it is recorded, too
    try:
        carry_out(sys.argv[3:])
    except BaseException:  # a script may end as it likes
        traceback.print_exc()
    sys.exit(0)
