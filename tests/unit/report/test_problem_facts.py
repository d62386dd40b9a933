"""What is known of a problem, joined from stored answers and tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dsregress.compare import Comparison, Thresholds, compare
from dsregress.model import Failed, Result
from dsregress.report.context import report_context
from dsregress.report.known_answers import KnownAnswers, Title, known_answers
from dsregress.report.problem_facts import ProblemFacts, problem_facts
from tests.builders import answers
from tests.builders.synthetic import noisy_record, result

VARIANT = "gradient_checkpointing=non_reentrant"
PARAMETERS = {"zero_stage": 3, "world_size": 4, "gradient_checkpointing": "non_reentrant", "model": "llama-tiny"}


def held(version: str, mib: int) -> Result:
    one = result(version, variant=VARIANT, run=noisy_record(1, held_mib=mib))
    one.cell.parameters.update(PARAMETERS)
    return one


def compared() -> Comparison:
    """0.16.0 and 0.16.7 hold more than the releases around them."""
    results = [held("0.15.0", 1), held("0.15.4", 1), held("0.16.0", 9), held("0.16.7", 9), held("0.16.8", 1)]
    return compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None)


def answered(**changes: Any) -> dict[str, Any]:
    smallest = f"a-stack/minimal_training/world_size=2,zero_stage=3,{VARIANT}/cpu"
    cell = f"a-stack/llama_zero3_backward/{VARIANT}/cpu"
    return answers.reproduction(**{"cell": cell, "smallest_cell": smallest, **changes})


def searched(subject: str = "engine.py: hook (6 of 7)", **changes: Any) -> dict[str, Any]:
    releases = answers.search("releases", "0.15.4", "0.16.0", **{"sites": ["held at engine.py:1"], **changes})
    probes = [{"name": "b2", "about": f"2024-11-25 {subject}"}]
    commits = answers.search("commits", "a1", "b2", probes=probes, files=["+2 -1 engine.py"])
    return answers.bisection(f"llama_zero3_backward/{VARIANT},model=llama-tiny/sim", releases, commits)


def facts(*found: dict[str, Any], known: KnownAnswers | None = None) -> ProblemFacts:
    """Of the leak."""
    comparison = compared()
    joined = problem_facts(
        report_context(comparison, known=msgspec.structs.replace(known or KnownAnswers(), stored=answers.read(*found)))
    )
    assert joined.keys() == {problem.worst.key for problem in comparison.problems}
    (leak,) = [p for p in comparison.problems if p.worst.metric == "device_retained_bytes"]
    return joined[leak.worst.key]


def test_an_answer_about_the_problems_own_cell_is_joined() -> None:
    found = facts(answered())
    assert found.is_confirmed
    assert found.why_no_script == ""


def test_an_answer_is_joined_by_its_smallest_cell_where_the_workload_has_all_of_it() -> None:
    elsewhere = "a-stack/qwen_zero3_backward/base/cpu"
    assert facts(answered(cell=elsewhere)).is_confirmed  # four ranks are as many as two, and more
    many = f"a-stack/minimal_training/world_size=8,zero_stage=3,{VARIANT}/cpu"
    assert not facts(answered(cell=elsewhere, smallest_cell=many)).is_confirmed
    unnamed = "a-stack/minimal_training/second_engine=true/cpu"
    assert not facts(answered(cell=elsewhere, smallest_cell=unnamed)).is_confirmed


def test_an_answer_about_other_releases_or_another_metric_is_not_joined() -> None:
    assert facts(answered(bad="0.16.8")).reproduction is None
    assert facts(answered(good="0.16.7")).reproduction is None
    assert facts(answered(metric="gradient_norm_error")).reproduction is None
    assert facts(answered(metric="gone_in_this_version")).reproduction is None


def test_of_releases_that_were_not_measured_the_neighbors_count() -> None:
    assert facts(answered(bad="0.16.4")).is_confirmed  # between two that have it
    assert facts(answered(bad="0.15.9")).is_confirmed  # may be the first
    assert facts(answered(bad="0.15.2")).reproduction is None
    assert facts(answered(good="0.15.2")).is_confirmed
    assert facts(answered(good="0.16.4")).reproduction is None
    assert facts(answered(bad="a branch")).reproduction is None


def test_another_zero_stage_is_another_problem() -> None:
    elsewhere = "a-stack/qwen_zero3_backward/base/cpu"
    assert not facts(answered(cell=elsewhere, smallest_cell=f"a-stack/minimal_training/{VARIANT}/cpu")).is_confirmed


def test_an_answer_about_a_problems_cell_is_not_joined_with_another_by_its_smallest_cell() -> None:
    results = [held("0.15.4", 1), held("0.16.0", 9), held("0.16.8", 1)]
    for version, mib in (("0.15.4", 1), ("0.16.0", 9), ("0.16.8", 9)):  # of another workload, so by another cause
        one = held(version, mib)
        cell = msgspec.structs.replace(one.cell, variant="lora_rank=8", parameters={**PARAMETERS, "lora_rank": 8})
        results.append(msgspec.structs.replace(one, cell=cell))
    comparison = compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None)
    assert len([one for one in comparison.problems if one.worst.metric == "device_retained_bytes"]) == 2
    known = KnownAnswers(stored=answers.read(answered()))
    joined = [
        one for one in problem_facts(report_context(comparison, known=known)).values() if one.reproduction is not None
    ]
    assert len(joined) == 1


def test_a_confirmed_answer_comes_before_another() -> None:
    found = facts(answered(confirmed=False, why_not="it does not show it"), answered())
    assert found.reproduction is not None
    assert found.reproduction.name == "leak1"
    assert facts(answered(confirmed=False, why_not="it does not show it")).why_no_script == "it does not show it"


def test_a_bisection_says_which_change_it_was() -> None:
    (began,) = facts(searched()).began
    assert (began.before, began.after, began.where) == ("0.15.4", "0.16.0", "engine.py: hook (6 of 7)")
    assert began.files == ("+2 -1 engine.py",)
    assert began.sites == ("held at engine.py:1",)
    assert began.compare_url == "https://github.com/deepspeedai/DeepSpeed/compare/v0.15.4...v0.16.0"


def test_a_commit_that_upstream_knows_comes_before_one_that_was_made_of_releases() -> None:
    upstreams = searched("Fix potential memory issues (#6726)")
    for found in ((searched(), upstreams), (upstreams, searched())):
        (began,) = facts(*found).began
        assert began.pull_url == "https://github.com/deepspeedai/DeepSpeed/pull/6726"


def test_workloads_that_have_it_by_different_changes_name_each_of_them() -> None:
    changes = searched("Check for infinities (#7171)"), searched("Check them faster (#7184)"), searched()
    began = facts(*changes, *changes).began
    assert [(one.where, one.workload) for one in began] == [
        ("Check for infinities (#7171)", f"llama_zero3_backward/{VARIANT},model=llama-tiny/sim"),
        ("Check them faster (#7184)", f"llama_zero3_backward/{VARIANT},model=llama-tiny/sim"),
    ]


def test_a_search_of_releases_alone_adds_nothing_to_the_change_found_in_them() -> None:
    coarse = answers.bisection(
        f"llama_zero3_backward/{VARIANT},model=llama-tiny/sim", answers.search("releases", "0.15.0", "0.16.7")
    )
    for found in ((coarse, searched()), (searched(), coarse)):
        (began,) = facts(*found).began
        assert began.where == "engine.py: hook (6 of 7)"


def test_without_a_bisection_the_measured_neighbors_are_said() -> None:
    elsewhere = [{"before": "0.16.0", "after": "0.16.7", "to": "bad", "open": 0, "exact": True}]
    found = facts(searched(changes=elsewhere))
    assert [(one.before, one.after, one.where) for one in found.began] == [("0.15.4", "0.16.0", "")]
    assert [(one.before, one.after) for one in found.ended] == [("0.16.7", "0.16.8")]


def test_upstream_and_the_reason_for_no_script_are_looked_up_by_the_finding(tmp_path: Path) -> None:
    table = """
        [[problem]]
        problem = "it has no findings"
        reason = "of its own"

        [[problem]]
        problem = "gathered layers stay"
        reason = "it takes a GPU"
        by_hand = "layers.py"
        [problem.shown_by]
        package = "deepspeed"
        metrics = ["device_retained_bytes"]
        since = "0.16.0"
        until = "0.16.7"
        needs = { zero_stage = [3] }
    """
    (tmp_path / "without_script.toml").write_text(table)
    known = known_answers(str(tmp_path), str(tmp_path))
    found = facts(known=known)
    assert (found.why_no_script, found.by_hand) == ("it takes a GPU", "by_hand/layers.py")
    assert found.known_as == "gathered layers stay"
    assert found.upstream is not None
    assert found.upstream.reported == ("https://github.com/deepspeedai/DeepSpeed/issues/7116",)
    answer = facts(answered(), known=known)
    assert (answer.why_no_script, answer.by_hand, answer.known_as) == ("", "", "")  # a script speaks for itself


def test_a_script_has_the_title_that_it_was_published_with(tmp_path: Path) -> None:
    (tmp_path / "titles.toml").write_text('[leak0]\ntitle = "Layers stay"\n')
    found = facts(answered(), known=known_answers(str(tmp_path), str(tmp_path)))
    assert found.title is not None
    assert found.title.title == "Layers stay"
    assert facts(answered()).title is None


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    left: list[str] = []
    for text in ("[[problem", "[[problem]]\nreason = 1\n"):
        (tmp_path / "without_script.toml").write_text(text)
        assert known_answers(str(tmp_path), str(tmp_path), lambda file, why: left.append(why)) == KnownAnswers()
    assert len(left) == 2


def test_a_title_with_an_unknown_key_is_named(tmp_path: Path) -> None:
    left: list[str] = []
    (tmp_path / "titles.toml").write_text('[leak0]\ntitle = "Layers stay"\nwat = "misspelled"\n')
    assert known_answers(str(tmp_path), str(tmp_path), lambda file, why: left.append(why)) == KnownAnswers()
    assert len(left) == 1
    assert "wat" in left[0]


def with_remedy(*others: Result, more: tuple[dict[str, Any], ...] = ()) -> tuple[str, ...]:
    """The remedies of the leak where the script passes with ZeRO stage 1, and these were measured too."""
    needs = [{"factor": "zero_stage", "value": 3, "shown": [3], "hidden": [1], "unknown": []}]
    run = {"version": "0.16.0", "answer": "good", "exit_code": 0, "line": "passes", "text": "ZeRO stage 1"}
    results = [held("0.15.4", 1), held("0.16.0", 9), held("0.16.8", 1), *others]
    comparison = compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None)
    read = answers.read(answered(needs=needs, remedies=[run]), *more)
    (leak,) = [one for one in comparison.problems if one.worst.metric == "device_retained_bytes"]
    found = problem_facts(report_context(comparison, known=KnownAnswers(stored=read)))[leak.worst.key]
    return tuple(one.text for one in found.remedies)


def crashed(version: str, **parameters: Any) -> Result:
    one = result(version, variant="zero_stage=1", outcome=Failed("step", "TypeError: no (engine.py:step)"))
    one.cell.parameters.clear()
    one.cell.parameters.update({**PARAMETERS, "zero_stage": 1, **parameters})
    return one


def test_a_setting_with_which_the_script_passes_is_a_remedy_unless_another_problem_has_it() -> None:
    assert with_remedy() == ("ZeRO stage 1",)
    assert with_remedy(crashed("0.16.0")) == ()
    assert with_remedy(crashed("0.16.8")) == ("ZeRO stage 1",)  # not in a release of the leak
    assert with_remedy(crashed("0.16.0", lora_rank=8)) == ("ZeRO stage 1",)  # another workload


def test_what_another_problem_is_known_to_need_spoils_a_remedy_on_any_workload() -> None:
    needs = [{"factor": "zero_stage", "value": 1, "shown": [1], "hidden": [3], "unknown": []}]
    known = answered(cell="a-stack/llama_zero3_backward/zero_stage=1/cpu", metric="outcome", needs=needs)
    assert with_remedy(crashed("0.16.0", lora_rank=8), more=(known,)) == ()


def wrong(version: str, variant: str, error: float, **parameters: Any) -> Result:
    record = noisy_record(1)
    numerics = record.ranks[0].numerics
    assert numerics is not None
    numerics.gradient_norm_error = error
    one = result(version, variant=variant, run=record)
    one.cell.parameters.clear()
    one.cell.parameters.update({**PARAMETERS, **parameters})
    return one


def test_what_trains_wrong_says_where_its_workloads_have_all_that_another_problem_needs() -> None:
    """One workload is wrong from 0.16.0 on; another, which needs accumulation, in 0.16.7. The first has accumulation."""
    first = {"zero_stage": 1, "gradient_accumulation_steps": 4, "gradient_accumulation_dtype": "fp32"}
    second = {"zero_stage": 1, "gradient_accumulation_steps": 4, "gradient_accumulation_dtype": None}
    errors = {"0.15.4": (0.1, 0.1), "0.16.0": (9.0, 0.1), "0.16.7": (9.0, 9.0), "0.16.8": (0.1, 0.1)}
    results = [wrong(version, "dtype=1", own, **first) for version, (own, _) in errors.items()]
    results += [wrong(version, "dtype=2", other, **second) for version, (_, other) in errors.items()]
    comparison = compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None)
    needs = [{"factor": "gradient_accumulation_steps", "value": 2, "shown": [2, 4], "hidden": [1], "unknown": []}]
    cell = "a-stack/llama_zero3_backward/dtype=2/cpu"
    script = answered(cell=cell, metric="gradient_norm_error", bad="0.16.7", good="0.16.0", needs=needs)
    known = KnownAnswers(stored=answers.read(script), titles={"leak0": Title(title="It is divided")})
    found = problem_facts(report_context(comparison, known=known))
    of_workload = {one.worst.workload: found[one.worst.key] for one in comparison.problems}
    expected = (("in 0.16.7 also", "all that another problem needs: It is divided"),)
    assert of_workload["llama_zero3_backward/dtype=1/cpu"].conditions() == expected
    assert of_workload["llama_zero3_backward/dtype=2/cpu"].overlaps == ()


def test_what_an_oracle_finds_of_memory_is_answered_by_a_script_of_what_is_held() -> None:
    assert facts(answered(metric="backward.device_excess_bytes")).is_confirmed
    assert facts(answered(metric="init.device_excess_bytes")).reproduction is None


def test_a_title_may_name_further_findings_that_its_script_shows(tmp_path: Path) -> None:
    (tmp_path / "titles.toml").write_text("""
        [leak0]
        title = "Layers stay"
        [leak0.shown_by]
        package = "torch"
        metrics = ["device_retained_bytes"]
        since = "2.10.0"
        until = ""
        needs = { zero_stage = [3] }
    """)
    known = known_answers(str(tmp_path), str(tmp_path))
    other_job = "a-stack/minimal_training/lora_rank=8/cpu"
    of_torch = answered(package="torch", bad="2.13.0", good="2.9.1", cell=other_job, smallest_cell=other_job)
    found = facts(of_torch, known=known)
    assert found.title is not None
    assert found.is_confirmed
    assert facts(of_torch).reproduction is None


def known_by_hand(folder: Path, answer: dict[str, Any], titles: str = "", runs: str = "") -> KnownAnswers:
    """Of a folder with an answer and tables beside it."""
    (folder / "leak0.json").write_text(json.dumps(answer))
    (folder / "titles.toml").write_text(titles)
    (folder / "runs.toml").write_text(runs)
    return known_answers(str(folder), str(folder), lambda file, why: pytest.fail(f"{file}: {why}"))


BY_HAND = """
    [[leak0]]
    releases = ["0.16.0"]
    exit_code = 1
    line = "ratio 0.5"

    [[leak0]]
    releases = ["0.16.7", "0.16.8"]
    exit_code = 0
    line = "ratio 1.0"
"""


def test_a_change_that_was_tried_with_the_script_is_the_cause(tmp_path: Path) -> None:
    title = """
        [leak0]
        title = "Layers stay"
        [[leak0.changes]]
        before = "0.15.4"
        after = "0.16.0"
        subject = "Keep the hook (#6726)"
        tried = "0.16.0 without it passes"
        files = ["+2 -1 deepspeed/runtime/zero/parameter_offload.py"]
    """
    shown = '[[leak0]]\nreleases = ["0.16.0"]\nexit_code = 1\nline = "ratio 0.5"\n'
    known = known_by_hand(tmp_path, answered(), titles=title, runs=shown)
    (leak,) = [
        one for one in problem_facts(report_context(compared(), known=known)).values() if one.reproduction is not None
    ]
    ((change,), (end,)) = leak.began, leak.ended
    assert (change.where, change.tried) == ("Keep the hook (#6726)", "0.16.0 without it passes")
    assert change.pull_url.endswith("/DeepSpeed/pull/6726")
    assert (end.before, end.after, end.where) == ("0.16.7", "0.16.8", "")  # which nobody tried


def wrong_on(variant: str, errors: dict[str, float], **parameters: Any) -> list[Result]:
    return [wrong(version, variant, error, **parameters) for version, error in errors.items()]


def test_what_the_script_shows_no_more_is_another_cause_of_workloads_that_stay_wrong(tmp_path: Path) -> None:
    results = wrong_on("dtype=1", {"0.15.4": 0.1, "0.16.0": 9.0, "0.16.7": 9.0, "0.16.8": 0.1})
    comparison = compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None)
    script = answered(cell="a-stack/llama_zero3_backward/dtype=1/cpu", metric="gradient_norm_error")
    (found,) = problem_facts(report_context(comparison, known=known_by_hand(tmp_path, script, runs=BY_HAND))).values()
    assert found.own_end is not None
    assert (found.own_end.last, found.own_end.after) == ("0.16.0", "0.16.7")
    assert found.own_end.first is not None
    assert found.own_end.first.stack.endswith("0.16.0")
    assert [(one.before, one.after) for one in found.ended] == [("0.16.0", "0.16.7")]
    (without,) = problem_facts(report_context(comparison, known=known_by_hand(tmp_path, script))).values()
    assert without.own_end is None
    assert [(one.before, one.after) for one in without.ended] == [("0.16.7", "0.16.8")]


def test_values_of_which_a_script_by_hand_shows_it_are_conditions(tmp_path: Path) -> None:
    needs = [{"factor": "zero_stage", "value": 3, "shown": [3], "hidden": [1], "unknown": [0, 2]}]
    title = '[leak0]\ntitle = "Layers stay"\nshown_with = { zero_stage = [2] }\n'
    assert ("not known", "ZeRO stage 0 or 2") in facts(answered(needs=needs)).conditions()
    known = known_by_hand(tmp_path, answered(needs=needs), titles=title)
    (leak,) = [
        one for one in problem_facts(report_context(compared(), known=known)).values() if one.reproduction is not None
    ]
    assert leak.conditions() == (("needs", "ZeRO stage 2 or 3"), ("not known", "ZeRO stage 0"))


def costs(tmp_path: Path, **changes: Any) -> str:
    """Why a script confirms a part of what 0.16.7 makes more calls than 0.16.0; empty where it confirms all."""
    results = []
    for version, calls in {"0.15.4": 1, "0.16.0": 1, "0.16.7": 2, "0.16.8": 2}.items():
        results.append(result(version, variant=VARIANT, run=noisy_record(1, calls=calls)))
        results[-1].cell.parameters.update(PARAMETERS)
    comparison = compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None)
    ran = [{"version": "0.16.7", "answer": "bad", "exit_code": 1, "line": ""}]
    ran.append({"version": changes.get("good", "0.16.0"), "answer": "good", "exit_code": 0, "line": ""})
    script = answered(**{"metric": "backward.host_calls", "bad": "0.16.7", "good": "0.16.0", "runs": ran, **changes})
    found = problem_facts(report_context(comparison, known=known_by_hand(tmp_path, script)))
    (more,) = [one for one in comparison.problems if one.worst.metric == "host_calls"]
    return found[more.worst.key].in_part


def test_a_cost_is_confirmed_by_a_script_of_the_release_that_brought_it_and_its_neighbor(tmp_path: Path) -> None:
    assert costs(tmp_path) == ""
    assert costs(tmp_path, good="0.15.4") == "the script compares 0.16.7 with 0.15.4"


def test_what_upstream_knows_to_have_begun_before_is_another_problem() -> None:
    def known_upstream(first: str) -> bool:
        """Of a norm that is wrong without ZeRO in bf16, from a release on."""
        errors = {version: 9.0 if version >= first else 0.1 for version in ("0.17.5", "0.17.6", "0.18.2", "0.18.5")}
        results = wrong_on("dtype=1", errors, zero_stage=0, dtype="bf16")
        comparison = compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None)
        (found,) = problem_facts(report_context(comparison, known=KnownAnswers())).values()
        return found.upstream is not None

    assert known_upstream("0.17.6")
    assert not known_upstream("0.18.2")
