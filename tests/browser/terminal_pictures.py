"""Pictures of what commands print, for the README: ``python -m tests.browser.terminal_pictures FOLDER``.

Needs no browser. Each command is run in the project's folder; Markdown is drawn as a page shows it.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from tests.paths import ROOT

_WIDTH = 100

#: Picture -> the arguments of dsregress. What is written to stdout by ``--markdown -`` is Markdown.
PICTURES = {
    "report.svg": ("report", "results/2026-11-28.jsonl.gz"),
    "comment.svg": (
        *("audit", "-r", "docs/upgrade/requirements.txt", "--config", "docs/upgrade/ds_zero3.json"),
        *("--set", "trainer=yes", "--set", "task=sft", "--to", "0.19.8", "--markdown", "-"),
    ),
}


def main(folder: Path) -> int:
    for name, arguments in PICTURES.items():
        variables = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(_WIDTH)}
        command = [sys.executable, "-m", "dsregress", *arguments]
        said = subprocess.run(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True, check=False).stdout
        console = Console(record=True, file=io.StringIO(), width=_WIDTH, force_terminal=True)
        console.print(Markdown(said) if "--markdown" in arguments else Text.from_ansi(said))
        title = "comment of a pull request" if "--markdown" in arguments else f"dsregress {' '.join(arguments)}"
        (folder / name).write_text(console.export_svg(title=title), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
