"""The picture of live bytes through a step."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from dsregress.probe.border.wire import Stretch
from dsregress.report import memory_timeline


def timeline_of(gathered: int) -> list[Stretch]:
    points = [[0, 100], [500, 4096], [1000, gathered]]
    return [Stretch("forward", points), Stretch("backward", points)]


def test_a_timeline_is_well_formed_and_says_in_words_what_it_shows() -> None:
    drawn = memory_timeline.as_svg(
        {"0.16.4 <bad>": timeline_of(4096), "0.15.0": timeline_of(1024)}, "a/b/c", identity="t7"
    )
    root = ElementTree.fromstring(drawn)
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "t7-title t7-desc"
    assert root.findtext(f"{space}title") == "Live device memory through one step of a/b/c"
    assert (
        "0.15.0: forward peaks at 4.00 KiB and ends at 1.00 KiB, backward peaks at 4.00 KiB and ends at 1.00 KiB."
        in (root.findtext(f"{space}desc") or "")
    )
    lines = root.findall(f"{space}polyline")
    assert [line.get("class") for line in lines] == ["line s1", "line s2"]
    assert all(len((line.get("points") or "").split()) == 6 for line in lines)
    assert "prefers-color-scheme:dark" in drawn


def test_phases_of_several_stacks_lie_at_the_same_place() -> None:
    drawn = memory_timeline.as_svg({"a": timeline_of(4096), "b": timeline_of(1024)}, "w")
    first, second = (
        [point.split(",")[0] for point in (line.get("points") or "").split()]
        for line in ElementTree.fromstring(drawn).findall("{http://www.w3.org/2000/svg}polyline")
    )
    assert first == second


def test_no_timeline_is_no_picture() -> None:
    with pytest.raises(ValueError, match="0 timelines cannot be drawn"):
        memory_timeline.as_svg({"a": []}, "w")
