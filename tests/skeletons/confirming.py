"""Compare the known models with other projects' tables, as recorded by `recording.py`. Standard library only.

    PYTHONPATH=harness python tests/skeletons/confirming.py

prints, per model, where a table agrees or differs, and the counts by source for docs/skeletons.md. A table confirms a model
if it gives its sizes (`SIZES`) and all its facts agree. A model is never confirmed by the
table that it was copied from.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skeletons.known_models import configuration_sources, known_models

RECORDED = Path(__file__).parent / "independent_tables.json"

#: Fact -> the fields of a ``config.json`` that give it, of which a configuration has one.
FIELDS = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model", "dim", "embed_dim"),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads", "encoder_attention_heads"),
    "key_value_heads": ("num_key_value_heads", "num_kv_heads"),
    "head_size": ("head_dim",),
    "feed_forward": ("intermediate_size", "n_inner", "d_ff", "ffn_dim", "encoder_ffn_dim", "hidden_dim"),
    "vocabulary": ("vocab_size",),
    "positions": ("max_position_embeddings", "n_positions"),
    "norm_eps": ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon"),
    "rope_theta": ("rope_theta", "rotary_emb_base"),
    "rotary_share": ("rotary_pct", "partial_rotary_factor"),
    "tied": ("tie_word_embeddings",),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts"),
    "experts_per_token": ("num_experts_per_tok",),
    "expert_feed_forward": ("moe_intermediate_size",),
    "sliding_window": ("sliding_window",),
    "patch_size": ("patch_size",),
    "image_size": ("image_size",),
    "stages": ("depths",),
    "stage_heads": ("num_heads",),
    "projection": ("projection_dim",),
}

#: Facts of CLIP, which has two towers; transformers' defaults are not told apart by them.
_TOWERS: dict[str, tuple[str, ...]] = {"text_layers": (), "text_hidden": (), "vision_layers": (), "vision_hidden": ()}

#: The sizes of an architecture, and how many of them a table that confirms it gives; blocks per stage are enough.
SIZES = {"layers", "hidden", "heads", "feed_forward", "vocabulary", "stages", *_TOWERS}
LEAST_SIZES = 3

#: Fields of a default configuration that say nothing of the model.
NO_FACTS = {
    "transformers_version", "_name_or_path", "return_dict", "architectures", "model_type", "dtype", "torch_dtype",
    "is_encoder_decoder", "use_cache", "output_attentions", "output_hidden_states", "initializer_range", "layerdrop",
}  # fmt: skip

#: Source of a configuration -> the table that it was copied from.
COPIED = {"litgpt": "litgpt", "maxtext-litgpt": "litgpt", "class": "transformers", "megatron-bridge": "transformers"}


@dataclasses.dataclass(frozen=True)
class Difference:
    """A fact on which a table differs."""

    model: str
    package: str
    fact: str
    ours: Any
    theirs: Any

    def line(self) -> str:
        """Return one line for a person, which also names the difference in known_differences.json."""
        return f"{self.model}: {self.fact} {self.ours}, {self.package} {self.theirs}"


@functools.cache
def recorded() -> dict[str, Any]:
    """Return the recording: ``tables`` by package, and ``defaults`` of transformers' classes by ``model_type``."""
    content: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return content


def model_facts(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a configuration as transformers reads it: what it leaves out is at its class's default."""
    if "vision_config" in config and config["model_type"] == "clip":
        return _clip_facts(config)
    part = {**config, **config.get("text_config", {})}
    fields = {**recorded()["defaults"].get(part["model_type"], {}), **part}
    facts: dict[str, Any] = {}
    for source in (fields, part):  # its own field before one that only the class has
        for fact, names in FIELDS.items():
            facts |= [(fact, source[name]) for name in names if name in source]
    if "heads" in facts and isinstance(facts["heads"], int):
        facts.setdefault("key_value_heads", 1 if fields.get("multi_query") else facts["heads"])
        if part["model_type"] == "falcon" and not fields.get("new_decoder_architecture"):
            facts["key_value_heads"] = 1
        if not facts.get("head_size") or "head_dim" not in part:
            default = facts.get("head_size") if part["model_type"].startswith("gemma") else None
            facts["head_size"] = default or facts["hidden"] // facts["heads"]
    if facts.get("feed_forward") is None and "hidden" in facts:
        facts["feed_forward"] = 4 * facts["hidden"]
    if fields.get("use_sliding_window") is False:
        facts["sliding_window"] = None
    facts["rope_factor"] = (fields.get("rope_scaling") or {}).get("factor")
    return facts


def _clip_facts(config: Mapping[str, Any]) -> dict[str, Any]:
    text, vision = config["text_config"], config["vision_config"]
    sizes = {"layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads"}
    facts = {f"text_{fact}": text[field] for fact, field in sizes.items()}
    facts |= {f"vision_{fact}": vision[field] for fact, field in sizes.items()}
    facts |= {"projection": config["projection_dim"], "vocabulary": text["vocab_size"]}
    return facts | {"image_size": vision["image_size"], "patch_size": vision["patch_size"]}


def compared(name: str, package: str) -> tuple[set[str], list[Difference]] | None:
    """Return the facts that agree and those that differ, under any of the model's names; None if the table has none of
    them."""
    models = known_models()
    names = [other for other in recorded()["tables"][package]["models"] if models[other] is models[name]]
    if not names:
        return None
    results = [_compared_under(other, package) for other in names]
    return set().union(*(agreed for agreed, _ in results)), [one for _, differ in results for one in differ]


def _compared_under(name: str, package: str) -> tuple[set[str], list[Difference]]:
    config = known_models()[name].config
    ours: Mapping[str, Any] = config if package == "transformers" else model_facts(config)
    agreed: set[str] = set()
    differ = []
    for fact, value in recorded()["tables"][package]["models"][name].items():
        has_none = value is None or (fact.startswith("expert") and not value)
        if fact in ours and fact not in NO_FACTS and not has_none:
            if _is_equal(ours[fact], value):
                agreed.add(fact)
            else:
                differ.append(Difference(name, package, fact, ours[fact], value))
    return agreed, differ


def _is_equal(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, (int, float)) and isinstance(theirs, (int, float)) and not isinstance(ours, bool):
        return abs(ours - theirs) <= 1e-9 * max(abs(ours), abs(theirs))
    return bool(ours == theirs)


def differences() -> list[Difference]:
    """Return all differences, by package and in the order of its table."""
    tables = recorded()["tables"]
    return [
        one for package in tables for name in tables[package]["models"] for one in _compared_under(name, package)[1]
    ]


def confirming(name: str) -> tuple[str, ...]:
    """Return the packages whose tables confirm a model."""
    source = known_models()[name].source
    packages = []
    for package in recorded()["tables"]:
        result = compared(name, package)
        if result is not None and not result[1] and COPIED.get(source) != package:
            sizes = SIZES & {fact for fact, names in {**FIELDS, **_TOWERS}.items() if result[0] & {fact, *names}}
            if len(sizes) >= LEAST_SIZES or "stages" in sizes:
                packages.append(package)
    return tuple(packages)


def counts_by_source() -> str:
    """Return the table of docs/skeletons.md: per kind of source, how many models a table confirms, how many differ from one,
    and how many no table has, or only the one that they were copied from."""
    rows: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    differing = {one.model for one in differences()}
    differing |= {name for name in known_models() for one in differing if known_models()[name] is known_models()[one]}
    for name, model in known_models().items():
        kind = configuration_sources()[model.source].kind
        said = "differ" if name in differing else "agree" if confirming(name) else "unconfirmed"
        rows[kind] += collections.Counter([said, "models"])
    lines = ["| source | models | a table agrees | a table differs | unconfirmed |", "|---|---|---|---|---|"]
    words = {
        "repository": "the repository itself",
        "copy": "a copy of its `config.json`",
        "code": "another project's code",
        "card": "paper and model card",
    }
    total: collections.Counter[str] = sum(rows.values(), collections.Counter())
    for label, row in (*((words[kind], rows[kind]) for kind in words), ("all", total)):
        lines.append(f"| {label} | {row['models']} | {row['agree']} | {row['differ']} | {row['unconfirmed']} |")
    return "\n".join(lines)


def main() -> None:
    """Print the comparison."""
    for name in known_models():
        results = {package: compared(name, package) for package in recorded()["tables"]}
        agreed = [
            f"{package} ({len(result[0])} facts)" for package, result in results.items() if result and not result[1]
        ]
        lines = [one.line() for result in results.values() if result for one in result[1]]
        sys.stdout.write(f"{name}: {', '.join(agreed) or 'no table agrees'}\n")
        sys.stdout.writelines(f"  differs: {line}\n" for line in lines)
    sys.stdout.write(f"\n{counts_by_source()}\n")


if __name__ == "__main__":
    main()
