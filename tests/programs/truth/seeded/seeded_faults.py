"""The faults of ``faults.toml``, the program that each is seeded into, and what was seen of each."""

from __future__ import annotations

import dataclasses
import fcntl
import itertools
import json
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent

#: What the tests saw; they write it under ``--accept``.
SEEN = HERE / "seen.json"

_RANKS = {"one process": 1, "FSDP2 and tensor parallel": 4}
_OTHERWISE = 2


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault, and how the program trains into which it is seeded."""

    of: str  #: what is wrong
    kind: str = ""  #: of training; "" for a fault that is not seeded
    seeded: str = ""  #: code of the program, before it trains
    first: str = ""  #: code before the model is wrapped
    names: str = ""  #: of the module or weight that has to be named: a regular expression
    missed: str = ""  #: why it is not found
    evaluates: bool = False
    routed: bool = False

    @property
    def ranks(self) -> int:
        """Return the number of ranks that train."""
        return _RANKS.get(self.kind, _OTHERWISE)

    @property
    def line(self) -> str:
        """Return the command that starts the program."""
        return "python train.py" if self.ranks == 1 else f"torchrun --nproc_per_node {self.ranks} train.py"

    @property
    def key(self) -> str:
        """Return what tells it from the others."""
        return f"{self.of} | {self.kind}"

    def program(self) -> str:
        """Return the program."""
        text = (HERE / "train.py.template").read_text(encoding="utf-8")
        words = {
            "KIND_OF_TRAINING": self.kind,
            "COUNT_OF_RANKS": str(self.ranks),
            "IS_ROUTED": str(self.routed),
            "EVALUATES": str(self.evaluates),
            "BEFORE_WRAPPING": self.first,
            "SEEDED": self.seeded,
        }
        for word, meaning in words.items():
            text = text.replace(word, meaning)
        return text


@dataclass(frozen=True)
class Seen:
    """What was seen of a fault: as what it was found, "" for nothing, and the module or weight that was named."""

    found: str = ""
    named: str = ""

    def is_right(self, fault: Fault) -> bool:
        """Return True if the fault was found, and what has to be named was, or nothing where nothing has to."""
        return bool(self.found) and bool(re.fullmatch(fault.names, self.named))


def faults() -> list[Fault]:
    """Return all faults, one for each kind of training."""
    tables = tomllib.loads((HERE / "faults.toml").read_text(encoding="utf-8"))["fault"]
    return [
        Fault(of=table["is"], kind=kind, **{key: value for key, value in table.items() if key not in ("is", "kinds")})
        for table in tables
        for kind in table["kinds"] or [""]
    ]


def one_of_each() -> list[Fault]:
    """Return each fault that is seeded in one kind of training: of those with fewest ranks, which are quick, the one that
    fewest of those before it have."""
    taken: Counter[str] = Counter()
    chosen = []
    for _, alike in itertools.groupby(
        (one for one in faults() if one.kind), lambda one: (one.of, one.seeded, one.first)
    ):
        chosen.append(min(alike, key=lambda one: (one.ranks, taken[one.kind])))
        taken[chosen[-1].kind] += 1
    return chosen


def seen() -> dict[str, Seen]:
    """Return what was seen, by the key of the fault."""
    return {key: Seen(**one) for key, one in json.loads(SEEN.read_text(encoding="utf-8")).items()}


def keep(key: str, found: Seen) -> None:
    """Write what was seen of a fault, in the order of the faults; several processes may do so at once."""
    with SEEN.open("r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        table = json.load(file)
        table[key] = dataclasses.asdict(found)
        known = [fault.key for fault in faults() if fault.kind]
        file.seek(0)
        file.truncate()
        file.write(json.dumps({one: table[one] for one in known if one in table}, indent=1) + "\n")
