"""The least there is to training: everything that can be left out is left out, so that a variant names all that it has.
The parameters are the factors (`dsregress.probe.factors`), with their simplest values.

`dsregress reproduce` sets a finding's parameters back to these one by one, to learn which of them it needs. Where it
asks about memory, work or a crash, plain PyTorch's training is left out (``judged``), which is half of a cell's time.
Clipping is off, and nothing completes the configuration. Buckets, and the window of live parameters in stage 3, are as
small against the tiny model as DeepSpeed's defaults are against a large one.
"""

from dsregress.probe.factors import simplest_values
from dsregress.probe.scenario import Scenario

SCENARIO = Scenario(
    version=1,
    summary="Llama, one rank, fp32, ZeRO-0: nothing configured that can be left out",
    framework="deepspeed",
    parameters={
        "model": "llama-tiny", "sequence_length": 64, "micro_batch_size": 2, **simplest_values("deepspeed"), "judged": True,
    },
    devices={"cpu": {}},
    variants=(
        {},
        # What other scenarios leave out so that the rest of a job can be measured, as users have it: an empty parameter
        # group with a schedule of torch's, and adapters in peft's default dtype beside weights in half precision.
        {"lora_rank": 8, "zero_stage": 2, "decay_groups": True, "empty_groups": True, "learning_rate_decay": 0.5},
        {"lora_rank": 8, "zero_stage": 3, "dtype": "bf16", "lora_autocast": True},
        {"lora_rank": 8, "zero_stage": 3, "dtype": "bf16", "lora_autocast": True, "zero_init": True},
    ),
)  # fmt: skip
