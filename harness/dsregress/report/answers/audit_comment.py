"""The answer of ``audit`` for a pull request: Markdown of at most `MOST_LINES` lines. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dsregress.advisories.auditing import Audit, StatedJob
from dsregress.advisories.matching import Matched
from dsregress.advisories.upgrading import UpgradeAnswer
from dsregress.report.advisory_words import remedy_request
from dsregress.report.answers.audit_answer import audit_headline
from dsregress.report.plain_text import markdown, plain
from dsregress.report.verdict_words import is_for_measuring, open_questions, upgrade_headline
from dsregress.wording.quantities import listing, plural

#: Lines of a comment, blank ones included.
MOST_LINES = 15

_MOST_IDS = 6


def audit_comment(audit: Audit) -> str:
    """Return the answer for a job as it is, ending in a newline."""
    rest = [f"costs: {_ids(audit.costs)}"] if audit.costs else []
    return comment_text(audit_headline(audit), [_reason(one) for one in (*audit.concerned, *audit.usual)], rest)


def upgrade_comment(answer: UpgradeAnswer, old: StatedJob, new: StatedJob, command: str) -> str:
    """Return the answer for an upgrade, ending in a newline. ``command`` measures what is not known."""
    reasons = [*answer.against, *answer.usual, *(one.matched for one in answer.conditions)]
    lines = [*(markdown(one.text) for one in answer.conflicts), *map(_reason, reasons)]
    return comment_text(upgrade_headline(answer, old, new), lines, _rest(answer, command))


def comment_text(headline: str, reasons: Sequence[str], rest: Sequence[str]) -> str:
    """Return a comment: its verdict, its reasons, as many as there is room for, and further lines. All are Markdown but the
    headline."""
    lines = [f"**dsregress: {markdown(headline)}**", *([""] if reasons or rest else [])]
    room = MOST_LINES - len(lines) - len(rest)
    shown = list(reasons) if len(reasons) <= room else reasons[: room - 1]
    hidden = len(reasons) - len(shown)
    items = [*shown, *([f"and {hidden} more"] if hidden else []), *rest]
    return "\n".join([*lines, *(f"- {item}" for item in items)]) + "\n"


def _reason(one: Matched) -> str:
    """Return an advisory that decides, with what ends it: one line."""
    remedies = [remedy_request(each) for each in one.remedies]
    ends = f"; {' or '.join(remedies[:2])}" if remedies else ""
    return f"{markdown(one.advisory.id)} {markdown(one.advisory.kind.value)}: {markdown(one.advisory.title + ends)}"


def _rest(answer: UpgradeAnswer, command: str) -> list[str]:
    asked_for = [each for one in open_questions(answer) for each in one.matched]
    titled = {
        "concerns it or not, by what was not stated": asked_for,
        "in both or in neither, by what was not stated": answer.kept_open,
        "changes": answer.changes,
        "gained": answer.gained,
        "costs": answer.costs,
        "not known, as it was not run": answer.not_run,
    }
    lines = [f"{title}: {_ids(found)}" for title, found in titled.items() if found]
    return [*lines, f"measure it: {code_span(command)}"] if is_for_measuring(answer) else lines


def _ids(found: Sequence[Matched]) -> str:
    ids = listing([one.advisory.id for one in found], _MOST_IDS)
    return f"{plural(len(found), 'advisory', 'advisories')}: {markdown(ids)}"


def code_span(command: str) -> str:
    """Return a command as code in a line of Markdown."""
    text = plain(command)
    fence = "`"
    while fence in text:
        fence += "`"
    return f"{fence}{text}{fence}" if fence == "`" else f"{fence} {text} {fence}"
