"""`sim` against real CPU tensors in the same one-of-N process group, to the byte.

`sim` has two memories and a CPU has one. So what `sim` holds is read as if it were one memory (`one_memory`): a copy from
host to device or back, made to be there and for nothing else, counts as its original. Such copies are listed one by one,
and there is no other difference: no tolerance anywhere.

Runs inside a measured environment: ``PYTHON -m pytest tests/probe`` with the repository on PYTHONPATH.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("deepspeed")
pytest.importorskip("transformers")

from dsregress.probe import scenario
from tests.probe import one_of_many

MODELS = ("llama-tiny", "qwen2-tiny")
FIGURES = ("peak_bytes", "held_bytes", "flops", "collectives")

VARIANTS = [
    pytest.param(declared.resolve(variant, "cpu"), id=f"{name}-{variant}")
    for name in ("llama_zero3_backward", "qwen_zero3_backward")
    for declared in [scenario.load(one_of_many.ROOT / "scenarios" / f"{name}.py")]
    for variant in declared.variant_ids
]


@pytest.fixture(scope="module", autouse=True)
def _imported_once() -> None:
    one_of_many.preload()


def assert_equal(real: dict[str, Any], simulated: dict[str, Any]) -> None:
    assert list(real) == list(simulated)
    for phase, expected in real.items():
        reading = simulated[phase]
        assert {f: reading[f] for f in FIGURES} == {f: expected[f] for f in FIGURES}, phase
        assert reading["op_launches"] == expected["op_launches"] + reading["moves"], phase


@pytest.mark.nightly
@pytest.mark.parametrize("parameters", VARIANTS)
def test_every_variant_is_equal_to_real_tensors_in_every_phase(parameters: dict[str, Any]) -> None:
    """Also where a release fails, as some do with adapters, and 0.15.0 with a checkpoint that a new torch does not trust:
    for the same reason."""
    real, simulated = one_of_many.attempt(parameters, "cpu"), one_of_many.attempt(parameters, "sim")
    if parameters["compile_backend"] != "none":
        assert simulated == {"failed": "SimulationError"}
    elif "failed" in real:
        assert parameters["lora_rank"] or parameters["checkpoint"]
        assert simulated == real
    else:
        assert_equal(real, simulated)


#: For both models, and for one of them: changes of `one_of_many.SMALL`.
_BOTH: tuple[dict[str, Any], ...] = (
    {"zero_stage": 1},
    {"zero_stage": 2},
    {"zero_stage": 3},
    {"zero_stage": 3, "gradient_accumulation_steps": 4},
    {"zero_stage": 3, "zero_init": False},
    {"zero_stage": 3, "offload_optimizer": True, "offload_param": True},
)
_ONE: tuple[dict[str, Any], ...] = (
    {"zero_stage": 2, "gradient_checkpointing": "reentrant", "offload_optimizer": True},
    {"attention": "eager"},
    {"dtype": "fp16"},
    {"world_size": 1},
    {"world_size": 64},
    {"world_size": 64, "zero_stage": 2},
)
WAYS = [*({"model": model, **way} for model in MODELS for way in _BOTH), *({"model": MODELS[0], **way} for way in _ONE)]


@pytest.mark.parametrize("way", WAYS, ids=scenario.variant_id)
def test_the_ways_of_training_are_equal_to_real_tensors_in_every_phase(way: dict[str, Any]) -> None:
    parameters = {**one_of_many.SMALL, "gradient_checkpointing": "non_reentrant", **way}
    assert_equal(one_of_many.train(parameters, "cpu"), one_of_many.train(parameters, "sim"))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("changes", [{}, {"offload_param": True}], ids=["optimizer", "optimizer,param"])
def test_what_is_offloaded_lives_on_the_host(model: str, changes: dict[str, Any]) -> None:
    parameters = {**one_of_many.SMALL, "model": model, "gradient_checkpointing": "non_reentrant"}
    step = one_of_many.train({**parameters, "offload_optimizer": True, **changes}, "sim")["1.0.step"]
    assert step["host_retained_bytes"] > step["device_retained_bytes"]
    assert one_of_many.train(parameters, "sim")["1.0.step"]["host_retained_bytes"] < 1024


def test_the_same_cell_gives_the_same_figures_every_time() -> None:
    parameters = {**one_of_many.SMALL, "model": "llama-tiny", "gradient_checkpointing": "non_reentrant"}
    assert one_of_many.train(parameters, "sim") == one_of_many.train(parameters, "sim")
    assert one_of_many.train(parameters, "cpu") == one_of_many.train(parameters, "cpu")


@pytest.mark.parametrize("world_size", [1, 2, 7, 512, pytest.param(4096, marks=pytest.mark.nightly)])
def test_any_number_of_ranks(world_size: int) -> None:
    readings = one_of_many.train({**one_of_many.SMALL, "model": "llama-tiny", "world_size": world_size}, "sim")
    assert readings["1.0.step"]["device_retained_bytes"] > 0
