"""Real ranks of the generic family, and whether its oracles see what a broken framework would do to them.

Runs inside a measured environment. What is broken here is the adapter, before the ranks are forked.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("deepspeed")
pytest.importorskip("transformers")
pytest.importorskip("peft")

import torch
import transformers

from dsregress.probe.border import faults
from dsregress.probe.border.surroundings import ENVIRONMENT
from dsregress.probe.border.wire import NO_NUMBER, RankRecord
from tests.probe import one_of_many


@pytest.fixture(scope="module", autouse=True)
def adapter() -> Any:
    for variable, value in ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    module = importlib.import_module("dsregress.probe.frameworks.deepspeed")
    module.preload("cpu")
    return module


@pytest.fixture
def training(adapter: Any) -> Any:
    """The class whose methods a test breaks."""
    return adapter.DeepSpeedTraining


def trained(variant: str, folder: Path) -> RankRecord:
    """Rank 0 of a cell that passed."""
    truths = str(folder.parent / "truths")  # several variants have one
    return one_of_many.on_real_ranks("llama_zero3_backward", variant, folder, truths)


def worst(record: RankRecord) -> float:
    numerics = record.numerics
    assert numerics is not None
    errors = (numerics.loss_error, numerics.gradient_norm_error, numerics.parameter_error)
    assert None not in errors, numerics.note
    return max(error for error in errors if error is not None)


def excess(record: RankRecord, figure: str) -> int:
    """Bytes that a rank held beyond what ZeRO says."""
    phase, _, name = figure.partition(".")
    return int(getattr(record.phases[phase], name)) - sum(record.ideal[figure].values())


def test_a_torch_that_transformers_refuses_is_named_and_is_not_the_harness_failing(
    adapter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformers.utils, "is_torch_available", lambda: False)
    monkeypatch.setattr(torch, "__version__", "2.5.1+cpu")
    with pytest.raises(ImportError) as caught:
        adapter.preload("cpu")
    assert faults.stage_of(caught.value) is None
    assert faults.signature_of(caught.value) == (
        f"ImportError: transformers {transformers.__version__} refuses torch 2.5.1: it requires a newer one"
    )


def test_offload_below_stage_3_with_accumulation_starts_with_no_more_than_zero_offload_needs(tmp_path: Path) -> None:
    record = trained("gradient_accumulation_steps=4,zero_stage=2,offload_optimizer=true", tmp_path)
    assert record.ideal["init.device_retained_bytes"]["staging"] == 2 * 2 * 512 * 64  # twice the embeddings, in bf16
    assert excess(record, "init.device_retained_bytes") < 1024


def test_a_gradient_that_lost_a_tenth_is_wrong(training: Any, monkeypatch: Any, tmp_path: Path) -> None:
    def backward(self: Any, micro_batch: int, sound: Any = training.backward) -> None:
        self._loss = self._loss * 0.9
        sound(self, micro_batch)
        self._losses[-1] = self._losses[-1] / 0.9

    monkeypatch.setattr(training, "backward", backward)
    assert worst(trained("gradient_clipping=none", tmp_path)) > 1


def test_a_micro_batch_that_is_lost_is_wrong(training: Any, monkeypatch: Any, tmp_path: Path) -> None:
    def backward(self: Any, micro_batch: int, sound: Any = training.backward) -> None:
        self._loss = self._loss * (0 if micro_batch == 3 else 1)
        sound(self, micro_batch)

    monkeypatch.setattr(training, "backward", backward)
    assert worst(trained("gradient_accumulation_steps=4,zero_stage=2,gradient_accumulation_dtype=none", tmp_path)) > 1


def test_gradients_of_one_rank_alone_are_wrong(training: Any, monkeypatch: Any, tmp_path: Path) -> None:
    def data_of(self: Any, step: int, sound: Any = training._data_of) -> Any:
        self._rank = 0
        return sound(self, step)

    monkeypatch.setattr(training, "_data_of", data_of)
    assert worst(trained("zero_stage=2", tmp_path)) > 1


def test_a_checkpoint_that_brings_nothing_back_is_wrong(training: Any, monkeypatch: Any, tmp_path: Path) -> None:
    def save_and_load(self: Any, sound: Any = training._save_and_load) -> None:
        self._engine.load_checkpoint = lambda folder, tag: (folder, {})
        sound(self)

    monkeypatch.setattr(training, "_save_and_load", save_and_load)
    assert worst(trained("checkpoint=true,zero_stage=1", tmp_path)) > 1


def test_only_the_job_that_goes_on_from_a_universal_checkpoint_is_configured_to_load_it(tmp_path: Path) -> None:
    """Up to 0.17.6 the engines of such a job save their model states under one name, and nothing can be made of these."""
    variant = "world_size=2,zero_stage=3,checkpoint=true,resume=true,universal=true"
    assert worst(one_of_many.on_real_ranks("minimal_training", variant, tmp_path)) < 1


def test_what_an_evaluation_leaves_behind_is_held_beyond_the_ideal(
    training: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    sound = trained("evaluate=true", tmp_path)
    assert worst(sound) <= 1
    kept: list[Any] = []

    def evaluate(self: Any) -> None:
        kept.append(self._engine(input_ids=self._data[0]["ids"]).logits)  # with gradients: nobody let go of the graph

    monkeypatch.setattr(training, "_evaluate", evaluate)
    (tmp_path / "holding").mkdir()
    holding = trained("evaluate=true", tmp_path / "holding")
    figure = "step.device_retained_bytes"
    # Some releases keep the one parameter that they fetched last, which is small against a graph.
    assert excess(sound, figure) < 128 * 1024 < excess(holding, figure)


def test_a_finite_norm_of_an_infinite_gradient_is_wrong(training: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(training, "gradient_norm", lambda self: 1.0)
    numerics = trained("infinite_gradient_step=1,zero_stage=2", tmp_path).numerics
    assert numerics is not None
    assert numerics.gradient_norm_error == NO_NUMBER
