"""Makes the skeleton of a repository of diffusers (`skeletons.pipelines`): as
`skeletons.make`, with a folder per component. diffusers itself determines the content of its components'
checkpoints."""

from __future__ import annotations

import importlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skeletons import make, safetensors, tiny, tokenizer
from skeletons.maker_answer import SkeletonFile
from skeletons.pipelines import Component, Pipeline, known_pipelines
from skeletons.table_files import read_table
from skeletons.tokenizer_families import tokenizer_families

#: Sizes of a shrunk component, by their names in a diffusers class. Channels are a multiple of 32, the
#: number of groups of its norms.
_TINY: dict[str, dict[str, int]] = read_table("tiny_components")
_TINY_CHANNELS = (32, 64, 64, 64)
_TINY_TIME = 32

#: Sizes of a transformer's component that equal the width of the part that reads.
_READS = ("text_dim", "text_embed_dim", "caption_channels", "cap_feat_dim")


def make_pipeline(name: str, folder: Path, *, shrunk: bool = False, contents: bool = False) -> list[SkeletonFile]:
    """Make ``folder``, or fill it, for a name in `known_pipelines`, and return its files. Raise SkeletonError, OSError or
    ImportError."""
    importlib.import_module("diffusers")
    pipeline = known_pipelines()[name]
    texts = {
        place: _text_configuration(part, shrunk)
        for place, part in pipeline.components.items()
        if "model_type" in part.fields
    }
    folder.mkdir(parents=True, exist_ok=True)
    if pipeline.kind:
        index: dict[str, Any] = {place: [part.library, part.kind] for place, part in pipeline.components.items()}
        _write_json(
            folder / "model_index.json", {"_class_name": pipeline.kind, "_diffusers_version": "0.30.0", **index}
        )
    for place, part in pipeline.components.items():
        target = folder / place
        target.mkdir(exist_ok=True)
        if part.family:
            family = tokenizer_families()[part.family]
            for file, content in tokenizer.tokenizer_files(make.small_family(family)[0] if shrunk else family).items():
                (target / file).write_bytes(content)
        elif place in texts:
            _transformer(target, part, texts[place], contents)
        elif part.kind.endswith("ImageProcessor"):
            _write_json(target / "preprocessor_config.json", part.fields)
        elif place == "scheduler":
            _write_json(target / "scheduler_config.json", _described(part))
        else:
            fields = _small(part, pipeline, texts) if shrunk else part.fields
            _diffuser(target, part, fields, contents)
    return make.skeleton_files(folder)


def build_component(kind: str, fields: Mapping[str, object], device: str) -> object:
    """Build a component of diffusers from its configuration; on ``meta`` it takes no memory. Raise whatever the class
    raises."""
    import diffusers
    import torch

    with torch.device(device), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(diffusers, kind).from_config(dict(fields))


def _text_configuration(part: Component, shrunk: bool) -> Any:
    """Return the configuration of a component that reads text."""
    config = make.loaded_config(dict(part.fields))
    if shrunk:
        words = make.small_family(tokenizer_families()["clip" if part.kind.startswith("CLIP") else "t5"])[0].tokens
        tiny.shrink_config(config, vocabulary=-(-words // 64) * 64)
        if hasattr(config, "projection_dim"):
            config.projection_dim = config.hidden_size
    return config


def _transformer(target: Path, part: Component, config: Any, contents: bool) -> None:
    fields = json.loads(config.to_json_string(use_diff=False)) | {"architectures": [part.kind]}
    held, values = make.checkpoint_tensors(make.built_model, config, part.dtype, contents)
    _write_json(target / "config.json", fields)
    safetensors.write_checkpoint(target, held, values)


def _diffuser(target: Path, part: Component, fields: Mapping[str, object], contents: bool) -> None:
    held, values = make.checkpoint_tensors(
        lambda config, device: build_component(part.kind, config, device),
        fields,
        part.dtype,
        contents,
        library="diffusers",
    )
    _write_json(target / "config.json", {**_described(part), **fields})
    safetensors.write_checkpoint(target, held, values, name="diffusion_pytorch_model")


def _described(part: Component) -> dict[str, object]:
    return {"_class_name": part.kind, "_diffusers_version": "0.30.0", **part.fields}


def _width(config: Any) -> int:
    """Return the width of what a model of a configuration outputs; of one that reads images too, that of its text."""
    own = config if hasattr(config, "hidden_size") else config.get_text_config()
    return int(own.hidden_size)


def _small(part: Component, pipeline: Pipeline, texts: Mapping[str, Any]) -> dict[str, object]:
    """Return the fields of a component with few layers and channels, with the widths that the shrunk text parts output."""
    fields = {**part.fields, **_TINY[part.kind]}
    if "block_out_channels" in fields:
        fields["block_out_channels"] = list(_TINY_CHANNELS[: len(part.fields["block_out_channels"])])
    widths = {place: _width(config) for place, config in texts.items()}
    pooled = sum(width for place, width in widths.items() if pipeline.components[place].kind.endswith("WithProjection"))
    if "cross_attention_dim" in fields and "block_out_channels" in fields and widths:
        fields["cross_attention_dim"] = sum(widths.values())
        if isinstance(heads := fields.get("attention_head_dim"), list):
            fields["attention_head_dim"] = [2] * len(heads)
        if isinstance(fields.get("transformer_layers_per_block"), list):
            fields["transformer_layers_per_block"] = [min(2, count) for count in fields["transformer_layers_per_block"]]
    if "addition_time_embed_dim" in fields:
        fields["addition_time_embed_dim"] = _TINY_TIME
        fields["projection_class_embeddings_input_dim"] = pooled + _times(part, pipeline) * _TINY_TIME
    for name in _READS:
        if name in fields:
            fields[name] = next(iter(widths.values()))
    if "joint_attention_dim" in fields:
        fields["joint_attention_dim"] = [*widths.values()][-1]
    if "pooled_projection_dim" in fields:
        fields["pooled_projection_dim"] = pooled or next(iter(widths.values()))
    if "image_dim" in fields:
        fields["image_dim"] = widths["image_encoder"]
        fields["added_kv_proj_dim"] = fields["num_attention_heads"] * fields["attention_head_dim"]
    return fields


def _times(part: Component, pipeline: Pipeline) -> int:
    """Return how many numbers a component embeds as it embeds times, besides the pooled text: sizes and places of a cut."""
    pooled = sum(
        other.fields["projection_dim"]
        for other in pipeline.components.values()
        if other.kind.endswith("WithProjection")
    )
    own = part.fields["projection_class_embeddings_input_dim"]
    return int((own - pooled) // part.fields["addition_time_embed_dim"])


def _write_json(file: Path, fields: Mapping[str, object]) -> None:
    file.write_text(json.dumps(fields, indent=2, sort_keys=True) + "\n", encoding="utf-8")
