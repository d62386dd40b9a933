"""Facts that a program's own source states. A name that it calls is a fact; one that it does not call states nothing, as
another module may call it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dsregress.advisories.job_facts import Fact

#: Packages whose trainers are transformers' Trainer, or subclasses of it.
_TRAINER_PACKAGES = ("transformers", "trl")
_TASKS = {
    "SFTTrainer": "sft",
    "DPOTrainer": "dpo",
    "GRPOTrainer": "grpo",
    "GKDTrainer": "gkd",
    "RewardTrainer": "reward",
}

#: Classes that read all options of a trainer from the command line.
_OPTION_PARSERS = ("HfArgumentParser", "TrlParser")

#: A call that makes one of transformers' models that classify a whole sequence.
_CLASSIFIER = re.compile(r"ForSequenceClassification(?:\.|$)")

#: Functions of DeepSpeed with a fact of their own.
_CALLS = ("safe_get_full_grad", "safe_get_full_fp32_param", "safe_set_full_grad", "get_global_grad_norm")


def facts_of_source(text: str, file: str) -> Iterator[Fact]:
    """Yield the facts that the source states; none if it is no Python of this version."""
    tree = _parsed_program(text)
    called = _called_names(tree)
    imported = {
        alias.asname or alias.name: node.module or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for name in called:
        package = (imported.get(name) or name.rpartition(".")[0]).partition(".")[0]
        last = name.rpartition(".")[2]
        source = f"{file}: {last}"
        if last.endswith("Trainer") and package in _TRAINER_PACKAGES and last != "PPOTrainer":
            yield Fact(name="trainer", value=True, source=source)
        if last in _TASKS and package == "trl":
            yield Fact(name="framework", value="trl", source=source)
            yield Fact(name="task", value=_TASKS[last], source=source)
        if last == "Trainer" and package == "transformers" and (made := next(filter(_CLASSIFIER.search, called), "")):
            yield Fact(name="task", value="classification", source=f"{file}: {made}")
        if last in _CALLS:
            yield Fact(name=last, value=True, source=source)
        if name == "deepspeed.initialize":
            yield Fact(name="integration", value="none", source=f"{file}: deepspeed.initialize")


def reads_options(text: str) -> bool:
    """Return True if the options of its line are all that a program gives its trainer."""
    return any(name.rpartition(".")[2] in _OPTION_PARSERS for name in _called_names(_parsed_program(text)))


def _parsed_program(text: str) -> ast.Module:
    """Return the program; an empty one if it is no Python of this version."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module(body=[], type_ignores=[])


def _called_names(tree: ast.Module) -> list[str]:
    return list(dict.fromkeys(_name(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)))


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return f"{_name(function.value)}.{function.attr}"
    return function.id if isinstance(function, ast.Name) else ""
