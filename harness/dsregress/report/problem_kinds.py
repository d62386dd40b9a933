"""The words of each kind of problem, from ``problem_kinds.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from dsregress.compare import ProblemKind
from dsregress.messages import Message

FILE = Path(__file__).with_suffix(".toml")


class KindWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The words of a kind of problem."""

    section: str  #: the title of its section; kinds may share one
    word: str  #: for a run that has the problem
    meaning: str = ""  #: to whoever uses the release; empty for a cost

    @property
    def title(self) -> Message:
        """The title of its section, which other languages have too."""
        return Message(self.section)

    @property
    def run_word(self) -> Message:
        """The word for a run, which other languages have too."""
        return Message(self.word)


def read_kinds(content: bytes) -> Mapping[ProblemKind, KindWords]:
    """Return the words of all kinds, the gravest first. Raise ValueError unless each kind has its entry, and no other."""
    table = msgspec.toml.decode(content, type=dict[str, KindWords])
    names = {kind.name.lower(): kind for kind in ProblemKind}
    if table.keys() != names.keys():
        raise ValueError(f"not one entry for each kind of problem: {', '.join(sorted(table.keys() ^ names.keys()))}")
    return {kind: table[name] for name, kind in names.items()}


KINDS = read_kinds(FILE.read_bytes())
