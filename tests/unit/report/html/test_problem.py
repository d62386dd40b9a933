"""The page of a problem: with all that is known of it, and with nothing."""

from __future__ import annotations

import html
import re
from pathlib import Path

from dsregress.compare import Thresholds, compare
from dsregress.report.context import report_context
from dsregress.report.html.site import build_site
from dsregress.report.known_answers import KnownAnswers, Title
from tests.builders import answers
from tests.builders.comparisons import HOSTILE, comparison
from tests.builders.synthetic import noisy_record, result

CELL = "a-stack/llama_zero3_backward/gradient_checkpointing=non_reentrant/cpu"
RUN = {"version": "0.16.0", "answer": "bad", "exit_code": 1, "line": "941,077 bytes held"}
CONDITION = {"factor": "zero_stage", "value": 3, "shown": [3], "hidden": [1], "unknown": [2]}

REPRODUCTION = answers.reproduction(
    CELL,
    needs=[CONDITION],
    not_known=[CONDITION],
    runs=[RUN, {**RUN, "version": "0.15.4", "answer": "good", "exit_code": None, "line": HOSTILE}],
    remedies=[{**RUN, "answer": "good", "exit_code": 0, "text": "ZeRO stage 1"}],
    script="# pip install torch\nimport deepspeed\n\nif True:\n    print('<held>')\n",
)

BISECTION = answers.bisection(
    CELL.partition("/")[2],
    answers.search("releases", "0.15.4", "0.16.0"),
    answers.search(
        "commits",
        "a1",
        "b2",
        probes=[{"name": "b2", "about": "2024-11-25 Keep the hook (#6726)"}],
        files=["+2 -1 parameter_offload.py"],
        patch=["-    remaining = 0"],
    ),
)


def page(folder: Path, known: KnownAnswers | None = None) -> str:
    """Of the leak."""
    build_site(report_context(comparison(), known=known or KnownAnswers(), exit_code=1), folder)
    (file,) = (folder / "problem").glob("regression-device_retained_bytes*")
    return file.read_text(encoding="utf-8")


def words(text: str) -> str:
    """What a reader sees."""
    apart = re.sub(r"</(?:h\d|p|li|dt|dd|th|td)>", " ", text)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", apart)).split())


def test_what_is_known_is_on_the_page(tmp_path: Path) -> None:
    found = answers.read(REPRODUCTION, BISECTION)
    text = page(tmp_path, KnownAnswers(stored=found, titles={"leak0": Title(title="Layers stay")}))
    seen = words(text)
    assert ": Layers stay" in seen
    assert "Confirmed without the harness yes, by leak0.py" in seen
    assert "needs ZeRO stage 3" in seen
    assert "deepspeed 0.16.0, with ZeRO stage 1" in seen
    assert (
        "Introduced by deepspeed 0.16.0, not by 0.15.4 (all that changed between them): Keep the hook (#6726)" in seen
    )
    assert "if True:\n    print(&#39;&lt;held&gt;&#39;)\n" in text  # a script keeps its lines
    for address in (
        "https://pypi.org/project/deepspeed/0.16.0/",
        "https://github.com/deepspeedai/DeepSpeed/compare/v0.15.4...v0.16.0",
        "https://github.com/deepspeedai/DeepSpeed/pull/6726",
    ):
        assert f'href="{address}"' in text
    assert "not determined" not in seen


def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    seen = words(page(tmp_path))
    assert "Conditions: not determined." in seen
    assert "None was written. To write one: dsregress reproduce" in seen
    assert "not searched for the change itself" in seen
    assert "Not looked up, or not found." in seen


def test_a_finding_leads_to_its_problem_and_back(tmp_path: Path) -> None:
    text = page(tmp_path)
    (finding,) = (tmp_path / "finding").glob("regression-device_retained_bytes*")
    assert f'href="../finding/{finding.name}"' in text
    assert re.search(r'href="../problem/regression-device_retained_bytes[^"]*"', finding.read_text(encoding="utf-8"))


def test_every_problem_of_the_first_page_has_its_own(tmp_path: Path) -> None:
    page(tmp_path)
    listed = re.findall(r'<li><a href="(problem/[^"]*)"', (tmp_path / "index.html").read_text(encoding="utf-8"))
    assert len(listed) == len(set(listed)) == len(comparison().problems)
    assert all((tmp_path / one).is_file() for one in listed)


def test_two_problems_that_begin_together_on_one_workload_have_a_page_each(tmp_path: Path) -> None:
    levels = {"0.15.0": 0, "0.16.0": 9, "0.16.4": 9, "0.17.0": 3, "0.18.0": 3}  # a part of it ends earlier
    results = [result(version, run=noisy_record(1, held_mib=mib)) for version, mib in levels.items()]
    seen = compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None)
    build_site(report_context(seen, exit_code=1), tmp_path)
    assert len(seen.problems) > 1
    assert len(list((tmp_path / "problem").iterdir())) == len(seen.problems)


def test_only_what_is_joined_is_rendered_again(tmp_path: Path) -> None:
    page(tmp_path)
    built = build_site(
        report_context(comparison(), known=KnownAnswers(stored=answers.read(REPRODUCTION)), exit_code=1), tmp_path
    )
    assert built.written == 1
