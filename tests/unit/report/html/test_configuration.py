"""A workload's parameters in words."""

from __future__ import annotations

from dsregress.report.html.job_words import job_words


def test_a_model_s_shape_is_shown_by_its_fields() -> None:
    _, rest = job_words({"shape": {"hidden_size": 64, "num_hidden_layers": 4}, "layers": 4}, "sim")
    assert rest == [("layers", "4"), ("shape", "hidden_size 64, num_hidden_layers 4")]
