"""Every link, anchor and path in the documentation leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.unit.docs import markdown
from tests.unit.docs.markdown import DOCS, PAGES

_PLACES = re.compile(r"(harness|scenarios|tests|docs|\.github|\.ci)/[\w./-]*")


@pytest.mark.parametrize("page", PAGES, ids=markdown.name)
def test_relative_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for link in markdown.links(page):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link}: no such file"
        if anchor:
            assert anchor in markdown.anchors(target), f"{link}: no such heading; there are {markdown.anchors(target)}"


@pytest.mark.parametrize("page", PAGES, ids=markdown.name)
def test_paths_of_this_repository_exist(page: Path) -> None:
    own = set(markdown.files(page)) | {"scenarios/"}
    for span in markdown.code_spans(page):
        if _PLACES.fullmatch(span) and span not in own:
            assert (ROOT / span).exists(), f"`{span}`: no such file"


def test_every_page_of_docs_is_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page not in DOCS:
            continue
        seen.add(page)
        targets = (link.partition("#")[0] for link in markdown.links(page) if not link.startswith("http"))
        waiting += [(page.parent / target).resolve() for target in targets if target]
    assert {markdown.name(page) for page in DOCS} == {markdown.name(page) for page in seen}


@pytest.mark.parametrize("page", PAGES, ids=markdown.name)
def test_pages_hold_no_folder_of_anybodys_machine(page: Path) -> None:
    assert not re.search(r"(?<![\w.~])/(home|root|opt|work|Users|mnt)/", page.read_text(encoding="utf-8"))
