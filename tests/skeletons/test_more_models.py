"""Skeletons of known models have the published number of parameters. Needs transformers."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from skeletons import make, more_models, parameters

#: As huggingface.co counts those of each repository's checkpoint.
PUBLISHED = {
    "google-t5/t5-small": 60_506_624,
    "google-t5/t5-base": 222_903_552,
    "google/flan-t5-base": 247_577_856,
    "google/flan-t5-xl": 2_849_757_184,
    "facebook/bart-base": 139_420_416,
    "facebook/bart-large-cnn": 406_290_432,
    "bigscience/bloom-560m": 559_214_592,
    "google/gemma-2b": 2_506_172_416,
    "google/gemma-2-2b": 2_614_341_888,
    "google/gemma-3-270m": 268_098_176,
    "google/gemma-3-1b-pt": 999_885_952,
    "microsoft/phi-2": 2_779_683_840,
    "microsoft/Phi-3-mini-4k-instruct": 3_821_079_552,
    "bigcode/starcoder2-3b": 3_030_371_328,
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": 1_100_048_384,
    "mistralai/Mistral-7B-v0.3": 7_248_023_552,
    "01-ai/Yi-6B": 6_061_035_520,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": 1_777_088_000,
    "Qwen/Qwen2-VL-2B-Instruct": 2_208_985_600,
    "Qwen/Qwen2-VL-7B-Instruct": 8_291_375_616,
    "Qwen/Qwen2.5-VL-3B-Instruct": 3_754_622_976,
    "Qwen/Qwen2.5-VL-7B-Instruct": 8_292_166_656,
    "google/vit-base-patch16-224": 86_567_656,
    "microsoft/resnet-50": 25_557_032,
    "openai/whisper-tiny": 37_760_640,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_known_model_has_the_published_number_of_parameters(name: str) -> None:
    model = parameters.build(make.loaded(dict(more_models.MODELS[name][0])), "meta")
    assert sum(parameter.numel() for parameter in model.parameters()) == PUBLISHED[name]
