"""What a model is fed is recorded as its program calls it, without its padding."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from dsregress.programs.watch.fed_batches import FedBatches  # noqa: E402


class Model(torch.nn.Module):
    def forward(self, *args: Any, **kwargs: Any) -> None: ...


def fed(*args: Any, contents: bool = True, **kwargs: Any) -> Any:
    batches, model = FedBatches(contents=contents), Model()
    batches.expect(model, 1)
    model(*args, **kwargs)
    model(*args, **kwargs)  # only the call that was expected
    (batch,) = batches.batches
    return batch


IDS = torch.tensor([[5, 6, 2, 0], [7, 8, 9, 2]])


def test_rows_are_counted_without_their_padding_and_labels_where_they_are() -> None:
    labels = torch.tensor([[-100, 6, 2, -100], [-100, -100, -100, 2]])
    batch = fed(input_ids=IDS, attention_mask=(IDS != 0).long(), labels=labels)
    assert (batch.rows, batch.length) == (2, 4)
    assert [(row.tokens, row.supervised, row.last) for row in batch.first_rows] == [(3, 2, 2), (4, 1, 2)]


def test_a_row_is_the_same_however_it_is_padded() -> None:
    wider = torch.nn.functional.pad(IDS, (3, 0))
    rows = [fed(input_ids=ids, attention_mask=(ids != 0).long()).first_rows for ids in (IDS, wider)]
    assert rows[0] == rows[1]


def test_a_row_that_lacks_its_last_id_is_known_by_the_others() -> None:
    whole, cut = (fed(input_ids=ids).first_rows[1] for ids in (IDS, IDS[:, :-1]))
    assert whole.ids != cut.ids == whole.ids_but_last


def test_a_mapping_and_positions_are_looked_into() -> None:
    assert fed({"input_ids": IDS, "labels": IDS}).first_rows == fed(input_ids=IDS, labels=IDS).first_rows
    assert fed(IDS).first_rows[0].tokens == 4
    assert fed(torch.zeros(3, 8)).rows == 3


def test_of_a_simulation_shapes_are_recorded() -> None:
    (first, _) = fed(input_ids=IDS.to("meta"), labels=IDS.to("meta"), contents=False).first_rows
    assert (first.tokens, first.supervised, first.ids) == (4, None, "")


def test_draws_belong_to_the_next_batch_and_a_stream_has_none() -> None:
    batches, model = FedBatches(contents=True), Model()
    for indices in ([3, 1], [None, None], None, (0,)):
        batches.draw(indices)
    for _ in range(2):
        batches.expect(model, 1)
        model(IDS)
    assert [batch.drawn for batch in batches.batches] == [[3, 1, 0], []]


def test_the_floats_of_a_plain_module_are_kept_by_two_means_of_each_row() -> None:
    rows = torch.arange(12.0).reshape(3, 4)
    whole, turned, rounded = (fed(one).values["0"] for one in (rows, rows.flip(1), rows.bfloat16()))
    assert [round(mean, 4) for mean, _ in whole] == [1.5, 5.5, 9.5]
    assert [mean for mean, _ in turned] == [mean for mean, _ in whole]
    assert turned != whole  # other values in each place
    assert rounded == whole


def test_what_a_module_has_computed_and_what_is_digested_are_no_values() -> None:
    computed = torch.nn.Linear(4, 4)(torch.ones(2, 4))
    named = {"input_ids": IDS, "labels": torch.tensor([1, 0]), "pixel_values": torch.full((2, 3, 2, 2), torch.inf)}
    assert fed(computed).values == {}
    assert fed(**named).values == {"labels": [[1.0, 1.0], [0.0, 0.0]], "pixel_values": [[-1.0, -1.0]] * 2}
    assert fed(torch.ones(2, 4, device="meta"), contents=False).values == {}


def test_what_a_loss_is_divided_by_is_no_data() -> None:
    values = fed(input_ids=IDS, num_items_in_batch=torch.tensor(12), weight=torch.ones(2)).values
    assert list(values) == ["weight"]
