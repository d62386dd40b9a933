"""Whatever a release has in its configuration or its errors, the run's measurements reach the host."""

from __future__ import annotations

import itertools
import json
import os
import sys
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from dsregress.probe.border import faults, machine
from dsregress.probe.border.encoding import MOST_CHARACTERS, MOST_VALUES, TEXT_LENGTH, encode, free_value


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Exiting:
    def __repr__(self) -> str:
        sys.exit(0)


class OwnText(str):
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class OwnFloat(float):
    def __repr__(self) -> str:
        return "garbage"


class OwnDictionary(dict):  # type: ignore[type-arg]
    def items(self) -> Any:
        raise RuntimeError("no")


class Precision(Enum):
    HALF = "fp16"


def cyclic() -> list[Any]:
    found: list[Any] = [1]
    found.append(found)
    return found


def nested(levels: int) -> object:
    found: object = 1
    for _ in range(levels):
        found = {"in": found}
    return found


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (float("inf"), "inf"),
        (float("-inf"), "-inf"),
        (float("nan"), "nan"),
        (OwnFloat(1.5), 1.5),
        (True, True),
        (None, None),
        ("half \ud800 of a character", "half \\ud800 of a character"),
        ("a\0b", "a\\x00b"),
        (OwnText("theirs"), "theirs"),
        (2**63 - 1, 2**63 - 1),
        (10**60, "1" + "0" * 60),
        (1 << 100_000, "an integer of 100001 bits"),
        (b"bytes", "b'bytes'"),
        ({3, 1, 2}, [1, 2, 3]),
        ((1, float("inf")), [1, "inf"]),
        ({1: "a", "1": "b", None: "c"}, {"1": "a", "1 (str)": "b", "None": "c"}),
        (OwnDictionary(a=1), {"a": 1}),
        (cyclic(), [1, "... (it holds itself)"]),
        (Precision.HALF, "Precision.HALF"),
        (Unprintable(), "<Unprintable that cannot be printed>"),
        (Exiting(), "<Exiting that cannot be printed>"),
        ({"deep": [Unprintable()]}, {"deep": ["<Unprintable that cannot be printed>"]}),
    ],
    ids=itertools.count(),
)
def test_every_value_is_written_and_keeps_its_meaning(given: object, written: object) -> None:
    assert free_value(given) == written
    assert json.loads(encode({"it": given})) == {"it": written}


def test_what_is_too_long_too_many_or_too_deep_is_cut_and_says_so() -> None:
    assert free_value("x" * 100_000_000) == "x" * TEXT_LENGTH + "... (100000000 characters)"
    assert len(free_value(list(range(1_000_000)))) == MOST_VALUES + 1
    assert free_value(list(range(1_000_000)))[-1] == "... (1000000 members)"
    assert len(json.dumps(free_value([["x"] * 1000] * 1000))) < 10 * MOST_VALUES  # in all, and not in each
    assert len(json.dumps(free_value(dict.fromkeys(range(10000), "x" * 9000)))) < 2 * MOST_CHARACTERS
    assert "nested too deep" in json.dumps(free_value(nested(100_000)))


def test_of_what_the_probe_writes_itself_every_value_is_kept() -> None:
    points = [[n, n] for n in range(3 * MOST_VALUES)]
    assert json.loads(encode({"points": points})) == {"points": points}
    cut = free_value("x" * 20_000)
    assert json.loads(encode({"it": cut})) == {"it": cut}


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("error", "signature"),
    [
        (ValueError("half \ud800"), "ValueError: half \\ud800"),
        (ValueError("a\0b"), "ValueError: a\\x00b"),
        (ValueError(float("inf")), "ValueError: inf"),
        (UnprintableError(), "UnprintableError: <UnprintableError that cannot be printed>"),
    ],
)
def test_an_error_of_any_text_has_a_signature_and_a_detail(error: BaseException, signature: str) -> None:
    assert faults.signature_of(error) == signature
    faults.detail_of(error).encode()
    assert not faults.is_out_of_memory(error)
    assert machine.of_error(error) == ""


def test_an_error_of_a_hundred_megabytes_costs_no_time() -> None:
    error = ValueError("/a/b" * 25_000_000)
    assert len(faults.signature_of(error)) <= faults.SIGNATURE_LENGTH
    assert len(faults.detail_of(error)) <= faults.DETAIL_LENGTH


def test_a_log_that_is_a_pipe_is_no_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    assert faults.tail(str(tmp_path / "log")) is None
