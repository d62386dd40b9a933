"""Facts that a run of the job shows: what was in force, with the defaults of its own releases."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from dsregress.advisories.job_facts import NO_VALUE, Fact
from dsregress.advisories.stated.deepspeed_json import facts_of_deepspeed
from dsregress.advisories.stated.documents import Document
from dsregress.advisories.stated.engine_settings import facts_of_engine
from dsregress.advisories.stated.model_configuration import facts_of_configuration
from dsregress.advisories.stated.trainer_options import facts_of_trainer
from dsregress.probe.border.wire import Detail, RunRecord

#: The name of the run in sources.
RUN = "--observe"

_TRAINER = "trainer"

#: A key that every engine of DeepSpeed's has in its `Detail.configuration`, and no optimizer.
_OF_ENGINE = "engine.optimizer"

#: Facts of DeepSpeed's configuration, which a job without an engine has not.
_OF_DEEPSPEED = ("zero_stage", "scheduler", "hpz_partition_size")


def facts_of_run(trained: Collection[str], detail: Detail) -> Iterator[Fact]:
    """Yield the facts that a run that passed shows. ``trained`` are the names of its trained tensors, none if they are not
    known."""
    if detail.deepspeed_config:
        yield from facts_of_deepspeed(Document(_nested(detail.deepspeed_config), RUN))
    elif _OF_ENGINE in detail.configuration:
        yield from facts_of_engine(detail.configuration, RUN)
    else:
        for name in _OF_DEEPSPEED:
            yield Fact(name=name, value=NO_VALUE, source=f"{RUN}: no engine of DeepSpeed's")
    configuration = _nested(detail.configuration)
    settings = configuration.get(_TRAINER)
    if isinstance(settings, dict):
        yield Fact(name="trainer", value=True, source=f"{RUN}: a Trainer runs it")
        yield from facts_of_trainer(Document(settings, RUN))
    if isinstance(model := configuration.get("model"), dict):
        yield from facts_of_configuration(Document(model, RUN, "model."))
    yield from _adapters(trained)


def trained_tensors(record: RunRecord) -> set[str]:
    """Return the names of the tensors that the first rank of a run trained."""
    first = next(iter(record.ranks), None)
    if first is None:
        return set()
    all_numerics = [*first.models.values(), *([first.numerics] if first.numerics is not None else [])]
    return {name for numerics in all_numerics for name in numerics.trained}


def _adapters(trained: Collection[str]) -> Iterator[Fact]:
    """Yield what the names of the trained tensors say of LoRA, as peft names them."""
    if not trained:
        return
    lora = sorted(name for name in trained if ".lora_A." in name or ".lora_B." in name)
    yield Fact(name="lora", value=bool(lora), source=f"{RUN}: {lora[0] if lora else 'no adapter'} is trained")
    whole = sorted(name for name in trained if ".modules_to_save." in name)
    if lora and not whole:
        yield Fact(name="lora_modules_to_save", value="", source=f"{RUN}: adapters alone are trained")


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return dotted keys as nested dictionaries. A key that is also the beginning of another is left out."""
    found: dict[str, Any] = {}
    for key, value in flat.items():
        *parents, last = key.split(".")
        inner: Any = found
        for parent in parents:
            inner = inner.setdefault(parent, {}) if isinstance(inner, dict) else None
        if isinstance(inner, dict) and not isinstance(inner.get(last), dict):
            inner[last] = value
    return found
