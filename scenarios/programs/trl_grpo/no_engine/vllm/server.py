"""The requests that ``trl vllm-serve`` answers, answered in this process."""

import json

import requests
from requests.adapters import HTTPAdapter

from vllm.completions import completion, prompt_ids


def _generate(wanted):
    completions = [completion(wanted["max_tokens"]) for _ in wanted["prompts"] for _ in range(wanted["n"])]
    return {
        "prompt_ids": [prompt_ids(text, wanted.get("truncate_prompt_tokens")) for text in wanted["prompts"]],
        "completion_ids": completions,
        "logprobs": [[-1.0] * len(ids) for ids in completions],
    }


_ANSWERS = {
    "health": lambda wanted: {"status": "ok"},
    "get_world_size": lambda wanted: {"world_size": 1},
    "init_communicator": lambda wanted: {},
    "update_named_param": lambda wanted: {},
    "reset_prefix_cache": lambda wanted: {},
    "close_communicator": lambda wanted: {},
    "generate": _generate,
}


def answer():
    """Requests of these paths are answered from here on, and no others."""
    send = HTTPAdapter.send

    def answered(self, request, **options):
        path = request.path_url.strip("/")
        if path not in _ANSWERS:
            return send(self, request, **options)
        response = requests.Response()
        response.status_code, response.url, response.request = 200, request.url, request
        response._content = json.dumps(_ANSWERS[path](json.loads(request.body or "{}"))).encode()
        return response

    HTTPAdapter.send = answered
