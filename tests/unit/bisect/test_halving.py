"""The search, on every kind of history that hypothesis can think of."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsregress.bisect.halving import Transition, next_probe, runs_left, sought, transitions, undone
from dsregress.model import Verdict

G, B, U = Verdict.GOOD, Verdict.BAD, Verdict.UNKNOWN

#: Histories that begin good and end bad; between, anything.
between = st.lists(st.sampled_from([G, B, U]), max_size=60)
wild = between.map(lambda middle: [G, *middle, B])
#: Good until it is bad, with Unknowns strewn in.
once = st.tuples(st.lists(st.sampled_from([G, U]), max_size=40), st.lists(st.sampled_from([B, U]), max_size=40)).map(
    lambda parts: [G, *parts[0], *parts[1], B]
)


def search(
    history: list[Verdict],
    to: Verdict = B,
    *,
    known: dict[int, Verdict] | None = None,
    every: bool = False,
    hunt: bool = False,
) -> tuple[dict[int, Verdict], list[int]]:
    """Asks until nothing is left to ask: all answers, and the places in the order in which they were asked."""
    answers = dict(known or {})
    asked: list[int] = []
    while (at := next_probe(len(history), answers, to, every=every, hunt=hunt)) is not None:
        assert at not in answers, "asked twice"
        answers[at] = history[at]
        asked.append(at)
    return answers, asked


def spelled(text: str) -> list[Verdict]:
    return [{"G": G, "B": B, "u": U}[letter] for letter in text]


@settings(deadline=None)
@given(once)
def test_a_history_that_goes_bad_once_is_narrowed_down_to_nothing_but_unknowns(history: list[Verdict]) -> None:
    answers, _ = search(history)
    found = sought(len(history), answers, B)
    assert found is not None
    assert found.is_settled
    assert history[found.before] is G
    assert history[found.after] is B
    assert {history[at] for at in range(found.before + 1, found.after)} <= {U}
    assert found.is_exact == (found.after - found.before == 1)
    assert found.before == max(at for at, answer in enumerate(history) if answer is G)
    assert found.after == min(at for at, answer in enumerate(history) if answer is B)


@settings(deadline=None)
@given(wild, st.sampled_from([G, B]))
def test_whatever_the_history_no_unknown_is_blamed(history: list[Verdict], to: Verdict) -> None:
    answers, _ = search(history, to)
    for change in transitions(len(history), answers):
        assert U not in (history[change.before], history[change.after])
        assert history[change.before] is not history[change.after] is change.to


@pytest.mark.slow
@settings(deadline=None)
@given(st.integers(2, 5000), st.data())
def test_without_unknowns_it_takes_the_ends_and_the_logarithm(count: int, data: st.DataObject) -> None:
    first_bad = data.draw(st.integers(1, count - 1))
    answers, asked = search([G] * first_bad + [B] * (count - first_bad))
    found = sought(count, answers, B)
    assert found is not None
    assert (found.before, found.after) == (first_bad - 1, first_bad)
    assert len(asked) <= 2 + math.ceil(math.log2(count - 1)) if count > 2 else len(asked) == 2


@pytest.mark.slow
@settings(deadline=None)
@given(st.integers(3, 2000), st.data())
def test_one_unknown_costs_one_probe(count: int, data: st.DataObject) -> None:
    first_bad = data.draw(st.integers(1, count - 1))
    history = [G] * first_bad + [B] * (count - first_bad)
    history[data.draw(st.integers(1, count - 2))] = U
    if history[0] is G and history[-1] is B:
        _, asked = search(history)
        assert len(asked) <= 2 + math.ceil(math.log2(count)) + 2  # an uneven half, and the Unknown itself


def test_a_run_of_unknowns_in_the_middle_is_stepped_over() -> None:
    history = [G] * 900 + [U] * 200 + [G] * 300 + [B] * 600
    _, asked = search(history)
    assert sum(history[at] is U for at in asked) <= 2 * math.ceil(math.log2(200)) + 1


@settings(deadline=None)
@given(wild, st.data())
def test_an_interrupted_search_goes_on_and_asks_nothing_again(history: list[Verdict], data: st.DataObject) -> None:
    whole, asked = search(history)
    kept = asked[: data.draw(st.integers(0, len(asked)))]
    resumed, rest = search(history, known={at: history[at] for at in kept})
    assert (resumed, rest) == (whole, asked[len(kept) :])


@settings(deadline=None)
@given(wild, st.sets(st.integers(0, 61)))
def test_answers_that_were_there_before_are_used(history: list[Verdict], places: set[int]) -> None:
    known = {at: history[at] for at in places if at < len(history)}
    answers, asked = search(history, known=known)
    found = sought(len(history), answers, B)
    assert set(asked).isdisjoint(known)
    assert found is not None
    assert found.is_settled


@settings(deadline=None)
@given(st.lists(st.sampled_from([G, B, U]), min_size=2, max_size=60))
def test_every_asks_everything_and_finds_every_change(history: list[Verdict]) -> None:
    answers, _ = search(history, every=True)
    assert [answers[at] for at in range(len(history))] == history
    decided = [answer for answer in history if answer is not U]
    assert len(transitions(len(history), answers)) == sum(a is not b for a, b in itertools.pairwise(decided))


@settings(deadline=None)
@given(st.lists(st.sampled_from([G, B, U]), min_size=2, max_size=60))
def test_what_is_left_is_never_more_than_was_announced_when_nothing_is_unknown(history: list[Verdict]) -> None:
    history = [G if answer is U else answer for answer in history]
    answers: dict[int, Verdict] = {}
    announced = runs_left(len(history), answers, B)
    while (at := next_probe(len(history), answers, B)) is not None:
        answers[at] = history[at]
        left = runs_left(len(history), answers, B)
        if sought(len(history), answers, B) is not None:
            assert left < announced
        announced = left


def test_a_history_that_went_bad_twice_shows_what_is_known_of_it() -> None:
    history = spelled("GGBBGGGBB")
    answers, _ = search(history, known={4: G})
    assert [(c.before, c.after, c.to) for c in transitions(9, answers)][-1] == (6, 7, B)
    everything, asked = search(history, every=True)
    assert [(c.before, c.after, c.to) for c in transitions(9, everything)] == [(1, 2, B), (3, 4, G), (6, 7, B)]
    assert len(asked) == 9


def test_where_all_between_is_unknown_the_interval_is_what_is_left() -> None:
    answers, _ = search(spelled("GGuuuBB"))
    found = sought(7, answers, B)
    assert found is not None
    assert (found.before, found.after, found.is_exact, found.is_settled) == (1, 5, False, True)


def test_a_fault_that_came_and_went_is_hunted_from_coarse_to_fine_and_its_end_is_found_as_well() -> None:
    fifteen = spelled("GGGGGBBBBBBBBGG")  # 0.15.0 to 0.16.9, as it was
    answers, asked = search(fifteen, hunt=True)
    began, ended = sought(15, answers, B), undone(15, answers, B)
    assert began is not None
    assert ended is not None
    assert (began.before, began.after) == (4, 5)
    assert (ended.before, ended.after) == (12, 13)
    assert len(asked) == 9
    assert search(fifteen, G, known=answers, hunt=True)[1] == []


def test_where_nobody_hunts_only_the_change_that_is_sought_is_narrowed_down() -> None:
    fifteen = spelled("GGGGGBBBBBBBBGG")
    answers, _ = search(fifteen, known={0: G, 8: B, 14: G})
    assert (sought(15, answers, B), undone(15, answers, B)) == (
        Transition(before=4, after=5, to=B, open=0),
        Transition(before=8, after=14, to=G, open=5),
    )


def test_ends_that_agree_are_the_end_where_nobody_hunts() -> None:
    assert search(spelled("GBBG"))[1] == [0, 3]


def test_a_hunt_for_nothing_looks_at_all_there_is() -> None:
    assert sorted(search(spelled("GGGGG"), hunt=True)[1]) == [0, 1, 2, 3, 4]


def test_ends_the_wrong_way_round_are_no_change_of_the_kind_that_is_sought() -> None:
    answers, asked = search(spelled("BGGG"))
    assert sought(4, answers, B) is None
    assert asked == [0, 3]


def test_an_end_that_is_not_known_is_not_searched_around() -> None:
    assert search(spelled("uGB"))[1] == [0, 2]


@pytest.mark.parametrize(("count", "expected"), [(2, 2), (3, 3), (15, 6), (100, 9)])
def test_how_many_runs_it_takes_is_known_at_the_start(count: int, expected: int) -> None:
    assert runs_left(count, {}, B) == expected
