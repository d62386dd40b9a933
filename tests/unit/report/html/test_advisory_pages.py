"""The page of an advisory: what it says, and where it lies."""

from __future__ import annotations

import pytest

from dsregress.advisories.shipped import read_advisories
from dsregress.report.html.advisory_pages import AdvisoriesPage, AdvisoryPage, ListedAdvisory, advisory_pages


def test_every_advisory_has_a_page_at_its_id() -> None:
    (path, listed), *pages = advisory_pages()
    assert [one for one, _ in pages] == [f"advisory/{one.id}.html" for one in read_advisories()]
    assert path == "advisories.html"
    assert isinstance(listed, AdvisoriesPage)
    assert listed.advisories[6] == ListedAdvisory(
        id="DSR-2026-0007",
        page="advisory/DSR-2026-0007.html",
        heading="hpZ computes with weights from before they were set",
        releases="deepspeed 0.14.4 until 0.18.3",
        kind="trains wrong",
        needs="a model built under zero.Init, hpZ, no offload of the parameters",
        links=("#7606", "#7707"),
    )


@pytest.mark.parametrize("text", ["OOM", "ZeRO-3", "accumulation", "#7665"])
def test_the_list_has_the_words_that_people_look_for(text: str) -> None:
    (_, listed), *_ = advisory_pages()
    assert isinstance(listed, AdvisoriesPage)
    rows = [(one.heading, one.kind, one.releases, one.needs, *one.links) for one in listed.advisories]
    assert [row for row in rows if any(text in each for each in row)]


def test_a_page_has_releases_conditions_remedies_and_what_was_run() -> None:
    page = dict(advisory_pages())["advisory/DSR-2026-0007.html"]
    assert isinstance(page, AdvisoryPage)
    assert page.title == "DSR-2026-0007: hpZ computes with weights from before they were set"
    assert (page.kind, page.ruling) == ("trains wrong", "fault")
    assert page.facts == (
        ("Releases", "deepspeed 0.14.4 until 0.18.3"),
        ("You see", "a first loss of untrained weights, although weights were set"),
    )
    assert page.conditions == ("a model built under zero.Init", "hpZ", "no offload of the parameters")
    assert page.remedies == (
        "use deepspeed 0.18.3",
        "use a model that is whole before `initialize`",
        "leave hpZ unset",
    )
    assert page.runs[0] == ("0.17.5", "loss 1053.2828, plain PyTorch 1060.6050, ratio 0.993")
    assert page.links == (
        ("reported", "https://github.com/deepspeedai/DeepSpeed/issues/7606"),
        ("fixed by", "https://github.com/deepspeedai/DeepSpeed/pull/7707"),
    )
