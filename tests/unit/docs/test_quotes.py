"""What the documentation quotes of published results is what the commands print now."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.golden_files import Golden
from tests.paths import ROOT
from tests.unit.docs import markdown
from tests.unit.docs.commands import printed
from tests.unit.docs.markdown import PAGES

#: A command that only reads published results; its whole output is the next block of the page.
_ANSWER = re.compile(r"dsregress ((?:recommend|diagnose|upgrade) .* --results results/\S+|audit -r docs/.*)")


def answers(page: Path) -> list[tuple[str, str]]:
    """(command, quoted output) of a page."""
    blocks = [block.strip() for block in markdown.blocks(page)]
    return [(found[1], output) for block, output in pairwise(blocks) if (found := _ANSWER.fullmatch(block))]


QUOTED = [(page, command, quoted) for page in PAGES for command, quoted in answers(page)]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "command", "quoted"), QUOTED, ids=[markdown.name(page) for page, _, _ in QUOTED])
def test_an_answer_is_quoted_whole(page: Path, command: str, quoted: str, golden: Golden) -> None:
    golden.quotation(page, quoted, printed(command, 300))


@pytest.mark.slow
def test_the_readme_quotes_the_first_screen_of_the_report_which_has_25_lines_of_80_columns(golden: Golden) -> None:
    page = ROOT / "README.md"
    (folder,) = set(re.findall(r"dsregress report (results/\S+)`", page.read_text(encoding="utf-8")))
    quoted = next(block.strip() for block in markdown.blocks(page) if "\nYour upgrade: " in block)
    screen = "\n".join(line.rstrip() for line in printed(f"report {folder}", 80).splitlines())
    assert len(screen.splitlines()) <= 25
    golden.quotation(page, quoted, screen)


@pytest.mark.slow
def test_the_guide_to_programs_quotes_the_report_on_one(golden: Golden) -> None:
    page = ROOT / "docs" / "programs.md"
    blocks = [block.strip() for block in markdown.blocks(page)]
    ((command, quoted),) = [pair for pair in pairwise(blocks) if pair[0].startswith("dsregress report ")]
    screen = printed(command.removeprefix("dsregress "), 80)
    golden.quotation(page, quoted, "\n".join(line.rstrip() for line in screen.splitlines()))


@pytest.mark.slow
def test_the_page_with_a_real_report_is_that_report(golden: Golden) -> None:
    page = ROOT / "docs" / "report.md"
    introduction, mark, _ = page.read_text(encoding="utf-8").partition("### ")
    (folder,) = re.findall(r"dsregress report (results/\S+) ", introduction)
    assert mark
    golden(page.relative_to(ROOT).as_posix(), introduction + printed(f"report {folder} --markdown -", 100), folder=ROOT)
