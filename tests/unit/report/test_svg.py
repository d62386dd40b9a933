"""One style for every picture."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from dsregress.report import svg
from dsregress.report.html import charts

STYLESHEET = Path(charts.__file__).parent / "static" / "style.css"


def test_the_stylesheet_of_the_site_has_the_rules() -> None:
    rules = STYLESHEET.read_text(encoding="utf-8").splitlines()
    drawn = [
        rule for rule in svg.RULES if not re.match(r"\.s[5-8] ", rule)
    ]  # the site's charts have four lines at most
    assert len(drawn) == len(svg.RULES) - 4
    assert set(drawn) <= set(rules)


def test_a_picture_of_its_own_has_its_style_and_one_in_a_page_has_none() -> None:
    line = svg.polyline([(0, 1.5), (2, 3)], "line s8")
    alone = svg.picture(20, 10, [line], svg.Caption(title="a < b", description="c & d", identity="t1"))
    root = ElementTree.fromstring(alone)
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("aria-labelledby") == "t1-title t1-desc"
    assert root.findtext(f"{space}title") == "a < b"
    assert root.findtext(f"{space}desc") == "c & d"
    style = root.findtext(f"{space}style") or ""
    assert "prefers-color-scheme:dark" in style
    assert style.count("--s8:") == 2
    assert (root.find(f"{space}polyline") or root[-1]).get("points") == "0,1.5 2,3"
    part = svg.picture(20, 10, [line], svg.Caption(title='"a" < b'), styled=False)
    assert "style" not in part
    assert ElementTree.fromstring(part).get("aria-label") == '"a" < b'


def test_a_line_of_one_point_is_a_dot() -> None:
    assert svg.path([[(1, 2)], [(3, 4), (5, 6.5)]], "dots s1") == '<path class="dots s1" d="M1 2 L1 2 M3 4 L5 6.5"/>'


def test_what_is_named_is_never_markup() -> None:
    drawn = svg.svg_text(1, 2, "<b>") + svg.svg_key(1, 20, "s1", "a & b")
    assert "&lt;b&gt;" in drawn
    assert "a &amp; b" in drawn
