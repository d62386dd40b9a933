"""PPO of Qwen2.5-1.5B with all roles resident on the same 4 A100-80G, after Open-Reasoner-Zero#24, which is another program.

Here policy, critic, reference and reward model are in one process, and a vLLM engine per GPU that never sleeps keeps its
share (``gpu_memory_utilization``), which `fit` takes off the card. In the report each role has a process, they take turns
while the engine sleeps, and it fails while loading: `open_reasoner_zero_ppo` is that job, by Open-Reasoner-Zero's own code.
The advised stack was CUDA 12.4, torch 2.5.1, DeepSpeed 0.16.3, vLLM 0.7.2; its container image pins DeepSpeed 0.16.0 with
two files from before the regression, a plain pip install does not.

The DeepSpeed dictionary is OpenRLHF's, with gradients accumulated in fp32. ``roles`` can be shortened, so that what each
model takes is the difference of two cells: what a missing one would have said is drawn from a seed.

Not known in public, and chosen: samples of 1024 + 1024 tokens ("about 1k"), two micro-batches to a step (its rollout
batch of 2), a KL coefficient of 0, Open-Reasoner-Zero's default, at which the reference is computed all the same.
"""

from dsregress.probe.scenario import Scenario, one_by_one

_NO_LOOKAHEAD = {"prefetch_bucket_size": 0, "max_live_parameters": 0, "max_reuse_distance": 0}

SCENARIO = Scenario(
    version=1,
    summary="Open-Reasoner-Zero, PPO: Qwen2.5-1.5B, policy, critic, reference, reward and vLLM on the same 4 GPUs, ZeRO-3",
    framework="deepspeed_jobs",
    parameters={
        "model": "qwen2.5-1.5b", "job": "actor_critic", "roles": "policy+critic+reference+reward",
        "kl_coefficient": 0.0, "gpu_memory_utilization": 0.7, "gpu": "A100-80G", "world_size": 4, "dtype": "bf16",
        "prompt_length": 1024, "sequence_length": 2048, "samples_per_prompt": 4, "packed": True, "micro_batch_size": 1,
        "gradient_accumulation_steps": 2, "attention": "sdpa", "gradient_checkpointing": "non_reentrant",
        "gradient_clipping": 1.0,
        "integration": "none", "zero_stage": 3, "zero_init": True, "offload_optimizer": False, "offload_param": False,
        "frozen_offload_param": False, "hpz_partition_size": 1, "gradient_accumulation_dtype": "fp32",
        "sub_group_size": "auto", "max_live_parameters": "auto", "max_reuse_distance": "auto",
        "persistence_threshold": "auto", "prefetch_bucket_size": "auto", "reduce_bucket_size": "auto",
        "expandable_segments": False,
    },
    devices={
        "sim": {},
        "cpu": {"model": "qwen2-tiny", "world_size": 2, "prompt_length": 24, "sequence_length": 48,
                "reduce_bucket_size": 40_000,
                "kl_coefficient": 0.1, "persistence_threshold": 0, "max_live_parameters": 30_000,
                "max_reuse_distance": 30_000},
        "cuda": {},
    },
    variants=(
        {},
        *one_by_one(
            gpu_memory_utilization=(0.5, 0.0),
            roles=("policy", "policy+critic", "policy+critic+reference"),
            gradient_checkpointing=("reentrant", "none"),
            frozen_offload_param=(True,),
            offload_optimizer=(True,),
            zero_stage=(2,),
        ),
        _NO_LOOKAHEAD,
    ),
    remedies={
        "gpu_memory_utilization 0.5": {"gpu_memory_utilization": 0.5},
        "serve on other GPUs": {"gpu_memory_utilization": 0.0},
        "no fetching ahead": _NO_LOOKAHEAD,
        "offload the optimizer": {"offload_optimizer": True},
        "frozen models on the host": {"frozen_offload_param": True},
        "reentrant checkpointing": {"gradient_checkpointing": "reentrant"},
        "expandable segments": {"expandable_segments": True},
    },
    pins={"pin DeepSpeed 0.15.4": {"deepspeed": "0.15.4"}},
)  # fmt: skip
