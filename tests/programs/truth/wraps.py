"""What programs of these tests share: a layer, the ways in which they wrap their model, and faults that go between."""

from __future__ import annotations

MLP = """class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 40), nn.Linear(40, 16)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x)))
"""

#: A layer whose ``Attention`` the program has.
BLOCK = (
    MLP
    + """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.attention, self.after, self.mlp = nn.LayerNorm(16), Attention(), nn.LayerNorm(16), Mlp()
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.before(x)))
        return x + self.mlp(self.after(x))
"""
)

WRAPS = {
    "one process": "",
    "DDP": "model = nn.parallel.DistributedDataParallel(model)",
    "FSDP1": """
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
for i in range(2): model.layers[i] = FSDP(model.layers[i])
model = FSDP(model)""",
    "FSDP1 with its own parameters": """
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
for i in range(2): model.layers[i] = FSDP(model.layers[i], use_orig_params=True)
model = FSDP(model, use_orig_params=True)""",
    "FSDP2": """
from torch.distributed.fsdp import fully_shard
for layer in model.layers: fully_shard(layer)
fully_shard(model)""",
    "FSDP2 in bf16": """
from torch.distributed.fsdp import fully_shard, MixedPrecisionPolicy
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
for layer in model.layers: fully_shard(layer, mp_policy=policy)
fully_shard(model, mp_policy=policy)""",
}

#: Changes the gradients that each rank computes, before they are shared: ``change(name, gradient)``.
OF_DDP = """
held = []
for name, weight in model.named_parameters():
    node = weight.expand_as(weight).grad_fn.next_functions[0][0]
    node.register_prehook(lambda given, name=name.removeprefix("module."): (change(name, given[0]),))
    held.append(node)
"""
OF_FSDP2 = """
from torch.distributed.fsdp._fully_shard import _fsdp_param_group
reduce = _fsdp_param_group.foreach_reduce
def reduced(params, gradients, *more, **named):
    return reduce(params, [change(p._param_fqn, g) for p, g in zip(params, gradients)], *more, **named)
_fsdp_param_group.foreach_reduce = reduced
"""
