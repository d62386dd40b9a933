"""The way from a finding to a confirmed script, on made-up releases."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from dsregress.advice import known_problems
from dsregress.bisect.questions import parse_question
from dsregress.cli.progress import QuietWatch
from dsregress.config.settings import Settings
from dsregress.envs.installer import Installer
from dsregress.errors import NothingMeasured
from dsregress.model import Cell, Environment, Failed, Hardware, Outcome, Result, Stack, Verdict, WorkloadParts
from dsregress.probe import scenario
from dsregress.probe.border.wire import Numerics, RankRecord, RunRecord
from dsregress.report.answers import reproduce_answer as report
from dsregress.report.answers.upstream_issue import issue_text
from dsregress.report.stored_answers import StoredBisection, StoredProbe, StoredSearch, StoredTransition
from dsregress.report.upstream_changes import in_words, introduced
from dsregress.reproduce import running
from dsregress.reproduce.factors import SIMPLEST
from dsregress.reproduce.reproduction import ReducedFinding, Reproduction, Request, reproduce, write_script
from dsregress.reproduce.running import ScriptRun
from dsregress.reproduce.script import Script
from dsregress.run import session
from dsregress.run.session import Session
from dsregress.system import kept
from dsregress.system.kept import Kept
from tests.builders.cells import HARDWARE, result_of
from tests.paths import ROOT
from vgpu.figures import PhaseReading

MINIMAL = scenario.load(ROOT / "scenarios" / f"{SIMPLEST}.py")
LLAMA = scenario.load(ROOT / "scenarios" / "llama_zero3_backward.py")
RELEASES = ("0.18.1", "0.18.2", "0.18.3", "0.19.5", "0.19.6")
VARIANT = "gradient_accumulation_steps=4,zero_stage=2,offload_optimizer=true"

#: Accumulates, in stage 1, and its model returns several tensors.
WORKLOAD = "llama_zero3_backward/gradient_accumulation_steps=4,zero_stage=1/cpu"

Faulty = Callable[[str, Mapping[str, Any]], bool]


def quarter(version: str, p: Mapping[str, Any]) -> bool:
    """A release of the middle, stages 1 and 2, accumulation, several outputs."""
    own = version in ("0.18.3", "0.19.5") and p["zero_stage"] in (1, 2) and p.get("model_outputs", "all") == "all"
    return own and p["gradient_accumulation_steps"] > 1


def stack(version: str) -> Stack:
    return Stack(
        python="3.11", versions={"torch": "2.13.0", "transformers": "4.57.6", "deepspeed": version}, label=version
    )


def cell(version: str) -> Cell:
    return Cell(
        stack=stack(version),
        scenario="llama_zero3_backward",
        scenario_version=1,
        variant=VARIANT,
        device="cpu",
        framework=MINIMAL.framework,
        parameters=LLAMA.resolve(VARIANT, "cpu"),
    )


def measured(cell: Cell, faulty: Faulty) -> Result:
    error = 30.0 if faulty(cell.stack.versions["deepspeed"], cell.parameters) else 0.2
    numerics = Numerics(losses=[1.0], true_losses=[1.0], gradient_norm_error=error, loss_error=0.1, parameter_error=0.1)
    rank = RankRecord(rank=0, phases={"backward": PhaseReading()}, numerics=numerics)
    return result_of(cell, RunRecord(outcome="passed", world_size=1, ranks=[rank]))


def crashed(cell: Cell, faulty: Faulty) -> Result:
    is_faulty = faulty(cell.stack.versions["deepspeed"], cell.parameters)
    outcome: Outcome | None = Failed("step", "RuntimeError: Output 0 of Split (x.py:step)") if is_faulty else None
    return result_of(cell, None if outcome else measured(cell, lambda *_: False).record, outcome)


class Executor:
    """Of a session in which nothing runs."""

    def cluster(self, hardware: Hardware) -> Any:
        return SimpleNamespace(shares_environments=False, close=lambda: None)


def opened(
    folder: Path, monkeypatch: pytest.MonkeyPatch, faulty: Faulty, result: Callable[[Cell, Faulty], Result]
) -> Session:
    """A session of the releases that were made up, which opens as the command opens it: without stacks."""
    target = SimpleNamespace(executor=Executor(), build=None, hardware=lambda: HARDWARE)
    monkeypatch.setattr(session, "open_target", lambda *_: target)
    monkeypatch.setattr(
        session, "build_environments", lambda stacks, *_: [Environment(stack=one, lock_sha256="") for one in stacks]
    )
    monkeypatch.setattr(
        session, "measure_cells", lambda matrix, *_, **__: [result(one, faulty) for one in matrix.cells]
    )
    settings = Settings(environments=str(folder), results=str(folder / "results"))
    return Session(settings, (), QuietWatch(), cast(Installer, None))


def answered(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    scripted: Callable[[Script, str], bool],
    *,
    faulty: Faulty = quarter,
    metric: str | None = "gradient_norm_error",
    stored: bool = True,
    result: Callable[[Cell, Faulty], Result] = measured,
    conditions: bool = True,
    releases: Sequence[str] = RELEASES,
    run: Callable[..., ScriptRun] | None = None,
) -> Reproduction:
    """``scripted`` says whether a script shows the fault in a release."""

    def made_up(script: Script, environment: Environment, version: str, *_: Any) -> ScriptRun:
        shows = scripted(script, version)
        line = f"gradient norm {1 if shows else 4}, plain PyTorch 4"
        return ScriptRun(
            version=version, answer=Verdict.BAD if shows else Verdict.GOOD, exit_code=int(shows), line=line
        )

    monkeypatch.setattr(running, "run_script", run or made_up)
    request = Request(
        cell=cell("0.18.3"),
        question=parse_question(metric) if metric else None,
        against=None,
        baseline=stack("0.18.1"),
        package="deepspeed",
        stored={v: result(cell(v), faulty) for v in releases} if stored else {},
        detail_of=lambda _: None,
        file="f.py",
        conditions=conditions,
    )
    return reproduce(request, MINIMAL, opened(folder, monkeypatch, faulty, result))


def test_a_smaller_cell_with_a_fault_that_stays_is_another_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without ZeRO, each release from 0.18.3 on is wrong, also those in which the quarter has ended."""

    def faulty(version: str, p: Mapping[str, Any]) -> bool:
        return quarter(version, p) or (p["zero_stage"] == 0 and version not in ("0.18.1", "0.18.2"))

    found = answered(tmp_path, monkeypatch, as_composed, faulty=faulty)
    assert found.smallest.variant == "model_outputs=all,zero_stage=1,gradient_accumulation_steps=2"
    assert found.is_confirmed
    (stage,) = (one for one in found.reduced.needed if one.factor.name == "zero_stage")
    assert (stage.shown, stage.hidden, stage.unknown) == ((1, 2), (3,), (0,))


def as_composed(script: Script, version: str) -> bool:
    return version in ("0.18.3", "0.19.5") and "pow(2).sum(), x" in script.text and '"stage": 1' in script.text


def test_a_finding_comes_to_its_smallest_cell_and_a_confirmed_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = answered(tmp_path, monkeypatch, as_composed)
    assert found.smallest.variant == "model_outputs=all,zero_stage=1,gradient_accumulation_steps=2"
    assert (found.bad, found.good) == ("0.18.3", "0.18.2")
    assert [(run.version, run.answer) for run in found.runs] == [
        ("0.18.3", Verdict.BAD),
        ("0.18.2", Verdict.GOOD),
        ("0.19.6", Verdict.GOOD),
    ]
    assert found.is_confirmed


def test_the_answer_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = report.reproduction_text(answered(tmp_path, monkeypatch, as_composed)).splitlines()
    assert lines[1] == ("needs: ZeRO stage 1 or 2; gradient accumulation above 1; a model that returns several tensors")
    assert lines[2].startswith("does not matter: ranks, dtype, gradient clipping, ")
    assert lines[4] == "affected releases: 0.18.3 to 0.19.5 (not in 0.18.2; not in 0.19.6)"
    assert lines[5] == "known as: DSR-2026-0001: deepspeed 0.18.3 until 0.19.6"
    assert lines[6].startswith("known upstream: each output of the model has a hook")
    assert lines[7:11] == [
        "confirmed without the harness: yes",
        "  0.18.3, exit code 1: gradient norm 1, plain PyTorch 4",
        "  0.18.2, exit code 0: gradient norm 4, plain PyTorch 4",
        "  0.19.6, exit code 0: gradient norm 4, plain PyTorch 4",
    ]
    assert lines[11] == "goes away with ZeRO stage 0: gradient norm 4, plain PyTorch 4"


def test_who_sends_an_issue_knows_that_a_later_release_is_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = answered(tmp_path, monkeypatch, as_composed)
    bad, good, later = found.runs
    older, newer = (
        issue_text(msgspec.structs.replace(found, good=run.version, runs=(bad, run))).split("\n\n")[0]
        for run in (good, later)
    )
    assert "any more" not in older
    assert newer.endswith(" deepspeed 0.19.6 does not have it any more. -->")


def test_the_issue_text_is_markdown_with_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = issue_text(answered(tmp_path, monkeypatch, as_composed))
    for_sender, title, happens, expected, affected, *_ = text.split("\n\n")
    assert for_sender.startswith("<!-- Before you send this, search the tracker. Known upstream: each output of the ")
    assert for_sender.endswith(" deepspeed 0.19.6 does not have it any more. -->")
    assert title == "# The gradient is divided by the accumulation once per output of the model"
    assert " It is DSR-2026-0001" in for_sender
    assert "**Known as**: DSR-2026-0001: deepspeed 0.18.3 until 0.19.6." in text
    assert happens == (
        "With deepspeed 0.18.3 the script below prints `gradient norm 1, plain PyTorch 4`; with 0.18.2 it prints "
        "`gradient norm 4, plain PyTorch 4`."
    )
    assert expected.startswith("**Expected:** what plain PyTorch computes")
    assert affected.startswith("**Affected releases**, of those that were measured: 0.18.3 to 0.19.5 (not in 0.18.2; ")
    assert "\n- goes away with ZeRO stage 0: `gradient norm 4, plain PyTorch 4` in 0.18.3\n" in text
    assert "```python\n# pip install torch==2.13.0 deepspeed==0.18.3  # shows the fault: exit code 1\n" in text
    assert "**To reproduce** (1 CPU process; no GPU; the first lines say how):\n" in text
    assert '- needs `"zero_optimization": {"stage": 1}` or `2` (0 and 3 do not show it)\n' in text
    assert '- needs `"gradient_accumulation_steps"` above 1\n' in text
    assert "deepspeed 0.18.2, exit code 0: gradient norm 4, plain PyTorch 4" in text
    assert "**Environment:** Python 3.11, torch 2.13.0; CPU, gloo, " in text
    assert "[what changed between them](https://github.com/deepspeedai/DeepSpeed/compare/v0.18.2...v0.18.3)" in text
    assert text.count("```") == 4


def test_an_advisory_that_names_the_fix_ends_what_the_stored_releases_leave_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = msgspec.structs.replace(answered(tmp_path, monkeypatch, as_composed), history=())
    assert dict(report.spans(found))["affected releases"] == "0.18.3 (not in 0.18.2; not in 0.19.6)"
    monkeypatch.setattr(known_problems, "read_advisories", lambda: ())
    assert dict(report.spans(found)) == {
        "affected releases": "0.18.3 (not in 0.18.2; no newer one is known not to have it)"
    }


def test_a_title_that_no_advisory_has_is_under_90_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_problems, "read_advisories", lambda: ())
    title = issue_text(answered(tmp_path, monkeypatch, as_composed)).split("\n\n")[1]
    assert title == "# The gradient norm is wrong with ZeRO stage 1 or 2 (in deepspeed 0.18.3, not in 0.18.2)"
    assert len(title.removeprefix("# ")) < 90


def bisected(before: str, after: str, metric: str = "gradient_norm_error", workload: str = WORKLOAD) -> StoredBisection:
    """A search of releases, then of commits; the subject names the pull request."""
    step = StoredTransition(before=before, after=after, to=Verdict.BAD, exact=True)
    probe = StoredProbe(name="53e91a0", about="2025-11-19 PyTorch-compatible backward API (#7665)")
    commit = msgspec.structs.replace(step, before="a1b2c3d", after=probe.name)
    files = ("+9 -0 tests/test_engine.py", "+172 -59 deepspeed/runtime/engine.py")
    searches = {"releases": (step, ()), "commits": (commit, (probe,))}
    courses = tuple(
        StoredSearch(
            kind=kind, package="deepspeed", metric=metric, probes=probes, changes=(one,), to=Verdict.BAD, files=files
        )
        for kind, (one, probes) in searches.items()
    )
    return StoredBisection(schema=1, workload=workload, courses=courses)


def parameters_of(workload: WorkloadParts) -> Mapping[str, Any]:
    return LLAMA.resolve(workload.variant, "cpu")


def test_the_issue_names_the_change_that_a_bisection_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = answered(tmp_path, monkeypatch, as_composed)
    change = introduced(found, [bisected("0.18.2", "0.18.3")], parameters_of)
    assert change is not None
    assert (
        "**First bad change**, in deepspeed 0.18.3: [PyTorch-compatible backward API (#7665)]"
        "(https://github.com/deepspeedai/DeepSpeed/pull/7665) (+172 -59 deepspeed/runtime/engine.py), found by bisection.\n"
    ) in issue_text(found, in_words(change))


@pytest.mark.parametrize(
    "other",
    [
        bisected("0.18.2", "0.18.3", metric="loss_error"),
        bisected("0.18.1", "0.18.2"),
        bisected("0.18.2", "0.18.3", workload=WORKLOAD.replace("gradient_accumulation_steps=4", "world_size=1")),
    ],
    ids=["by another metric", "in another release", "without what it needs"],
)
def test_a_change_that_brought_something_else_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: StoredBisection
) -> None:
    assert introduced(answered(tmp_path, monkeypatch, as_composed), [other], parameters_of) is None


def test_more_work_came_with_a_change_only_between_the_two_releases_that_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = msgspec.structs.replace(answered(tmp_path, monkeypatch, as_composed), bad="0.19.5", history=())
    calls = msgspec.structs.replace(found, question=parse_question("backward.host_calls"))
    assert introduced(calls, [bisected("0.18.2", "0.18.3", "backward.host_calls")], parameters_of) is None
    assert introduced(calls, [bisected("0.18.2", "0.19.5", "backward.host_calls")], parameters_of) is not None


@pytest.mark.parametrize(
    ("line", "title"),
    [
        (
            "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded, to do so",
            "UnpicklingError: Weights only load failed (in ",
        ),
        (
            "torch.utils.checkpoint.CheckpointError: torch.utils: not the same",
            "CheckpointError: torch.utils: not the same (in ",
        ),
    ],
)
def test_a_crash_has_its_first_sentence_as_a_title(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, title: str
) -> None:
    found = answered(tmp_path, monkeypatch, as_composed)
    bad = msgspec.structs.replace(found.runs[0], line=line)
    crash = msgspec.structs.replace(found, question=parse_question("outcome"), runs=(bad, *found.runs[1:]))
    assert issue_text(crash).split("\n\n")[1].startswith(f"# {title}")


def test_a_script_that_does_not_show_it_is_said_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = answered(tmp_path, monkeypatch, lambda script, version: False)
    assert not found.is_confirmed
    assert found.script is not None
    assert "0.18.3: gradient norm 4" in found.why_not
    assert "confirmed without the harness: no" in report.reproduction_text(found)
    issue = issue_text(found)
    assert "\n\n**Not confirmed:** 0.18.3: gradient norm 4, plain PyTorch 4; " in issue
    assert not any(part in issue for part in ("Expected", "```", "goes away", "exit code"))
    assert "[deepspeed 0.18.3](https://github.com/deepspeedai/DeepSpeed/tree/v0.18.3)" in issue


def test_a_script_that_shows_it_in_a_later_sound_release_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = answered(tmp_path, monkeypatch, lambda script, version: version in ("0.18.3", "0.19.6"))
    assert not found.is_confirmed
    assert found.why_not == "0.19.6: gradient norm 1, plain PyTorch 4"


def test_a_later_release_that_is_not_to_be_had_here_denies_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scripted(script: Script, version: str) -> bool:
        if version == "0.19.6":
            raise NothingMeasured("failed in install: no such wheel", where=version)
        return as_composed(script, version)

    found = answered(tmp_path, monkeypatch, scripted)
    assert found.is_confirmed
    assert found.runs[2].answer is Verdict.UNKNOWN
    assert "  0.19.6: failed in install: no such wheel\n" in report.reproduction_text(found)


def test_an_interruption_ends_the_scripts_that_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), list[float]()

    def run(script: Script, environment: Environment, version: str, *others: Any) -> ScriptRun:
        if version == "0.18.3":
            assert begun.wait(10)
            raise KeyboardInterrupt
        add = others[-1]

        def started(command: Kept) -> None:
            add(command)
            begun.set()

        done = kept.run_kept(["sleep", "60"], folder=str(tmp_path), environment={}, timeout_s=60, started=started)
        ended.append(done.returncode)
        return ScriptRun(version=version, answer=Verdict.UNKNOWN, exit_code=done.returncode, line="")

    begins = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        answered(tmp_path, monkeypatch, as_composed, run=run)
    assert time.monotonic() - begins < 30
    assert len(ended) == 1


def test_releases_of_which_it_is_not_known_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other_end(cell: Cell, faulty: Faulty) -> Result:
        if cell.stack.label == "0.18.4":
            return result_of(cell, None, Failed("step", "RuntimeError: Output 0 of Split"))
        return measured(cell, faulty)

    found = answered(tmp_path, monkeypatch, as_composed, result=other_end, releases=(*RELEASES, "0.18.4"))
    assert (
        "affected releases: 0.18.3 to 0.19.5 (not in 0.18.2; not in 0.19.6; not known of 0.18.4)"
        in report.reproduction_text(found)
    )


def test_without_conditions_a_title_names_what_the_smallest_cell_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_problems, "read_advisories", lambda: ())
    found = answered(tmp_path, monkeypatch, as_composed, conditions=False)
    text = issue_text(found)
    title = text.split("\n\n")[1]
    assert title == "# The gradient norm is wrong (in deepspeed 0.18.3, not in 0.18.2)"
    assert '\n- seen with `"zero_optimization": {"stage": 1}`\n' in text


def test_a_script_that_shows_it_in_both_releases_confirms_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not answered(tmp_path, monkeypatch, lambda script, version: True).is_confirmed


def test_the_cells_own_model_is_tried_where_plain_layers_do_not_show_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = answered(
        tmp_path, monkeypatch, lambda s, v: v == "0.18.3" and "transformers" in s.text and '"stage": 1' in s.text
    )
    assert found.script is not None
    assert found.script.model == "transformers"
    assert found.is_confirmed


def test_small_buckets_are_kept_where_the_short_script_does_not_show_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def shows(script: Script, version: str) -> bool:
        tried.append(script.text)
        return version == "0.18.3" and '"reduce_bucket_size": 4096' in script.text

    found = answered(tmp_path, monkeypatch, shows)
    assert found.is_confirmed
    assert found.script is not None
    assert found.script.is_sized
    assert '"reduce_bucket_size"' not in tried[0]  # in both models first
    assert ("needs", "a reduce_bucket_size that is smaller than a weight") in [
        (label, text.partition(";")[0]) for label, text in report.needs(found)
    ]
    assert "a reduce_bucket_size larger than every weight" in [one.text for one in found.remedies]


def test_small_buckets_are_left_out_where_they_do_not_show_it_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = answered(tmp_path, monkeypatch, lambda script, version: False)
    assert found.script is not None
    assert not found.script.is_sized
    assert "reduce_bucket_size" not in found.script.text
    assert not [one for one in found.reduced.needed if one.factor.name == "reduce_bucket_size"]


def test_a_finding_that_is_not_seen_is_no_reproduction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NothingMeasured, match=r"not seen at a small size on cpu: 0\.18\.3: 0\.2"):
        answered(tmp_path, monkeypatch, as_composed, faulty=lambda version, p: False)


def test_where_it_cannot_be_judged_each_release_has_its_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def everywhere_at_a_small_size(cell: Cell, faulty: Faulty) -> Result:
        return measured(cell, lambda version, _: version == "0.18.3" or cell.scenario == SIMPLEST)

    with pytest.raises(NothingMeasured, match=r"cannot be judged .*: 0\.18\.3: 30 .*; 0\.18\.2: 30 "):
        answered(tmp_path, monkeypatch, as_composed, result=everywhere_at_a_small_size)


def test_without_a_metric_the_gravest_finding_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered(tmp_path, monkeypatch, as_composed, metric=None).question.name == "gradient_norm_error"


def test_what_is_not_stored_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = answered(tmp_path, monkeypatch, as_composed, metric=None, stored=False)
    assert (found.good, found.history) == ("0.18.1", ())
    assert found.smallest.variant.endswith("zero_stage=1,gradient_accumulation_steps=2")


def test_with_a_metric_nothing_of_the_cell_itself_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Cell] = []

    def recorded(cell: Cell, faulty: Faulty) -> Result:
        seen.append(cell)
        return measured(cell, faulty)

    answered(tmp_path, monkeypatch, as_composed, stored=False, result=recorded)
    assert {one.scenario for one in seen} == {SIMPLEST}


def test_an_outcome_takes_the_error_of_the_release_that_has_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Cell] = []

    def recorded(cell: Cell, faulty: Faulty) -> Result:
        seen.append(cell)
        return crashed(cell, faulty)

    found = answered(tmp_path, monkeypatch, as_composed, metric="outcome", stored=False, result=recorded)
    assert found.question.key == "RuntimeError: Output 0 of Split"
    assert [one.stack.label for one in seen if one.scenario != SIMPLEST] == ["0.18.3"]


def test_a_crash_is_reduced_by_its_own_signature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = answered(tmp_path, monkeypatch, as_composed, metric="outcome", result=crashed)
    assert found.question.key == "RuntimeError: Output 0 of Split"
    assert found.smallest.variant == "model_outputs=all,zero_stage=1,gradient_accumulation_steps=2"


def test_a_setting_that_leads_past_a_crash_to_a_wrong_gradient_is_no_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scripted(script: Script, version: str) -> bool:
        trains_wrong = script.has_truth and '"gradient_accumulation_steps"' in script.text
        return trains_wrong or (script.is_crash and as_composed(script, version))

    found = answered(tmp_path, monkeypatch, scripted, metric="outcome", result=crashed)
    assert found.is_confirmed
    assert [condition.factor.name for condition in found.reduced.needed if condition.factor.configured] == [
        "zero_stage"
    ]
    assert found.remedies == ()
    right = answered(tmp_path, monkeypatch, as_composed, metric="outcome", result=crashed)
    assert [remedy.text for remedy in right.remedies] == ["ZeRO stage 0"]


@pytest.mark.parametrize(("held_without_zero", "remedies"), [(1_000_000, ["ZeRO stage 0"]), (3_000_000, [])])
def test_a_setting_that_holds_as_much_as_the_fault_is_no_remedy(
    held_without_zero: int, remedies: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(cell: Cell, faulty: Faulty) -> Result:
        size = 2_000_000 if faulty(cell.stack.versions["deepspeed"], cell.parameters) else 1_000_000
        rank = RankRecord(rank=0, phases={"backward": PhaseReading(device_retained_bytes=size)})
        return result_of(cell, RunRecord(outcome="passed", world_size=1, ranks=[rank]))

    def run(script: Script, environment: Environment, version: str, *_: Any) -> ScriptRun:
        shows = script.counts and as_composed(script, version)
        size = held_without_zero if '"stage": 0' in script.text else 2_000_000 if shows else 1_000_000
        answer = Verdict.BAD if shows and not script.needs_expected else Verdict.GOOD
        line = f"{size:,} bytes held after backward"
        return ScriptRun(version=version, answer=answer, exit_code=0, line=line, printed=line)

    metric = "backward.device_retained_bytes"
    found = answered(tmp_path, monkeypatch, as_composed, metric=metric, result=held, run=run)
    assert found.is_confirmed
    assert [remedy.text for remedy in found.remedies] == remedies


def test_the_json_holds_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import json

    found = json.loads(report.reproduction_json(answered(tmp_path, monkeypatch, as_composed)))
    assert found["confirmed"]
    assert [need["factor"] for need in found["needs"]] == ["zero_stage", "gradient_accumulation_steps", "model_outputs"]
    assert found["script"].startswith("# pip install")


def test_a_script_is_written_again_without_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = answered(tmp_path, monkeypatch, as_composed)
    finding = ReducedFinding(
        cell=first.cell,
        question=first.question,
        package=first.package,
        good=stack(first.good),
        later=stack("0.19.6"),
        reduced=first.reduced,
        history=first.history,
        trials=first.trials,
        file="f.py",
    )
    reading = opened(tmp_path, monkeypatch, quarter, lambda *_: pytest.fail("a cell was measured"))
    assert report.reproduction_json(write_script(finding, MINIMAL, reading)) == report.reproduction_json(first)
