"""Skeletons of derived models have the published number of parameters. Needs transformers."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from skeletons import derived_models, make, more_models, parameters

#: As huggingface.co counts those of each repository's checkpoint.
PUBLISHED = {
    "Qwen/Qwen1.5-0.5B": 463_987_712,
    "Qwen/Qwen1.5-1.8B": 1_836_828_672,
    "Qwen/Qwen1.5-7B": 7_721_324_544,
    "Qwen/Qwen1.5-14B": 14_167_290_880,
    "Qwen/Qwen1.5-32B": 32_512_218_112,
    "Qwen/Qwen2-72B": 72_706_203_648,
    "deepseek-ai/deepseek-coder-1.3b-base": 1_346_471_936,
    "deepseek-ai/deepseek-coder-6.7b-instruct": 6_740_512_768,
    "deepseek-ai/deepseek-coder-33b-instruct": 33_342_991_360,
    "huggyllama/llama-13b": 13_015_864_320,
    "huggyllama/llama-30b": 32_528_943_616,
    "huggyllama/llama-65b": 65_285_660_672,
    "openlm-research/open_llama_3b": 3_426_473_600,
    "codellama/CodeLlama-7b-hf": 6_738_546_688,
    "codellama/CodeLlama-34b-hf": 33_743_970_304,
    "mistralai/Mixtral-8x22B-Instruct-v0.1": 140_630_071_296,
    "microsoft/phi-4": 14_659_507_200,
    "databricks/dolly-v2-3b": 2_775_086_080,
    "bigcode/starcoderbase-1b": 1_137_207_296,
    "bigcode/starcoder": 15_517_456_384,
    "BAAI/bge-base-en-v1.5": 109_482_240,
    "BAAI/bge-large-en-v1.5": 335_141_888,
    "BAAI/bge-m3": 567_754_752,
    "answerdotai/ModernBERT-base": 149_655_232,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_derived_model_has_the_published_number_of_parameters(name: str) -> None:
    model = parameters.build(make.loaded(dict(derived_models.MODELS[name][0])), "meta")
    assert sum(parameter.numel() for parameter in model.parameters()) == PUBLISHED[name]


@pytest.mark.parametrize("size", ["7b", "13b", "30b", "65b"])
def test_the_first_llama_pads_with_its_unknown_token(size: str) -> None:
    """As scripts of its time rely on (``convert_ids_to_tokens(model.config.pad_token_id)``)."""
    tables = {**more_models.MODELS, **derived_models.MODELS}
    assert tables[f"huggyllama/llama-{size}"][0]["pad_token_id"] == 0
