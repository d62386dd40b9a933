"""Published results answer whatever version measured them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dsregress.advice.provenance import measured_by
from dsregress.model import Cell, Failed, Hardware, Result, Stack, TimedOut
from dsregress.report.answers.measured_by import sources
from dsregress.run.published import Published
from dsregress.store import Store
from tests.builders.synthetic import stored_result as result

CELL = result().cell
SHAPE = {"hidden_size": 64}
LARGE = {"hidden_size": 4096}


def cell(**changes: object) -> Cell:
    return msgspec.structs.replace(CELL, **changes)


def other(variant: str) -> Cell:
    return cell(variant=variant, parameters={"zero_stage": 3, "variant": variant})


def stored(of: Cell, version: str = "1", day: str = "2026-01-01", **changes: object) -> Result:
    made = msgspec.structs.replace(result(measuring_version=version, started_at=f"{day}T00:00:00Z"), cell=of)
    return msgspec.structs.replace(made, **changes)


def published(folder: Path, *results: Result, rounds: int = 9) -> Published:
    for one in results:
        Store(str(folder)).write(one)
    return Published(Store(str(folder)), "llama", rounds)


def found(folder: Path, wanted: Cell, *results: Result, rounds: int = 9) -> Result | None:
    return published(folder, *results, rounds=rounds).find([wanted]).get(wanted.id)


def test_a_result_answers_whatever_probe_measured_it(tmp_path: Path) -> None:
    answer = found(tmp_path, CELL, stored(CELL, version="0"))
    assert answer is not None
    assert answer.measuring_version == "0"


def test_a_result_answers_under_another_variant_s_name(tmp_path: Path) -> None:
    wanted = cell(variant="zero_stage=3")
    answer = found(tmp_path, wanted, stored(CELL))
    assert answer is not None
    assert answer.cell == wanted


def test_a_result_from_before_shapes_were_stored_answers_for_its_model(tmp_path: Path) -> None:
    old = stored(cell(parameters={"model": "small"}))
    assert found(tmp_path, cell(parameters={"model": "small", "shape": SHAPE}), old)


def test_other_work_is_no_answer(tmp_path: Path) -> None:
    small = {"model": "small", "shape": SHAPE}
    answers = published(tmp_path, stored(cell(parameters=small)))
    for wanted in (
        cell(parameters={**small, "shape": LARGE}),
        cell(parameters={**small, "zero_stage": 2}),
        cell(parameters=small, scenario_version=2),
        cell(parameters=small, device="sim"),
        cell(parameters=small, framework="another"),
        cell(parameters=small, stack=Stack(python="3.11", versions={"deepspeed": "0.16.5"})),
    ):
        assert answers.find([wanted]) == {}


def test_failures_answer_and_time_outs_do_not(tmp_path: Path) -> None:
    crash = stored(CELL, outcome=Failed(stage="init", signature="ValueError"))
    assert found(tmp_path / "crash", CELL, crash)
    assert found(tmp_path / "hung", CELL, stored(CELL, outcome=TimedOut(stage="step", limit_s=1.0))) is None


def test_too_few_timed_rounds_are_no_answer(tmp_path: Path) -> None:
    assert found(tmp_path, CELL, stored(CELL), rounds=10) is None


def test_of_several_probes_the_one_with_most_cells_answers(tmp_path: Path) -> None:
    one, two = other("one"), other("two")
    old = [stored(one, version="old"), stored(two, version="old")]
    answers = published(tmp_path, *old, stored(one, version="new", day="2026-02-02")).find([one, two])
    assert {answer.measuring_version for answer in answers.values()} == {"old"}


def test_of_probes_with_as_many_cells_the_newest_answers(tmp_path: Path) -> None:
    answer = found(tmp_path, CELL, stored(CELL, version="new", day="2026-02-02"), stored(CELL, version="old"))
    assert answer is not None
    assert answer.measuring_version == "new"


def test_the_probe_that_answered_first_goes_on_answering(tmp_path: Path) -> None:
    one, two = other("one"), other("two")
    new = [stored(two, version="new", day="2026-02-02")]
    answers = published(tmp_path, stored(one, version="old"), stored(two, version="old"), *new)
    assert answers.find([one])[one.id].measuring_version == "old"
    assert answers.find([two])[two.id].measuring_version == "old"


def test_stacks_that_have_most_of_the_cells_are_answerable(tmp_path: Path) -> None:
    stacks = [Stack(python="3.11", versions={"deepspeed": version}) for version in ("1", "2", "3")]
    both = [stored(msgspec.structs.replace(other(name), stack=stacks[1])) for name in ("one", "two")]
    answers = published(tmp_path, *both, stored(msgspec.structs.replace(other("one"), stack=stacks[2])))

    def cells_of(stack: Stack) -> list[Cell]:
        return [msgspec.structs.replace(other(name), stack=stack) for name in ("one", "two")]

    assert answers.answerable(stacks, cells_of) == (stacks[1],)
    assert answers.answerable(stacks[:1], cells_of) == (stacks[0],)


def test_an_answer_says_which_probe_measured_it_and_when() -> None:
    simulated = [stored(msgspec.structs.replace(other(name), device="sim"), day=day) for name, day in DAYS.items()]
    assert sources(measured_by(simulated)) == ["Measured by version 1 of the probe, 2026-01-01 to 2026-01-03."]
    assert sources(measured_by(simulated[:1])) == ["Measured by version 1 of the probe, 2026-01-01."]
    assert sources(measured_by([])) == []


DAYS = {"one": "2026-01-01", "two": "2026-01-03"}


def test_several_probes_in_one_answer_are_never_silent() -> None:
    results = [
        stored(other("one"), version="2"),
        stored(other("two"), version="2"),
        stored(other("three"), version="01234567", day="2026-02-02"),
    ]
    assert sources(measured_by(results)) == [
        "Measured by 2 different sources, whose figures may not be comparable: "
        "2 cells by version 2 of the probe on a processor, 2026-01-01; "
        "1 cell by version 01234567 of the probe on a processor, 2026-02-02."
    ]


def test_times_of_another_processor_are_another_source() -> None:
    elsewhere = Hardware(cpu="another", cores=2, memory_bytes=24 << 30)
    results = [stored(other("one")), stored(other("two"), hardware=elsewhere)]
    assert len(measured_by(results)) == 2
    simulated = [msgspec.structs.replace(one, cell=msgspec.structs.replace(one.cell, device="sim")) for one in results]
    assert len(measured_by(simulated)) == 1
