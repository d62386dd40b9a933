"""The least there is to training by transformers' own Trainer, as `minimal_training` is for DeepSpeed's engine: everything
that can be left out is left out, so that a variant names all that it has.

`dsregress reproduce` sets the parameters of a finding on Trainer back to these one by one. What Trainer decides by
itself (the loop, the groups of parameters, how a configuration is completed) is no parameter.
"""

from dsregress.probe.factors import simplest_values
from dsregress.probe.scenario import Scenario

SCENARIO = Scenario(
    version=1,
    summary="Llama, transformers' Trainer, one rank, fp32, ZeRO-0: nothing configured that can be left out",
    framework="trainer",
    parameters={
        # In this order variants are named.
        "model": "llama-tiny", "sequence_length": 64, "micro_batch_size": 2, "world_size": 1, "dtype": "fp32",
        "objective": "fine_tuning", "frozen": "", "lora_rank": 0, "zero_stage": 0, "offload_optimizer": False,
        "gradient_checkpointing": "none", "gradient_clipping": 0.0, "weight_decay": 0.0, "decay_groups": True,
        **simplest_values("trainer"),
    },
    devices={"cpu": {}},
)  # fmt: skip
