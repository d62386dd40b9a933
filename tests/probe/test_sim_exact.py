"""`sim` against real CPU tensors in the same one-of-N process group, to the byte.

Runs inside a measured environment: ``PYTHON -m pytest tests/probe`` with the repository on PYTHONPATH.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("deepspeed")
pytest.importorskip("transformers")

from . import one_of_many

MODELS = ("llama-tiny", "qwen2-tiny")
FIGURES = ("op_launches", "flops", "collectives")


@pytest.fixture(scope="module", autouse=True)
def _imported_once() -> None:
    one_of_many.preload()


def both(**changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    parameters = {**one_of_many.SMALL, **changes}
    real, simulated = one_of_many.train(parameters, "cpu"), one_of_many.train(parameters, "sim")
    assert list(real) == list(simulated)
    return real, simulated


def held(reading: dict[str, Any]) -> int:
    return int(reading["device_retained_bytes"]) + int(reading["host_retained_bytes"])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "changes",
    [
        {"gradient_checkpointing": "none"},
        {"gradient_checkpointing": "reentrant"},
        {"gradient_checkpointing": "non_reentrant"},
        {"gradient_checkpointing": "non_reentrant", "gradient_accumulation_steps": 4},
        {"gradient_checkpointing": "non_reentrant", "dtype": "fp32"},
        {"attention": "eager"},
        {"decay_groups": True},
        {"world_size": 1},
        {"world_size": 64},
    ],
    ids=lambda changes: ",".join(f"{name}={value}" for name, value in changes.items()),
)
def test_zero3_holds_the_same_bytes_as_real_tensors_in_every_phase(model: str, changes: dict[str, Any]) -> None:
    real, simulated = both(model=model, **changes)
    for phase, expected in real.items():
        assert held(simulated[phase]) == held(expected), phase
        assert simulated[phase]["peak_bytes"] == expected["peak_bytes"], phase
        if phase != "init":
            assert {f: simulated[phase][f] for f in FIGURES} == {f: expected[f] for f in FIGURES}, phase


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("changes", "gradient_checkpointing"),
    [
        ({"zero_stage": 2}, "none"),
        ({"zero_stage": 2}, "reentrant"),
        ({"zero_stage": 2}, "non_reentrant"),
        ({"zero_stage": 1}, "none"),
        ({"zero_stage": 1}, "non_reentrant"),
        ({"zero_stage": 0}, "non_reentrant"),
        ({"zero_init": False}, "non_reentrant"),
    ],
    ids=str,
)
def test_a_model_built_on_the_host_holds_the_same_bytes_once_it_has_moved(
    model: str, changes: dict[str, Any], gradient_checkpointing: str
) -> None:
    """While it moves, a copy is in flight that does not exist where host and device are one; and what a module keeps of
    a buffer beside the buffer itself (rotary embeddings do) stays behind."""
    real, simulated = both(model=model, gradient_checkpointing=gradient_checkpointing, **changes)
    left_behind = held(simulated["init"]) - held(real["init"])
    assert left_behind in (0, simulated["init"]["buffers"])
    for phase, expected in real.items():
        assert held(simulated[phase]) == held(expected) + left_behind, phase
        if phase != "init":
            assert simulated[phase]["peak_bytes"] == expected["peak_bytes"] + left_behind, phase
            assert {f: simulated[phase][f] for f in FIGURES} == {f: expected[f] for f in FIGURES}, phase


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("changes", [{}, {"offload_param": True}], ids=["optimizer", "optimizer,param"])
def test_offload_holds_the_same_bytes_but_on_the_host(model: str, changes: dict[str, Any]) -> None:
    real, simulated = both(model=model, offload_optimizer=True, gradient_checkpointing="non_reentrant", **changes)
    for phase, expected in real.items():
        assert held(simulated[phase]) == held(expected), phase
        if phase != "init":
            assert simulated[phase]["collectives"] == expected["collectives"], phase
    step = simulated["1.0.step"]
    assert step["host_retained_bytes"] > step["device_retained_bytes"]
    without = one_of_many.train({**one_of_many.SMALL, "model": model, "gradient_checkpointing": "non_reentrant"}, "sim")
    assert without["1.0.step"]["host_retained_bytes"] < 1024


def test_the_same_cell_gives_the_same_figures_every_time() -> None:
    parameters = {**one_of_many.SMALL, "model": "llama-tiny", "gradient_checkpointing": "non_reentrant"}
    assert one_of_many.train(parameters, "sim") == one_of_many.train(parameters, "sim")
    assert one_of_many.train(parameters, "cpu") == one_of_many.train(parameters, "cpu")


@pytest.mark.parametrize("world_size", [1, 2, 7, 512, 4096])
def test_any_number_of_ranks(world_size: int) -> None:
    readings = one_of_many.train({**one_of_many.SMALL, "model": "llama-tiny", "world_size": world_size}, "sim")
    assert readings["1.0.step"]["device_retained_bytes"] > 0
