"""Which tensor has the size of a request."""

from __future__ import annotations

import pytest

from dsregress.advice.diagnosis import tensor_sizes
from dsregress.advice.diagnosis.out_of_memory import WrittenSize

GIB = 1 << 30


def written(number: str, unit: int = GIB) -> WrittenSize:
    return WrittenSize(f"{number} GiB", float(number) * unit, 0.005 * unit)


def test_logits_of_a_model_and_a_sequence_length() -> None:
    model = tensor_sizes.model_in("model_name_or_path: /models/Qwen2.5-7B-Instruct")
    assert model is not None
    first, *_ = tensor_sizes.matches(written("4.64"), model, 4096)
    assert (first.product, str(first.what)) == ("2 x 4096 x 152064 x 4 bytes", "logits in fp32")
    assert first.nbytes == 2 * 4096 * 152064 * 4
    assert not first.is_assumed


def test_a_size_that_is_no_whole_number_of_sequences_is_not_explained() -> None:
    model = tensor_sizes.model_in("Qwen/Qwen2.5-7B")
    assert tensor_sizes.matches(written("4.61"), model, 4096) == ()


def test_without_a_model_the_vocabulary_is_an_assumption() -> None:
    found = tensor_sizes.matches(written("4.64"), None, None)
    assert all(one.is_assumed for one in found)
    assert found[0].product == "8192 x 152064 x 4 bytes"


def test_the_default_bucket_is_rounded_up_to_whole_blocks() -> None:
    # CarperAI/trlx#266: torch.empty(int(self.reduce_bucket_size)), 953.67 MiB
    (found,) = tensor_sizes.matches(written("954.00", 1 << 20), None, None)
    assert found.nbytes == 1_000_000_000


def test_a_small_request_may_be_anything() -> None:
    assert tensor_sizes.matches(written("20.00", 1 << 20), None, None) == ()


@pytest.mark.parametrize(
    ("text", "sequence"),
    [("cutoff_len: 4096", 4096), ('"max_length": 2048,', 2048), ("--max_len 1024", 1024), ("max_lengths 3", None)],
)
def test_the_sequence_length_that_a_text_configures(text: str, sequence: int | None) -> None:
    assert tensor_sizes.sequence_in(text) == sequence


def test_a_word_that_is_no_model() -> None:
    assert tensor_sizes.model_in("my/model and gpt of some kind") is None
