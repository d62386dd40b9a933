"""What a person writes for versions, and what it means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from dsregress.errors import UsageError
from dsregress.versions.specs import UnknownVersion, expand

KNOWN = ("0.15.0", "0.15.4", "0.16.0", "0.16.3", "0.16.4", "0.16.8", "0.17.0rc1", "0.17.0", "0.18.0rc1")


@pytest.mark.parametrize(
    ("spec", "releases"),
    [
        ("0.16.4", ["0.16.4"]),
        ("==0.16.4", ["0.16.4"]),
        ("0.16", ["0.16.0"]),  # PEP 440: the same version
        ("v0.16.4", ["0.16.4"]),
        ("latest", ["0.17.0"]),
        ("0.16.*", ["0.16.0", "0.16.3", "0.16.4", "0.16.8"]),
        (">=0.16,<0.17", ["0.16.0", "0.16.3", "0.16.4", "0.16.8"]),
        (">=0.16, <0.16.4", ["0.16.0", "0.16.3"]),
        ("0.16.*,!=0.16.3", ["0.16.0", "0.16.4", "0.16.8"]),
        ("0.16.*,<0.16.4", ["0.16.0", "0.16.3"]),
        ("~=0.16.3", ["0.16.3", "0.16.4", "0.16.8"]),
        ("0.16.8,0.15.0", ["0.16.8", "0.15.0"]),  # given order
        ("0.16.8,0.15.*", ["0.16.8", "0.15.0", "0.15.4"]),
        ("latest,>=0.15,<0.16", ["0.17.0", "0.15.0", "0.15.4"]),
        ("0.15.0,>=0.16,<0.16.4,latest", ["0.15.0", "0.16.0", "0.16.3", "0.17.0"]),
        ("0.16.4,0.16.*", ["0.16.4", "0.16.0", "0.16.3", "0.16.8"]),  # each once
        ("0.17.0rc1", ["0.17.0rc1"]),
        (">=0.17", ["0.17.0"]),
        (">=0.17.0rc1", ["0.17.0rc1", "0.17.0", "0.18.0rc1"]),
    ],
)
def test_a_spec_means(spec: str, releases: list[str]) -> None:
    assert list(expand("deepspeed", spec, KNOWN)) == releases


def test_an_unknown_release_names_its_neighbours() -> None:
    with pytest.raises(UnknownVersion) as caught:
        expand("deepspeed", "0.16.5", KNOWN)
    assert str(caught.value) == (
        "deepspeed: unknown release 0.16.5; nearest are 0.16.3, 0.16.4, 0.16.8, 0.17.0rc1; "
        "if it is newer than this harness, run nox -s update_pins"
    )


def test_a_range_without_releases_tells_what_is_known() -> None:
    with pytest.raises(UnknownVersion, match=r"no known release fits '>=9'; known are 0.15.0 to 0.18.0rc1"):
        expand("deepspeed", ">=9", KNOWN)


def test_a_range_that_runs_backwards_says_so_and_not_that_releases_are_too_new() -> None:
    with pytest.raises(UsageError, match="'>=0.17,<0.16' runs backwards: no version fits it; write") as caught:
        expand("deepspeed", ">=0.17,<0.16", KNOWN)
    assert not isinstance(caught.value, UnknownVersion)


def test_a_span_as_other_options_take_it_is_answered_by_how_it_is_written_here() -> None:
    with pytest.raises(UsageError, match="'0.16.3..0.16.4' is not a version; write '>=0.16.3,<=0.16.4'"):
        expand("deepspeed", "0.16.3..0.16.4", KNOWN)


@pytest.mark.parametrize("spec", ["", ",", "0.16.4,", "banana", ">=x", "0.*.4", ">="])
def test_what_cannot_be_read_is_refused_with_an_example(spec: str) -> None:
    with pytest.raises(UsageError, match="write e.g. 0.16.4") as caught:
        expand("deepspeed", spec, KNOWN)
    assert not isinstance(caught.value, UnknownVersion)


@pytest.mark.parametrize(
    "spec", ["./trl", "..", "/srv/trl", "git+https://host/trl", "trl-0.24.0.tar.gz", "0.24.0,~/trl"]
)
def test_a_path_is_no_release(spec: str) -> None:
    with pytest.raises(UsageError, match=r"^trl: '.*' is a path or URL; releases are compared: put its wheel into"):
        expand("trl", spec, KNOWN)


versions = st.builds("{}.{}.{}".format, st.integers(0, 3), st.integers(0, 12), st.integers(0, 12))
catalogues = st.lists(versions, min_size=1, max_size=12, unique=True)


@given(catalogues, st.data())
def test_a_list_of_exact_versions_is_itself(known: list[str], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(known), min_size=1, unique=True))
    assert list(expand("p", ",".join(chosen), known)) == chosen


@given(catalogues, versions, versions)
def test_a_range_is_all_that_lies_in_it_in_version_order(known: list[str], low: str, high: str) -> None:
    inside = sorted((v for v in known if Version(low) <= Version(v) < Version(high)), key=Version)
    try:
        assert list(expand("p", f">={low},<{high}", known)) == inside
    except UsageError:
        assert inside == []


@given(catalogues, st.data())
def test_a_list_of_series_is_the_union_of_each(known: list[str], data: st.DataObject) -> None:
    series = st.sampled_from(known).map(lambda v: v.rpartition(".")[0] + ".*")
    chosen = data.draw(st.lists(series, min_size=1, max_size=3))
    union = dict.fromkeys(v for one in chosen for v in expand("p", one, known))
    assert expand("p", ",".join(chosen), known) == tuple(union)


@given(catalogues, versions, versions, st.data())
def test_a_range_beside_exact_versions_stays_one_range(
    known: list[str], low: str, high: str, data: st.DataObject
) -> None:
    exact = data.draw(st.sampled_from(known))
    try:
        ranged = expand("p", f">={low},<={high}", known)
    except UsageError:
        return
    assert expand("p", f"{exact},>={low},<={high}", known) == tuple(dict.fromkeys((exact, *ranged)))
    assert expand("p", f">={low},<={high},{exact}", known) == tuple(dict.fromkeys((*ranged, exact)))


@given(st.text(alphabet="0123456789.,*<>=!~ latest", max_size=20))
def test_any_text_gives_known_releases_or_one_line(text: str) -> None:
    try:
        assert set(expand("p", text, KNOWN)) <= set(KNOWN)
    except UsageError as error:
        assert "\n" not in str(error)
