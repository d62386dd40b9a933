"""What a program loads, generates, evaluates, offloads and saves has phases of its own."""

from __future__ import annotations

import io
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from dsregress.programs.watch.step_watch import StepWatch  # noqa: E402
from tests.programs.cells import passed, ran  # noqa: E402
from vgpu.replacing import MissingTarget  # noqa: E402

SAVING = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)).to("cuda")
frozen = torch.nn.Linear(64, 64).eval().to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.save({}, "before")
for step in range(20):
    with torch.no_grad():
        frozen(torch.randn(512, 64, device="cuda"))  # as a reference model: no evaluation
    model(torch.randn(4, 64, device="cuda")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 0:
        torch.save({name: value.float().clone() for name, value in model.state_dict().items()}, "first")
    model.eval()
    with torch.no_grad():
        outputs = [model(torch.randn(1024, 64, device="cuda")) for _ in range(2)]
    del outputs
    model.train()
"""

TRAINER = """
import torch, transformers
config = {
    "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True,
                          "stage3_param_persistence_threshold": 0, "reduce_bucket_size": 20000},
    "bf16": {"enabled": True}, "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
}
arguments = transformers.TrainingArguments(
    output_dir="out", per_device_train_batch_size=1, bf16=True, max_steps=4, report_to="none", deepspeed=config,
    eval_strategy="steps", eval_steps=1, save_strategy="steps", save_steps=1)
sizes = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=96, **sizes)).save_pretrained("before")
torch.distributed.barrier()  # transformers 5 writes on the first rank alone
model = transformers.AutoModelForCausalLM.from_pretrained("before", dtype=torch.bfloat16)
rows = [{"input_ids": list(range(row, row + 16)), "labels": list(range(row, row + 16))} for row in range(8)]

class Generating(transformers.Trainer):
    def training_step(self, model, inputs, *more):
        with torch.no_grad():
            self.accelerator.unwrap_model(model).generate(inputs["input_ids"], max_new_tokens=2, synced_gpus=True)
        return super().training_step(model, inputs, *more)

trainer = Generating(model=model, args=arguments, train_dataset=rows, eval_dataset=rows)
trainer.train()
"""


class Occasions(list[str]):
    """A `Listener` that notes what begins and ends."""

    def saves(self, what: object, file: object) -> None: ...

    def draws(self, indices: Any) -> None: ...

    def occasion_begins(self, phase: str) -> None:
        self.append(phase)

    def occasion_ended(self, failed: bool) -> None:
        self.append("failed" if failed else "ended")

    def forward_begins(self, model: Any) -> None: ...

    def clipping_begins(self, parameters: Any, limit: float, norm_type: float) -> None: ...

    def clipped(self, parameters: Any, norm: Any) -> None: ...

    def evaluates(self, model: Any) -> None: ...

    def backward_begins(self, loss: Any, engine: Any) -> None: ...

    def backward_ended(self) -> None: ...

    def step_begins(self, stepper: Any) -> None: ...

    def step_ended(self, stepper: Any) -> None: ...

    def accumulated(self) -> None: ...

    def resumed(self, stepper: Any) -> None: ...


def test_the_outermost_call_counts_also_of_what_is_imported_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Trainer:
        def save_model(self, fails: bool) -> None:
            torch.save({}, tmp_path / "inside")
            if fails:
                raise OSError("the disk is full")

    seen = Occasions()
    monkeypatch.delitem(sys.modules, "transformers.trainer", raising=False)  # another test may have imported it
    with StepWatch(seen) as watch:
        monkeypatch.setitem(sys.modules, "transformers.trainer", types.SimpleNamespace(Trainer=Trainer))
        torch.save({}, tmp_path / "alone")
        torch.save({}, io.BytesIO())  # as pickling a tensor does
        watch.look()
        Trainer().save_model(False)
        with pytest.raises(OSError, match="full"):
            Trainer().save_model(True)
    assert seen == ["save", "ended", "save", "ended", "save", "failed"]
    assert torch.save.__module__ == "torch.serialization"
    assert not hasattr(torch.save, "__wrapped__")


def test_a_checkpoint_that_another_thread_writes_is_no_phase_of_the_program(tmp_path: Path) -> None:
    seen = Occasions()
    with StepWatch(seen):
        writer = threading.Thread(target=torch.save, args=({}, tmp_path / "checkpoint.pt"))
        writer.start()
        writer.join()
        torch.save({}, tmp_path / "last.pt")
    assert seen == ["save", "ended"]


def test_a_programs_own_evaluation_and_an_earlier_save_are_no_part_of_forward(folder: Path) -> None:
    (folder / "train.py").write_text(SAVING)
    rank = passed(ran(folder, "cpu", 1, "python train.py", warmup_steps=2)).ranks[0]
    assert list(rank.phases) == ["init", "evaluate", "forward", "backward", "step", "save"]
    assert rank.earlier == ["save"]  # after the first step, where the third is measured
    held = rank.phases["step"].device_retained_bytes
    evaluated, outputs = rank.phases["evaluate"].device_peak_bytes - held, 1024 * 64 * 4
    hidden = 4 * outputs
    assert evaluated >= 2 * outputs + hidden
    assert rank.phases["forward"].device_peak_bytes - held < evaluated


@pytest.mark.usefixtures("surroundings")
def test_a_trainer_under_zero_3_has_each_phase_in_sim_and_on_ranks(folder: Path) -> None:
    pytest.importorskip("deepspeed")
    pytest.importorskip("transformers")
    (folder / "train.py").write_text(TRAINER)
    for device in ("sim", "cpu"):
        rank = passed(ran(folder, device, 2, "deepspeed --num_gpus 2 train.py")).ranks[0]
        assert list(rank.phases) == ["load", "init", "generate", "evaluate", "forward", "backward", "step", "save"]
        assert rank.earlier == ["load"]
        whole = sum(count for count, _ in rank.phases["generate"].collectives.values())
        assert whole > sum(count for count, _ in rank.phases["forward"].collectives.values())
        assert rank.phases["save"].collectives["all_gather"]


def test_a_call_that_a_release_renamed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Trainer:
        """A release that calls it otherwise."""

    Trainer.__module__ = "transformers.trainer"
    renamed = types.ModuleType("transformers.trainer")
    renamed.Trainer = Trainer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers.trainer", renamed)
    with pytest.raises(MissingTarget) as raised, StepWatch(Occasions()):
        pass
    assert "transformers.trainer" in str(raised.value)
    assert "has no 'evaluate', which the harness replaces" in str(raised.value)


LOADING = """
import torch, transformers
sizes = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2)
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=96, **sizes))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{loads}
for _ in range(4):
    model(input_ids=torch.arange(8)[None], labels=torch.arange(8)[None]).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    "loads",
    [
        "model.load_state_dict({name: value.double() for name, value in model.state_dict().items()})",
        "model.resize_token_embeddings(4096)",
        "from torch.distributed.checkpoint.state_dict import set_model_state_dict\n"
        "set_model_state_dict(model, {name: value.clone() for name, value in model.state_dict().items()})",
    ],
    ids=["load_state_dict", "resize_token_embeddings", "set_model_state_dict"],
)
def test_weights_that_are_loaded_or_resized_by_any_of_these_calls_are_loading(folder: Path, loads: str) -> None:
    (folder / "train.py").write_text(LOADING.format(loads=loads))
    record = passed(ran(folder, "cpu", 1, "python train.py"))
    assert record.ranks[0].phases["load"].device_peak_bytes > 0
