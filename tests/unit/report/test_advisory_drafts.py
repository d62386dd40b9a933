"""Drafts of advisories: of problems that are new and that no advisory knows."""

from __future__ import annotations

from dsregress.advisories.advisory import Advisory, AdvisoryKind, MeasuredSymptom, ReleaseRange, Ruling
from dsregress.advisories.osv import decode_advisory, encode_advisory
from dsregress.model import Result
from dsregress.report.advisory_drafts import draft_advisories
from dsregress.report.context import report_context
from tests.builders.known_runs import QUARTER, compared, ran


def drafts(*results: Result) -> list[Advisory]:
    found = draft_advisories(report_context(compared(*results)), "deepspeed", "0.18.3", "2026-11-27")
    return [one.record for one in found]


def test_a_problem_that_no_advisory_knows_gets_a_draft_that_claims_what_was_run() -> None:
    (draft,) = drafts(ran("0.18.2", "zero_stage=2"), ran("0.18.3", "zero_stage=2", error=30))
    assert draft.id == "DRAFT-deepspeed-0.18.3-1"
    assert draft.title == "llama_zero3_backward: gradient norm is wrong: 30 times the tolerance from plain PyTorch."
    assert (draft.kind, draft.ruling) == (AdvisoryKind.TRAINS_WRONG, Ruling.FAULT)
    assert draft.ranges == (ReleaseRange(package="deepspeed", affected=("0.18.3",), unaffected=("0.18.2",)),)
    assert draft.conditions == ()
    assert draft.shown_by == (MeasuredSymptom(metrics=("gradient_norm_error",), phase="backward"),)
    assert [one.text for one in draft.remedies] == ["use deepspeed 0.18.2"]
    assert draft.evidence.stack == "torch 2.13.0, transformers 4.57.6"


def test_a_draft_is_a_file_as_advisories_are() -> None:
    (draft,) = drafts(ran("0.18.2", "zero_stage=2"), ran("0.18.3", "zero_stage=2", crash="KeyError: 'scale'"))
    assert decode_advisory(encode_advisory(draft)) == draft
    assert draft.kind is AdvisoryKind.CRASHES
    assert draft.sees == "llama_zero3_backward: failed in step: KeyError: 'scale'."


def test_what_an_advisory_knows_and_what_the_release_before_has_too_get_none() -> None:
    assert drafts(ran("0.18.2", QUARTER), ran("0.18.3", QUARTER, error=30)) == []
    assert drafts(ran("0.18.2", "zero_stage=2", error=30), ran("0.18.3", "zero_stage=2", error=30)) == []


def test_an_advisory_that_came_later_is_not_known_yet() -> None:
    results = ran("0.18.2", QUARTER), ran("0.18.3", QUARTER, error=30)
    (draft,) = draft_advisories(report_context(compared(*results)), "deepspeed", "0.18.3", "2025-12-09")
    assert draft.record.published == "2025-12-09"
    assert draft.known_since == ("DSR-2026-0001",)
