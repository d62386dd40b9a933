"""What a stand-in lacks is refused by its name, and is not there for who asks first."""

from __future__ import annotations

import copy

import pytest

from vgpu.no_stand_in import NoStandInError, StandIn, refused

KERNEL = StandIn("DeepSpeed's cpu_adam", adam_update=len)


def test_what_a_stand_in_lacks_is_not_there_for_who_asks_first() -> None:
    assert KERNEL.adam_update([1]) == 1
    assert not hasattr(KERNEL, "ctrl_size")
    assert getattr(KERNEL, "ctrl_size", "default") == "default"


def test_what_a_stand_in_lacks_is_one_line_that_names_it_and_the_way_out() -> None:
    with pytest.raises(NoStandInError) as raised:
        KERNEL.ctrl_size()
    says = "DeepSpeed's cpu_adam.ctrl_size has no stand-in: leave out what needs it, or run on cuda"
    assert str(raised.value) == says


def test_pythons_own_protocols_are_no_part_of_what_it_stands_for() -> None:
    assert copy.copy(KERNEL).adam_update is len
    with pytest.raises(AttributeError) as raised:
        KERNEL.__length_hint__  # noqa: B018
    assert not isinstance(raised.value, NoStandInError)


def test_an_error_that_reports_a_gap_in_other_words_is_refused() -> None:
    error = RuntimeError("it could not be loaded")
    error.__cause__ = KeyError("kernel")
    with pytest.raises(NoStandInError, match="^the kernel has no stand-in: "), refused(_kernel):
        raise error


def test_any_other_error_passes() -> None:
    with pytest.raises(RuntimeError, match="^of the release$"), refused(_kernel):
        raise RuntimeError("of the release")


def _kernel(error: BaseException) -> str:
    return "the kernel" if isinstance(error, KeyError) else ""
