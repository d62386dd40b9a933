"""Skeletons of further decoders have the published number of parameters. Needs transformers."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import transformers

from skeletons import decoders, make, parameters

#: As keras-hub's presets count them, or half the ``total_size`` of the published index.
PUBLISHED = {
    "mistralai/Mistral-Small-24B-Instruct-2501": 23_572_403_200,
    "microsoft/Phi-3-mini-128k-instruct": 3_821_079_552,
    "microsoft/Phi-4-mini-instruct": 3_836_021_760,
    "HuggingFaceTB/SmolLM3-3B": 3_075_100_928 - 36 * 64,  # keras counts the rotations of each layer as well
    "lmsys/gpt-oss-20b-bf16": 20_914_757_184,
}

#: In billions, as the cards and papers have it.
ROUNDED = {
    "allenai/OLMo-2-1124-7B": 7.3,
    "allenai/OLMo-2-1124-13B": 13.7,
    "allenai/OLMo-1B-hf": 1.2,
    "allenai/OLMo-7B-hf": 6.9,
    "allenai/OLMoE-1B-7B-0924": 6.9,
    "mistralai/Mistral-Nemo-Base-2407": 12.2,
    "teknium/OpenHermes-2.5-Mistral-7B": 7.2,
    "Qwen/Qwen1.5-MoE-A2.7B": 14.3,
    "deepseek-ai/DeepSeek-V2-Lite": 15.7,
    "ibm-granite/granite-3.3-2b-instruct": 2.5,
    "THUDM/glm-4-9b-hf": 9.4,
    "togethercomputer/RedPajama-INCITE-Base-3B-v1": 2.8,
    "state-spaces/mamba-130m-hf": 0.13,
}


def counted(name: str) -> int:
    fields = decoders.MODELS[name][0]
    if fields["model_type"] not in transformers.CONFIG_MAPPING:
        pytest.skip(f"transformers {transformers.__version__} has no {fields['model_type']}")
    model = parameters.build(make.loaded(dict(fields)), "meta")
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_decoder_has_the_published_number_of_parameters(name: str) -> None:
    assert counted(name) == PUBLISHED[name]


@pytest.mark.parametrize("name", ROUNDED)
def test_a_decoder_is_as_large_as_its_card_says(name: str) -> None:
    digits = len(str(ROUNDED[name]).partition(".")[2])
    assert round(counted(name) / 1e9, digits) == ROUNDED[name]
