"""Findings of one cause are one problem, with its releases; findings of different causes are not."""

from __future__ import annotations

from typing import Any

import pytest

from dsregress.compare import Comparison, Problem, ProblemKind, Thresholds, compare
from dsregress.model import Failed, Result
from dsregress.probe.border.wire import Detail, Numerics, RunRecord
from tests.builders import synthetic
from tests.builders.synthetic import MIB, result

BASELINE = synthetic.stack("0.15.0").id
OTHER = "zero_stage=2"


def judged(*results: Result, details: dict[str, Detail] | None = None) -> Comparison:
    """Details by DeepSpeed version and variant."""
    found = details or {}
    return compare(
        results,
        BASELINE,
        Thresholds(),
        lambda r: found.get(f"{r.cell.stack.versions['deepspeed']} {r.cell.variant}"),
    )


def run(
    *,
    held_mib: float = 0,
    collectives: int = 0,
    calls: int = 0,
    parameter_error: float = 0.3,
    loss_error: float = 0.1,
    losses: tuple[float, ...] = (),
) -> RunRecord:
    made = synthetic.record()
    for rank in made.ranks:
        backward = rank.phases["backward"]
        backward.device_retained_bytes += int(held_mib * MIB)
        backward.host_calls += calls
        backward.collectives = {**backward.collectives, "all_gather": [8 + collectives, MIB]}
        if rank.numerics is not None:
            rank.numerics.parameter_error = parameter_error
            rank.numerics.loss_error = loss_error
        if losses:  # of a program, whose truth is not known
            rank.numerics = Numerics(losses=list(losses))
    return made


def with_parameters(one: Result, **parameters: Any) -> Result:
    one.cell.parameters.update(parameters)
    return one


def series(variant: str = "base", **changes: Any) -> list[Result]:
    """Results of 0.15.0 on, one release for each value of the one change."""
    ((name, values),) = changes.items()
    versions = [f"0.{15 + at}.0" for at in range(len(values))]
    return [
        result(version, variant=variant, run=run(**{name: value}))
        for version, value in zip(versions, values, strict=True)
    ]


def releases(problem: Problem) -> list[str]:
    return [stack.rpartition("deepspeed")[2] for stack in problem.having]


def test_one_thing_on_two_workloads_is_one_problem_with_its_neighbours() -> None:
    (problem,) = judged(*series(held_mib=[0, 3, 3, 0]), *series(OTHER, held_mib=[0, 1, 1, 0])).problems
    assert problem.kind is ProblemKind.LEAK
    assert releases(problem) == ["0.16.0", "0.17.0"]
    assert len(problem.affected) == 2
    assert (problem.before, problem.after) == (BASELINE, synthetic.stack("0.18.0").id)


def test_the_same_metric_in_other_releases_is_another_problem() -> None:
    found = judged(*series(held_mib=[0, 3, 0, 0]), *series(OTHER, held_mib=[0, 0, 3, 3])).problems
    assert [releases(problem) for problem in found] == [["0.17.0", "0.18.0"], ["0.16.0"]]  # the newest first


def test_a_level_on_top_of_another_is_a_problem_of_its_own() -> None:
    found = judged(*series(collectives=[0, 21, 42, 42, 21])).problems
    assert {tuple(releases(problem)) for problem in found} == {
        ("0.16.0", "0.17.0", "0.18.0", "0.19.0"),
        ("0.17.0", "0.18.0"),
    }
    assert all({finding.value for finding in problem.findings} in ({16 + 21}, {16 + 42}) for problem in found)


def test_what_trains_further_from_the_baseline_than_other_releases_is_a_problem_of_its_own() -> None:
    found = judged(*series(losses=[(1.76, 1.75), (1.70, 1.68), (1.70, 1.68), (7.04, 6.99), (1.70, 1.68)])).problems
    assert {tuple(releases(problem)): problem.worst.value for problem in found} == {
        ("0.18.0",): pytest.approx(37.5, abs=0.1),
        ("0.16.0", "0.17.0", "0.19.0"): pytest.approx(2.0, abs=0.1),
    }


def test_the_release_that_trains_furthest_from_the_baseline_names_the_problem() -> None:
    (problem,) = judged(*series(losses=[(2.0,), (2.06,), (2.08,), (2.07,)])).problems
    assert problem.worst.stack == synthetic.stack("0.17.0").id


def test_a_metric_that_leaves_and_comes_back_is_two_problems() -> None:
    found = judged(*series(held_mib=[0, 3, 0, 1])).problems
    assert [releases(problem) for problem in found] == [["0.18.0"], ["0.16.0"]]


def test_a_level_that_wavers_around_the_threshold_is_one() -> None:
    (problem,) = judged(*series(calls=[0, 80_000, 70_000, 80_000, 10_000])).problems  # the limit is 75,000
    assert releases(problem) == ["0.16.0", "0.17.0", "0.18.0"]


def test_what_came_and_went_together_is_one_problem_and_the_gravest_names_it() -> None:
    both = [run(), run(held_mib=3, collectives=21), run()]
    (problem,) = judged(*(result(f"0.{15 + at}.0", run=made) for at, made in enumerate(both))).problems
    assert problem.kind is ProblemKind.LEAK
    assert {found.metric for found in problem.related} == {"collective_count"}


@pytest.mark.parametrize(
    ("higher_mib", "kind", "phase"), [(200, ProblemKind.LEAK, "backward"), (2000, ProblemKind.MORE, "forward")]
)
def test_a_few_bytes_that_stay_do_not_name_what_takes_many_times_as_many(
    higher_mib: int, kind: ProblemKind, phase: str
) -> None:
    """transformers 4.38: a buffer of 256 MiB, and 8 GiB made of it in forward."""
    worse = run(held_mib=100)
    for rank in worse.ranks:
        rank.phases["forward"].device_peak_bytes += higher_mib * MIB
    (problem,) = judged(result(run=run()), result("0.16.4", run=worse)).problems
    assert (problem.kind, problem.worst.phase) == (kind, phase)


def test_a_few_bytes_of_the_host_do_not_name_what_takes_many_times_as_many_on_the_device() -> None:
    worse = run()
    for rank in worse.ranks:
        rank.phases["init"].host_peak_bytes += 5 * MIB
        rank.phases["backward"].device_peak_bytes += 300 * MIB
    (problem,) = judged(result(run=run()), result("0.16.4", run=worse)).problems
    assert (problem.worst.metric, problem.worst.phase) == ("device_peak_bytes", "backward")


def test_what_began_together_and_still_goes_on_is_not_one_cause() -> None:
    both = [run(), run(held_mib=3, collectives=21)]
    found = judged(*(result(f"0.{15 + at}.0", run=made) for at, made in enumerate(both))).problems
    assert [problem.kind for problem in found] == [ProblemKind.LEAK, ProblemKind.MORE]


def test_a_release_without_a_verdict_is_neither_having_nor_free() -> None:
    crashed = result("0.17.0", variant="base", outcome=Failed("backward", "TypeError: no (engine.py:step)"))
    results = [one for one in series(held_mib=[0, 3, 0, 3]) if "0.17.0" not in one.cell.stack.id]
    found = {problem.kind: problem for problem in judged(*results, crashed).problems}
    assert releases(found[ProblemKind.LEAK]) == ["0.16.0", "0.18.0"]
    assert found[ProblemKind.LEAK].unknown == (synthetic.stack("0.17.0").id,)


def test_a_failure_that_moves_to_another_place_is_one_problem() -> None:
    failures = [
        result("0.16.0", outcome=Failed("forward", "KeyError: 'a' (engine.py:forward)")),
        result("0.17.0", outcome=Failed("forward", "KeyError: 'a' (hooks.py:pre_forward)")),
        result("0.18.0", outcome=Failed("forward", "ValueError: b (engine.py:forward)")),
    ]
    found = judged(result(), *failures).problems
    assert [(problem.kind, releases(problem)) for problem in found] == [
        (ProblemKind.CRASH, ["0.18.0"]),
        (ProblemKind.CRASH, ["0.16.0", "0.17.0"]),
    ]


def test_a_failure_with_other_sizes_in_another_model_is_one_problem() -> None:
    def failures(variant: str, size: int) -> list[Result]:
        text = f"RuntimeError: start (64) exceeds dimension size ({size}) (engine.py:step)"
        return [result(variant=variant), result("0.16.0", variant=variant, outcome=Failed("step", text))]

    (found,) = judged(*failures("base", 128), *failures(OTHER, 4096)).problems
    assert len(found.affected) == 2


def test_trains_wrong_comes_before_crashes_before_leaks_before_work() -> None:
    found = judged(
        result(),
        result("0.16.0", run=run(held_mib=90)),
        result("0.17.0", run=run(parameter_error=2)),
        result("0.18.0", outcome=Failed("step", "TypeError: no (engine.py:step)")),
        result("0.19.0", run=run(collectives=100)),
        result("0.20.0", outcome=Failed("import", "ImportError: no (engine.py:step)")),
    ).problems
    assert [problem.kind.name for problem in found] == ["WRONG", "CRASH", "LEAK", "MORE", "UNTESTABLE"]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_setting_that_exactly_the_wrong_runs_have_explains_them(elsewhere: bool) -> None:
    """``elsewhere``: a sound run has the changed value too, so it is not the cause."""
    old, new = {"configuration": "old"}, {"configuration": "new"}
    results = [
        result("0.15.0", variant="base", detail_sha256=old),
        result("0.15.0", variant=OTHER, detail_sha256=old),
        result("0.16.0", variant="base", detail_sha256=new, run=run(parameter_error=4)),
        result("0.16.0", variant=OTHER, detail_sha256=new if elsewhere else old),
    ]
    changed = Detail(configuration={"deepspeed.gradient_clipping": 1.0})
    before = Detail(configuration={"deepspeed.gradient_clipping": 0.0})
    details = {"0.15.0 base": before, f"0.15.0 {OTHER}": before, "0.16.0 base": changed, f"0.16.0 {OTHER}": changed}
    (problem,) = judged(*results, details=details).problems
    if elsewhere:
        assert (problem.kind, problem.setting) == (ProblemKind.WRONG, None)
    else:
        assert problem.kind is ProblemKind.DIFFERENT
        assert problem.setting is not None
        assert (problem.setting.key, problem.setting.baseline) == ("deepspeed.gradient_clipping", "0.0")


def test_a_simulation_with_the_changed_value_cannot_show_what_is_trained_and_rules_no_cause_out() -> None:
    old, new = {"configuration": "old"}, {"configuration": "new"}
    results = [
        result("0.15.0", variant="base", detail_sha256=old),
        result("0.15.0", variant=OTHER, detail_sha256=old),
        result("0.15.0", variant="base", device="sim", detail_sha256=old),
        result("0.16.0", variant="base", detail_sha256=new, run=run(parameter_error=4)),
        result("0.16.0", variant=OTHER, detail_sha256=old),
        result("0.16.0", variant="base", device="sim", detail_sha256=new),
    ]
    before, changed = (Detail(configuration={"deepspeed.gradient_clipping": value}) for value in (0.0, 1.0))
    details = {"0.15.0 base": before, f"0.15.0 {OTHER}": before, "0.16.0 base": changed, f"0.16.0 {OTHER}": changed}
    (problem,) = judged(*results, details=details).problems
    assert problem.kind is ProblemKind.DIFFERENT
    assert problem.setting is not None


def test_a_setting_explains_its_runs_beside_another_fault_in_the_same_release() -> None:
    old, new = {"configuration": "old"}, {"configuration": "new"}
    results = [
        *(
            with_parameters(one, clipping=None)
            for one in (
                result("0.15.0", variant="base", detail_sha256=old),
                result("0.16.0", variant="base", detail_sha256=new, run=run(parameter_error=4)),
            )
        ),
        *(
            with_parameters(result(version, variant=OTHER, detail_sha256=old, run=made), clipping=1.0, zero_stage=2)
            for version, made in (("0.15.0", run()), ("0.16.0", run(parameter_error=30)))
        ),
        *(
            with_parameters(result(version, variant="clipping=1.0", detail_sha256=old), clipping=1.0)
            for version in ("0.15.0", "0.16.0")
        ),
    ]
    before, changed = (Detail(configuration={"deepspeed.gradient_clipping": value}) for value in (0.0, 1.0))
    found = judged(*results, details={"0.15.0 base": before, "0.16.0 base": changed}).problems
    assert [(problem.kind, list(problem.affected)) for problem in found] == [
        (ProblemKind.WRONG, ["llama_zero3_backward/zero_stage=2/cpu"]),
        (ProblemKind.DIFFERENT, ["llama_zero3_backward/base/cpu"]),
    ]


@pytest.mark.parametrize("is_condition", [True, False])
def test_oracles_findings_are_one_fault_where_no_free_workload_has_what_they_share(is_condition: bool) -> None:
    results = []
    for version, error in (("0.15.0", 0.3), ("0.16.0", 4)):
        for variant, stage, made in (
            ("a", 0, run(parameter_error=error)),
            ("b", 0, run(parameter_error=9 * error if error > 1 else error)),
            ("c", 2 if is_condition else 0, run()),
        ):
            one = result(version, variant=f"model={variant}", run=made)
            results.append(with_parameters(one, zero_stage=stage, model=variant))
    found = judged(*results).problems
    assert [len(problem.affected) for problem in found] == ([2] if is_condition else [1, 1])


def test_metrics_that_are_never_wrong_together_are_two_faults() -> None:
    runs = [run(), run(loss_error=9), run(parameter_error=5), run(parameter_error=5)]
    found = judged(*(result(f"0.{15 + at}.0", run=made) for at, made in enumerate(runs))).problems
    assert [(problem.worst.metric, releases(problem)) for problem in found] == [
        ("parameter_error", ["0.17.0", "0.18.0"]),
        ("loss_error", ["0.16.0"]),
    ]
    both = [run(), run(loss_error=9, parameter_error=5), run(parameter_error=5)]
    (one,) = judged(*(result(f"0.{15 + at}.0", run=made) for at, made in enumerate(both))).problems
    assert releases(one) == ["0.16.0", "0.17.0"]


@pytest.mark.parametrize("key", ["engine.optimizer", "model.transformers_version"])
def test_what_a_release_says_of_itself_is_no_setting_to_change(key: str) -> None:
    results = [
        result("0.15.0", variant="base", detail_sha256={"configuration": "old"}),
        result("0.16.0", variant="base", detail_sha256={"configuration": "new"}, run=run(parameter_error=4)),
        *(result(v, variant=OTHER, detail_sha256={"configuration": "old"}) for v in ("0.15.0", "0.16.0")),
    ]
    details = {
        f"{version} base": Detail(configuration={key: name}) for version, name in (("0.15.0", "A"), ("0.16.0", "B"))
    }
    (problem,) = judged(*results, details=details).problems
    assert problem.setting is None


def test_every_relevant_finding_that_is_worse_belongs_to_one_problem() -> None:
    comparison = judged(*series(held_mib=[0, 3, 0, 1]), *series(OTHER, collectives=[0, 21, 42, 21]))
    worse = [f.key for g in comparison.groups for f in g.findings if f.relevant and f.kind in ("wrong", "regression")]
    members = [f.key for problem in comparison.problems for f in (*problem.findings, *problem.related)]
    assert sorted(members) == sorted(worse)


def test_a_limit_of_the_simulation_is_a_skipped_cell_and_no_failure_of_the_release() -> None:
    limit = "SimulationError: torch.compile cannot be simulated (deepspeed.py:compiled)"
    comparison = judged(result(), result("0.16.0", outcome=Failed("init", limit)))
    assert comparison.problems == ()
    assert comparison.findings == ()
    assert comparison.not_compared[0].reason == f"skipped: {limit}"


def test_a_card_must_get_through_all_phases_so_one_figure_is_judged() -> None:
    def needs(**sizes: int) -> RunRecord:
        made = synthetic.record()
        for rank in made.ranks:
            for phase, reading in rank.phases.items():
                reading.smallest_card_bytes = sizes.get(phase, 1) * 100 * MIB
        return made

    higher = judged(result(run=needs(backward=9, step=8)), result("0.16.0", run=needs(backward=6, step=10)))
    (found,) = [one for one in higher.findings if one.metric == "smallest_card_bytes"]
    assert (found.kind, found.phase, found.baseline_value, found.value) == ("regression", "step", 900 * MIB, 1000 * MIB)
    equal = judged(result(run=needs(backward=9, step=8)), result("0.16.0", run=needs(backward=6, step=9)))
    assert not [one for one in equal.findings if one.metric == "smallest_card_bytes"]


def test_a_release_with_which_a_line_needs_a_launcher_crashes_beside_one_with_which_it_trains() -> None:
    said = "CannotRun: train.py asks for its rank, and no launcher gives it one: start it by torchrun or deepspeed"
    asks = result("0.16.0", outcome=Failed("import", said))
    (problem,) = judged(result("0.15.0"), asks).problems
    assert problem.kind is ProblemKind.CRASH
    (problem,) = judged(result("0.15.0", outcome=asks.outcome), asks).problems
    assert problem.kind is ProblemKind.UNTESTABLE
    lacks = Failed("import", "CannotRun: train.py lacks the module 'rich': add --with rich")
    (problem,) = judged(result("0.15.0"), result("0.16.0", outcome=lacks)).problems
    assert problem.kind is ProblemKind.UNTESTABLE
