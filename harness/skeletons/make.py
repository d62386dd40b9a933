"""Makes a skeleton: a checkpoint's folder of the right names, shapes and sizes, whose weights take no space.

Runs in a measured environment, in a process of its own: transformers itself determines the content of a checkpoint,
unaffected by changes that a program makes in its own process.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from skeletons import (
    safetensors,
    tiny,
    tokenizer,
)
from skeletons.hub_names import is_called_after_another, known_model_name
from skeletons.known_models import known_models
from skeletons.maker_answer import SkeletonFile
from skeletons.safetensors import StoredTensor
from skeletons.table_files import read_names
from skeletons.tokenizer_families import TokenizerFamily, chat_template, tokenizer_families

#: Weights with contents are written for models up to this size: larger ones would measure the machine's disk.
MOST_CONTENT_BYTES = 8 << 30

#: Files copied from a configuration's folder.
_COMPANIONS = (".json", ".txt", ".model", ".jinja", ".py", ".tiktoken")
_MOST_COMPANION_BYTES = 64 << 20
_TOKENIZERS = read_names("file_names")["tokenizer"]

_TINY_WORDS = 1024


class SkeletonError(ValueError):
    """No skeleton can be made: one line that says why, and the way out."""


@dataclasses.dataclass(frozen=True)
class SkeletonSource:
    """The inputs of a skeleton."""

    config: dict[str, Any]
    family: TokenizerFamily | None  #: None: the tokenizer is among ``companions``, or the model reads no text
    companions: tuple[Path, ...] = ()
    preprocessor: dict[str, Any] | None = None  #: of a model that sees or hears
    processor: dict[str, Any] | None = None  #: of one that reads as well


def skeleton_source(what: str) -> SkeletonSource:
    """Return the source for a known model's name, a ``config.json``, or a folder with one. Raise SkeletonError for anything
    else."""
    path = Path(what)
    if path.is_dir():
        config = _read_fields(path / "config.json")
        found = configuration_companions(what)
        has_tokenizer = any(file.name in _TOKENIZERS for file in found)
        return SkeletonSource(config, None if has_tokenizer else fitting_family(config), found)
    if path.is_file():
        config = _read_fields(path)
        return SkeletonSource(config, fitting_family(config))
    name = known_model_name(what)
    if name is None:
        raise SkeletonError(
            f"{what}: neither a file, a folder nor a known model; give its config.json, or a name such as "
            f"Qwen/Qwen2.5-7B, meta-llama/Llama-3.1-8B, gpt2"
        )
    model = known_models()[name]
    family = tokenizer_families()[model.tokenizer] if model.tokenizer else None
    if family is not None and is_called_after_another(what):
        family = padding_family(family)
    # Without a release in it, transformers 4.57 takes any tokenizer for one of Mistral's that needs mending, and warns.
    return SkeletonSource(
        {**model.config, "transformers_version": "4.40.0"},
        family,
        preprocessor=model.preprocessor,
        processor=model.processor,
    )


def make_skeleton(what: str, folder: Path, *, shrunk: bool = False, contents: bool = False) -> list[SkeletonFile]:
    """Make ``folder``, or fill it, and return its files. ``shrunk``: a tiny model of the same architecture. ``contents``:
    weights are a function of their names, not zeros. Raise SkeletonError or OSError."""
    given = skeleton_source(what)
    config = loaded_config(given.config)
    family = given.family
    if shrunk and family is not None and not Path(what).is_dir():
        family, ids = small_family(family)
        tiny.shrink_config(config, vocabulary=-(-family.tokens // 64) * 64, ids=ids)
    elif shrunk:  # the data of a folder's owner may have its own ids: only a tokenizer that is ours as well shrinks
        tiny.shrink_config(config)
    fields = _saved_fields(config, given.config) if shrunk else given.config
    held, values = checkpoint_tensors(built_model, config, _dtype(fields), contents)
    folder.mkdir(parents=True, exist_ok=True)  # from here on only the disk can fail
    for file in given.companions:
        shutil.copyfile(file, folder / file.name)
    _dump(folder / "config.json", fields)
    if given.preprocessor is not None:
        _dump(folder / "preprocessor_config.json", given.preprocessor)
        if family is not None and family.chat_template:  # a processor reads none from its tokenizer
            (folder / "chat_template.jinja").write_text(family.chat_template, encoding="utf-8")
    if given.processor is not None:
        _dump(folder / "processor_config.json", given.processor)
    if not (folder / "generation_config.json").exists():
        roles = ("bos_token_id", "eos_token_id", "pad_token_id")
        _dump(folder / "generation_config.json", {"_from_model_config": True, **_chosen(fields, roles)})
    if family is not None:
        for name, content in tokenizer.tokenizer_files(family).items():
            (folder / name).write_bytes(content)
    safetensors.write_checkpoint(folder, held, values)
    return skeleton_files(folder)


def loaded_config(fields: dict[str, object]) -> Any:
    """Return the configuration as the installed transformers reads it. Raise SkeletonError if it cannot."""
    import transformers

    kind = fields.get("model_type")
    if not kind:
        raise SkeletonError("the configuration has no model_type; give a config.json as transformers writes it")
    if fields.get("quantization_config"):
        raise SkeletonError("the configuration is of a quantised checkpoint, whose tensors only its library knows; "
                            "remove quantization_config")  # fmt: skip
    try:
        known = type(transformers.AutoConfig.for_model(kind))
    except (ValueError, KeyError):
        known = _config_class_of(fields)
    if known is None:
        raise SkeletonError(
            f"transformers {transformers.__version__} has no model_type {kind!r}; choose another release (--transformers)"
        )
    return known.from_dict(fields)


def _config_class_of(fields: dict[str, object]) -> Any:
    """Return the configuration of a model's class for a part of a model, which a release's table may lack (CLIP's text
    model); None if there is no such class."""
    import transformers

    named = fields.get("architectures")
    classes = (getattr(transformers, str(name), None) for name in (named if isinstance(named, list) else ()))
    configs = (getattr(found, "config_class", None) for found in classes)
    return next((found for found in configs if getattr(found, "model_type", "") == fields["model_type"]), None)


def fitting_family(config: dict[str, Any]) -> TokenizerFamily:
    """Return the tokenizer for a configuration without one: that of a known family if it fits, else a synthetic one."""
    text = next((config[name] for name in ("text_config", "llm_config") if isinstance(config.get(name), dict)), config)
    rows = text.get("vocab_size", config.get("vocab_size"))
    if not isinstance(rows, int):
        rows = 32_000  # the class's own default is not known here, and few have less
    end = config.get("eos_token_id", text.get("eos_token_id"))
    end = end[0] if isinstance(end, list) and end else end
    for name in read_names("families").get(str(config.get("model_type")), ()):
        family = tokenizer_families()[name]
        if rows - 1024 <= family.tokens <= rows and (end is None or end in family.special):
            return dataclasses.replace(family, eos=family.special[end]) if end is not None else family
    named = {
        role: index
        for role in ("bos", "eos", "pad")
        if isinstance(index := (end if role == "eos" else config.get(f"{role}_token_id")), int) and 0 <= index < rows
    }
    special = {index: f"<{role}>" for role, index in named.items()}  # roles that share an id share a token
    special = special or {rows - 1: "<eos>"}
    family = TokenizerFamily(
        tokens=rows,
        special=special,
        bos=special.get(named.get("bos", -1), ""),
        eos=special.get(named.get("eos", rows - 1), next(iter(special.values()))),
        pad=special.get(named.get("pad", -1), ""),
        chat_template=chat_template("plain-chat"),
    )
    return padding_family(family)  # whether its own pads is not known, and programs that need no padding ignore it


def padding_family(family: TokenizerFamily) -> TokenizerFamily:
    """Return the family with a token for padding: batches need one, so that trainers set and save it, mostly the last one of
    a text, where the model that they began with has none."""
    return dataclasses.replace(family, pad=family.pad or family.eos)


def small_family(family: TokenizerFamily) -> tuple[TokenizerFamily, dict[int, int]]:
    """Return the family with `_TINY_WORDS` words in addition to its special tokens, and the new ids of those by the old
    ones. A few special tokens with small ids are among the words; as many as Mistral's thousand leave no room for them."""
    ids: dict[int, int] = {}
    first = sum(index < _TINY_WORDS for index in family.special)
    end = _TINY_WORDS + (first if 2 * first > _TINY_WORDS else 0)
    for index in sorted(family.special):
        if index < _TINY_WORDS:
            ids[index] = index
        else:
            ids[index] = end
            end += 1
    special = {ids[index]: text for index, text in family.special.items()}
    return dataclasses.replace(family, tokens=end, special=special), ids


def checkpoint_tensors(
    build: Callable[[Any, str], object],
    config: object,
    dtype_name: str | None,
    contents: bool,
    library: str = "transformers",
) -> tuple[list[StoredTensor], Callable[[StoredTensor], bytes] | None]:
    """Return the tensors of the model that ``build`` makes of a configuration on a device, and a function for each one's
    contents, None if they are left out. Raise SkeletonError if the model cannot be built."""
    from skeletons import parameters

    try:
        dtype = parameters.torch_dtype(dtype_name)
        held = parameters.checkpoint_entries(build(config, "meta"), dtype)
        total = sum(entry.nbytes for entry in held)
        if contents and total <= MOST_CONTENT_BYTES:
            return held, parameters.checkpoint_contents(build(config, "cpu"), dtype)
    except Exception as error:  # whatever a model's class makes of a configuration
        first = str(error).strip().splitlines() or [""]
        raise SkeletonError(f"{library} cannot build this model: {type(error).__name__}: {first[0]}") from error
    if contents:
        raise SkeletonError(
            f"real weights of this model take {total / 1e9:.1f} GB: run it with --tiny, or with --device sim"
        )
    return held, None


def built_model(config: object, device: str) -> object:
    """Build the model as `skeletons.parameters.build_model`, which needs torch."""
    from skeletons import parameters

    return parameters.build_model(config, device)


def _saved_fields(config: Any, given: dict[str, object]) -> dict[str, object]:
    """Return a shrunk configuration as JSON."""
    fields = json.loads(config.to_json_string(use_diff=False))
    for name in ("architectures", "auto_map", "transformers_version"):
        if given.get(name):
            fields[name] = given[name]
    return dict(fields)


def _dtype(fields: dict[str, object]) -> str | None:
    for part in (fields, *(value for value in fields.values() if isinstance(value, dict))):
        for name in ("dtype", "torch_dtype"):
            if isinstance(part.get(name), str):
                return str(part[name])
    return None


def _chosen(fields: dict[str, object], names: tuple[str, ...]) -> dict[str, object]:
    return {name: fields[name] for name in names if fields.get(name) is not None}


def configuration_companions(folder: str) -> tuple[Path, ...]:
    """Return the files next to a configuration that its skeleton copies unchanged."""
    return tuple(file for file in sorted(Path(folder).iterdir()) if _is_companion(file))


def _is_companion(file: Path) -> bool:
    return (
        file.is_file()
        and file.suffix in _COMPANIONS
        and file.name != "config.json"
        and not file.name.endswith(".index.json")
        and file.stat().st_size <= _MOST_COMPANION_BYTES
    )


def _read_fields(file: Path) -> dict[str, object]:
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "not JSON"
        raise SkeletonError(f"{file}: {why}; give a config.json, or a folder with one") from None
    if not isinstance(fields, dict):
        raise SkeletonError(f"{file}: not a configuration; give a config.json, or a folder with one")
    return fields


def _dump(file: Path, fields: dict[str, object]) -> None:
    file.unlink(missing_ok=True)
    file.write_text(json.dumps(fields, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def skeleton_files(folder: Path) -> list[SkeletonFile]:
    """Return the files of a skeleton, by their path in it."""
    return [_skeleton_file(file, folder) for file in sorted(folder.rglob("*")) if file.is_file()]


def _skeleton_file(file: Path, folder: Path) -> SkeletonFile:
    status = os.stat(file)
    name = file.relative_to(folder).as_posix()
    return SkeletonFile(name=name, size_bytes=status.st_size, disk_bytes=status.st_blocks * 512)
