"""Descriptors that fail: a write to them ends nothing."""

from __future__ import annotations

import os

from dsregress.cli.standard_streams import Output


def test_a_reader_that_has_left_is_no_failure() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    output = Output(writing)
    assert (output.write(b"report"), output.write(b"more")) == (6, 4)
    assert output.failure is None
    os.close(writing)


def test_a_full_disk_is_a_failure_and_takes_every_write() -> None:
    with open("/dev/full", "wb") as full:
        output = Output(full.fileno())
        assert output.failure is None
        assert output.write(b"report") == 6
        assert output.failure is not None
        assert output.write(b"more") == 4


def test_a_descriptor_that_was_closed_fails_with_the_first_write() -> None:
    output = Output(1, is_closed=True)
    assert output.failure is None
    output.write(b"x")
    assert output.failure is not None
