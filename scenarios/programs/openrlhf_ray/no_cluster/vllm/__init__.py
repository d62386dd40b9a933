"""In the place of vLLM, which needs a GPU: an engine that answers at once and holds nothing.

An answer is as long as was allowed. What the trainer does for an engine is the real code: whole weights are gathered one
after another, and sent from the first rank.
"""

import random
from importlib.metadata import requires

from packaging.requirements import Requirement

from vllm.sampling_params import SamplingParams


def _pinned():
    """The release that the installed OpenRLHF asks for. Some compare it as text, for which 0.19.0 comes before 0.8.1."""
    wanted = [Requirement(line) for line in requires("openrlhf") or ()]
    return next(
        (one.version for each in wanted if each.name == "vllm" for one in each.specifier if one.operator == "=="),
        "0.19.0",
    )


__version__ = _pinned()
__all__ = ["LLM", "AsyncEngineArgs", "AsyncLLMEngine", "SamplingParams"]

_TOKENS = range(100, 400)  # of a few letters each, in any vocabulary, also a shrunk one


class _Fields:
    def __init__(self, **fields):
        vars(self).update(fields)


def _answer(prompt, wanted):
    prompt_ids = prompt["prompt_token_ids"]
    outputs = []
    for _ in range(wanted.n):
        ids = random.choices(_TOKENS, k=wanted.max_tokens)
        logprobs = [{token: _Fields(logprob=-1.0)} for token in ids] if wanted.logprobs is not None else None
        outputs.append(_Fields(token_ids=ids, text="", finish_reason="length", logprobs=logprobs))
    return _Fields(prompt_token_ids=prompt_ids, outputs=outputs)


class LLM:
    def __init__(self, *args, **settings):
        pass

    def generate(self, prompts=None, sampling_params=None, prompt_token_ids=None, **settings):
        wanted = prompts if prompts is not None else [{"prompt_token_ids": ids} for ids in prompt_token_ids]
        many = sampling_params if isinstance(sampling_params, list) else [sampling_params] * len(wanted)
        return [_answer(prompt, params) for prompt, params in zip(wanted, many)]

    def __getattr__(self, name):
        return lambda *args, **settings: None


class AsyncEngineArgs:
    def __init__(self, *args, **settings):
        pass


class AsyncLLMEngine:
    def __init__(self):
        self.output_processor = _Fields(get_num_unfinished_requests=lambda: 0)

    @classmethod
    def from_engine_args(cls, engine_args, **settings):
        return cls()

    async def generate(self, prompt, sampling_params, request_id=None, **settings):
        yield _answer(prompt, sampling_params)

    def __getattr__(self, name):
        async def answered(*args, **settings):
            return None

        return answered
