"""Facts of a job: stated, merged, and those that follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dsregress.advisories import job_facts
from dsregress.advisories.job_facts import (
    FACTS,
    FURTHER_FACTS,
    NO_VALUE,
    Fact,
    OneOf,
    chosen_value,
    merged_facts,
    said_fact,
)
from dsregress.errors import UsageError
from dsregress.probe.factors import BY_NAME


def fact(name: str, value: Any, source: str = "ds.json") -> Fact:
    return Fact(name=name, value=value, source=source)


def values(*read: Fact, said: tuple[Fact, ...] = ()) -> dict[str, Any]:
    return {name: one.value for name, one in merged_facts(read, said)[0].items()}


def test_no_further_fact_has_the_name_of_a_factor() -> None:
    assert not FURTHER_FACTS.keys() & BY_NAME.keys()
    assert FURTHER_FACTS.keys() <= FACTS.keys()


def test_what_follows_has_the_source_of_what_it_follows_from() -> None:
    found, _ = merged_facts([fact("lora", True, "train.py --use_peft")])
    assert found["lora_rank"] == fact("lora_rank", 8, "train.py --use_peft")


def test_what_is_stated_is_kept_where_it_would_follow_as_well() -> None:
    assert values(fact("lora", True), fact("lora_rank", 64))["lora_rank"] == 64


def test_a_job_without_a_fact_has_nothing_that_follows_from_it() -> None:
    assert values() == {}


@pytest.mark.parametrize(
    ("name", "value", "follows"),
    [
        ("trainer", True, {"integration": "transformers", "model_outputs": "all", "no_sync": False}),
        ("scheduler", "none", {"warmup": False, "schedule": None}),
        ("scheduler", "WarmupDecayLR", {"warmup": False, "schedule": "WarmupDecayLR"}),
        ("schedule", "WarmupCosineLR", {"scheduler": "WarmupCosineLR"}),
        ("zero_stage", 2, {"zero_init": False, "offload_param": False, "quantized_weights": False, "mics": False}),
        ("card", "A100-40G", {"device": "cuda"}),
        ("model_name", "Qwen/Qwen2.5-7B", {"transformers_model": True}),
        ("checkpoint", False, {"resume": False, "universal": False}),
        ("integration", "accelerate", {"trainer": False}),
        ("lora", True, {"lora_rank": 8, "frozen_weights": True}),
        ("lora_rank", 64, {"frozen_weights": True}),
        ("lora_rank", 0, {"frozen_weights": None}),
        ("fsdp", True, {"zero_stage": NO_VALUE, "scheduler": NO_VALUE, "zero_init": False}),
        ("fsdp", False, {"zero_stage": None, "deepspeed": None}),
        ("fsdp", True, {"deepspeed": False}),
        ("zero_stage", 0, {"deepspeed": True}),
    ],
)
def test_some_facts_follow_from_others(name: str, value: Any, follows: dict[str, Any]) -> None:
    found = values(fact(name, value))
    assert {each: found.get(each) for each in follows} == follows


def test_trainer_makes_one_backward_but_the_loss_is_not_known() -> None:
    assert values(fact("trainer", True))["objective"] == OneOf(("next_token", "two_runs", "several_outputs", "no_head"))


def test_two_files_that_contradict_each_other_leave_one_of_both_and_what_follows_from_each() -> None:
    first, second = fact("zero_stage", 1, "a.yaml: zero_stage"), fact("zero_stage", 2, "ds.json: stage")
    found, conflicts = merged_facts([first, second])
    assert found["zero_stage"] == fact("zero_stage", OneOf((1, 2)), "a.yaml: zero_stage, or ds.json: stage")
    assert (found["deepspeed"].value, found["zero_init"].value) == (True, False)  # by both
    assert [(one.first, one.second) for one in conflicts] == [(first, second)]
    assert "zero_init" not in merged_facts([first, fact("zero_stage", 3)])[0]


def test_what_is_usual_gives_way_to_what_is_stated_and_to_what_follows_from_that() -> None:
    usual = msgspec.structs.replace(fact("deepspeed", False, "acc.yaml: distributed_type"), yields=True)
    assert values(usual)["deepspeed"] is False
    assert values(usual, fact("zero_stage", 3))["deepspeed"] is True
    assert values(usual, said=(fact("deepspeed", True),))["deepspeed"] is True


def test_what_is_usual_decides_among_several_values_and_in_no_conflict() -> None:
    auto = fact("gradient_clipping", OneOf((0.0, 1.0)))
    usual = msgspec.structs.replace(fact("gradient_clipping", 1.0, "usual"), yields=True)
    assert values(usual, auto)["gradient_clipping"] == 1.0
    assert values(auto, fact("gradient_clipping", 0.0), usual)["gradient_clipping"] == 0.0
    other = msgspec.structs.replace(fact("gradient_clipping", 2.0, "usual"), yields=True)
    assert values(auto, usual, other)["gradient_clipping"] == 2.0  # the last, of any size
    usual = msgspec.structs.replace(fact("zero_stage", 2, "usual"), yields=True)
    assert values(fact("zero_stage", 1), fact("zero_stage", 2), usual)["zero_stage"] == OneOf((1, 2))


@pytest.mark.parametrize(("batches", "ranks", "steps"), [(64, 8, 8), (64, 64, 1), (64, 3, None), (64, 0, None)])
def test_accumulation_is_what_the_ranks_leave_of_a_steps_micro_batches(
    batches: int, ranks: int, steps: int | None
) -> None:
    known = (fact("micro_batches_per_step", batches, "z.json: sizes"), fact("world_size", ranks, "--ranks"))
    found = merged_facts(known)[0].get("gradient_accumulation_steps")
    assert (found.value if found is not None else None) == steps
    assert found is None or found.source == f"z.json: sizes on {ranks} ranks (--ranks)"
    said = merged_facts(known, (fact("gradient_accumulation_steps", 2, "--set"),))[0]
    assert said["gradient_accumulation_steps"].value == 2


def test_the_reader_settles_what_two_files_contradict() -> None:
    found, conflicts = merged_facts([fact("dtype", "bf16"), fact("dtype", "fp16")], [fact("dtype", "fp16", "--set")])
    assert (found["dtype"].value, conflicts) == ("fp16", ())


def test_a_value_is_more_certain_than_one_of_several() -> None:
    auto = fact("gradient_clipping", OneOf((0.0, 1.0)))
    assert values(auto, fact("gradient_clipping", 0.5))["gradient_clipping"] == 0.5
    assert values(fact("gradient_clipping", 0.5), auto)["gradient_clipping"] == 0.5
    assert merged_facts([auto, fact("gradient_clipping", None)])[1] != ()


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("zero_stage=3", "zero_stage", 3),
        ("zero_optimization.stage=2", "zero_stage", 2),
        ("resumes=yes", "resume", True),
        ("ranks=8", "world_size", 8),
        ("gpus=8", "world_size", 8),
        ("precision=bf16", "dtype", "bf16"),
        ("resume = false", "resume", False),
        ("overlap_comm=unset", "overlap_comm", None),
        ("overlap_comm=no", "overlap_comm", False),
        ("gradient_clipping=0.5", "gradient_clipping", 0.5),
        ("gradient_clipping=unset", "gradient_clipping", None),
        ("gradient_accumulation_steps=64", "gradient_accumulation_steps", 64),
        ("trainer=yes", "trainer", True),
        ("adapters=yes", "lora", True),
        ("lora_rank=16", "lora_rank", 16),
        ("model_name=Qwen2.5-7B", "model_name", "Qwen2.5-7B"),
        ("gradient_checkpointing=reentrant", "gradient_checkpointing", "reentrant"),
        ("gradient_checkpointing=no", "gradient_checkpointing", "none"),
        ("gradient_accumulation_dtype=no", "gradient_accumulation_dtype", None),
        ("scheduler=no", "scheduler", "none"),
        *(
            (f"{name}={nothing}", name, "")
            for name in ("lora_modules_to_save", "frozen", "card", "model_name")
            for nothing in ("none", "no", "unset", "null", "None", "")
        ),
        ("lora_modules_to_save=embed_tokens", "lora_modules_to_save", "embed_tokens"),
    ],
)
def test_a_reader_states_a_fact(text: str, name: str, value: Any) -> None:
    assert said_fact(text) == Fact(name=name, value=value, source=f"--set {name}")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("resume=maybe", "--set: resume is never 'maybe'; write yes|no"),
        ("resums=yes", "--set: no such fact: resums; did you mean resume, requests?"),
        ("qlora=yes", "--set: no such fact: qlora; write --set lora=yes --set quantized=yes"),
        ("zero_stage=4", "--set: zero_stage is never '4'; write 0|1|2|3"),
        ("zero_stage", "--set: zero_stage without a value; write zero_stage=0|1|2|3"),
        ("gradient_accumulation_steps=many", "--set: gradient_accumulation_steps is never 'many'; write N"),
        (
            "lora_modules_to_save",
            "--set: lora_modules_to_save without a value; write lora_modules_to_save=none|lm_head",
        ),
        ("model_name", "--set: model_name without a value; write model_name=none|TEXT"),
        ("gradient_clipping=", "--set: gradient_clipping without a value; write gradient_clipping=N|unset"),
        ("task=chat", "--set: task is never 'chat'; write sft|dpo|grpo|ppo|gkd|reward|pretrain|classification"),
    ],
)
def test_a_fact_that_is_none_is_refused_with_what_it_could_be(text: str, error: str) -> None:
    with pytest.raises(UsageError) as refused:
        said_fact(text)
    assert str(refused.value) == error


def test_what_people_say_is_a_fact_and_what_they_mean_can_be_stated() -> None:
    table = json.loads(Path(job_facts.__file__).with_suffix(".json").read_text())
    assert {*table["aliases"].values()} <= {*FACTS}
    assert not {*table["meant"]} & {*FACTS, *table["aliases"]}
    for statement in table["meant"].values():
        for text in statement.split(" --set "):
            said_fact(text)


def test_every_value_that_was_run_can_be_stated() -> None:
    for factor in FACTS.values():
        for value in factor.explored:
            if value != "":
                text = (
                    "unset"
                    if value is None
                    else {True: "yes", False: "no"}.get(value, str(value))
                    if isinstance(value, bool)
                    else str(value)
                )
                assert said_fact(f"{factor.name}={text}").value == value


def test_what_follows_has_its_own_consequences_wherever_they_stand() -> None:
    found, _ = merged_facts((), [said_fact("fsdp_version=2")])
    assert (found["fsdp"].value, found["deepspeed"].value) == (True, False)
    assert found["gradient_clipping"].value == NO_VALUE


def test_a_job_without_deepspeed_has_nothing_of_its_configuration() -> None:
    found, _ = merged_facts((), [said_fact("deepspeed=no")])
    assert (found["zero_stage"].value, found["mics"].value) == (NO_VALUE, False)
    assert (found["reuses_configuration"].value, found["initial_scale_power"].value) == (False, NO_VALUE)


@pytest.mark.parametrize(
    ("facts", "versions", "kind"),
    [
        ({"trainer": True}, {"transformers": "4.57.6"}, "reentrant"),
        ({"trainer": True}, {"transformers": "5.0.0"}, "non_reentrant"),
        ({"trainer": True, "framework": "trl"}, {"transformers": "4.57.6", "trl": "0.24.0"}, "reentrant"),
        ({"trainer": True, "framework": "trl"}, {"transformers": "4.57.6", "trl": "0.27.0"}, "non_reentrant"),
        ({"trainer": True}, {"transformers": "4.57.6", "trl": "0.27.0"}, None),
        ({"trainer": True, "framework": "axolotl"}, {"transformers": "5.0.0"}, None),
        ({"trainer": True, "task": "grpo"}, {"transformers": "4.57.6", "trl": "1.16.0"}, None),
        ({"trainer": True}, {}, None),
        ({}, {"transformers": "5.0.0"}, None),
    ],
)
def test_the_kind_of_checkpointing_that_a_job_leaves_open_is_that_of_its_releases(
    facts: dict[str, object], versions: dict[str, str], kind: str | None
) -> None:
    left_open = said_fact("gradient_checkpointing=yes").value
    assert left_open == OneOf(("reentrant", "non_reentrant"))
    found = chosen_value("gradient_checkpointing", {**facts, "gradient_checkpointing": left_open}, versions)
    assert found == (left_open if kind is None else kind)
    assert chosen_value("gradient_checkpointing", {**facts, "gradient_checkpointing": "none"}, versions) == "none"
