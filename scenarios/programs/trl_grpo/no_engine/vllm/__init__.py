"""In the place of vLLM, which needs a GPU: an engine that answers at once.

What TRL's trainer does on its own side is the real code: it gathers the weights, merges the adapters, sends a request
per parameter or a stream of them, and waits for completions. Here end the requests of TRL's client (``server``): those of
``trl vllm-serve``, and from TRL 1.11 on those of ``vllm serve``; and the calls of ``LLM`` (``colocate``). The answer is as
long as was allowed, the longest that a step can meet: ``max_tokens`` tokens for each completion. A server holds nothing
here: its share of a card is what the scenario's ``gpu_memory_utilization`` takes off it. ``LLM`` holds its
``gpu_memory_utilization`` of the trainer's own card, weights and cache, as long as it is awake (``share``). The names of
several releases of vLLM are here, as each release of TRL imports those of its day.
"""

from vllm import server, share
from vllm.completions import completion, prompt_ids
from vllm.sampling_params import SamplingParams

__version__ = "0.31.0"
__all__ = ["LLM", "RequestOutput", "SamplingParams"]

server.answer()


class _Fields:
    def __init__(self, **fields):
        vars(self).update(fields)


class RequestOutput(_Fields):
    pass


class _Weights:
    def load_weights(self, weights):
        for _ in weights:
            pass


class LLM:
    def __init__(self, model, max_model_len=None, gpu_memory_utilization=0.9, **settings):
        self._share = share.Share(model, gpu_memory_utilization)
        runner = _Fields(model_runner=_Fields(model=_Weights()))
        self.llm_engine = _Fields(
            model_executor=_Fields(driver_worker=runner), model_config=_Fields(max_model_len=max_model_len)
        )

    def generate(self, prompts, sampling_params, use_tqdm=True):
        return [
            RequestOutput(
                prompt_token_ids=prompt_ids(prompt),
                outputs=[self._output(sampling_params.max_tokens) for _ in range(sampling_params.n)],
            )
            for prompt in prompts
        ]

    def _output(self, tokens):
        ids = completion(tokens)
        return _Fields(token_ids=ids, logprobs=[{token: _Fields(logprob=-1.0, rank=1)} for token in ids])

    def reset_prefix_cache(self):
        pass

    def collective_rpc(self, method, **settings):
        pass

    def sleep(self, level=1):
        self._share.sleep(level)

    def wake_up(self, tags=None):
        self._share.wake_up(tags)
