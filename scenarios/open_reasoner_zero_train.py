"""Open-Reasoner-Zero#24, by its own trainer: `playground/orz_1p5b_ppo.py` under ``colocate_all``, all roles in turns.

Its `RayPPOTrainer`, actors, strategy, packing, replay buffers and the worker that sleeps are the real code, in the order of
its own `train`. `programs/openrlhf_ray/no_cluster` is there in place of Ray, which would start a process for each role on
every GPU, and `programs/open_reasoner_zero/no_engine` in place of vLLM: each rank is the driver and the actors of its own
rank, so figures are the sum of policy, critic and reference, and the contexts of four processes come to it. What is on the
card after each turn is among the readings. `open_reasoner_zero_ppo` has each role in a process of its own, and says what of
the report is not known, how to get Open-Reasoner-Zero, and what ``gpu_memory_utilization`` is.

``more`` are further settings of its configuration: ``exp.critic_pretrain=`` is training without a critic.
"""

from dsregress.probe.program import program
from dsregress.probe.scenario import one_by_one
from scenarios._open_reasoner_zero import FOLDER, PACKAGES

SCENARIO = program(
    version=1,
    summary="Open-Reasoner-Zero's own trainer: policy, critic and reference of Qwen2.5-1.5B in turns on 4 GPUs, ZeRO-3",
    folder=FOLDER,
    line="PYTHONPATH=no_engine:../openrlhf_ray/no_cluster torchrun train.py --orz {checkout} --prompt {prompt} --answer"
    " {answer} exp.adam_offload={offload_optimizer} exp.disable_trace_cache={no_lookahead}"
    " exp.gradient_checkpointing_use_reentrant={reentrant} exp.gradient_checkpointing={gradient_checkpointing} {more}",
    ranks=4,
    steps=2,  # the first time that a role trains it holds less than from then on
    values={
        "checkout": "Open-Reasoner-Zero", "prompt": 1024, "answer": 1024, "offload_optimizer": False,
        "no_lookahead": False, "reentrant": False, "gradient_checkpointing": True, "more": "",
        "gpu_memory_utilization": 0.0,
    },
    gpu="A100-80G",
    packages=PACKAGES,
    devices={"sim": {}, "cpu": {"tiny": True, "world_size": 2, "prompt": 24, "answer": 24, "warmup_steps": 1}},
    variants=(
        {},
        *one_by_one(no_lookahead=(True,), reentrant=(True,), gpu_memory_utilization=(0.5, 0.7)),
    ),
    remedies={
        "no fetching ahead": {"no_lookahead": True},
        "reentrant checkpointing": {"reentrant": True},
        "serve on other GPUs": {"gpu_memory_utilization": 0.0},
    },
    pins={"pin DeepSpeed 0.15.4": {"deepspeed": "0.15.4"}},
)  # fmt: skip
