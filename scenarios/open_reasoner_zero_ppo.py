"""Open-Reasoner-Zero#24, by Open-Reasoner-Zero's own code: PPO of Qwen2.5-1.5B with everything on the same 4 A100-80G.

Each role has a process of its own on every GPU, and they take turns: a cell is one of them, ``part`` says whose, and what it
has on the card after each turn is among its readings. The reference trains nothing: it takes ``inference=true`` as well. The
trainer itself, with all roles at once, is `open_reasoner_zero_train`.

Generation is vLLM's, which is not run: add its share for the turns in which it is awake. ``gpu_memory_utilization`` is the
share of an engine that does not sleep, so that it is off the card in every turn. Not known in public, and chosen: samples of
1024 + 1024 tokens ("about 1k"), two for each rank and step.

Open-Reasoner-Zero is in no package index, and pip installs none of its subpackages from git: clone it into
``programs/open_reasoner_zero`` (seen with 3fdd9a0). It imports names that newer releases of its requirements lack:
``_shutdown_backend`` of torch 2.13, ``PlacementGroupSchedulingStrategy`` of Ray 2.60. So say ``--with torch=2.5.1``,
which is the advised one, and ``--with transformers=4.48.1``, its container's.
"""

from dsregress.probe.program import program
from dsregress.probe.scenario import one_by_one
from scenarios._open_reasoner_zero import FOLDER, PACKAGES

SCENARIO = program(
    version=1,
    summary="Open-Reasoner-Zero's PPO: Qwen2.5-1.5B, policy and critic in turns on the same 4 GPUs, ZeRO-3",
    folder=FOLDER,
    line="torchrun role.py --orz {checkout} --role {part} --prompt {prompt} --answer {answer}"
    " adam_offload={offload_optimizer} disable_trace_cache={no_lookahead}"
    " gradient_checkpointing_use_reentrant={reentrant} gradient_checkpointing={gradient_checkpointing}",
    ranks=4,
    steps=2,
    values={
        "checkout": "Open-Reasoner-Zero", "part": "policy", "prompt": 1024, "answer": 1024, "offload_optimizer": False,
        "no_lookahead": False, "reentrant": False, "gradient_checkpointing": True, "gpu_memory_utilization": 0.0,
    },
    gpu="A100-80G",
    inference=False,
    packages=PACKAGES,
    devices={"sim": {}, "cpu": {"tiny": True, "world_size": 2, "prompt": 24, "answer": 24, "warmup_steps": 1}},
    variants=(
        {},
        *one_by_one(part=("critic",), no_lookahead=(True,), reentrant=(True,), offload_optimizer=(True,)),
        {"part": "critic", "no_lookahead": True},
        {"part": "reference", "inference": True},
        *one_by_one(gpu_memory_utilization=(0.5, 0.7)),
    ),
    remedies={
        "no fetching ahead": {"no_lookahead": True},
        "offload the optimizer": {"offload_optimizer": True},
        "reentrant checkpointing": {"reentrant": True},
        "serve on other GPUs": {"gpu_memory_utilization": 0.0},
    },
    pins={"pin DeepSpeed 0.15.4": {"deepspeed": "0.15.4"}},
)  # fmt: skip
