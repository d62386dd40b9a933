"""From explanations to who holds what, and what one holds more than another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsregress.advice import attribution
from dsregress.probe.border.wire import Explanation, Held, Moment

GATHER = "deepspeed/runtime/zero/partition_parameters.py"


def held(nbytes: int, category: str, site: str, module: str = "", via: list[str] | None = None) -> Held:
    return Held(nbytes, 1, category, module, site, via or [], "backward")


def moment(*rows: Held) -> Moment:
    return Moment(0, sum(row.nbytes for row in rows), list(rows))


def explanation(**moments: Moment) -> Explanation:
    return Explanation({name.replace("__", "."): one for name, one in moments.items()})


GOOD = moment(
    held(100, "gathered parameters", f"{GATHER}:1235 in gather", "lm_head"), held(50, "gradients", "a.py:1 in g")
)
BAD = moment(
    held(100, "gathered parameters", f"{GATHER}:1254 in gather", "lm_head"),
    held(400, "gathered parameters", f"{GATHER}:1254 in gather", "model.layers.*.mlp", ["hooks.py:9 in before"]),
    held(20, "gradients", "a.py:3 in g"),
)


def test_shares_are_reported_largest_first() -> None:
    assert [(share.name, share.nbytes, share.count) for share in attribution.by_category(BAD)] == [
        ("gathered parameters", 500, 2),
        ("gradients", 20, 1),
    ]
    assert [share.name for share in attribution.by_module(BAD)] == ["model.layers.*.mlp", "lm_head", "(no module)"]


def test_the_same_function_is_the_same_place_whatever_its_line() -> None:
    first, second = attribution.difference(BAD, GOOD)
    assert (first.site, first.nbytes, first.other_nbytes, first.more_bytes) == (
        f"{GATHER}:1254 in gather",
        500,
        100,
        400,
    )
    assert (second.category, second.more_bytes) == ("gradients", -30)


def test_evidence_names_what_is_held_more_and_nothing_else() -> None:
    told = attribution.evidence(
        explanation(backward__device_retained_bytes=BAD),
        explanation(backward__device_retained_bytes=GOOD),
        "backward.device_retained_bytes",
    )
    assert told == (
        "held after backward: 400 B more gathered parameters at deepspeed/runtime/zero/partition_parameters.py:1254 in "
        "gather, for model.layers.*.mlp, lm_head, called by hooks.py:9 in before (500 B instead of 100 B)",
    )


def test_a_moment_that_was_not_explained_has_no_evidence() -> None:
    assert attribution.evidence(Explanation(), None, "step.host_peak_bytes") == ()


def test_places_beyond_the_first_are_summed() -> None:
    many = moment(*(held(10 + number, "other", f"a.py:1 in f{number}") for number in range(5)))
    told = attribution.evidence(explanation(step__host_peak_bytes=many), None, "step.host_peak_bytes", most=2)
    assert told[0].startswith("held on the host at the peak of step: 14 B more other at a.py:1 in f4")
    assert told[2] == "held on the host at the peak of step: 33 B more at 3 other places"


def test_many_modules_are_reported_by_what_they_share() -> None:
    names = ["model.layers.*.mlp.up", "model.layers.*.mlp.down", "lm_head", "model.layers.*.attention"]
    assert attribution.shorter(names) == ["model.layers.*", "lm_head"]


rows = st.lists(
    st.builds(
        held,
        st.integers(0, 1 << 40),
        st.sampled_from(["gradients", "buckets", "other"]),
        st.sampled_from(["a.py:1 in f", "a.py:2 in f", "b.py:1 in g"]),
        st.sampled_from(["", "model"]),
    ),
    max_size=12,
)


@pytest.mark.slow
@given(rows, rows)
def test_no_byte_is_lost(mine: list[Held], theirs: list[Held]) -> None:
    one, other = moment(*mine), moment(*theirs)
    assert sum(place.more_bytes for place in attribution.difference(one, other)) == one.nbytes - other.nbytes
    assert sum(place.nbytes for place in attribution.by_site(one)) == one.nbytes
    assert sum(share.nbytes for share in attribution.by_module(one)) == one.nbytes
