"""What goes wrong in a program because its models are shrunk."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from dsregress.programs.substitutes import tiny_models  # noqa: E402


def _failure(*, rows: int, largest: int) -> BaseException:
    embedding = torch.nn.Embedding(rows, 4)
    with pytest.raises(IndexError) as caught:
        embedding(torch.tensor([[0, largest]]))
    return caught.value


@pytest.mark.parametrize("largest", [31_999, 1_500])
def test_token_ids_of_the_whole_vocabulary_are_no_fault_of_a_release(largest: int) -> None:
    error = _failure(rows=1024, largest=largest)
    said = f"token id {largest} is beyond the 1024 tokens of a model that --tiny shrank"
    assert tiny_models.beyond_vocabulary(error) == said


@pytest.mark.parametrize("rows", [1024, 16, 1])
def test_a_token_for_which_a_release_made_no_row_is_its_fault(rows: int) -> None:
    assert tiny_models.beyond_vocabulary(_failure(rows=rows, largest=1024)) == ""


def test_any_other_index_is_what_it_is() -> None:
    with pytest.raises(IndexError) as caught:
        [][1]
    assert tiny_models.beyond_vocabulary(caught.value) == ""
