"""Skeletons of encoders have the published number of parameters. Needs transformers."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import transformers

from skeletons import encoders, make

#: As keras-hub's presets count them, which have a pooling layer for BERT and no head.
PUBLISHED = {
    "prajjwal1/bert-tiny": 4_385_920,
    "prajjwal1/bert-small": 28_763_648,
    "prajjwal1/bert-medium": 41_373_184,
    "distilbert-base-multilingual-cased": 134_734_080,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_an_encoder_has_the_published_number_of_parameters(name: str) -> None:
    config = make.loaded(dict(encoders.MODELS[name][0]))
    model = transformers.AutoModel.from_config(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == PUBLISHED[name]
