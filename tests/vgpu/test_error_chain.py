"""An error is found behind those that libraries make of it."""

from __future__ import annotations

from vgpu.error_chain import behind


def test_an_error_is_found_behind_others_by_its_kind() -> None:
    outer, middle, inner = OSError("outer"), KeyError("middle"), FileNotFoundError("inner")
    outer.__cause__, middle.__context__ = middle, inner
    assert behind(outer, OSError) is outer
    assert behind(outer, FileNotFoundError) is inner
    assert behind(outer, TypeError) is None


def test_errors_that_cause_each_other_are_looked_at_once() -> None:
    one, other = OSError("one"), KeyError("other")
    one.__cause__, other.__context__ = other, one
    assert behind(one, TypeError) is None
