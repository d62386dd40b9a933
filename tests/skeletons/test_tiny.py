"""Configurations are shrunk so that the model still fits together."""

from __future__ import annotations

import pytest

from skeletons import tiny

transformers = pytest.importorskip("transformers")


def test_sections_of_positions_shrink_with_the_heads_of_the_part_that_reads() -> None:
    text = {
        "hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2,
        "rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 12]},
    }  # fmt: skip
    config = transformers.Qwen2VLConfig(text_config=text)
    assert tiny.shrink_config(config)
    part = config.text_config
    assert sum(part.rope_scaling["mrope_section"]) == part.hidden_size // part.num_attention_heads // 2
    assert not tiny.shrink_config(config)


def test_what_a_tower_hands_over_stays_as_wide_as_what_reads_it() -> None:
    qwen = transformers.Qwen2VLConfig(hidden_size=3584, num_attention_heads=28, num_key_value_heads=4)
    qwen.vision_config = type(qwen.vision_config)(embed_dim=1280, hidden_size=3584, num_heads=16, depth=32)
    tiny.shrink_config(qwen)
    assert qwen.vision_config.hidden_size == getattr(qwen, "text_config", qwen).hidden_size < 3584
    assert not tiny.shrink_config(qwen.vision_config)  # nor where transformers builds the tower by itself


def test_a_backbone_hands_over_its_last_stage() -> None:
    config = transformers.Dinov2Config()
    assert tiny.shrink_config(config)
    assert (config.stage_names, config.out_features) == (["stem", "stage1", "stage2"], ["stage2"])
    assert not tiny.shrink_config(config)


def test_what_siglip_reads_is_projected_to_the_width_of_what_it_sees() -> None:
    text = {"hidden_size": 1152, "num_attention_heads": 16, "projection_size": 1536}
    config = transformers.SiglipConfig(
        text_config=text, vision_config={"hidden_size": 1536, "num_attention_heads": 16, "intermediate_size": 6144}
    )
    assert tiny.shrink_config(config)
    assert config.text_config.projection_size == config.vision_config.hidden_size < 1536
    assert not tiny.shrink_config(config)


def test_layers_that_read_the_keys_of_others_are_left_out() -> None:
    if not hasattr(transformers, "Gemma3nTextConfig"):
        pytest.skip(f"transformers {transformers.__version__} has no Gemma 3n")
    config = transformers.Gemma3nTextConfig(num_kv_shared_layers=15)
    assert tiny.shrink_config(config)
    assert (len({*config.layer_types}), config.num_hidden_layers, config.num_kv_shared_layers) == (2, 2, 0)
