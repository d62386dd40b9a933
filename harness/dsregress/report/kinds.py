"""Marks of findings, and of cells without one: a sign and a word, so that reading them needs no color. A sign means one
thing, and stands nowhere else. From ``kinds.toml``."""

from __future__ import annotations

from pathlib import Path

import msgspec

#: kind -> sign, word.
SIGNS = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=dict[str, tuple[str, str]])
