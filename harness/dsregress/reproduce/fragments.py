"""The factors' parts of a script (`dsregress.probe.factor.Fragment`) as templates, beside those of ``templates/``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import jinja2

from dsregress.probe.factor import MOMENTS, Fragment
from dsregress.probe.factors import BY_NAME, FACTORS
from dsregress.reproduce.text import literal, within

#: Known at every moment but ``made``, which scripts by Trainer have as well.
_MACROS = """\
{% from "batch.jinja" import loss, of_each_micro_batch, on_the_first_rank with context %}
{% from "calls.jinja" import evaluated, without_gradients with context %}
{% from "engine.jinja" import engine_as, freeze, model_as with context %}
"""


def active_fragments(p: Mapping[str, object]) -> list[Fragment]:
    """Return the parts of the factors that have another value than the simplest."""
    return [factor.script for factor in FACTORS if factor.script is not None and factor.is_active(p)]


def fragment_names(p: Mapping[str, object]) -> dict[str, list[str]]:
    """Return the templates of the same factors, by moment."""
    active = [factor for factor in FACTORS if factor.script is not None and factor.is_active(p)]
    return {
        moment: [f"{factor.name}/{moment}" for factor in active if factor.script and moment in factor.script.at]
        for moment in MOMENTS
    }


def imported_names(p: Mapping[str, object]) -> list[str]:
    """Return the statements that import the names that they need."""
    return [f"from {one.package} import {', '.join(one.names)}" for one in active_fragments(p) if one.package]


def _fragment_source(name: str) -> str | None:
    factor, _, moment = name.partition("/")
    fragment = BY_NAME[factor].script if factor in BY_NAME else None
    if fragment is None or moment not in fragment.at:
        return None
    return ("" if moment == "made" else _MACROS) + fragment.at[moment].strip("\n") + "\n"


TEMPLATES = jinja2.Environment(
    loader=jinja2.ChoiceLoader(
        [jinja2.FunctionLoader(_fragment_source), jinja2.FileSystemLoader(Path(__file__).parent / "templates")]
    ),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,  # Python, not HTML
)
TEMPLATES.filters.update(literal=literal, within=within, json=json.dumps)
