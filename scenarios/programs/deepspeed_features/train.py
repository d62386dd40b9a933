"""Trains a causal language model in a loop of its own, with one feature of DeepSpeed's besides ZeRO.

deepspeed --num_gpus 4 train.py --model Qwen/Qwen2.5-0.5B --feature mics

``mics`` splits parameters over groups of ``--group`` ranks and repeats them between groups, ``tensor_parallel`` splits each
layer over as many ranks, by ``deepspeed.tp_model_init``, and ``activations`` and ``cpu_activations`` checkpoint layers by
DeepSpeed's own function, in the latter case with what is kept on the host. ``--weights config`` builds the model from its
configuration alone.
"""

import argparse

import deepspeed
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.integrations import HfDeepSpeedConfig

LENGTH = 256


def settings(options):
    checkpointing = {"partition_activations": True, "cpu_checkpointing": options.feature == "cpu_activations"}
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": 1.0,
        options.dtype: {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "zero_optimization": {
            "stage": options.stage,
            "overlap_comm": False,
            **({"mics_shard_size": options.group} if options.feature == "mics" else {}),
        },
        **({"tensor_parallel": {"autotp_size": options.group}} if options.feature == "tensor_parallel" else {}),
        **({"activation_checkpointing": checkpointing} if options.feature.endswith("activations") else {}),
    }


def model(options, config):
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[options.dtype]
    # While this lives, transformers builds models under zero.Init in stage 3. MiCS splits a whole model itself.
    split_as_built = None if options.feature == "mics" else HfDeepSpeedConfig(config)
    if options.weights == "pretrained":
        built = AutoModelForCausalLM.from_pretrained(options.model, torch_dtype=dtype)
    else:
        built = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(options.model), torch_dtype=dtype)
    if options.feature == "tensor_parallel":
        built = deepspeed.tp_model_init(built, tp_size=options.group, dtype=dtype)
    return built, split_as_built


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="Qwen/Qwen2.5-0.5B")
    parser.add_argument(
        "--feature",
        default="none",
        choices=("none", "mics", "tensor_parallel", "activations", "cpu_activations"),
    )
    parser.add_argument("--weights", default="pretrained", choices=("pretrained", "config"))
    parser.add_argument("--group", type=int, default=2)
    parser.add_argument("--stage", type=int, default=3)
    parser.add_argument("--dtype", default="bf16", choices=("bf16", "fp16"))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--local_rank", type=int, default=0)
    options = parser.parse_args()

    deepspeed.init_distributed()
    config = settings(options)
    net, _split_as_built = model(options, config)
    if options.feature.endswith("activations"):
        deepspeed.checkpointing.configure(None, deepspeed_config=config)
        net.gradient_checkpointing_enable()
        for module in net.modules():
            if hasattr(module, "_gradient_checkpointing_func"):
                module._gradient_checkpointing_func = deepspeed.checkpointing.checkpoint
    engine, *_ = deepspeed.initialize(model=net, config=config)
    engine.train()
    rank = torch.distributed.get_rank()
    rows = rank // options.group if options.feature == "tensor_parallel" else rank
    generator = torch.Generator().manual_seed(rows)
    for _ in range(options.steps):
        ids = torch.randint(net.config.vocab_size, (1, LENGTH), generator=generator).to(engine.device)
        loss = engine(input_ids=ids, labels=ids, use_cache=False).loss
        engine.backward(loss)
        engine.step()


if __name__ == "__main__":
    main()
