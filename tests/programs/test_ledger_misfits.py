"""A made-up release calls everything that is in place of a package's own with more than that takes: the harness has failed,
not the release. `tests/offline/test_own_faults.py` shows what becomes of such a cell: exit code 3, and no finding."""

from __future__ import annotations

import contextlib
import inspect
import json
import linecache
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("deepspeed")
pytest.importorskip("transformers")

import torch

from dsregress.probe.border import callees, faults
from tests.programs.cells import ran
from vgpu import replacing

PROGRAM = """
import deepspeed
import torch
import transformers

model = transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig())
config = {"train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "Adam"}, "zero_optimization": {"stage": 3}}
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
for step in range(3):
    if step == 1:
        torch.call_everything_of_the_harness()
    ids = torch.ones(1, 8, dtype=torch.long, device=engine.device)
    engine.backward(engine(input_ids=ids, labels=ids).loss)
    engine.step()
"""

Kind = inspect._ParameterKind

#: How a release calls a name with more than there is -> the kind of parameter that takes it.
CALLS: dict[str, Kind] = {
    "owner.{}(an_argument_that_came_with_a_release=1)": Kind.VAR_KEYWORD,
    "owner.{}(*range(99))": Kind.VAR_POSITIONAL,
}

#: The owner of a replaced name, and the name, as in the ledger.
Place = tuple[str, str]


def function_of_ours(value: Any) -> FunctionType | None:
    """What runs if a value is called; None if that is not the harness's."""
    if isinstance(value, type):
        value = value.__init__ if isinstance(value.__init__, FunctionType) else value.__new__
    value = getattr(value, "__func__", value)
    if not isinstance(value, FunctionType):
        value = inspect.getattr_static(type(value), "__call__", None)
    return value if isinstance(value, FunctionType) and callees.is_ours(value) else None


class Release:
    """Calls what is in place, and writes down whom the errors are put down to: while it is in place, and once the original
    is back."""

    def __init__(self, run: Path) -> None:
        self._run = run  #: the one folder of which a run keeps what its ranks write
        self._owners: dict[Place, Any] = {}
        self._errors: dict[Place, dict[str, BaseException]] = {}

    @contextlib.contextmanager
    def knowing(self, place: Place, owner: Any, replaced: AbstractContextManager[None]) -> Iterator[None]:
        """Let the release know a name while it is replaced."""
        try:
            with replaced:
                self._owners[place] = owner
                yield
        finally:
            self._note_blame("after", self._errors.pop(place, {}))

    def call_everything(self) -> None:
        """Raise one of the errors in the end."""
        for place, owner in list(self._owners.items()):
            function = function_of_ours(inspect.getattr_static(owner, place[1], None))
            if function is not None and place[1].isidentifier():
                self._errors[place] = self._refused(function, owner, place)
                self._note_blame("within", self._errors[place])
        ledger = {place for place, row in replacing.LEDGER.items() if not row.is_gone}
        self._write("unknown", {".".join(place): "" for place in ledger - self._owners.keys() if in_place(place)})
        raise next(error for errors in self._errors.values() for error in errors.values())

    def _refused(self, function: FunctionType, owner: Any, place: Place) -> dict[str, BaseException]:
        kinds = {one.kind for one in inspect.signature(function, follow_wrapped=False).parameters.values()}
        calls = [call.format(place[1]) for call, kind in CALLS.items() if kind not in kinds]
        return {f"{place[0]}: {call}": self._raised(call, owner) for call in calls}

    def _raised(self, call: str, owner: Any) -> BaseException:
        file = f"/site-packages/framework/{len(linecache.cache)}.py"
        code = f"def step(owner):\n    {call}\n"
        linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
        names: dict[str, Any] = {}
        exec(compile(code, file, "exec"), names)
        try:
            names["step"](owner)
        except Exception as error:
            assert error.__traceback__ is not None
            return error.with_traceback(error.__traceback__.tb_next)
        raise AssertionError(f"{call} is taken")

    def _note_blame(self, when: str, errors: dict[str, BaseException]) -> None:
        self._write(when, {call: f"{faults.stage_of(error)}: {error}" for call, error in errors.items()})

    def _write(self, when: str, found: dict[str, str]) -> None:
        with (self._run / f"{when}.jsonl").open("a") as file:
            file.write(json.dumps(found) + "\n")

    def blame(self, when: str) -> dict[str, str]:
        """Each call -> the stage in which its error counts, and the error."""
        lines = (self._run / f"{when}.jsonl").read_text().splitlines()
        return {call: blamed for line in lines for call, blamed in json.loads(line).items()}


def in_place(place: Place) -> bool:
    """Whether something of ours has a name."""
    try:
        return callees.is_ours(pkgutil.resolve_name(".".join(place)))
    except (ImportError, AttributeError):
        return False


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Release:
    release = Release(tmp_path / "run")
    attribute, everywhere = replacing.attribute, replacing.everywhere

    def known_attribute(owner: Any, name: str, value: Any) -> Any:
        return release.knowing((replacing._name_of(owner), name), owner, attribute(owner, name, value))

    def known_everywhere(original: Any, replacement: Any, name: str) -> Any:
        module = sys.modules.get(original.__module__)
        owner = module if getattr(module, name, None) is original else SimpleNamespace(**{name: replacement})
        return release.knowing((original.__module__, name), owner, everywhere(original, replacement, name))

    monkeypatch.setattr(replacing, "LEDGER", {})
    monkeypatch.setattr(replacing, "attribute", known_attribute)
    monkeypatch.setattr(replacing, "everywhere", known_everywhere)
    monkeypatch.setattr(torch, "call_everything_of_the_harness", release.call_everything, raising=False)
    return release


@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.usefixtures("surroundings")
def test_everything_in_the_ledger_that_a_release_calls_with_more_than_it_takes_is_the_harness_failing(
    device: str, folder: Path, tmp_path: Path, release: Release
) -> None:
    (folder / "train.py").write_text(PROGRAM)
    record = ran(
        *(folder, device, 1, "deepspeed train.py"), run=tmp_path / "run", explain=True, tiny=True, synthetic_data=True
    )
    assert (record.outcome, record.stage) == ("failed", "harness")
    assert "came_with_a_release" in record.signature
    within, after = release.blame("within"), release.blame("after")
    assert len(within) > 300
    assert within.keys() == after.keys()
    assert [call for call, blamed in {**within, **after}.items() if not blamed.startswith("harness: ")] == []
    assert release.blame("unknown") == {}
