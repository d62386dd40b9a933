from __future__ import annotations

import time
from pathlib import Path

import pytest

from dsregress.config.settings import read_settings
from dsregress.config.toml_text import parsed_toml
from dsregress.errors import UsageError
from dsregress.versions import installed


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a = " + "[" * 100_000, "it is nested too deeply"),
        ("a = " + "1" * 10_000, "a number of too many digits"),
        ("a" + ".a" * 20_000 + " = 1", "a key of more than 100 parts"),
        ("[" + "'a' . " * 20_000 + "a]", "a key of more than 100 parts"),
        ("x = {" + "a-b." * 20_000 + "c = 1}", "a key of more than 100 parts"),
    ],
    ids=["brackets", "digits", "key", "quoted table", "inline"],
)
def test_what_toml_has_no_reason_to_hold_is_refused_soon(text: str, why: str, tmp_path: Path) -> None:
    begun = time.perf_counter()
    with pytest.raises(ValueError, match=why):
        parsed_toml(text)
    file = tmp_path / "pyproject.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as refused:
        read_settings(start=tmp_path, environ={})
    assert str(refused.value) == f"{file}: not valid TOML: {why}; correct that line"
    with pytest.raises(UsageError, match=f"uv.lock: not valid TOML: {why}; regenerate it with `uv lock`"):
        installed.read_packages(text.encode(), "uv.lock")
    assert time.perf_counter() - begun < 5


def test_dots_in_a_text_and_keys_of_a_few_parts_are_read() -> None:
    assert parsed_toml('a.b."c.d".e = "' + "." * 1000 + '"') == {"a": {"b": {"c.d": {"e": "." * 1000}}}}
