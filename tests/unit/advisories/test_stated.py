"""Facts that files and launch lines state, each with its place."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from dsregress.advisories.job_facts import Fact, OneOf, merged_facts
from dsregress.advisories.matching import KnownJob, match_advisories
from dsregress.advisories.shipped import read_advisories
from dsregress.advisories.stated.launch import facts_of_file, facts_of_line
from dsregress.errors import UsageError
from dsregress.report.answers.audit_answer import fact_text

ZERO3 = {
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 3, "overlap_comm": True, "offload_optimizer": {"device": "cpu"}},
    "gradient_accumulation_steps": 4,
    "gradient_clipping": 1.0,
    "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 0}},
}


AUTO = {"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}, "gradient_accumulation_steps": "auto"}


def stated(facts: list[Fact]) -> dict[str, Any]:
    return {fact.name: fact.value for fact in facts}


def of_file(folder: Path, content: Any, name: str = "ds.json") -> dict[str, Fact]:
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return {fact.name: fact for fact in facts_of_file(name, folder)}


@pytest.mark.parametrize(
    ("name", "value", "key"),
    [
        ("zero_stage", 3, "zero_optimization.stage"),
        ("dtype", "bf16", "bf16.enabled"),
        ("overlap_comm", True, "zero_optimization.overlap_comm"),
        ("offload_optimizer", True, "zero_optimization.offload_optimizer.device"),
        ("offload_param", False, "no zero_optimization.offload_param.device"),
        ("gradient_accumulation_steps", 4, "gradient_accumulation_steps"),
        ("gradient_clipping", 1, "gradient_clipping"),
        ("scheduler", "WarmupDecayLR", "scheduler.type"),
        ("warmup_steps", 0, "scheduler.params.warmup_num_steps"),
        ("round_robin_gradients", None, "no zero_optimization.round_robin_gradients"),
        ("torch_autocast", False, "no torch_autocast.enabled"),
        ("gradient_accumulation_dtype", None, "no data_types.grad_accum_dtype"),
        ("hpz_partition_size", None, "no zero_optimization.zero_hpz_partition_size"),
        ("optimizer", "passed", "no optimizer"),
    ],
)
def test_deepspeed_configuration_states_what_it_has_and_what_it_has_not(
    tmp_path: Path, name: str, value: Any, key: str
) -> None:
    assert of_file(tmp_path, ZERO3)[name] == Fact(name=name, value=value, source=f"ds.json: {key}")


def test_what_auto_stands_for_is_not_known(tmp_path: Path) -> None:
    auto = {
        "bf16": {"enabled": "auto"},
        "fp16": {"enabled": "auto"},
        "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "overlap_comm": "auto"},
        "gradient_accumulation_steps": "auto",
        "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": "auto"}},
    }
    found = of_file(tmp_path, auto)
    assert (
        not {"dtype", "gradient_accumulation_steps", "overlap_comm", "warmup_steps", "reduce_bucket_size"}
        & found.keys()
    )
    assert found["integration"].value == OneOf(("transformers", "accelerate"))


@pytest.mark.parametrize(
    ("options", "limit"), [("", 1.0), ("--max_grad_norm 0.5", 0.5), ("--max_grad_norm 0", 0), ("--bf16", 1.0)]
)
def test_automatic_clipping_is_the_trainers_limit(tmp_path: Path, options: str, limit: float) -> None:
    (tmp_path / "ds.json").write_text(json.dumps({**ZERO3, "gradient_clipping": "auto"}))
    (tmp_path / "a.yaml").write_text(ACCELERATE)
    for line in (
        f"torchrun t.py --deepspeed ds.json {options}",
        f"accelerate launch --config_file a.yaml t.py {options}",
    ):
        facts = facts_of_line(line, tmp_path)[0]
        assert merged_facts(facts)[0]["gradient_clipping"].value == limit, line
        assert next(fact.value for fact in facts if fact.name == "gradient_clipping") == OneOf((0.0, 1.0))


def test_a_limit_of_the_trainer_configures_nothing_where_deepspeeds_file_has_no_key(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 2}}')
    found, _ = merged_facts(facts_of_line("torchrun t.py --deepspeed ds.json --max_grad_norm 1", tmp_path)[0])
    assert found["gradient_clipping"].value is None
    assert "gradient_clipping" not in stated(facts_of_line("torchrun t.py --max_grad_norm 1", tmp_path)[0])


def test_a_configuration_without_clipping_accumulation_or_zero_has_deepspeeds_defaults(tmp_path: Path) -> None:
    found = of_file(tmp_path, {"train_micro_batch_size_per_gpu": 1})
    values = {
        name: found[name].value for name in ("gradient_clipping", "gradient_accumulation_steps", "zero_stage", "dtype")
    }
    assert values == {"gradient_clipping": None, "gradient_accumulation_steps": 1, "zero_stage": 0, "dtype": "fp32"}


@pytest.mark.parametrize(
    ("rate", "is_set"), [({}, False), ({"warmup_max_lr": 1e-4}, True), ({"warmup_max_lr": "auto"}, True)]
)
def test_a_schedule_without_its_highest_rate_says_so(tmp_path: Path, rate: dict[str, object], is_set: bool) -> None:
    scheduler = {"type": "WarmupLR", "params": {"warmup_num_steps": 10, **rate}}
    found = of_file(tmp_path, {"zero_optimization": {"stage": 2}, "scheduler": scheduler})
    assert (found["warmup_steps"].value, found["warmup_max_lr"].value) == (10, is_set)


def test_two_half_precisions_at_once_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="enables bf16 and fp16; DeepSpeed takes one of them"):
        of_file(tmp_path, {"zero_optimization": {"stage": 2}, "fp16": {"enabled": True}, "bf16": {"enabled": True}})


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("bf16", True, 'bf16: is true, where DeepSpeed takes a section; write {"enabled": true}'),
        ("fp16", "auto", 'fp16: is "auto", where DeepSpeed takes a section; write {"enabled": true}'),
        ("zero_optimization", 3, 'zero_optimization: is 3, where DeepSpeed takes a section; write {"stage": 3}'),
    ],
)
def test_a_value_where_deepspeed_takes_a_section_is_refused(tmp_path: Path, key: str, value: object, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        of_file(tmp_path, {"zero_optimization": {"stage": 2}, "steps_per_print": 1, key: value})


def test_the_old_switch_of_zero_is_its_first_stage(tmp_path: Path) -> None:
    assert of_file(tmp_path, {"zero_optimization": True})["zero_stage"].value == 1


def test_a_trainers_options_are_no_configuration_of_deepspeed(tmp_path: Path) -> None:
    assert "zero_stage" not in of_file(tmp_path, {"bf16": True, "train_batch_size": 8, "gradient_clipping": 1.0})


@pytest.mark.parametrize("stage", [5, -1, "three", 2.5])
def test_a_stage_that_zero_has_not_is_refused(tmp_path: Path, stage: object) -> None:
    with pytest.raises(UsageError, match=f"zero_optimization.stage: ZeRO has no stage {stage!r}; write 0, 1, 2 or 3"):
        of_file(tmp_path, {"zero_optimization": {"stage": stage}})


def test_a_switch_that_deepspeeds_file_does_not_have_is_stated_as_off(tmp_path: Path) -> None:
    assert of_file(tmp_path, ZERO3)["quantized_weights"].value is False
    quantized = {"zero_optimization": {"stage": 3, "zero_quantized_weights": True}}
    assert of_file(tmp_path, quantized)["quantized_weights"].value is True


@pytest.mark.parametrize("size", [2, -1])
def test_mics_is_stated_by_its_key_with_any_value(tmp_path: Path, size: int) -> None:
    assert of_file(tmp_path, {"zero_optimization": {"stage": 3, "mics_shard_size": size}})["mics"].value is True
    assert of_file(tmp_path, ZERO3)["mics"].value is False


def test_accumulation_that_follows_from_batch_sizes_is_not_known_without_the_ranks(tmp_path: Path) -> None:
    sizes = {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2}
    assert "gradient_accumulation_steps" not in of_file(tmp_path, sizes)
    found, _ = merged_facts(facts_of_line("deepspeed --num_gpus 8 t.py --deepspeed_config ds.json", tmp_path)[0])
    steps = found["gradient_accumulation_steps"]
    assert (steps.value, steps.source) == (
        4,
        "ds.json: train_batch_size 64 in micro-batches of 2 on 8 ranks (--program: deepspeed)",
    )


@pytest.mark.parametrize("sizes", [{"train_batch_size": 64}, {"train_micro_batch_size_per_gpu": 2}])
def test_one_batch_size_alone_is_accumulation_1(tmp_path: Path, sizes: dict[str, int]) -> None:
    assert of_file(tmp_path, sizes)["gradient_accumulation_steps"].value == 1


def test_fp16_and_autocast(tmp_path: Path) -> None:
    half = of_file(
        tmp_path, {"fp16": {"enabled": True, "loss_scale": 0, "initial_scale_power": 16}, "gradient_clipping": 1}
    )
    assert {name: half[name].value for name in ("dtype", "loss_scale", "initial_scale_power")} == {
        "dtype": "fp16",
        "loss_scale": 0,
        "initial_scale_power": 16,
    }
    cast = of_file(
        tmp_path, {"torch_autocast": {"enabled": True, "dtype": "bfloat16"}, "zero_optimization": {"stage": 1}}
    )
    assert (cast["torch_autocast"].value, cast["dtype"].value) == (True, "bf16")


ACCELERATE = """
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
mixed_precision: bf16
num_processes: 8
deepspeed_config:
  gradient_accumulation_steps: 4
  offload_optimizer_device: none
  offload_param_device: none
  zero3_init_flag: true
  zero_stage: 3
"""


def test_accelerate_writes_deepspeeds_configuration_by_its_file(tmp_path: Path) -> None:
    found = of_file(tmp_path, ACCELERATE, "zero3.yaml")
    assert {
        name: found[name].value
        for name in ("zero_stage", "dtype", "gradient_accumulation_steps", "zero_init", "world_size", "offload_param")
    } == {
        "zero_stage": 3,
        "dtype": "bf16",
        "gradient_accumulation_steps": 4,
        "zero_init": True,
        "world_size": 8,
        "offload_param": False,
    }
    assert found["zero_stage"].source == "zero3.yaml: deepspeed_config.zero_stage"
    assert (found["scheduler"].value, found["overlap_comm"].value) == ("none", None)
    found = {fact.name: fact for fact in merged_facts(facts_of_file("zero3.yaml", tmp_path))[0].values()}
    assert found["gradient_clipping"].value == 1.0
    assert found["gradient_clipping"].source == "zero3.yaml: no deepspeed_config.gradient_clipping"
    assert [found[name].value for name in ("quantized_weights", "mics", "load_universal")] == [False] * 3


def test_accelerates_file_may_name_deepspeeds(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(json.dumps(ZERO3))
    text = "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n"
    found = of_file(tmp_path, text, "a.yaml")
    assert found["zero_stage"] == Fact(name="zero_stage", value=3, source="ds.json: zero_optimization.stage")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("acc.yaml", "distributed_type: MULTI_GPU\nnum_processes: 8\n"),
        ("lf.yaml", "model_name_or_path: m\nfinetuning_type: full\nstage: sft\n"),
        ("axolotl.yaml", "base_model: m\nadapter: lora\n"),
    ],
)
def test_settings_without_deepspeed_and_fsdp_state_that_unless_another_place_has_them(
    tmp_path: Path, name: str, content: str
) -> None:
    found = of_file(tmp_path, content, name)
    assert {key: (found[key].value, found[key].yields) for key in ("deepspeed", "fsdp")} == {
        "deepspeed": (False, True),
        "fsdp": (False, True),
    }
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 3}}')
    known, conflicts = merged_facts([*found.values(), *facts_of_file("ds.json", tmp_path)])
    assert (known["deepspeed"].value, known["fsdp"].value, conflicts) == (True, False, ())


def test_offload_to_nvme_is_neither_offload_to_the_host_nor_none(tmp_path: Path) -> None:
    found = of_file(tmp_path, {"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}})
    assert found["offload_param"].value == "nvme"
    assert of_file(tmp_path, {"bf16": {"enabled": "true"}})["dtype"].value == "bf16"


def test_several_gpus_of_accelerates_are_gpus(tmp_path: Path) -> None:
    assert of_file(tmp_path, "distributed_type: MULTI_GPU\n", "acc.yaml")["device"].value == "cuda"
    found, _ = facts_of_line("accelerate launch --multi_gpu --num_processes 2 train.py", tmp_path)
    assert stated(found)["device"] == "cuda"


@pytest.mark.parametrize(
    ("content", "version"),
    [
        ("base_model: m\nfsdp_version: 2\nfsdp_config: {offload_params: false}\n", 2),
        ("base_model: m\nfsdp: [full_shard, auto_wrap]\n", None),
        ("model_name_or_path: m\ntemplate: qwen\nfsdp: full_shard auto_wrap\nfsdp_config: {version: 2}\n", 2),
    ],
)
def test_a_trainers_settings_state_fsdp(tmp_path: Path, content: str, version: int | None) -> None:
    found = stated(list(of_file(tmp_path, content, "settings.yaml").values()))
    assert (found["fsdp"], found.get("fsdp_version"), "deepspeed" in found) == (True, version, False)


def test_a_program_that_reads_its_trainers_options_uses_what_they_name(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("args = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()")
    (tmp_path / "own.py").write_text("args = Namespace()")
    lines = {
        "torchrun train.py --bf16": False,
        "torchrun train.py --fsdp full_shard": None,
        "torchrun own.py --bf16": None,
        "accelerate launch train.py --bf16": None,  # accelerate's own file may say
    }
    for line, uses in lines.items():
        assert stated(facts_of_line(line, tmp_path)[0]).get("deepspeed") is uses, line


@pytest.mark.parametrize(
    "line", ["llamafactory-cli train lf.yaml lora_rank=16", "trl sft --config lf.yaml --lora_r 16"]
)
def test_an_option_wins_over_the_file_of_settings_beside_it(tmp_path: Path, line: str) -> None:
    (tmp_path / "lf.yaml").write_text("lora_rank: 8\nlora_r: 8\nbf16: true\n")
    known, conflicts = merged_facts(facts_of_line(line, tmp_path)[0])
    assert (known["lora_rank"].value, known["dtype"].value, conflicts) == (16, "bf16", ())


def test_deepspeeds_own_options_name_its_file(tmp_path: Path) -> None:
    (tmp_path / "z1.json").write_text('{"zero_optimization": {"stage": 1}}')
    found, _ = facts_of_line("deepspeed t.py --deepspeed --deepspeed_config z1.json", tmp_path)
    assert stated(found)["zero_stage"] == 1


def test_fsdp_is_no_deepspeed(tmp_path: Path) -> None:
    found = of_file(tmp_path, "distributed_type: FSDP\nnum_processes: 4\n", "fsdp.yaml")
    assert stated(list(found.values())) == {"world_size": 4, "fsdp": True}


def test_llamafactorys_settings(tmp_path: Path) -> None:
    (tmp_path / "ds_z3.json").write_text(json.dumps(AUTO))
    text = (
        "model_name_or_path: Qwen/Qwen2.5-7B\nstage: sft\nfinetuning_type: lora\nlora_rank: 16\ntemplate: qwen\n"
        "deepspeed: ds_z3.json\ngradient_accumulation_steps: 4\nbf16: true\nwarmup_ratio: 0.1\neval_strategy: 'no'\n"
        "resume_from_checkpoint: null\n"
    )
    found = of_file(tmp_path, text, "lora.yaml")
    expected = {
        "model_name": "Qwen/Qwen2.5-7B",
        "task": "sft",
        "lora": True,
        "lora_rank": 16,
        "gradient_accumulation_steps": 4,
        "dtype": "bf16",
        "warmup_steps": 1,
        "evaluate": False,
        "trainer": True,
        "zero_stage": 3,
    }
    assert {name: found[name].value for name in expected} == expected
    assert "resume" not in found
    assert found["trainer"].source == "lora.yaml: LLaMA-Factory's settings"


def merged_file(folder: Path, content: str) -> dict[str, Any]:
    (folder / "settings.yaml").write_text(content)
    return {name: fact.value for name, fact in merged_facts(facts_of_file("settings.yaml", folder))[0].items()}


@pytest.mark.parametrize(
    ("more", "facts"),
    [
        ("", {"gradient_checkpointing": "reentrant", "lora_modules_to_save": "", "from_config": False}),
        ("gradient_checkpointing: true\n", {"gradient_checkpointing": "reentrant"}),
        ("use_reentrant_gc: false\n", {"gradient_checkpointing": "non_reentrant"}),
        ("disable_gradient_checkpointing: true\n", {"gradient_checkpointing": "none"}),
        ("additional_target: embed_tokens,lm_head\n", {"lora_modules_to_save": "embed_tokens lm_head"}),
        ("resize_vocab: true\n", {"lora_modules_to_save": None}),
        ("train_from_scratch: true\n", {"from_config": True}),
    ],
)
def test_llamafactorys_defaults_hold_unless_its_settings_say_otherwise(
    tmp_path: Path, more: str, facts: dict[str, Any]
) -> None:
    (tmp_path / "ds.json").write_text(json.dumps(AUTO))
    text = "model_name_or_path: m\nstage: sft\nfinetuning_type: lora\ntemplate: qwen\ndeepspeed: ds.json\n"
    found = merged_file(tmp_path, text + more)
    assert {name: found.get(name) for name in facts} == facts
    line = facts_of_line("llamafactory-cli train settings.yaml use_reentrant_gc=false", tmp_path)[0]
    if "disable" not in more:
        assert merged_facts(line)[0]["gradient_checkpointing"].value == "non_reentrant"


def test_axolotl_without_an_adapter_trains_all_parameters(tmp_path: Path) -> None:
    found = merged_file(tmp_path, "base_model: m\nbf16: true\n")
    assert (found["lora"], found["lora_rank"], found["reuses_configuration"]) == (False, 0, False)
    (tmp_path / "settings.yaml").write_text("base_model: m\nadapter: lora\n")
    line = facts_of_line("axolotl train settings.yaml --base_model other", tmp_path)[0]
    assert merged_facts(line)[0]["lora"].value is True


@pytest.mark.parametrize(
    ("keys", "quantized"),
    [
        ("load_in_8bit: false\nload_in_4bit: true\n", True),
        ("load_in_8bit: false\nload_in_4bit: false\n", False),
        ("load_in_4bit: false\nadapter: qlora\n", True),
        ("quantization_bit: 4\n", True),
    ],
)
def test_any_key_quantizes(tmp_path: Path, keys: str, quantized: bool) -> None:
    (tmp_path / "s.yaml").write_text(f"base_model: m\n{keys}")
    found, conflicts = merged_facts(facts_of_file("s.yaml", tmp_path))
    assert (found["quantized"].value, conflicts) == (quantized, ())


def test_axolotls_settings(tmp_path: Path) -> None:
    text = (
        "base_model: NousResearch/Meta-Llama-3.1-8B\nadapter: qlora\nload_in_4bit: true\nlora_r: 32\nbf16: auto\n"
        "gradient_checkpointing: true\ngradient_checkpointing_kwargs:\n  use_reentrant: false\nevals_per_epoch: 4\n"
        "gradient_accumulation_steps: 8\nwarmup_steps: 10\n"
    )
    found = of_file(tmp_path, text, "qlora.yml")
    expected = {
        "lora": True,
        "quantized": True,
        "lora_rank": 32,
        "gradient_checkpointing": "non_reentrant",
        "evaluate": True,
        "warmup_steps": 10,
        "gradient_accumulation_steps": 8,
        "trainer": True,
    }
    assert {name: found[name].value for name in expected} == expected
    assert "dtype" not in found


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        (
            "accelerate launch --num_processes 8 --use_deepspeed --zero_stage 3 --mixed_precision bf16 train.py --use_peft",
            {"world_size": 8, "zero_stage": 3, "dtype": "bf16", "lora": True, "accelerate_launch": True},
        ),
        (
            "torchrun --nproc_per_node 8 --nnodes 4 train.py --bf16 --gradient_accumulation_steps=4",
            {"world_size": 32, "dtype": "bf16", "gradient_accumulation_steps": 4},
        ),
        ("trl dpo --model_name_or_path Qwen/Qwen2.5-7B --gradient-checkpointing",
            {
                "trainer": True,
                "task": "dpo",
                "model_name": "Qwen/Qwen2.5-7B",
                "gradient_checkpointing": OneOf(("reentrant", "non_reentrant")),
            },
        ),
        (
            """python train.py --gradient_checkpointing true --gradient_checkpointing_kwargs '{"use_reentrant": false}'""",
            {"gradient_checkpointing": "non_reentrant"},
        ),
        ("DS_ACCELERATOR=cpu deepspeed --num_gpus 2 train.py", {"device": "cpu", "world_size": 2}),
        ("torchrun train.py --use_peft false --resume_from_checkpoint last", {"lora": False, "resume": True}),
        ("torchrun train.py --fp16 False", {}),
    ],
)  # fmt: skip
def test_a_launch_line_states_facts(tmp_path: Path, line: str, facts: dict[str, Any]) -> None:
    found = stated(facts_of_line(line, tmp_path)[0])
    assert {name: found.get(name) for name in facts} == facts
    assert facts or found == {"deepspeed_option": False}


def test_a_launch_line_names_files_that_state_more(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(json.dumps(ZERO3))
    (tmp_path / "a.yaml").write_text(
        "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config: {zero_stage: 3}\n"
    )
    sources = {fact.name: fact.source for fact in facts_of_line("deepspeed train.py --deepspeed ds.json", tmp_path)[0]}
    assert sources["zero_stage"] == "ds.json: zero_optimization.stage"
    found = stated(facts_of_line("accelerate launch --config_file a.yaml train.py", tmp_path)[0])
    assert (found["zero_stage"], found["world_size"]) == (3, 8)


@pytest.mark.parametrize(
    "line", ["llamafactory-cli train x.yaml lora_rank=64", "axolotl train x.yaml", "trl sft --config x.yaml"]
)
def test_a_command_reads_its_settings_from_a_file(tmp_path: Path, line: str) -> None:
    (tmp_path / "x.yaml").write_text("gradient_accumulation_steps: 16\nbase_model: m\n")
    found = facts_of_line(line, tmp_path)[0]
    assert stated(found)["gradient_accumulation_steps"] == 16
    assert ("lora_rank" in stated(found)) == ("llamafactory" in line)


def test_openrlhf_writes_deepspeeds_configuration_by_its_options(tmp_path: Path) -> None:
    line = (
        "python3 -m openrlhf.cli.train_ppo_ray --actor_num_nodes 4 --actor_num_gpus_per_node 8 --zero_stage 3 --bf16 "
        "--pretrain meta-llama/Llama-3-70b --gradient_checkpointing --adam_offload --zpg 8"
    )
    found = stated(facts_of_line(line, tmp_path)[0])
    assert found == {
        "framework": "openrlhf",
        "deepspeed_option": False,
        "task": "ppo",
        "integration": "none",
        "scheduler": "none",
        "optimizer": "passed",
        "gradient_clipping": OneOf((0.0, 1.0)),
        "zero_stage": 3,
        "hpz_partition_size": 8,
        "offload_optimizer": True,
        "dtype": "bf16",
        "gradient_checkpointing": "non_reentrant",
        "zero_init": True,
        "model_name": "meta-llama/Llama-3-70b",
        "world_size": 32,
        "lora_rank": 0,
    }
    more = "deepspeed --module openrlhf.cli.train_sft --max_norm 0.5 --gradient_checkpointing "
    assert stated(facts_of_line(more + "--gradient_checkpointing_use_reentrant", tmp_path)[0]) == {
        "framework": "openrlhf",
        "deepspeed_option": False,
        "task": "sft",
        "integration": "none",
        "scheduler": "none",
        "optimizer": "passed",
        "gradient_clipping": 0.5,
        "gradient_checkpointing": "reentrant",
        "zero_stage": 2,
        "lora_rank": 0,
        "offload_optimizer": False,
        "hpz_partition_size": None,
    }


def test_openrlhf_s_later_options_are_in_groups(tmp_path: Path) -> None:
    line = (
        "python3 -m openrlhf.cli.train_ppo_ray --actor.num_nodes 1 --actor.num_gpus_per_node 8 --ds.zero_stage 3 "
        "--ds.param_dtype bf16 --actor.model_name_or_path meta-llama/Llama-3-8b --reward.model_name_or_path x/y "
        "--train.batch_size 128 --train.micro_batch_size 2 --ds.lora.rank 64 --ckpt.load_enable "
        "--actor.gradient_checkpointing_enable --ds.adam_offload"
    )
    read = facts_of_line(line, tmp_path)[0]
    found = stated(read)
    assert found["model_name"] == "meta-llama/Llama-3-8b"
    assert (found["zero_stage"], found["lora_rank"], found["world_size"], found["dtype"]) == (3, 64, 8, "bf16")
    assert (found["resume"], found["offload_optimizer"], found["gradient_checkpointing"]) == (
        True,
        True,
        "non_reentrant",
    )
    assert merged_facts(read)[0]["gradient_accumulation_steps"].value == 8
    assert next(one.source for one in read if one.name == "zero_stage") == "--program: --ds.zero_stage"
    assert "micro_batches_per_step" not in stated(facts_of_line(f"{line} --train.dynamic_batch_enable", tmp_path)[0])
    assert stated(facts_of_line("deepspeed --module openrlhf.cli.train_sft --ds.zpg 1", tmp_path)[0])["dtype"] == "bf16"


@pytest.mark.parametrize(
    ("line", "is_option", "trainer"),
    [
        ("torchrun run_clm.py --deepspeed ds.json --bf16", True, True),
        ("accelerate launch run_clm.py --deepspeed=ds.json", True, True),
        ("llamafactory-cli train --stage sft --model_name_or_path m --template q --deepspeed ds.json", True, True),
        ("deepspeed train.py --deepspeed --deepspeed_config ds.json", False, None),
        ("accelerate launch --config_file a.yaml grpo.py --bf16", False, None),
        ("llamafactory-cli train lf.yaml", False, True),
        ("axolotl train ax.yaml", False, True),
        ("swift sft --model m --deepspeed zero3", None, True),
        ("deepspeed own.py --deepspeed ds.json", True, False),
    ],
)
def test_a_file_after_the_option_of_deepspeed_is_for_a_trainer(
    tmp_path: Path, line: str, is_option: bool | None, trainer: bool | None
) -> None:
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 3}}')
    (tmp_path / "a.yaml").write_text(ACCELERATE)
    (tmp_path / "lf.yaml").write_text("model_name_or_path: m\ntemplate: q\ndeepspeed: ds.json\n")
    (tmp_path / "ax.yaml").write_text("base_model: m\ndeepspeed: ds.json\n")
    (tmp_path / "own.py").write_text("import deepspeed\ndeepspeed.initialize(model=m)\n")
    found = {name: fact.value for name, fact in merged_facts(facts_of_line(line, tmp_path)[0])[0].items()}
    assert (found.get("deepspeed_option"), found.get("trainer")) == (is_option, trainer)
    settings, _ = merged_facts(facts_of_file("ax.yaml", tmp_path))
    assert settings["deepspeed_option"].value is False


def test_automatic_values_are_filled_in_by_accelerate_or_transformers(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(json.dumps(AUTO))
    assert merged_facts(facts_of_file("ds.json", tmp_path))[0]["accelerate_launch"].value is True


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        (
            "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B --train_type full --deepspeed zero2 --torch_dtype bfloat16",
            {
                "world_size": 8,
                "zero_stage": 2,
                "offload_optimizer": False,
                "lora": False,
                "dtype": "bf16",
                "task": "sft",
                "trainer": True,
                "accelerate_launch": True,
                "model_name": "Qwen/Qwen2.5-7B",
                "gradient_checkpointing": "reentrant",
                "gradient_clipping": 1.0,
                "quantized_weights": False,
            },
        ),
        (
            "swift rlhf --rlhf_type grpo --deepspeed zero3_offload --max_grad_norm 0 --gradient_checkpointing false",
            {
                "zero_stage": 3,
                "offload_optimizer": True,
                "offload_param": True,
                "lora": True,
                "lora_modules_to_save": "",
                "task": "grpo",
                "overlap_comm": False,
                "gradient_clipping": 0,
                "gradient_checkpointing": "none",
            },
        ),
        ("swift rlhf --model m", {"task": "dpo", "zero_stage": None, "reduce_bucket_size": None}),
        ("swift sft --deepspeed default-zero3 --modules_to_save lm_head", {"lora_modules_to_save": "lm_head"}),
        ("swift pt --deepspeed ds.json --tuner_type lora --quant_bits 4", {"zero_stage": 1, "quantized": True}),
        ("torchrun --nproc_per_node 8 swift/cli/sft.py --deepspeed zero1", {"zero_stage": 1, "trainer": True}),
        ("python -m swift.cli.rlhf --rlhf_type kto --deepspeed zero0", {"zero_stage": 0, "task": None}),
        ("swift infer --model m", {"trainer": None, "lora": None}),
    ],
)  # fmt: skip
def test_ms_swifts_commands_state_facts(tmp_path: Path, line: str, facts: dict[str, Any]) -> None:
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 1}}')
    found, conflicts = merged_facts(facts_of_line(line, tmp_path)[0])
    assert {name: found[name].value if name in found else None for name in facts} == facts
    assert not conflicts


@pytest.mark.parametrize(
    "line",
    [
        "python3 -m verl.trainer.main_ppo actor_rollout_ref.actor.strategy=fsdp",
        "torchrun --nproc_per_node=8 -m torchtitan.train --job.config_file x.toml",
        "torchrun torchtitan/train.py",
        "nemo llm pretrain",
        "megatron sft --model m",
        "torchrun pretrain_gpt.py --tensor-model-parallel-size 8",
    ],
)
def test_frameworks_with_engines_of_their_own_use_no_deepspeed(tmp_path: Path, line: str) -> None:
    found, _ = merged_facts(facts_of_line(line, tmp_path)[0])
    assert [found[name].value for name in ("deepspeed", "trainer", "accelerate_launch")] == [False] * 3


def test_megatrons_fork_takes_deepspeed(tmp_path: Path) -> None:
    line = "deepspeed pretrain_gpt.py --tensor-model-parallel-size 8 --deepspeed --deepspeed_config /x/ds.json"
    assert "deepspeed" not in merged_facts(facts_of_line(line, tmp_path)[0])[0]


@pytest.mark.parametrize("name", ["a.yaml", "accelerate launch --use_megatron_lm train.py"])
def test_megatron_by_accelerate_is_neither_deepspeed_nor_fsdp(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.yaml").write_text("distributed_type: MEGATRON_LM\nnum_processes: 8\n")
    facts = facts_of_file(name, tmp_path) if name == "a.yaml" else facts_of_line(name, tmp_path)[0]
    assert (stated(facts)["deepspeed"], stated(facts)["fsdp"]) == (False, False)


def test_the_programs_source_names_its_trainer(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from trl import SFTTrainer\nSFTTrainer(model='m').train()\n")
    found = {fact.name: fact for fact in facts_of_line("torchrun train.py", tmp_path)[0]}
    assert found["trainer"] == Fact(name="trainer", value=True, source="train.py: SFTTrainer")
    assert found["task"].value == "sft"


def test_a_program_on_the_engine_has_no_trainer(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import deepspeed\nengine, *_ = deepspeed.initialize(model=m)\nsafe_get_full_grad(p)\n"
    )
    found = stated(facts_of_line("deepspeed train.py", tmp_path)[0])
    assert found == {"integration": "none", "safe_get_full_grad": True, "deepspeed_option": False}


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        (
            "ds.json",
            '{"zero_optimization": }',
            "ds.json: not valid JSON: Expecting value: line 1 column 23 (char 22); mend the file",
        ),
        ("a.yaml", "- 1\n- 2\n", "a.yaml: no settings in it; name a file of DeepSpeed, accelerate or a trainer"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path, name: str, content: str, error: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UsageError) as refused:
        facts_of_file(name, tmp_path)
    assert str(refused.value) == error


@pytest.mark.parametrize("value", [None, True, 3, -1, 1.5, 1e999, "", "auto", "x", [], [1], {}, {"enabled": []}])
@pytest.mark.parametrize(
    ("name", "keys"),
    [
        (
            "ds.json",
            ("scheduler", "gradient_clipping", "data_types", "checkpoint", "gradient_accumulation_steps", "optimizer"),
        ),
        ("ds.json", ("communication_data_type",)),
        ("a.yaml", ("deepspeed_config", "num_processes", "mixed_precision", "use_cpu")),
        ("t.yaml", ("finetuning_type", "stage", "rl", "lora_rank", "warmup_steps", "gradient_checkpointing", "bf16")),
    ],
)
def test_a_value_of_another_type_states_nothing_that_is_wrong(
    tmp_path: Path, name: str, keys: tuple[str, ...], value: Any
) -> None:
    first = {
        "ds.json": {"train_batch_size": 1},
        "a.yaml": {"distributed_type": "DEEPSPEED"},
        "t.yaml": {"base_model": "m"},
    }
    content = {**first[name], **dict.fromkeys(keys, value)}
    (tmp_path / name).write_text(json.dumps(content).replace("Infinity", '"1e999"'))
    facts, _ = merged_facts(facts_of_file(name, tmp_path))
    job = KnownJob(versions={"deepspeed": "0.18.9"}, facts={fact.name: fact.value for fact in facts.values()})
    assert match_advisories(read_advisories(), job)
    assert all(fact_text(fact) for fact in facts.values())


def test_aliases_of_yaml_are_read_once(tmp_path: Path) -> None:
    names = "abcdefghijklmnopqrstuvwxyz"
    lines = ["zero_optimization: &a {stage: 3}"]
    lines += [f"{new}{new}: &{new} {{x: *{old}, y: *{old}, z: *{old}}}" for old, new in itertools.pairwise(names)]
    (tmp_path / "ds.yaml").write_text("\n".join(lines))
    assert stated(facts_of_file("ds.yaml", tmp_path))["zero_stage"] == 3


def test_files_that_a_launch_line_names_and_that_are_elsewhere_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: gone.json}\n"
    )
    facts, absent = facts_of_line(
        "accelerate launch --config_file a.yaml train.py --config /mnt/x.yaml --bf16", tmp_path
    )
    assert (stated(facts)["dtype"], absent) == ("bf16", ("gone.json", "/mnt/x.yaml"))


def test_a_missing_file_is_named_with_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: gone.json}\n"
    )
    with pytest.raises(UsageError) as refused:
        facts_of_file("a.yaml", tmp_path)
    assert str(refused.value) == "a.yaml: cannot read gone.json: No such file or directory; name a readable file"


def test_a_file_with_comments_is_read_as_deepspeed_reads_it(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(
        """{
  "train_batch_size": 16, // of all ranks
  "scheduler": {"type": "WarmupLR"}, # constant after it
  /* partitions
     gradients too */
  "zero_optimization": {"stage": 2},
}
"""
    )
    found = {fact.name: fact.value for fact in facts_of_file("ds.json", tmp_path)}
    assert found["zero_stage"] == 2


def test_a_key_that_stands_twice_is_refused_as_deepspeed_does(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 2, "stage": 3}}')
    with pytest.raises(UsageError, match="ds.json: has stage twice, which DeepSpeed refuses; leave one of them out"):
        facts_of_file("ds.json", tmp_path)


@pytest.mark.parametrize(
    ("trainer", "task"), [("Trainer", "classification"), ("MyTrainer", None), ("SFTTrainer", None)]
)
def test_a_classifier_that_a_trainer_of_transformers_trains_is_a_classification(
    trainer: str, task: str | None, tmp_path: Path
) -> None:
    program = (
        f"from transformers import AutoModelForSequenceClassification, {trainer}\n"
        f"{trainer}(AutoModelForSequenceClassification.from_pretrained('x')).train()\n"
    )
    (tmp_path / "train.py").write_text(program)
    facts, _ = facts_of_line("python train.py", tmp_path)
    assert stated(facts).get("task") == task


def test_auto_is_a_fact_of_the_size_that_transformers_computes(tmp_path: Path) -> None:
    keys = {"stage": 3, "stage3_prefetch_bucket_size": "auto", "reduce_bucket_size": "auto"}
    (tmp_path / "ds.json").write_text(json.dumps({"zero_optimization": keys}))
    found = stated(facts_of_file("ds.json", tmp_path))
    assert found["prefetch_bucket_size"] == "auto"
    assert "reduce_bucket_size" not in found
