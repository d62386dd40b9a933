"""A program on gloo ranks against itself without DeepSpeed: sound training is right, a fault of the engine's is wrong, and
what the program itself decides is no fault."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("deepspeed")

from dsregress.probe.border.wire import Numerics  # noqa: E402
from dsregress.probe.oracles import truth  # noqa: E402
from dsregress.programs.truth import program_truth  # noqa: E402
from tests.programs.cells import passed, ran  # noqa: E402

pytestmark = pytest.mark.usefixtures("surroundings")

TRAIN = """
import random, torch, deepspeed
config = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "gradient_clipping": 1.0,
          "bf16": {"enabled": True}, "zero_optimization": {"stage": STAGE}}
deepspeed.init_distributed()
torch.manual_seed(0)
with deepspeed.zero.Init(config_dict_or_path=config, enabled=STAGE == 3):
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 32))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
torch.manual_seed(1 + engine.global_rank)
BEFORE
while True:
    loss = engine(torch.randn(2, 32).bfloat16().to(engine.device)).float().pow(2).mean()
    engine.backward(loss)
    engine.step()
"""


def trained(folder: Path, stage: int = 2, ranks: int = 2, before: str = "", **parameters: Any) -> Numerics:
    (folder / "train.py").write_text(TRAIN.replace("STAGE", str(stage)).replace("BEFORE", before))
    numerics = passed(ran(folder, "cpu", ranks, "deepspeed train.py", **parameters)).ranks[0].numerics
    assert numerics is not None
    return numerics


def repeats(folder: Path) -> list[int]:
    """How often each run of a program was repeated."""
    runs = sorted(folder.parent.glob("run-cpu-*"), key=lambda run: int(run.name.rpartition("-")[2]))
    return [len([*run.glob("repeats/order-*.json")]) - 1 for run in runs]


@pytest.fixture
def quartered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that divides gradients by four."""
    from deepspeed.runtime.engine import DeepSpeedEngine

    backward = DeepSpeedEngine.backward
    monkeypatch.setattr(
        DeepSpeedEngine, "backward", lambda engine, loss, **more: backward(engine, loss / 4, **more), raising=True
    )


@pytest.mark.parametrize("stage", [1, 3], ids="stage {}".format)
def test_sound_training_is_right_also_where_zero_draws_the_first_weights(folder: Path, stage: int) -> None:
    numerics = trained(folder, stage)
    assert numerics.losses == pytest.approx(numerics.true_losses, rel=1e-2)
    assert numerics.loss_error is not None
    assert numerics.loss_error <= 1
    assert numerics.gradient_norm_error is not None
    assert numerics.gradient_norm_error <= 1
    assert numerics.parameter_error is not None
    assert numerics.parameter_error <= 1


def test_an_engine_that_quarters_gradients_is_wrong(folder: Path, quartered: None) -> None:
    numerics = trained(folder)
    assert numerics.gradient_norm_error is not None
    assert numerics.gradient_norm_error > 10
    assert not numerics.right_when_repeated
    assert numerics.first_module == (
        "no module: all inputs, outputs and, but for a common factor, their gradients are equal"
    )
    assert [norm * 4 for norm in numerics.gradient_norms if norm] == pytest.approx(
        numerics.true_gradient_norms, rel=0.05
    )


@pytest.mark.parametrize("stage", [2, 3], ids="stage {}".format)
def test_the_module_of_which_an_engine_changes_the_output_is_named(
    folder: Path, stage: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deepspeed.runtime.engine import DeepSpeedEngine

    forward = DeepSpeedEngine.forward

    def scaled(engine: Any, *args: Any, **more: Any) -> Any:
        hook = engine.module[2].register_forward_hook(lambda module, given, out: 1.5 * out)
        try:
            return forward(engine, *args, **more)
        finally:
            hook.remove()

    monkeypatch.setattr(DeepSpeedEngine, "forward", scaled)
    assert re.fullmatch(
        r"2, forward, micro-batch 1 of step 1, each rank: its inputs are equal, its output is [\d.e+]+ tolerances off; "
        r"called from train\.py:\d+ in <module>",
        trained(folder, stage).first_module,
    )


def test_what_goes_wrong_once_and_not_when_repeated_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deepspeed.runtime.engine import DeepSpeedEngine

    backward = DeepSpeedEngine.backward

    def quartered_at_first(engine: Any, loss: Any, **more: Any) -> Any:
        return backward(engine, loss if "repeats" in Path.cwd().parts else loss / 4, **more)

    monkeypatch.setattr(DeepSpeedEngine, "backward", quartered_at_first)
    numerics = trained(folder, stage=3)
    assert numerics.gradient_norm_error is not None
    assert numerics.gradient_norm_error > 10
    assert numerics.right_when_repeated


@pytest.mark.parametrize(
    ("before", "why"),
    [
        (
            "engine.empty_partition_cache()",
            "the program calls engine.empty_partition_cache, which plain PyTorch does not",
        ),
        ("import os; torch.manual_seed(os.getpid())", "it draws other random numbers with DeepSpeed than without"),
    ],
    ids=["a call", "random numbers"],
)
def test_a_program_without_truth_says_why_and_nothing_is_wrong(
    folder: Path, quartered: None, before: str, why: str
) -> None:
    numerics = trained(folder, before=before)
    assert why in numerics.note
    assert (numerics.true_losses, numerics.loss_error, numerics.parameter_error) == ([], None, None)


def test_an_oracle_that_breaks_is_the_harness_failing_and_no_program_catches_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("losses")

    monkeypatch.setattr(program_truth.ProgramTruth, "_plainly", broken)
    caught = "step = engine.step\ndef stepped():\n    try: step()\n    except Exception: pass\nengine.step = stepped"
    (folder / "train.py").write_text(TRAIN.replace("STAGE", "2").replace("BEFORE", caught))
    record = ran(folder, "cpu", 2, "deepspeed train.py")
    assert (record.outcome, record.stage) == ("failed", "harness")
    assert record.signature.startswith("HarnessFault: the numerics oracle broke: KeyError: 'losses'")


def test_what_rounding_alone_decides_is_not_wrong(folder: Path, quartered: None) -> None:
    """A weight's last bit chooses the data."""
    chosen = "last = lambda m, x: (x[0] * (1 + m.weight.view(torch.int16).sum() % 7),)"
    chosen += "; engine.module[0].register_forward_pre_hook(last)"
    assert "rounding alone decides" in trained(folder, stage=0, before=chosen).note


def test_training_that_was_right_is_judged_once_though_another_release_trains_it(folder: Path, tmp_path: Path) -> None:
    first = trained(folder, truths=tmp_path / "truths")
    again = trained(folder, truths=tmp_path / "truths")
    assert again == first
    assert again.parameter_error is not None
    assert again.parameter_error <= 1
    assert repeats(folder) == [1, 0]


def test_another_training_is_judged_anew_and_so_is_one_that_was_wrong(
    folder: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    trained(folder, truths=tmp_path / "truths")
    request.getfixturevalue("quartered")
    wrong = [trained(folder, truths=tmp_path / "truths") for _ in range(2)]
    assert [truth.worst(numerics) > 1 for numerics in wrong] == [True, True]
    _, once, twice = repeats(folder)
    assert once == twice > 1
