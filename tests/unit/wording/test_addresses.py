"""Public addresses of what was measured."""

from __future__ import annotations

from dsregress.wording.addresses import place_url, release_url, tag_url

VERSIONS = {"deepspeed": "0.16.4", "transformers": "4.57.6", "torch": "2.13.0+cpu"}


def test_a_build_is_that_of_its_release() -> None:
    assert release_url("torch", "2.13.0+cpu") == "https://pypi.org/project/torch/2.13.0/"
    assert tag_url("torch", "2.13.0+cpu") == "https://github.com/pytorch/pytorch/tree/v2.13.0"
    assert tag_url("openrlhf", "0.5.9") == ""


def test_a_place_in_the_code_is_a_line_of_the_released_file() -> None:
    assert place_url("deepspeed/runtime/zero/stage3.py:1388 in step", VERSIONS) == (
        "https://github.com/deepspeedai/DeepSpeed/blob/v0.16.4/deepspeed/runtime/zero/stage3.py#L1388"
    )
    assert place_url("transformers/trainer.py:7", VERSIONS) == (
        "https://github.com/huggingface/transformers/blob/v4.57.6/src/transformers/trainer.py#L7"
    )


def test_what_is_no_place_of_a_known_package_has_no_address() -> None:
    for place in ("", "train.py:7 in main", "trl/trainer/x.py:3", "deepspeed/../../evil.py", "deepspeed/x.py"):
        assert place_url(place, VERSIONS) == ""


def test_a_version_never_breaks_out_of_the_address() -> None:
    assert release_url("deepspeed", '1"><script>') == "https://pypi.org/project/deepspeed/1%22%3E%3Cscript%3E/"
