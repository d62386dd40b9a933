# pip install torch==2.13.0 transformers==4.57.6 deepspeed==0.16.5  # shows the fault: exit code 1
# pip install torch==2.13.0 transformers==4.57.6 deepspeed==0.16.4  # does not: exit code 0
# torchrun --nproc-per-node 1 stage0_peak.py
import gc
import os
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
CONFIG = {
    "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": True}, "gradient_clipping": 0.0,
    "zero_optimization": {"stage": 0},
}
SHAPE = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512, "tie_word_embeddings": False,
    "max_position_embeddings": 2048, "rope_theta": 10000.0, "use_cache": False,
}


class Counted(torch.utils._python_dispatch.TorchDispatchMode):
    storages = set()
    peak_bytes = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        tensors = [t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
        self.storages |= {torch.multiprocessing.reductions.StorageWeakRef(t.untyped_storage()) for t in tensors}
        self.peak_bytes = max(self.peak_bytes, self.live_bytes())
        return result

    def live_bytes(self):
        self.storages = {ref for ref in self.storages if not ref.expired()}
        return sum(torch.UntypedStorage._new_with_weak_ptr(ref.cdata).nbytes() for ref in self.storages)


counted = Counted().__enter__()
model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**SHAPE))
model.register_forward_hook(lambda module, inputs, output: output.loss)
engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=0.001), config=CONFIG)
for step in range(2):
    ids = torch.randint(512, (2, 64))
    loss = engine(input_ids=ids, labels=ids)
    gc.collect()
    counted.peak_bytes = counted.live_bytes()
    engine.backward(loss)
    measured = counted.peak_bytes
    engine.step()
print(f"{measured:,} bytes at the peak of backward, deepspeed 0.16.4 6,950,752, ratio {measured / 6950752:.3f}")
sys.exit(measured > 7201184)  # nearer to deepspeed 0.16.5, 7,451,616
