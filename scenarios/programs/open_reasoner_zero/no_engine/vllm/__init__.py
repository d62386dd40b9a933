"""In the place of vLLM 0.7.2, which needs a GPU: an engine that answers at once and holds nothing.

An answer is as long as was allowed. Open-Reasoner-Zero puts its own worker in the place of `vllm.worker.worker.Worker`, which
is the one that is made here, so its sleep, its waking up and its reception of weights are the real code.
"""

from types import SimpleNamespace

import torch

import vllm.core.scheduler
import vllm.worker.worker

__version__ = "0.7.2"
__all__ = ["LLM", "SamplingParams"]


class SamplingParams:
    def __init__(self, n=1, max_tokens=16, **settings):
        self.n, self.max_tokens = n, max_tokens


class LLM:
    def __init__(self, model, dtype="bfloat16", enforce_eager=False, **settings):
        config = SimpleNamespace(dtype=getattr(torch, dtype), enforce_eager=enforce_eager, use_async_output_proc=False)
        executor = SimpleNamespace(
            driver_worker=vllm.worker.worker.Worker(config), stop_remote_worker_execution_loop=lambda: None
        )
        self.llm_engine = SimpleNamespace(
            model_config=config,
            scheduler_config=None,
            cache_config=None,
            lora_config=None,
            parallel_config=SimpleNamespace(pipeline_parallel_size=1),
            model_executor=executor,
        )

    def generate(self, prompts=None, sampling_params=None, prompt_token_ids=None, **settings):
        """Each word of an answer is a token at least, and the trainer cuts it to what was allowed."""
        text = " ".join(map(str, range(sampling_params.max_tokens)))
        answer = SimpleNamespace(text=text, finish_reason="length")
        asked = prompt_token_ids if prompts is None else prompts
        return [SimpleNamespace(outputs=[answer] * sampling_params.n, prompt_logprobs=None) for _ in asked]
