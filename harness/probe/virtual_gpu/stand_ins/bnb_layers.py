"""``bitsandbytes.nn``: classes that frameworks ask a module's type for. None can be made here."""

from __future__ import annotations

import torch

from harness.probe.virtual_gpu.stand_ins.refusing import refusing

__all__ = ["Int8Params", "Linear4bit", "Linear8bitLt", "Params4bit"]

_REMEDY = "load the model without load_in_4bit and load_in_8bit; bitsandbytes.optim has stand-ins"

Linear4bit = refusing("bitsandbytes.nn.Linear4bit", torch.nn.Linear, _REMEDY)
Linear8bitLt = refusing("bitsandbytes.nn.Linear8bitLt", torch.nn.Linear, _REMEDY)
Params4bit = refusing("bitsandbytes.nn.Params4bit", torch.nn.Parameter, _REMEDY)
Int8Params = refusing("bitsandbytes.nn.Int8Params", torch.nn.Parameter, _REMEDY)
