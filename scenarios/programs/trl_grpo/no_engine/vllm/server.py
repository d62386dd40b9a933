"""The requests that ``trl vllm-serve`` and ``vllm serve`` answer, answered in this process."""

import json
import os
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from vllm.completions import completion, prompt_ids

_LOGPROB = -1.0


def _generate(wanted):
    """As ``trl vllm-serve``: who asks for a number of log-probabilities, TRL from 0.29 on, gets a list for each token."""
    completions = [completion(wanted["max_tokens"]) for _ in wanted["prompts"] for _ in range(wanted["n"])]
    each = [_LOGPROB] if "logprobs" in wanted else _LOGPROB
    return {
        "prompt_ids": [prompt_ids(prompt, wanted.get("truncate_prompt_tokens")) for prompt in wanted["prompts"]],
        "completion_ids": completions,
        "logprobs": [[each] * len(ids) for ids in completions],
        "logprob_token_ids": [[[token] for token in ids] for ids in completions],
    }


def _complete(wanted):
    """As ``vllm serve``, by OpenAI's interface; the n completions of a prompt lie together."""
    return {
        "choices": [_choice(prompt, wanted["max_tokens"]) for prompt in wanted["prompt"] for _ in range(wanted["n"])]
    }


def _choice(prompt, tokens):
    ids = completion(tokens)
    names = [f"token_id:{token}" for token in ids]
    logprobs = {
        "tokens": names,
        "token_logprobs": [_LOGPROB] * len(ids),
        "top_logprobs": [{name: _LOGPROB} for name in names],
    }
    return {"prompt_token_ids": prompt_ids(prompt), "token_ids": ids, "logprobs": logprobs}


def _nothing(wanted):
    return {}


_ANSWERS = {
    "health": lambda wanted: {"status": "ok"},
    "get_world_size": lambda wanted: {"world_size": 1},
    "reset_prefix_cache": lambda wanted: {"success": True},
    # trl vllm-serve
    "init_communicator": _nothing,
    "update_named_param": _nothing,
    "close_communicator": _nothing,
    "generate": _generate,
    # vllm serve
    "v1/models": lambda wanted: {"data": [{"id": os.environ["SERVED_MODEL"]}]},
    "server_info": lambda wanted: {
        "vllm_config": {
            "weight_transfer_config": {"backend": "nccl"},
            "model_config": {"logprobs_mode": "processed_logprobs"},  # from TRL 1.16 on, as its server is to be started
        }
    },
    "init_weight_transfer_engine": _nothing,
    "start_weight_update": _nothing,
    "update_weights": _nothing,
    "finish_weight_update": _nothing,
    "v1/completions": _complete,
}


def answer():
    """Requests of these paths are answered from here on, and no others."""
    send = HTTPAdapter.send

    def answered(self, request, **options):
        path = urlsplit(request.path_url).path.strip("/")
        if path not in _ANSWERS:
            return send(self, request, **options)
        response = requests.Response()
        response.status_code, response.url, response.request = 200, request.url, request
        response._content = json.dumps(_ANSWERS[path](json.loads(request.body or "{}"))).encode()
        return response

    HTTPAdapter.send = answered
