"""Launch lines that a repository writes down: in its README files, its shell scripts, its Makefile, its pyproject.toml.

A line counts if it starts a program that is there. What a shell has to fill in is filled in as `shell_launches` does it.
"""

from __future__ import annotations

import collections
import contextlib
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsregress.config.toml_text import parsed_toml
from dsregress.errors import UsageError
from dsregress.probe.border.untrusted import MOST_FILE_BYTES, read_regular
from dsregress.probe.launch_line import LaunchLine, LaunchLineError, parse
from dsregress.probe.shell_syntax import joined
from dsregress.run.shell_launches import SeveralLaunches, launch_of_shell, needs_shell

#: Launchers of distributed training, in which a line that a repository shows may begin.
_LAUNCHERS = ("accelerate", "deepspeed", "torchrun", "trl", "llamafactory-cli", "axolotl")

_SCRIPTS = (".sh", ".slurm", ".sbatch")

#: A line begins with a prompt, variables and a launcher; or it starts a program of Python's.
_LINE = re.compile(
    rf"^[\t >]*(?:\$ )?(?P<line>(?:[A-Z_]\w*=\S* +)*(?:(?:{'|'.join(_LAUNCHERS)})\b|python3? +(?:-m +)?[\w./-]*).*)$",
    re.MULTILINE,
)

#: Programs of Python's that train, by their names; most others prepare, convert or evaluate.
_TRAINS = re.compile(r"train|finetune|fine_tune|sft|dpo|grpo|pretrain|run_")

#: Folders that hold others' code, or the results of builds.
_SKIPPED = frozenset(("node_modules", "site-packages", "build", "dist", "third_party", "venv", "__pycache__"))

#: What a script passes on of its own call: nothing, if it is called without arguments.
_PASSED_ON = re.compile(r"""\s"?\$(?:@|\*|\{@\}|\{@:[0-9]+\})"?(?=\s|$)""")

#: Scripts that bash carries out, which takes a second or two for each; and files that are read.
_MOST_SCRIPTS, _MOST_FILES = 8, 2_000


@dataclass(frozen=True)
class FoundLaunch:
    """A launch line of a repository."""

    line: str
    folder: str  #: in which it starts, relative to the repository
    file: str  #: where it is written
    parsed: LaunchLine

    @property
    def is_distributed(self) -> bool:
        """True if a launcher starts its ranks."""
        return self.parsed.launcher != "python"


def launches_in(root: Path) -> list[FoundLaunch]:
    """Return the lines that start a program below ``root``: those of launchers first, then as their files are listed, those
    nearest to ``root`` first."""
    found: dict[tuple[str, str], FoundLaunch] = {}
    carried_out = 0
    for file in _files_to_read(root):
        text = _text(file)
        launches = [one for line in _written_lines(text, file) for one in _found_launches(line, file, root)]
        if not launches and file.suffix in _SCRIPTS and _LINE.search(joined(text)) and carried_out < _MOST_SCRIPTS:
            carried_out += 1
            launches = list(_found_launches("", file, root))
        for one in launches:
            found.setdefault((one.line, one.folder), one)
    return sorted(found.values(), key=lambda one: not one.is_distributed)


def _files_to_read(root: Path) -> list[Path]:
    """Return the files that may show a launch line: README files, scripts, Makefile, pyproject.toml."""
    wanted: list[Path] = []
    seen = 0
    waiting = collections.deque([root])
    while waiting and seen <= _MOST_FILES:  # nearest first: one large folder of data hides no other
        folder = waiting.popleft()
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                if entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith(".") and entry.name not in _SKIPPED:
                        waiting.append(Path(entry.path))
                    continue
                seen += 1
                if _launch_file_rank(entry.name) is not None:
                    wanted.append(Path(entry.path))
    return sorted(wanted, key=lambda file: (len(file.relative_to(root).parts), _launch_file_rank(file.name), str(file)))


def _launch_file_rank(name: str) -> int | None:
    """Return the place of a file's kind in the order of reading; None if it is not read."""
    if name.lower().startswith("readme"):
        return 0
    if name.endswith(_SCRIPTS):
        return 1
    return 2 if name in ("Makefile", "pyproject.toml") else None


def _text(file: Path) -> str:
    """Return the text of a file; empty if it is a link, or no text."""
    try:
        return read_regular(str(file), MOST_FILE_BYTES, follow_links=False).decode("utf-8")
    except (OSError, ValueError):
        return ""


def _written_lines(text: str, file: Path) -> list[str]:
    """Return the lines of a file that begin as a launch does; of a script, those that need no shell."""
    if file.name == "pyproject.toml":
        return [line for line in _strings_of_toml(text) if _LINE.fullmatch(line)]
    lines = [found["line"].strip().rstrip("`") for found in _LINE.finditer(joined(text))]
    if file.suffix in _SCRIPTS:
        lines = [line for line in (_PASSED_ON.sub("", each) for each in lines) if not needs_shell(line)]
    return list(dict.fromkeys(lines))


def _found_launches(line: str, file: Path, root: Path) -> Iterator[FoundLaunch]:
    """Yield the launches that a line comes to, in the folder where its program is: the repository's, or its file's. No line:
    those of the file, which is a script."""
    for folder in dict.fromkeys((root, file.parent)):
        lines = _launch_lines(line or f"bash {shlex.quote(os.path.relpath(file, folder))}", folder)
        found = [(text, parsed) for text, parsed in lines if _is_there(parsed, folder)]
        for text, parsed in found:
            yield FoundLaunch(text, os.path.relpath(folder, root), str(file.relative_to(root)), parsed)
        if found:
            return


def _launch_lines(line: str, folder: Path) -> Iterator[tuple[str, LaunchLine]]:
    try:
        lines = [launch_of_shell(line, folder).line] if needs_shell(line) else [line]
    except SeveralLaunches as several:
        lines = several.lines
    except UsageError:  # it starts nothing here
        return
    for text in lines:
        try:
            yield text, parse(text)
        except LaunchLineError:
            continue


def _is_there(line: LaunchLine, folder: Path) -> bool:
    """Return True if a line starts a training program that ``folder`` has, with the file of settings that it names."""
    if line.is_command:
        files = [word for word in line.arguments if word.endswith((".yaml", ".yml", ".json"))]
        return line.launcher in _LAUNCHERS and bool(files) and all((folder / file).is_file() for file in files)
    program = folder / (f"{line.program.replace('.', '/')}.py" if line.is_module else line.program)
    if line.launcher == "python" and not _TRAINS.search(line.name):
        return False
    named = line.configuration
    return program.is_file() and (not named or (folder / named).is_file())


def _strings_of_toml(text: str) -> Iterator[str]:
    """Yield every text in a TOML file: tasks are written in many tables."""
    try:
        waiting: list[Any] = [parsed_toml(text)]
    except ValueError:
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
