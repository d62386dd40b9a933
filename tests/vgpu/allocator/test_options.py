"""The allocator's options, as people set them."""

from __future__ import annotations

import pytest

from vgpu.allocator import options
from vgpu.allocator.model import AllocatorSettings


def test_nothing_set_is_the_default() -> None:
    assert options.read_options({}) == (AllocatorSettings(), [])


def test_both_names_of_the_variable_are_read() -> None:
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        settings, unknown = options.read_options({name: "expandable_segments:True, max_split_size_mb:128"})
        assert settings == AllocatorSettings(expandable_segments=True, max_split_size_bytes=128 << 20)
        assert unknown == []


def test_an_option_that_is_not_modelled_is_named() -> None:
    settings, unknown = options.read_options({"PYTORCH_CUDA_ALLOC_CONF": "garbage_collection_threshold:0.8"})
    assert (settings, unknown) == (AllocatorSettings(), ["garbage_collection_threshold:0.8"])


def test_commas_within_brackets_separate_no_options() -> None:
    settings, unknown = options.read_options(
        {"PYTORCH_CUDA_ALLOC_CONF": "roundup_power2_divisions:[256:1,512:2],expandable_segments:True"}
    )
    assert (settings, unknown) == (
        AllocatorSettings(expandable_segments=True),
        ["roundup_power2_divisions:[256:1,512:2]"],
    )


@pytest.mark.parametrize(
    ("settings", "spelled"),
    [
        (AllocatorSettings(), ""),
        (AllocatorSettings(expandable_segments=True), "expandable_segments:True"),
        (AllocatorSettings(expandable_segments=True, max_split_size_bytes=128 << 20),
         "expandable_segments:True,max_split_size_mb:128"),
    ],
)  # fmt: skip
def test_settings_are_spelled_as_they_are_read(settings: AllocatorSettings, spelled: str) -> None:
    assert options.spelled_options(settings) == spelled
    assert options.read_options({"PYTORCH_CUDA_ALLOC_CONF": spelled}) == (settings, [])
