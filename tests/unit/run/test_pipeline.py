"""What a run's steps share."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dsregress.model import Cell
from dsregress.probe.border.wire import Detail
from dsregress.run import pipeline
from dsregress.store import Store
from tests.builders.synthetic import stored_result


def test_variables_of_a_launch_line_that_have_no_effect_are_named() -> None:
    def cell(scenario: str, **parameters: str) -> Cell:
        return msgspec.structs.replace(stored_result().cell, scenario=scenario, parameters=parameters)

    cells = [
        cell("train", program="HF_HOME=/data OMP_NUM_THREADS=8 torchrun train.py"),
        cell("train", program="HF_HOME=/data OMP_NUM_THREADS=8 torchrun train.py"),
        cell("sft", program="WANDB_MODE=offline trl sft"),
        cell("no_program"),
    ]
    assert pipeline.notes_on_programs(cells) == {
        "train": "HF_HOME, OMP_NUM_THREADS of its launch line: read before it begins, so without effect here"
    }


def test_a_given_program_that_trains_in_its_own_size_on_a_processor_is_noted() -> None:
    def cell(scenario: str, device: str, tiny: bool) -> Cell:
        parameters = {"program": "torchrun train.py", "tiny": tiny}
        return msgspec.structs.replace(stored_result().cell, scenario=scenario, device=device, parameters=parameters)

    cells = [
        cell("train-3f9a1c", "sim", tiny=False),
        cell("train-3f9a1c", "cpu", tiny=False),
        cell("small-3f9a1d", "cpu", tiny=True),
        cell("large-3f9a1e", "sim", tiny=False),
        cell("declared", "cpu", tiny=False),
    ]
    assert pipeline.notes_on_programs(cells) == {
        "train-3f9a1c": "its models train on this processor in their own size; --tiny shrinks those of transformers"
    }


def test_a_missing_detail_is_looked_for_again(tmp_path: Path) -> None:
    detail = Detail(configuration={"zero.stage": 3})
    store, one = Store(str(tmp_path)), stored_result(detail=detail)
    detail_of = pipeline.details_of([store])
    assert detail_of(one) is None
    store.write_detail(detail)
    assert detail_of(one) == detail


def test_releases_that_exclude_each_other_are_not_blamed_on_a_package_that_was_added() -> None:
    reason = "no solution: trl==0.21.0 depends on transformers>=4.55.0 and you require transformers==4.51.3"
    assert str(pipeline.no_release_fits(["datasets"], reason)) == (
        f"the releases given do not go together: {reason}; leave out the version of one of them: the newest release that "
        "goes with the others is taken"
    )
    assert str(pipeline.no_release_fits(["trl"], reason)) == (
        f"--with: trl: no release goes with the others: {reason}; check the names, or give versions: --with PACKAGE=VERSION"
    )
