from types import SimpleNamespace

import torch


class _Model(torch.nn.Module):
    """Without weights. What is loaded is a copy of one, which is let go."""

    def load_weights(self, weights):
        pass


class Worker:
    def __init__(self, model_config):
        self.model_config = model_config
        self.model_runner = SimpleNamespace(model=_Model())
        self._init_cache_engine()

    def _init_cache_engine(self):
        self.cache_engine = self.gpu_cache = ()
