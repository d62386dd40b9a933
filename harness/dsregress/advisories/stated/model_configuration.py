"""Facts of the model that a job names: by its configuration on the hub, as far as `skeletons` knows it, or in its folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from dsregress.advisories.job_facts import Fact, values_of
from dsregress.advisories.stated.documents import Document, read_document
from dsregress.errors import UsageError
from skeletons.hub_names import known_model_name
from skeletons.known_models import known_models


def facts_of_models(facts: Iterable[Fact], folder: Path) -> Iterator[Fact]:
    """Yield what follows from the models that facts name, of which a run or the reader may say otherwise."""
    for fact in facts:
        if fact.name == "model_name":
            for name in values_of(fact.value):
                yield from facts_of_configuration(Document(_configuration(str(name), folder), f"{name}: config.json"))


def facts_of_configuration(document: Document) -> Iterator[Fact]:
    """Yield the facts that the fields of a model's configuration state, as transformers has them."""
    if isinstance(kind := document.get("model_type"), str):
        yield document.usual("model_type", kind, "model_type")
    if isinstance(tied := document.get("tie_word_embeddings"), bool):
        yield document.usual("tied_embeddings", tied, "tie_word_embeddings")


def _configuration(name: str, folder: Path) -> Mapping[str, object]:
    """Return the configuration of a model by its name, or in its folder; empty if neither is known."""
    if (known := known_model_name(name)) is not None:
        return known_models()[known].config
    try:
        return read_document("config.json", folder / name).values
    except UsageError:  # of another machine, or not known here
        return {}
