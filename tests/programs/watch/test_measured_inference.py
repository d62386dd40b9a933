"""Programs that train nothing: what they generate or score is measured until they end."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.programs.cells import passed, ran

pytestmark = pytest.mark.usefixtures("surroundings")

WEIGHTS = (64 * 256 + 256 * 64) * 4
SCORES = 1000 * 64 * 4

SCORING = """
import torch
def main():
    model = torch.nn.Sequential(torch.nn.Linear(64, 256, bias=False), torch.nn.Linear(256, 64, bias=False)).to("cuda")
    kept = []
    with torch.no_grad():
        for batch in range(3):
            scores = model(torch.ones(1000, 64, device="cuda"))
            kept.append(scores.log_softmax(-1).sum().cpu())
            del scores
main()
"""


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_a_program_that_scores_is_measured_until_it_ends(folder: Path, device: str) -> None:
    (folder / "score.py").write_text(SCORING)
    phases = passed(ran(folder, device, 1, "python score.py", inference=True)).ranks[0].phases
    assert list(phases) == ["init", "forward"]
    assert phases["init"].device_retained_bytes == WEIGHTS + SCORES  # the first batch, which is as large
    assert phases["forward"].flops == 3 * 2 * 2 * 1000 * 64 * 256


def test_what_is_held_is_held_when_the_last_call_ends_and_not_when_the_program_has_let_go(folder: Path) -> None:
    (folder / "score.py").write_text(SCORING)
    forward = passed(ran(folder, "cpu", 1, "python score.py", inference=True)).ranks[0].phases["forward"]
    assert WEIGHTS < forward.device_retained_bytes < WEIGHTS + 3 * SCORES


def test_what_is_done_with_the_last_scores_counts_as_a_peak(folder: Path) -> None:
    (folder / "score.py").write_text(SCORING.replace("range(3)", "range(1)").replace("(-1)", "(-1).repeat(9, 1)"))
    forward = passed(ran(folder, "cpu", 1, "python score.py", inference=True)).ranks[0].phases["forward"]
    assert forward.device_peak_bytes >= WEIGHTS + 9 * SCORES


def test_its_explanation_is_of_what_is_reported(folder: Path) -> None:
    (folder / "score.py").write_text(SCORING)
    record = passed(ran(folder, "sim", 1, "python score.py", inference=True, explain=True))
    assert record.ranks[0].phases["forward"].device_retained_bytes >= WEIGHTS


def test_what_it_reads_of_its_card_is_recorded(folder: Path) -> None:
    (folder / "score.py").write_text(SCORING.replace("del scores", "print(torch.cuda.memory_allocated())"))
    readings = passed(ran(folder, "sim", 1, "python score.py", inference=True)).ranks[0].readings
    assert len(readings) == 3
    assert all(reading.step == 0 for reading in readings)


GENERATING = """
import torch
from transformers import AutoConfig, AutoModelForCausalLM
config = AutoConfig.for_model("llama", vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=1,
    num_attention_heads=2, num_key_value_heads=2)
model = AutoModelForCausalLM.from_config(config).to("cuda")
model.generate(torch.ones(1, 4, dtype=torch.long, device="cuda"), max_new_tokens=4, min_new_tokens=4, pad_token_id=0)
"""


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_a_program_that_only_generates_has_its_generation(folder: Path, device: str) -> None:
    pytest.importorskip("transformers")
    (folder / "generate.py").write_text(GENERATING)
    phases = passed(ran(folder, device, 1, "python generate.py", inference=True)).ranks[0].phases
    assert list(phases) == ["init", "generate"]
    assert phases["generate"].flops


TRAINING = SCORING.replace("torch.no_grad()", "torch.enable_grad()").replace(
    "del scores", "scores.sum().backward(); print('trained')"
)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("print('nothing')", "ProgramError: run.py ended without a call of a model"),
        (
            TRAINING,
            "ProgramError: it trains, by a backward pass: measure it as a program that does, without --inference",
        ),
    ],
)
def test_a_program_of_which_there_is_nothing_to_measure_so_says_why(folder: Path, program: str, said: str) -> None:
    (folder / "run.py").write_text(program)
    record = ran(folder, "cpu", 1, "python run.py", inference=True)
    assert record.outcome == "failed"
    assert record.signature.startswith(said)


def test_an_engine_that_scores_has_its_configuration_in_force(folder: Path) -> None:
    pytest.importorskip("deepspeed")
    (folder / "score.py").write_text(
        "import deepspeed, torch\n"
        "deepspeed.init_distributed()\n"
        "config = {'train_micro_batch_size_per_gpu': 1, 'bf16': {'enabled': True}, 'zero_optimization': {'stage': 3}}\n"
        "engine = deepspeed.initialize(model=torch.nn.Linear(64, 64), config=config)[0]\n"
        "with torch.no_grad():\n"
        "    engine(torch.ones(2, 64, dtype=torch.bfloat16, device=engine.device))\n"
    )
    record = passed(ran(folder, "sim", 2, "torchrun --nproc_per_node 2 score.py", inference=True))
    assert record.detail is not None
    assert record.detail.configuration["deepspeed.zero_config.stage"] == 3
    assert "all_gather" in record.ranks[0].phases["forward"].collectives


MERGING = """
import torch
torch.save({"base": torch.ones(8, 8), "adapter": torch.ones(8, 8)}, "adapter.pt")
weights = torch.load("adapter.pt")
torch.save({"merged.weight": weights["base"] + weights["adapter"]}, "merged.pt")
"""


def test_a_program_that_calls_no_model_and_saves_weights_is_measured(folder: Path) -> None:
    (folder / "merge.py").write_text(MERGING)
    saved = passed(ran(folder, "cpu", 1, "python merge.py", inference=True)).ranks[0].saved
    assert ("merged.weight", 2.0) in [(one.name, one.mean) for one in saved]
