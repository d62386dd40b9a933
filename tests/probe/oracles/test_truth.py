"""What the numerics oracle tells from the truth: training that is sound, and training that is broken in known ways.

Plain PyTorch of another workload stands for a framework that does not do what it was asked to.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from dsregress.probe.border.wire import Numerics  # noqa: E402
from dsregress.probe.oracles import reference_training, truth  # noqa: E402
from dsregress.probe.oracles.references import Truth, Yardstick  # noqa: E402
from dsregress.probe.workloads import alignment, objectives, preference_losses, workload  # noqa: E402
from dsregress.probe.workloads.workload import Workload  # noqa: E402
from tests.probe.oracles.faults import FAULTS, trained_with  # noqa: E402

STEPS = 3
LLAMA = {
    "model_type": "llama", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "tie_word_embeddings": False,
    "max_position_embeddings": 2048,
}  # fmt: skip
WORK = Workload(sequence_length=32, micro_batch_size=2, gradient_clipping=0.5)


@functools.cache
def trained(work: Workload, dtype: torch.dtype, perturbations: int | None) -> reference_training.Trained:
    return reference_training.train_plainly(work, LLAMA, STEPS, dtype, perturbations)


def judged(work: Workload, done: Workload | None = None, **told: Any) -> Numerics:
    """The verdict on training that did ``done`` where ``work`` was asked for, in the dtype of ``work``."""
    did = trained(done or work, work.torch_dtype, None)
    numerics = Numerics(losses=list(did.losses), gradient_norms=list(did.gradient_norms))
    parameters = did.parameters
    for name, value in told.items():
        if name == "parameters":
            parameters = value(parameters)
        else:
            setattr(numerics, name, value)
    truth.judge_training(work, LLAMA, STEPS, parameters, numerics, functools.partial(trained, work))
    return numerics


def worst(numerics: Numerics) -> float:
    errors = (numerics.loss_error, numerics.gradient_norm_error, numerics.parameter_error)
    return max(error for error in errors if error is not None)


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"gradient_accumulation_steps": 4, "identical_micro_batches": True},
        {"objective": "two_backwards"},
        {"objective": "several_outputs", "decay_groups": True},
        {"objective": "no_head"},
        {"lora_rank": 4, "lora_modules_to_save": "lm_head"},
        {"frozen": "embed_tokens"},
        {"infinite_gradient_step": 1, "learning_rate_decay": 0.5},
    ],
    ids=str,
)
def test_rounding_is_no_error(dtype: str, changes: dict[str, Any]) -> None:
    numerics = judged(dataclasses.replace(WORK, dtype=dtype, **changes))
    assert worst(numerics) <= 1
    assert numerics.parameter_error is not None


def test_the_gradient_of_identical_micro_batches_is_that_of_one() -> None:
    one = reference_training.train_plainly(
        dataclasses.replace(WORK, identical_micro_batches=True), LLAMA, STEPS, torch.float32
    )
    four = dataclasses.replace(WORK, identical_micro_batches=True, gradient_accumulation_steps=4)
    assert reference_training.train_plainly(four, LLAMA, STEPS, torch.float32).gradient_norms == pytest.approx(
        one.gradient_norms, rel=1e-6
    )


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize(
    ("asked", "done"),
    [
        ({"gradient_accumulation_steps": 4}, {"gradient_accumulation_steps": 3}),
        ({"world_size": 2}, {"world_size": 1}),
        ({"gradient_clipping": 0.5}, {"gradient_clipping": None}),
        ({"learning_rate_decay": 0.5}, {"learning_rate_decay": 1.0}),
        ({"objective": "two_backwards"}, {"objective": "next_token"}),
        ({"lora_rank": 4, "lora_alpha": 8}, {"lora_rank": 4, "lora_alpha": 16}),
        ({"infinite_gradient_step": 1}, {"infinite_gradient_step": 2}),
        ({"frozen": "layers.0"}, {"frozen": ""}),
    ],
    ids=str,
)
def test_other_training_than_was_asked_for_is_wrong(dtype: str, asked: dict[str, Any], done: dict[str, Any]) -> None:
    work = dataclasses.replace(WORK, dtype=dtype, **asked)
    assert worst(judged(work, dataclasses.replace(work, **done))) > 1


POLICY = {"objective": "group_policy_gradient", "prompt_length": 8, "samples_per_prompt": 2, "lora_rank": 4}
PROBLEMS: list[dict[str, Any]] = [
    {},
    {"gradient_accumulation_steps": 4, "decay_groups": True},
    {"objective": "several_outputs", "lora_rank": 4, "lora_modules_to_save": "lm_head"},
    {**POLICY, "old_policy_displacement": 1.0},
]


def verdict_on(work: Workload, did: reference_training.Trained) -> Numerics:
    numerics = Numerics(losses=list(did.losses), gradient_norms=list(did.gradient_norms))
    truth.judge_training(work, LLAMA, STEPS, did.parameters, numerics, functools.partial(trained, work))
    return numerics


@pytest.mark.parametrize("processor", [101, 102])
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("changes", [*PROBLEMS, POLICY], ids=str)
def test_sound_training_is_right_whatever_the_processors_rounding(
    dtype: str, changes: dict[str, Any], processor: int
) -> None:
    """Also where tokens lie on an edge of the clipped loss (the last problem): there rounding moves a parameter by a
    tenth, and plain PyTorch itself is as far from plain PyTorch."""
    work = dataclasses.replace(WORK, dtype=dtype, **changes)
    assert worst(verdict_on(work, trained(work, work.torch_dtype, processor))) <= 1


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize(
    ("changes", "fault"),
    # Adapters have no vectors that could decay.
    [(p, fault) for p in PROBLEMS for fault in FAULTS if not ("lora_rank" in p and fault == "decay of vectors")],
    ids=str,
)
def test_broken_training_is_wrong_in_every_dtype(dtype: str, changes: dict[str, Any], fault: str) -> None:
    work = dataclasses.replace(WORK, dtype=dtype, **changes)
    micro_batches = work.world_size * work.gradient_accumulation_steps
    train = functools.partial(reference_training.train_plainly, work, LLAMA, STEPS)
    assert worst(verdict_on(work, trained_with(fault, micro_batches, train, work.torch_dtype))) > 1


def test_tokens_of_a_displaced_old_policy_lie_beyond_the_edges_of_the_clipped_loss() -> None:
    """A distance of a tenth is twenty times what rounding does to a log-probability in bf16."""
    work = dataclasses.replace(WORK, **POLICY, old_policy_displacement=1.0)
    model = reference_training.Trainee(
        work, workload.build_model(work, workload.model_configuration(work, LLAMA), torch.float32)
    ).model
    for step in range(STEPS):
        for data in objectives.objective_of(work).all_data(work, LLAMA["vocab_size"], step):
            log_ratio = alignment.log_probabilities(model, data) - data["old"]
            for edge in (1 - preference_losses.CLIP, 1 + preference_losses.CLIP):
                assert (log_ratio - math.log(edge)).abs().min() > 0.1


def test_a_suspicion_is_checked_with_more_yardsticks_before_it_is_a_verdict() -> None:
    seeds: list[int | None] = []

    def train(dtype: torch.dtype, perturbations: int | None) -> reference_training.Trained:
        seeds.append(perturbations)
        # A problem that the seventh rounding moves by as much as the framework was off.
        return only(1.0 + 0.2 * (perturbations == 7) if dtype == torch.bfloat16 else 1.0)

    def only(value: float) -> reference_training.Trained:
        return reference_training.Trained([1.0], [1.0], {"w": torch.zeros(4)}, {"w": torch.full((4,), value)})

    numerics = Numerics(losses=[1.0], gradient_norms=[1.0])
    truth.judge_training(WORK, LLAMA, 1, only(1.2).parameters, numerics, train)
    assert seeds == [None, None, 1, 2, 3, 4, 5, 6, 7]
    assert numerics.parameter_error == pytest.approx(0.5)


def poisoned(parameters: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: values * math.nan for name, values in parameters.items()}


def test_weights_that_are_no_numbers_are_wrong() -> None:
    assert judged(WORK, parameters=poisoned).parameter_error == math.inf
    fp16 = dataclasses.replace(WORK, dtype="fp16", infinite_gradient_step=1)
    assert judged(fp16, parameters=poisoned).parameter_error == math.inf


@pytest.mark.parametrize("told", [None, math.inf, math.nan, -1.0])
def test_an_infinite_gradient_may_reach_bf16_weights_if_its_norm_says_so(told: float | None) -> None:
    work = dataclasses.replace(WORK, infinite_gradient_step=2)
    norms = [*trained(work, torch.bfloat16, None).gradient_norms[:2], told]
    numerics = judged(work, parameters=poisoned, gradient_norms=norms)
    assert (numerics.parameter_error, numerics.gradient_norm_error <= 1) == (None, True)
    assert "which its norm reports" in numerics.note


def test_an_infinite_gradient_that_is_reported_as_a_number_is_wrong_whatever_became_of_the_weights() -> None:
    work = dataclasses.replace(WORK, infinite_gradient_step=2)
    norms = [*trained(work, torch.bfloat16, None).gradient_norms[:2], 1.0]
    assert judged(work, gradient_norms=norms).gradient_norm_error == math.inf
    assert judged(work, parameters=poisoned, gradient_norms=norms).gradient_norm_error == math.inf
    # fp16 skips the step, and what it tells of a step that it skipped is the norm of the one before.
    assert worst(judged(dataclasses.replace(work, dtype="fp16"), gradient_norms=norms)) <= 1


def test_dropout_has_no_truth() -> None:
    numerics = Numerics(losses=[1.0])
    truth.judge_training(
        dataclasses.replace(WORK, lora_rank=4, lora_dropout=0.1), LLAMA, 1, {"w": torch.zeros(1)}, numerics
    )
    assert (numerics.parameter_error, numerics.note) == (None, "no truth: dropout is random")


def test_gradients_that_the_caller_halves_have_half_the_norm() -> None:
    work = dataclasses.replace(WORK, gradient_clipping=None)
    halved = trained(dataclasses.replace(work, halved_gradients="full"), torch.float32, None)
    assert halved.gradient_norms[0] == pytest.approx(trained(work, torch.float32, None).gradient_norms[0] / 2)


def test_what_is_frozen_is_not_updated_wherever_it_is_grouped() -> None:
    grouped = dataclasses.replace(WORK, frozen="layers.0", grouped_frozen=True)
    done = trained(grouped, torch.float32, None)
    frozen = [name for name in done.parameters if "layers.0" in name]
    assert frozen
    assert all(torch.equal(done.parameters[name], done.start[name]) for name in frozen)


@pytest.mark.parametrize("schedule", ["WarmupDecayLR", "WarmupCosineLR"])
def test_the_first_steps_of_a_warmup_from_nothing_change_nothing(schedule: str) -> None:
    work = dataclasses.replace(WORK, schedule=schedule)
    done = reference_training.train_plainly(work, LLAMA, 2, torch.float32, None)
    assert all(torch.equal(done.parameters[name], done.start[name]) for name in done.start)
    assert any(
        not torch.equal(values, done.start[name])
        for name, values in trained(work, torch.float32, None).parameters.items()
    )


@pytest.mark.parametrize(
    ("trained", "note"),
    [
        ({}, "w is missing"),
        ({"w": torch.zeros(3, 1)}, "w has the shape [3, 1] instead of [3]"),
        ({"w": torch.zeros(7)}, "w has the shape [7] instead of [3]"),
    ],
    ids=["missing", "alike", "other"],
)
def test_a_parameter_that_is_missing_or_of_another_shape_is_wrong(trained: dict[str, torch.Tensor], note: str) -> None:
    true = Truth([1.0], [1.0], {"w": torch.zeros(3)}, {"w": 1.0}, {"w": 1.0})
    yardstick = Yardstick([1.0], [1.0], {"w": 0.0})
    numerics = Numerics(losses=[1.0], gradient_norms=[1.0])
    truth.JudgedTraining(dtype="fp32", steps=1, trained=trained).compare(numerics, true, [yardstick])
    assert (numerics.parameter_error, numerics.note) == (math.inf, note)
