"""Facts that a launch line states, and the files that it names: the launcher's, the program's options, and its source."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dsregress.advisories.job_facts import Fact, OneOf
from dsregress.advisories.stated import accelerate_yaml, deepspeed_json, program_source, trainer_options
from dsregress.advisories.stated.documents import Document, as_number, read_document
from dsregress.advisories.stated.openrlhf_options import facts_of_openrlhf, is_of_openrlhf
from dsregress.advisories.stated.own_engines import facts_without_deepspeed
from dsregress.advisories.stated.swift_options import command_of_swift, facts_of_swift
from dsregress.errors import UsageError
from dsregress.probe import launch_line
from dsregress.probe.border.untrusted import MOST_FILE_BYTES, read_regular
from dsregress.probe.launch_line import INSTALLED, LaunchLine, LaunchLineError

#: The name of the line in sources.
LINE = "--program"

_SHARDING = ("deepspeed", "fsdp")

_PAIR = re.compile(r"([a-z_]+)=(.+)")
_YAML = (".yaml", ".yml", ".json")


def facts_of_line(line: str, folder: Path) -> tuple[list[Fact], tuple[str, ...]]:
    """Return the facts that a launch line states, and the files of settings that it names and that are not in ``folder``, as
    it may be of another machine. Raise UsageError."""
    try:
        parsed = launch_line.parse(line)
    except LaunchLineError as error:
        raise UsageError(str(error), where=LINE, hint="write it as in a shell") from None
    absent: list[str] = []
    facts = _facts(parsed, folder, absent)
    return list(_with_own_limit(facts, Document(options_of(parsed.arguments), LINE, "--"))), tuple(absent)


def facts_of_file(file: str, folder: Path, absent: list[str] | None = None) -> list[Fact]:
    """Return the facts that a configuration file states, and those that it names. One that it names and that is not in
    ``folder`` is added to ``absent``. Raise UsageError, also for such a file without that list."""
    document = read_document(file, folder)
    if deepspeed_json.is_of_deepspeed(document):
        return list(deepspeed_json.facts_of_deepspeed(document))
    if accelerate_yaml.is_of_accelerate(document):
        return list(_of_accelerate(document, folder, absent))
    facts = list(_of_trainer(document, folder, absent))
    if trainer_options.is_of_llamafactory(document) or trainer_options.is_of_axolotl(document):
        facts.append(document.usual("deepspeed_option", False, "deepspeed"))  # a line names this file instead
    return facts


def line_of_settings(files: Iterable[str]) -> str:
    """Return the line that trains by the first of these files that has all settings of a framework; empty if none has.
    Raise UsageError."""
    for file in files:
        document = read_document(file)
        is_of_axolotl = trainer_options.is_of_axolotl(document)
        if is_of_axolotl or trainer_options.is_of_llamafactory(document):
            return f"{'axolotl' if is_of_axolotl else 'llamafactory-cli'} train {shlex.quote(file)}"
    return ""


def misspelt_keys(file: str, folder: Path) -> list[tuple[str, str]]:
    """Return the keys of a configuration file that are almost DeepSpeed's, with those. Raise UsageError."""
    return list(deepspeed_json.misspelt_keys(read_document(file, folder)))


def _facts(line: LaunchLine, folder: Path, absent: list[str]) -> Iterator[Fact]:
    variables = dict(line.variables)
    if (device := variables.get("DS_ACCELERATOR")) in ("cpu", "cuda"):
        yield Fact(name="device", value=device, source=f"{LINE}: DS_ACCELERATOR")
    ranks = line.ranks or line.visible_devices
    if ranks is not None:
        yield Fact(name="world_size", value=ranks, source=f"{LINE}: {line.launcher}")
    launched: list[Fact] = []
    if line.launcher == "accelerate":
        launched += _of_accelerate(Document(options_of(line.options), LINE, "--"), folder, absent)
    yield from launched
    if line.configuration and Path(folder, line.configuration).suffix in _YAML:
        for document in _present(line.configuration, folder, LINE, absent):
            yield from _without(launched, _of_accelerate(document, folder, absent))
    options = options_of(line.arguments)
    yield from _option_of_deepspeed(line, options)
    if line.is_module and is_of_openrlhf(line.program):
        yield from facts_of_openrlhf(line.program, Document(options, LINE, "--"))
        return
    given = list(_of_trainer(Document(options, LINE, "--"), folder, absent))
    if command := command_of_swift(line):
        given += facts_of_swift(command, Document(options, LINE, "--"))
    given += facts_without_deepspeed(line, Document(options, LINE, "--"))
    found = list(given)
    for file in _setting_files(line, options):
        for document in _present(file, folder, LINE, absent):
            found += _without(given, _of_trainer(document, folder, absent))
    source = "" if line.is_module or line.is_command else _source_text(line.program, folder)
    if program_source.reads_options(source):
        found += trainer_options.unsharded(Document(options, LINE, "--"))
    # Without a word of it these launchers may use DeepSpeed, as their own files say.
    open_names = _SHARDING if line.launcher in ("accelerate", "deepspeed") else ()
    yield from (fact for fact in found if not (fact.yields and fact.name in open_names))
    yield from program_source.facts_of_source(source, line.program)
    if line.launcher in ("trl", "llamafactory-cli"):
        yield Fact(name="trainer", value=True, source=f"{LINE}: {line.launcher}")
        yield Fact(name="framework", value=line.launcher.removesuffix("-cli"), source=f"{LINE}: {line.launcher}")
        if line.launcher == "trl" and line.program in ("sft", "dpo", "grpo", "gkd", "reward"):
            yield Fact(name="task", value=line.program, source=f"{LINE}: trl {line.program}")


def _option_of_deepspeed(line: LaunchLine, options: Mapping[str, object]) -> Iterator[Fact]:
    """Yield if a file stands after ``--deepspeed``, as transformers' TrainingArguments take it. Beside DeepSpeed's own
    ``--deepspeed_config FILE`` the option is a switch."""
    named = options.get("deepspeed")
    if not isinstance(named, str) or "deepspeed_config" in options:
        yield Fact(name="deepspeed_option", value=False, source=f"{LINE}: no --deepspeed FILE", yields=True)
    elif named.endswith(_YAML) and line.launcher != INSTALLED:
        yield Fact(name="deepspeed_option", value=True, source=f"{LINE}: --deepspeed {named}")
        yield Fact(name="trainer", value=True, source=f"{LINE}: --deepspeed {named}", yields=True)


def _setting_files(line: LaunchLine, options: dict[str, Any]) -> list[str]:
    """Return the files of settings that the program reads: ``train x.yaml`` of LLaMA-Factory and axolotl, ``--config
    x.yaml`` of TRL, a YAML or JSON file as the only argument of a script that HfArgumentParser reads."""
    config = options.get("config")
    named = [config] if isinstance(config, str) and config.endswith(_YAML) else []
    alone = (
        word for before, word in zip(("", *line.arguments), line.arguments, strict=False) if not before.startswith("--")
    )
    return [*named, *(word for word in alone if word.endswith(_YAML) and not word.startswith("-"))]


def _without(given: Sequence[Fact], facts: Iterable[Fact]) -> Iterator[Fact]:
    """Yield the facts of a file, without those that the options beside it state: they win."""
    names = {fact.name for fact in given if not fact.yields}
    yield from (fact for fact in facts if fact.name not in names)


def _present(file: str, folder: Path, where: str, absent: list[str] | None) -> Iterator[Document]:
    """Yield the file; add one that is not there to ``absent``, or raise UsageError if that is None."""
    if absent is not None and not os.path.exists(folder / file):
        absent.append(file)
    else:
        yield read_document(file, folder, where)


def _of_accelerate(document: Document, folder: Path, absent: list[str] | None = None) -> Iterator[Fact]:
    yield from accelerate_yaml.facts_of_accelerate(document)
    if file := accelerate_yaml.deepspeed_file(document):
        for found in _present(file, folder, document.file, absent):
            yield from deepspeed_json.facts_of_deepspeed(found)


def _of_trainer(document: Document, folder: Path, absent: list[str] | None = None) -> Iterator[Fact]:
    yield from trainer_options.facts_of_trainer(document)
    if file := trainer_options.deepspeed_file(document):
        for found in _present(file, folder, document.file, absent):
            yield from _with_own_limit(deepspeed_json.facts_of_deepspeed(found), document)


def _with_own_limit(facts: Iterable[Fact], options: Document) -> Iterator[Fact]:
    """Yield the facts, and the limit of the gradient norm that a trainer's options give to a configuration of DeepSpeed's
    that leaves it to them. One that does not have it keeps DeepSpeed's default."""
    is_open = False
    for fact in facts:
        is_open = is_open or (fact.name == "gradient_clipping" and isinstance(fact.value, OneOf))
        yield fact
    if is_open and (limit := as_number(options.get("max_grad_norm"))) is not None:
        yield options.usual("gradient_clipping", limit, "max_grad_norm")


def _source_text(file: str, folder: Path) -> str:
    """Return the program; empty for a command, or a file of another machine, which states nothing here."""
    try:
        return read_regular(str(folder / file), MOST_FILE_BYTES, follow_links=True).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""


def options_of(words: Sequence[str]) -> dict[str, Any]:
    """Return the options of a line by their names with underscores; True for one without a value."""
    found: dict[str, Any] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            name = name.replace("-", "_")
            found[name] = value if equals else True
            name = "" if equals else name
        elif name:
            found[name], name = word, ""
        elif (pair := _PAIR.fullmatch(word)) is not None:  # as LLaMA-Factory takes them
            found[pair[1]] = pair[2]
    return found
