"""Shrinks a model's configuration: the same classes and path through the code, few layers and small sizes. No torch.

Works on any transformers configuration by the names of its attributes. What it keeps: the ratio of query heads to
key-value heads (up to 8) and of the feed-forward layer to the hidden size, each kind of layer that alternates, tied
embeddings, biases, activations, the kind of positions, the dtype. What it makes small:

| | |
|---|---|
| layers | 2, or one of each kind in ``layer_types`` |
| heads | 4, or 2 key-value heads with their query heads |
| head size | 16 |
| experts | 4, of which at most 2 are chosen |
| low-rank projections | 32 |
| positions | 4096, unless scaled |

The vocabulary shrinks only together with a tokenizer (``vocabulary``). Shrinking what is small already changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from skeletons.table_files import read_names

LAYERS = 2
HEADS = 4
KEY_VALUE_HEADS = 2
HEADS_PER_KEY_VALUE_HEAD = 8
HEAD_SIZE = 16
EXPERTS = 4
EXPERTS_PER_TOKEN = 2
RANK = 32
POSITIONS = 4096
MULTIPLE = 16  #: of sizes that follow from a ratio

#: Quantity -> the names that configurations have for it.
_NAMES = read_names("field_names")

_LAYER_NAMES = _NAMES["layer"]
_HEAD_NAMES = _NAMES["head"]
_KEY_VALUE_NAMES = _NAMES["key_value"]
_HIDDEN_NAMES = _NAMES["hidden"]
_WIDE_NAMES = _NAMES["wide"]
_HEAD_SIZE_NAMES = _NAMES["head_size"]
_EXPERT_NAMES = _NAMES["expert"]
_CHOSEN_NAMES = _NAMES["chosen"]
_RANK_NAMES = _NAMES["rank"]
_LATENT_HEAD_NAMES = _NAMES["latent_head"]
_POSITION_NAMES = _NAMES["position"]
_ROPE_NAMES = _NAMES["rope"]
_ONE_GROUP_NAMES = _NAMES["one_group"]

#: Sizes of the part that sees or hears that must equal the width of the part that reads.
_OUTWARD_NAMES = ("out_hidden_size", "projection_dim", "proj_dim")

#: Size of the part that reads that must equal the width of the part that sees (SigLIP).
_PROJECTED = "projection_size"


def shrink_config(config: object, *, vocabulary: int | None = None, ids: Mapping[int, int] | None = None) -> bool:
    """Shrink a configuration in place; return True if anything changed. ``vocabulary``: rows of the embedding. ``ids``: old
    id -> new id of special tokens."""
    before = _sizes(config)
    text_hidden = _first_size(_text_part(config), _HIDDEN_NAMES)
    outward = [
        (part, name)
        for part in _parts(config)
        if part is not _text_part(config)
        for name in (*_OUTWARD_NAMES, *(("hidden_size",) if _has_field(part, "embed_dim") else ()))
        if _has_field(part, name) and getattr(part, name) == text_hidden
    ]
    for part in reversed(list(_parts(config))):  # the whole may answer with what its part has, and is small by then
        _shrink_part(part)
    new_hidden = _first_size(_text_part(config), _HIDDEN_NAMES)
    if new_hidden is not None:
        for part, name in outward:
            _put(part, name, new_hidden)
    seeing = _first_size(getattr(config, "vision_config", None), _HIDDEN_NAMES)
    if seeing is not None:
        _set_all(_text_part(config), (_PROJECTED,), lambda old: min(old, seeing))
    for part in _parts(config):
        if vocabulary is not None:
            _set_all(part, ("vocab_size", "decoder_vocab_size"), lambda old: min(old, vocabulary))
        if ids:
            _move_ids(part, ids)
    return before != _sizes(config)


def _shrink_part(config: object) -> None:
    _shrink_layers(config)
    # a tower's hidden_size may be the width of what it hands over, but never its embed_dim
    heads, hidden = _first_size(config, _HEAD_NAMES), _first_size(config, ("embed_dim", *_HIDDEN_NAMES))
    if heads and hidden:
        _shrink_width(config, heads, hidden)
    _set_all(config, _EXPERT_NAMES, lambda old: min(old, EXPERTS))
    _set_all(config, _CHOSEN_NAMES, lambda old: min(old, EXPERTS_PER_TOKEN))
    _set_all(config, _ONE_GROUP_NAMES, lambda old: 1)
    _set_all(config, _RANK_NAMES, lambda old: min(old, RANK))
    if not any(_is_scaled(vars(config).get(name)) for name in _ROPE_NAMES):
        _set_all(config, _POSITION_NAMES, lambda old: min(old, POSITIONS))


def _shrink_layers(config: Any) -> None:
    """Keep the items of the remaining layers in lists with an item per layer."""
    if isinstance(getattr(config, "depths", None), (list, tuple)):  # of stages, each of another width: all stay
        config.depths = [min(depth, LAYERS) for depth in config.depths]
        return
    for name in _LAYER_NAMES:
        if not _has_field(config, name):
            continue
        count = getattr(config, name)
        kept = _layers_kept(config, count)
        for other, value in list(vars(config).items()):
            if isinstance(value, (list, tuple)) and len(value) == count and count > len(kept):
                setattr(config, other, [value[index] for index in kept])
        _put(config, name, len(kept))
        _shrink_stages(config, count, len(kept))
    left = _first_size(config, _LAYER_NAMES) or LAYERS
    _set_all(config, ("first_k_dense_replace",), lambda old: min(old, left - 1))
    _set_all(config, ("max_window_layers",), lambda old: min(old, left))
    # layers that read another's keys come behind one of each kind that has its own
    own = len({*(getattr(config, "layer_types", None) or ())})
    _set_all(config, ("num_kv_shared_layers",), lambda old: min(old, max(0, left - own)))
    if isinstance(getattr(config, "mlp_only_layers", None), list):
        config.mlp_only_layers = [index for index in config.mlp_only_layers if index < left]
    if isinstance(getattr(config, "attention_types", None), list) and hasattr(config, "attention_layers"):
        config.attention_types = [[list(config.attention_layers), 1]]  # GPT-Neo's other spelling of the same list


def _shrink_stages(config: Any, count: int, left: int) -> None:
    """Shrink a backbone that names each layer a stage: it outputs its last."""
    stages = getattr(config, "stage_names", None)
    if isinstance(stages, list) and len(stages) == count + 1 and left < count:
        config.stage_names = stages[: left + 1]
        config.out_features = [stages[left]]


def _layers_kept(config: object, count: int) -> list[int]:
    kinds = getattr(config, "layer_types", None)
    if not isinstance(kinds, (list, tuple)) or len(kinds) != count:
        return list(range(min(count, LAYERS)))
    kept = {list(kinds).index(kind) for kind in kinds}
    rest = [index for index in range(count) if index not in kept]
    return sorted([*kept, *rest[: max(0, LAYERS - len(kept))]])


def _shrink_width(config: Any, heads: int, hidden: int) -> None:
    latent = _has_field(config, "kv_lora_rank")
    key_value_heads = _first_size(config, _KEY_VALUE_NAMES) or heads
    head_size = _first_size(config, ("head_dim", "d_kv", "kv_channels")) or hidden // heads
    new_heads, new_key_value_heads = _fewer_heads(heads, key_value_heads)
    new_size = min(head_size, HEAD_SIZE)
    if (new_heads, new_size) == (heads, head_size):
        return
    ratio = 1.0 if latent else hidden / (heads * head_size)
    new_hidden = new_heads * new_size if ratio == 1 else _multiple(new_heads * new_size * ratio)
    for names, value in (
        (_HEAD_NAMES, new_heads),
        (_KEY_VALUE_NAMES, new_key_value_heads),
    ):
        _set_all(config, names, lambda old, value=value: value)
    _set_all(config, _WIDE_NAMES, lambda old: _multiple(old * new_hidden / hidden))
    _set_all(config, _HIDDEN_NAMES, lambda old: new_hidden if old == hidden else _multiple(old * new_hidden / hidden))
    _set_all(config, _HEAD_SIZE_NAMES, lambda old: min(old, new_size))
    if latent:
        _set_all(config, _LATENT_HEAD_NAMES, lambda old: min(old, HEAD_SIZE))
        if _has_field(config, "qk_head_dim"):
            config.qk_head_dim = config.qk_nope_head_dim + config.qk_rope_head_dim
    for name in _ROPE_NAMES:
        scaling = vars(config).get(
            name
        )  # not by getattr: the one is an alias of the other, with a warning, in transformers 5
        if isinstance(scaling, dict):
            setattr(config, name, _scaled_rope(scaling, new_size / head_size))


def _fewer_heads(heads: int, key_value_heads: int) -> tuple[int, int]:
    if heads <= key_value_heads or heads % key_value_heads:
        return min(heads, HEADS), min(key_value_heads, HEADS)
    fewer = min(key_value_heads, KEY_VALUE_HEADS)
    return fewer * min(heads // key_value_heads, HEADS_PER_KEY_VALUE_HEAD), fewer


def _is_scaled(rope: object) -> bool:
    if not isinstance(rope, dict):
        return False
    return any(_is_scaled(part) for part in rope.values()) or str(rope.get("rope_type", "default")) != "default"


def _scaled_rope(scaling: dict[str, Any], ratio: float) -> dict[str, object]:
    """Return the scaling with fewer items in lists with an item per rotated pair, and smaller sections of the pairs."""
    made = dict(scaling)
    for name, value in scaling.items():
        if isinstance(value, dict):
            made[name] = _scaled_rope(value, ratio)
        elif name == "mrope_section":
            made[name] = [max(1, round(part * ratio)) for part in value]
        elif name in ("long_factor", "short_factor"):
            made[name] = value[: max(1, round(len(value) * ratio))]
    return made


def _move_ids(config: object, ids: Mapping[int, int]) -> None:
    for name, value in list(vars(config).items()):
        if name.endswith(("_token_id", "_token_index")):
            if isinstance(value, int):
                setattr(config, name, ids.get(value, value))
            elif isinstance(value, list):
                setattr(config, name, [ids.get(one, one) for one in value])


def _parts(config: object) -> Iterator[Any]:
    """Yield the configuration, and those within it."""
    yield config
    for value in list(vars(config).values()):
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            yield from _parts(value)


def _text_part(config: object) -> object:
    for name in ("text_config", "llm_config", "thinker_config"):
        if hasattr(getattr(config, name, None), "to_dict"):
            return _text_part(getattr(config, name))
    return config


def _sizes(config: object) -> list[str]:
    return [repr(sorted(vars(part).items(), key=lambda item: item[0])) for part in _parts(config)]


def _has_field(config: object, name: str) -> bool:
    value = getattr(config, name, None)
    return isinstance(value, int) and not isinstance(value, bool)


def _first_size(config: object, names: tuple[str, ...]) -> int | None:
    return next((getattr(config, name) for name in names if _has_field(config, name)), None)


def _set_all(config: object, names: tuple[str, ...], new: Any) -> None:
    """Set new values. All are read before one is set: of a name and its alias (``n_embd`` is ``hidden_size``) each is set
    once."""
    for name, old in [(name, getattr(config, name)) for name in names if _has_field(config, name)]:
        _put(config, name, new(old))


def _put(config: object, name: str, value: int) -> None:
    """Set an attribute, unless it is a property that follows from other attributes."""
    try:
        setattr(config, name, value)
    except (AttributeError, NotImplementedError):
        pass


def _multiple(size: float) -> int:
    return max(1, round(size / MULTIPLE)) * MULTIPLE
