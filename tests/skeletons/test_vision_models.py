"""Skeletons of models that see have the published number of parameters. Needs transformers."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import transformers

from skeletons import make, parameters, vision_models

#: As keras-hub's presets count them. It has fewer rows for the words: 64 of 2560, and 64 of 2048; and DINOv2's positions
#: twice: 1370 of 768.
PUBLISHED = {
    "google/gemma-3-4b-it": 4_299_915_632 + 64 * 2560,
    "google/gemma-3-12b-it": 12_187_079_280 + 64 * 3840,
    "google/gemma-3-27b-it": 27_432_062_576 + 64 * 5376,
    "google/paligemma-3b-pt-224": 2_923_335_408 + 64 * 2048,
    "google/paligemma-3b-pt-448": 2_924_220_144 + 64 * 2048,
    "facebook/dinov2-base": 87_632_640 - 1370 * 768,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_model_that_sees_has_the_published_number_of_parameters(name: str) -> None:
    fields = vision_models.MODELS[name][0]
    if fields["model_type"] not in transformers.CONFIG_MAPPING:
        pytest.skip(f"transformers {transformers.__version__} has no {fields['model_type']}")
    model = parameters.build(make.loaded(dict(fields)), "meta")
    assert sum(parameter.numel() for parameter in model.parameters()) == PUBLISHED[name]
