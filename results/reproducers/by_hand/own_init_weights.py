# pip install torch==2.13.0 transformers==5.12.0  # shows the fault: exit code 1
# pip install torch==2.13.0 transformers==5.15.1  # does not: exit code 0
# python own_init_weights.py
#
# A model class of one's own whose `_init_weights` writes `.data` is saved and loaded: are its weights the saved ones?
import sys
import tempfile

import torch
from transformers import PretrainedConfig, PreTrainedModel


class OwnConfig(PretrainedConfig):
    model_type = "own"


class OwnModel(PreTrainedModel):
    config_class = OwnConfig

    def __init__(self, config):
        super().__init__(config)
        self.layer = torch.nn.Linear(16, 16)
        self.post_init()

    def _init_weights(self, module):
        if isinstance(module, torch.nn.Linear):
            module.weight.data.normal_(0.0, 0.02)


model = OwnModel(OwnConfig())
model.layer.weight.data.fill_(0.5)
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    loaded = OwnModel.from_pretrained(folder)
is_same = torch.equal(loaded.layer.weight, model.layer.weight)
print("the weights that were saved are", "loaded" if is_same else "drawn anew")
sys.exit(0 if is_same else 1)
