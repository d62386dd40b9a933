"""Where the losses' arguments come from: packs, answers, adapters."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from dsregress.probe.workloads import alignment, jobs, workload  # noqa: E402
from dsregress.probe.workloads.workload import Workload  # noqa: E402

SHAPE = {
    "model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 64, "tie_word_embeddings": False,
    "max_position_embeddings": 256,
}  # fmt: skip
WORK = Workload(dtype="fp32", sequence_length=12, prompt_length=5, micro_batch_size=3)


def model(work: Workload = WORK) -> torch.nn.Module:
    torch.manual_seed(0)
    return workload.build_model(work, workload.model_configuration(work, SHAPE), torch.float32).eval()


def test_samples_of_a_pack_do_not_see_each_other() -> None:
    packed = Workload(dtype="fp32", sequence_length=12, prompt_length=5, micro_batch_size=3, packed=True)
    together, apart = alignment.samples(packed, 64, 0, 0, 0), alignment.samples(WORK, 64, 0, 0, 0)
    assert together["ids"].shape == (1, 36)
    assert apart["ids"].shape == (3, 12)
    bare = model()
    with torch.no_grad():
        one, other = alignment.log_probabilities(bare, together), alignment.log_probabilities(bare, apart)
    assert one.shape == (3, 11)
    torch.testing.assert_close(one, other)


def test_logits_for_the_answers_alone_say_the_same_of_them() -> None:
    bare = model()
    few, all_of_them = alignment.group_samples(WORK, 64, 0, 0, 0), alignment.samples(WORK, 64, 0, 0, 0)
    assert few["answers"].shape == (3, 7)
    assert bool(few["answers"].all())
    with torch.no_grad():
        answers, everything = alignment.log_probabilities(bare, few), alignment.log_probabilities(bare, all_of_them)
    torch.testing.assert_close(answers, everything[:, -7:])


def test_both_answers_of_a_pair_have_the_same_prompt() -> None:
    data = alignment.pairs(WORK, 64, 0, 0, 0)
    chosen, rejected = data["ids"].chunk(2)
    assert torch.equal(chosen[:, :5], rejected[:, :5])
    assert not torch.equal(chosen[:, 5:], rejected[:, 5:])


def test_a_preference_without_adapters_and_without_a_reference_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="needs a reference"):
        alignment.preference(model(), alignment.pairs(WORK, 64, 0, 0, 0))


@pytest.mark.parametrize(
    ("name", "roles"), [("actor_critic", "critic"), ("preference", "policy+critic"), ("ppo", "policy")]
)
def test_a_job_that_makes_no_sense_is_refused(name: str, roles: str) -> None:
    with pytest.raises(ValueError, match="no such job|needs a policy"):
        jobs.job_of({"job": name, "roles": roles}, 64)
