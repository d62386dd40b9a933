"""What is kept of plain PyTorch's training: the same verdict, without training again, and for nothing else."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from dsregress.probe.border.surroundings import TRUTHS  # noqa: E402
from dsregress.probe.border.wire import Numerics  # noqa: E402
from dsregress.probe.oracles import reference_training, truth, truth_store  # noqa: E402
from dsregress.probe.oracles.ideal import PlainMemory  # noqa: E402
from dsregress.probe.workloads.workload import Workload  # noqa: E402

STEPS = 3
LLAMA = {
    "model_type": "llama", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "tie_word_embeddings": False,
    "max_position_embeddings": 2048,
}  # fmt: skip
WORK = Workload(sequence_length=32, micro_batch_size=2, gradient_clipping=0.5)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(TRUTHS, str(tmp_path / "truths"))
    return tmp_path / "truths"


def judged(work: Workload, factor: float = 1.0) -> dict[str, Any]:
    """The verdict on sound training, whose parameters are then scaled."""
    did = reference_training.train_plainly(work, LLAMA, STEPS, work.torch_dtype)
    numerics = Numerics(losses=list(did.losses), gradient_norms=list(did.gradient_norms))
    parameters = {name: values * factor for name, values in did.parameters.items()}
    truth.judge_training(work, LLAMA, STEPS, parameters, numerics)
    return dataclasses.asdict(numerics)


@pytest.mark.parametrize(("dtype", "factor"), [("fp32", 1.0), ("bf16", 1.0), ("bf16", 1.0005)])
def test_what_is_kept_gives_the_same_verdict_and_is_not_trained_again(
    dtype: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = dataclasses.replace(WORK, dtype=dtype)
    made = judged(work, factor)
    did = reference_training.train_plainly(work, LLAMA, STEPS, work.torch_dtype)
    monkeypatch.setattr(
        reference_training, "train_plainly", lambda *arguments: did
    )  # another truth than what is kept would show
    assert judged(work, factor) == made


def test_what_plain_pytorch_does_not_do_changes_no_truth() -> None:
    changed = dataclasses.replace(
        WORK,
        evaluate=True,
        checkpoint=True,
        forward_between=True,
        model_outputs="loss",
        gradient_checkpointing="reentrant",
    )
    assert truth_store.file_of(changed, LLAMA, STEPS) == truth_store.file_of(WORK, LLAMA, STEPS)


@pytest.mark.parametrize("kind", ["reentrant", "non_reentrant"])
def test_checkpointing_computes_again_what_it_computed(kind: str) -> None:
    again = dataclasses.replace(WORK, gradient_checkpointing=kind)
    one, other = (reference_training.train_plainly(work, LLAMA, STEPS, torch.bfloat16) for work in (again, WORK))
    assert (one.losses, one.gradient_norms) == (other.losses, other.gradient_norms)


def test_what_plain_pytorch_takes_is_kept_for_each_device_and_workload() -> None:
    taken = PlainMemory(batch=1, forward_peak=2, forward_retained=3, backward_peak=4)
    file = truth_store.memory_file_of(WORK, LLAMA, "cpu")
    assert file is not None
    assert truth_store.read_memory(file) is None
    truth_store.write_memory(file, taken)
    assert truth_store.read_memory(file) == taken
    other = dataclasses.replace(WORK, gradient_checkpointing="reentrant")
    assert file not in (
        truth_store.memory_file_of(other, LLAMA, "cpu"),
        truth_store.memory_file_of(WORK, LLAMA, "meta"),
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"dtype": "fp32"},
        {"world_size": 1},
        {"warmup": True},
        {"schedule": "WarmupCosineLR"},
        {"halved_gradients": "full"},
    ],
)
def test_another_workload_has_a_truth_of_its_own(changes: dict[str, Any]) -> None:
    changed = dataclasses.replace(WORK, **changes)
    assert truth_store.file_of(changed, LLAMA, STEPS) != truth_store.file_of(WORK, LLAMA, STEPS)


def flipped(content: bytes, at: int) -> bytes:
    """Return the content with one bit of one byte flipped."""
    return content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]


def test_a_file_that_was_cut_off_is_made_anew() -> None:
    made = judged(WORK)
    file = truth_store.file_of(WORK, LLAMA, STEPS)
    assert file is not None
    file.write_bytes(file.read_bytes()[:1000])
    assert judged(WORK) == made
    assert truth_store.read_references(file) is not None


def test_a_truth_with_a_flipped_bit_is_made_anew() -> None:
    made = judged(WORK)
    file = truth_store.file_of(WORK, LLAMA, STEPS)
    assert file is not None
    kept = file.read_bytes()
    for at in range(0, len(kept), len(kept) // 100):
        file.write_bytes(flipped(kept, at))
        assert truth_store.read_references(file) is None, at
    assert judged(WORK) == made
    assert truth_store.read_references(file) is not None


def test_a_flipped_bit_in_what_plain_pytorch_takes_is_seen_wherever_it_is() -> None:
    file = truth_store.memory_file_of(WORK, LLAMA, "cpu")
    assert file is not None
    truth_store.write_memory(file, PlainMemory(batch=1, forward_peak=2, forward_retained=3, backward_peak=4))
    kept = file.read_bytes()
    for at in range(len(kept)):
        file.write_bytes(flipped(kept, at))
        assert truth_store.read_memory(file) is None, at


def test_those_not_read_for_longest_go_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged(WORK)
    monkeypatch.setattr(truth_store, "MOST_BYTES", 1.5 * next(folder.glob("*.truth")).stat().st_size)
    other = dataclasses.replace(WORK, dtype="fp32")
    judged(other)
    assert list(folder.glob("*.truth")) == [truth_store.file_of(other, LLAMA, STEPS)]


def test_what_is_read_is_kept_and_what_is_written_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = PlainMemory(batch=1, forward_peak=2, forward_retained=3, backward_peak=4)
    old, read, new = (truth_store.memory_file_of(WORK, LLAMA, device) for device in ("a", "b", "c"))
    assert old is not None
    assert read is not None
    assert new is not None
    for at, file in enumerate((read, old)):
        truth_store.write_memory(file, taken)
        os.utime(file, (at, at))
    truth_store.read_memory(read)
    monkeypatch.setattr(truth_store, "MOST_BYTES", 2 * old.stat().st_size)
    truth_store.write_memory(new, taken)
    assert [file.exists() for file in (old, read, new)] == [False, True, True]
