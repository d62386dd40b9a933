"""Tables beside modules are what their modules expect, or an error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from vgpu.json_tables import decoded_entries, decoded_text, decoded_text_lists, decoded_texts, table_beside


def test_a_table_is_the_file_beside_its_module(tmp_path: Path) -> None:
    (tmp_path / "launchers.json").write_text(json.dumps({"torchrun": ["--standalone"]}))
    assert decoded_text_lists(table_beside(str(tmp_path / "launchers.py"))) == {"torchrun": ("--standalone",)}


@pytest.mark.parametrize(
    ("decode", "entry"),
    [
        (decoded_entries, ["torchrun"]),
        (decoded_text, 1),
        (decoded_texts, "--standalone"),
        (decoded_texts, [1]),
        (decoded_text_lists, {"torchrun": "--standalone"}),
        (decoded_text_lists, []),
    ],
)
def test_a_table_in_another_form_is_an_error(decode: Callable[[object], object], entry: object) -> None:
    with pytest.raises(ValueError, match="not "):
        decode(entry)
