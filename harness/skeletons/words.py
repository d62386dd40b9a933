"""Frequent English words, most frequent first: tokens of the synthetic vocabulary, and the words of synthetic text."""

from __future__ import annotations

from skeletons.table_files import read_names

_TABLE = read_names("words")

WORDS = _TABLE["words"]

#: Beginnings and ends of longer words.
PIECES = _TABLE["pieces"]
