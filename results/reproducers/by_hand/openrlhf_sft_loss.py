# pip install openrlhf==0.10.3  # shows it: exit code 1
# pip install openrlhf==0.10.2  # does not: exit code 0
# torchrun --nproc-per-node 2 openrlhf_sft_loss.py
#
# SFTTrainer.fit of one step on two ranks, two micro-batches each, of 2, 6, 4 and 20 tokens: by what is a loss divided?
import sys
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from types import SimpleNamespace
from unittest.mock import MagicMock

import torch

for name in ("flash_attn", "flash_attn.bert_padding", "flash_attn.utils", "flash_attn.utils.distributed"):
    sys.modules[name] = MagicMock(__spec__=ModuleSpec(name, None))  # imported there, and built for GPUs alone: nothing of it runs
from openrlhf.trainer.sft_trainer import SFTTrainer

torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
losses = []


class Model(torch.nn.Linear):
    """Its tokens have a loss of 1 each in rank 0, and of 2 in rank 1."""

    def forward(self, inputs, **_):
        return torch.full((1, inputs.shape[1] - 1), -1.0 - rank), SimpleNamespace()


def micro_batch(tokens):
    mask = torch.ones(1, 1, tokens + 1)
    return mask.long(), mask, mask


strategy = MagicMock(args=MagicMock(), accumulated_gradient=2, ring_attn_group=None, ds_device_mesh=None)
strategy.is_rank_0.return_value = False
strategy.backward.side_effect = lambda loss, *_: losses.append(loss.item())
strategy.args.model.aux_loss_coef = 0
data = torch.utils.data.DataLoader([micro_batch(tokens) for tokens in ((2, 6), (4, 20))[rank]], batch_size=None)
trainer = SFTTrainer(Model(1, 1), strategy, None, data, None, MagicMock(), max_epochs=1)
trainer.save_logs_and_checkpoints = lambda *_: None
arguments = MagicMock()
arguments.train.batch_size = 4
trainer.fit(arguments, num_update_steps_per_epoch=1)
found = [None, None]
torch.distributed.all_gather_object(found, [round(one, 4) for one in losses])
if rank == 0:
    print(f"openrlhf {version('openrlhf')}: losses of the micro-batches of the two ranks {found}, their mean {sum(map(sum, found)) / 4:.4f}")
sys.exit(found != [[1, 1], [2, 2]])
