"""The site: complete, safe, light, and made anew only where something changed."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from dsregress.compare import Comparison, Thresholds, compare
from dsregress.model import Failed, Result
from dsregress.report.context import report_context
from dsregress.report.html.site import Built, build_site
from dsregress.report.html.site_files import MANIFEST, SiteFiles
from dsregress.report.kinds import SIGNS
from tests.builders import synthetic
from tests.builders.comparisons import HOSTILE, comparison
from tests.builders.synthetic import noisy_record, result
from tests.paths import ROOT

HOSTILE_NAME = '../../<img src=x onerror=alert(1)>"&\u202e'


class Page(HTMLParser):
    """What a page leads to, and how its tables are made."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.captions = self.tables = 0
        self.unscoped: list[str] = []
        self.handlers: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.links += [str(found[name]) for name in ("href", "src") if name in found]
        self.handlers += [name for name in found if name.startswith("on") or name == "style"]
        self.tables += tag == "table"
        self.captions += tag == "caption"
        if tag == "th" and found.get("scope") not in ("row", "col"):
            self.unscoped.append(str(found))


def made(seen: Comparison, folder: Path) -> Built:
    return build_site(report_context(seen, exit_code=1), folder)


def pages(folder: Path) -> dict[str, Page]:
    return {str(f.relative_to(folder)): Page(f.read_text(encoding="utf-8")) for f in folder.rglob("*.html")}


def files(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def compared(results: list[Result]) -> Comparison:
    return compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None)


#: Where links may lead to.
PUBLIC = ("https://pypi.org/project/", "https://github.com/")


def test_every_link_leads_to_a_page_of_the_site_and_every_page_is_reached(tmp_path: Path) -> None:
    made(comparison(), tmp_path)
    reached = {"index.html"}
    for name, page in pages(tmp_path).items():
        for link in page.links:
            target = unquote(urldefrag(link)[0])
            if not target:
                continue
            if "://" in target:
                assert target.startswith(PUBLIC), f"{name} leads out of the site: {target}"
                continue
            place = (tmp_path / name).parent / target
            assert place.is_file(), f"{name} leads to {target}"
            reached.add(str(place.resolve().relative_to(tmp_path.resolve())))
    assert {name for name in files(tmp_path) if name.endswith(".html")} <= reached


def test_there_is_a_page_of_every_kind(tmp_path: Path) -> None:
    made(comparison(), tmp_path)
    made_pages = {name.split("/")[0] for name in files(tmp_path)}
    assert made_pages >= {"index.html", "findings.html", "trend.html", "compare.html", "method.html"}
    assert made_pages >= {"finding", "problem", "release", "workload", "trend", "data", "static", "badge"}


def test_tables_have_captions_and_headings_have_scopes(tmp_path: Path) -> None:
    made(comparison(), tmp_path)
    for name, page in pages(tmp_path).items():
        assert page.captions == page.tables, name
        assert page.unscoped == [], name


def test_a_verdict_is_a_sign_and_a_word(tmp_path: Path) -> None:
    made(comparison(), tmp_path)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    for sign, word in (("✕", "wrong"), ("■", "failed"), ("▲", "worse"), ("◆", "baseline")):
        assert re.search(rf'<span class="sign" aria-hidden="true">{sign}</span> {word}', text), word


def test_a_sign_means_one_thing_and_stands_nowhere_else() -> None:
    signs = [sign for sign, _ in SIGNS.values()]
    assert len(signs) == len(set(signs))
    own = [sign for sign in signs if sign not in "?·"]  # punctuation elsewhere
    pages_of = ROOT / "harness" / "dsregress" / "report" / "html"
    for file in (*pages_of.glob("templates/*"), *pages_of.glob("static/*.js"), *pages_of.glob("*.py")):
        text = file.read_text(encoding="utf-8")
        found = [sign for sign in own if sign in text]
        assert found == ([] if file.name != "base.html" else ["▲"]), file.name  # the brand's


def test_nothing_measured_becomes_markup(tmp_path: Path) -> None:
    hostile = [
        result("0.15.0", scenario="s", variant=HOSTILE_NAME),
        result("0.16.0", scenario="s", variant=HOSTILE_NAME, outcome=Failed("init", HOSTILE, f"{HOSTILE}\n{HOSTILE}")),
        result(HOSTILE_NAME, scenario="s", variant=HOSTILE_NAME, run=noisy_record(3, held_mib=9)),
    ]
    made(compared(hostile), tmp_path)
    for name, text in files(tmp_path).items():
        if name.endswith((".html", ".svg")):
            assert b"<script>" not in text, name
            assert b"<img" not in text, name
            assert "\u202e".encode() not in text, name
    assert all(page.handlers == [] for page in pages(tmp_path).values())


def test_no_name_makes_a_file_outside_of_the_folder(tmp_path: Path) -> None:
    names = ["../../../escaped", "/absolute", "..", "a/../../b", "\\..\\c", "con\x00trol", "." * 40, "é" * 300]
    hostile = [result(version, variant=name) for name in names for version in ("0.15.0", "../0.16.0")]
    folder = tmp_path / "deep" / "er" / "site"
    made(compared(hostile), folder)
    assert [str(f.relative_to(tmp_path)) for f in tmp_path.iterdir()] == ["deep"]
    assert all(f.is_relative_to(folder) for f in tmp_path.rglob("*") if f.is_file())


def test_a_second_build_writes_nothing_and_a_changed_result_only_its_own_pages(tmp_path: Path) -> None:
    results = [
        result(version, scenario=scenario)
        for scenario in ("one", "two", "three", "four")
        for version in ("0.15.0", "0.16.0")
    ]  # fmt: skip
    first = made(compared(results), tmp_path)
    assert first.written == first.pages
    before = files(tmp_path)
    again = made(compared(results), tmp_path)
    assert (again.written, again.removed, again.pages) == (0, 0, first.pages)
    assert files(tmp_path) == before
    for rank in results[-1].record.ranks:  # type: ignore[union-attr]
        rank.phases["init"].device_peak_bytes += 1  # too small to be told anywhere but on its own pages
    third = made(compared(results), tmp_path)
    changed = {name for name, content in files(tmp_path).items() if before.get(name) != content} - {MANIFEST}
    assert len(changed) <= third.written < first.written / 2
    assert not any(
        "one-" in name or "two-" in name for name in changed if name.startswith(("workload/", "trend/", "finding/"))
    )


def test_pages_that_nothing_leads_to_any_more_are_removed_and_strange_files_stay(tmp_path: Path) -> None:
    made(comparison(), tmp_path / "site")
    (tmp_path / "site" / "CNAME").write_text("report.example")
    outside = tmp_path / "outside.html"
    outside.write_text("mine")
    manifest = tmp_path / "site" / MANIFEST
    manifest.write_text(manifest.read_text().replace('"pages": {', '"pages": {"../outside.html": "x",'))
    built = made(compared([result("0.15.0"), result("0.15.4")]), tmp_path / "site")
    assert built.removed > 0
    assert not list((tmp_path / "site" / "finding").glob("*"))
    assert outside.read_text() == "mine"
    assert (tmp_path / "site" / "CNAME").exists()


def test_a_damaged_manifest_makes_every_page_anew(tmp_path: Path) -> None:
    first = made(comparison(), tmp_path)
    (tmp_path / MANIFEST).write_text("[]")
    assert made(comparison(), tmp_path).written == first.pages


@pytest.mark.slow
def test_a_build_after_one_that_did_not_end_leaves_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, another = compared([result("0.15.0"), result("0.16.4")]), comparison()
    made(before, tmp_path)
    first = files(tmp_path)

    def interrupted(self: SiteFiles) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as at_its_end:
        at_its_end.setattr(SiteFiles, "finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            made(another, tmp_path)
    made(before, tmp_path)
    assert {name: files(tmp_path)[name] for name in first} == first


@pytest.mark.slow
def test_the_first_page_stays_light_however_much_was_measured(tmp_path: Path) -> None:
    results = list(synthetic.results(60, 40, timed=False))
    made(compared(results), tmp_path)
    size = (tmp_path / "index.html").stat().st_size + (tmp_path / "static" / "style.css").stat().st_size
    assert size < 300_000
    assert (tmp_path / "matrix-2.html").is_file()


def test_a_page_about_memory_draws_both_stacks(tmp_path: Path) -> None:
    made(comparison(), tmp_path)
    page = next(f for f in (tmp_path / "finding").glob("regression-*device_retained_bytes*"))
    text = page.read_text(encoding="utf-8")
    assert text.count('<svg class="picture chart"') == 1
    assert 'class="line s1"' in text
    assert 'class="line s2"' in text
    assert "held bwd" in text


@pytest.mark.parametrize("name", ["index.html", "compare.html"])
def test_pages_allow_no_script_and_no_request_but_their_own(name: str, tmp_path: Path) -> None:
    made(comparison(), tmp_path)
    text = (tmp_path / name).read_text(encoding="utf-8")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert "default-src &#39;none&#39;" in policy or "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
