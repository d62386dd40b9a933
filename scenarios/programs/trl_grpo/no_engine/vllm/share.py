"""What an engine holds of a card: vLLM fills its share of it with the weights and, in all that is left, a cache."""

import json
import os

import torch
from transformers.utils.hub import cached_file

_WEIGHTS, _CACHE, _ON_HOST = "weights", "kv_cache", "weights on the host"


class Share:
    """Awake from the start, with all of its share. On CPU ranks it holds nothing, because there is no card to fill."""

    def __init__(self, model, utilization):
        whole = int(utilization * torch.cuda.get_device_properties(0).total_memory)
        weights = _weights_bytes(model)
        self._sizes = {_WEIGHTS: weights, _CACHE: max(whole - weights, 0)}
        self._held = {}
        self.wake_up()

    def wake_up(self, tags=None):
        """Of vLLM's two tags, or of both."""
        for tag in tags or (_WEIGHTS, _CACHE):
            if tag not in self._held:
                self._held[tag] = _bytes(self._sizes[tag], "cuda")
        if _WEIGHTS in self._held:
            self._held.pop(_ON_HOST, None)

    def sleep(self, level):
        """At level 1 the weights go to the host, at level 2 they are dropped."""
        self._held = {_ON_HOST: _bytes(self._sizes[_WEIGHTS], "cpu")} if level == 1 else {}


def _weights_bytes(model):
    """Of one file, or as the index of several says."""
    index = cached_file(model, "model.safetensors.index.json", _raise_exceptions_for_missing_entries=False)
    if index is None:
        return os.path.getsize(cached_file(model, "model.safetensors"))
    with open(index) as opened:
        return json.load(opened)["metadata"]["total_size"]


def _bytes(number, device):
    on_card = torch.empty(0, device="cuda").is_cuda
    return torch.empty(number if on_card else 0, dtype=torch.uint8, device=device)
