"""What a cell will take is guessed from what is stored, and where nothing like it is, it is not guessed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dsregress.model import Cell, Failed, Outcome
from dsregress.probe.adapters import PROGRAM
from dsregress.run.eta import expected_s, guessed_s
from dsregress.store import Store
from tests.builders import synthetic


def program(name: str, device: str = "sim", deepspeed: str = "0.16.4", variant: str = "base") -> Cell:
    changes = {"scenario": name, "framework": PROGRAM, "device": device, "variant": variant}
    return msgspec.structs.replace(synthetic.result(deepspeed).cell, **changes)


def stored(store: Store, cell: Cell, seconds: float, outcome: Outcome | None = None) -> None:
    made = synthetic.result(outcome=outcome)
    store.write(msgspec.structs.replace(made, cell=cell, duration_s=seconds), None, None)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path))


def test_a_program_that_never_ran_takes_what_other_programs_took_in_its_mode(store: Store) -> None:
    for name, seconds in (("sft-3f9a1c", 100.0), ("dpo-3f9a1d", 140.0), ("kto-3f9a1e", 900.0)):
        stored(store, program(name), seconds)
    stored(store, program("sft-3f9a1c", "cpu"), 7.0)
    stored(store, synthetic.result("0.16.4", device="sim").cell, 3.0)  # no program that was given
    stored(store, program("bad-3f9a1f"), 1.0, Failed("import", "ModuleNotFoundError"))
    new = program("rlhf-000000")
    assert guessed_s([new], {}, store) == {new.workload: 140.0}


def test_its_own_other_variants_come_first(store: Store) -> None:
    stored(store, program("sft-3f9a1c", variant="batch=2"), 50.0)
    stored(store, program("dpo-3f9a1d"), 500.0)
    new = program("sft-3f9a1c")
    assert guessed_s([new], {}, store) == {new.workload: 50.0}


def test_where_no_program_has_run_nothing_is_guessed_of_one(store: Store) -> None:
    own = synthetic.result("0.16.4", device="sim").cell
    assert guessed_s([program("sft-3f9a1c"), own], {}, store) == {own.workload: 8.0}


def test_what_has_run_is_not_guessed(store: Store) -> None:
    cell = program("sft-3f9a1c")
    stored(store, cell, 50.0)
    assert expected_s([cell], store) == {cell.workload: 50.0}
    assert guessed_s([cell], {cell.workload: 50.0}, store) == {}


def test_a_workload_takes_what_it_took_where_it_passed(store: Store) -> None:
    failed, passed = program("sft-3f9a1c", deepspeed="0.15.0"), program("sft-3f9a1c", deepspeed="0.16.4")
    stored(store, failed, 1.0, Failed("import", "ModuleNotFoundError"))
    assert expected_s([failed, passed], store) == {passed.workload: 1.0}
    stored(store, passed, 50.0)
    assert expected_s([failed, passed], store) == {passed.workload: 50.0}
