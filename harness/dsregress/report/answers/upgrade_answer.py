"""The answer to ``upgrade``, for a terminal: the verdict of the advisories, and beside it what was measured here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from dsregress.advice.card_rooms import CardRoom
from dsregress.advice.upgrade_judgement import Upgrade, UpgradeJudgement, UpgradeVerdict
from dsregress.advisories.auditing import StatedJob
from dsregress.advisories.matching import Matched
from dsregress.advisories.upgrading import UpgradeAnswer, Verdict
from dsregress.compare import ProblemKind
from dsregress.model import AXES, split_workload
from dsregress.report.answers.audit_answer import advisory_lines, measure_words, reason_sections, upgrade_sections
from dsregress.report.card_room_text import room_text
from dsregress.report.context import ReportContext, report_context
from dsregress.report.plain_text import indented_plain, plain
from dsregress.report.problem_kinds import KINDS
from dsregress.report.problem_lines import ProblemLine, counts_text, problem_sections
from dsregress.report.verdict_words import upgrade_headline
from dsregress.wording.quantities import listing, plural, quantity


class UpgradeAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """The answers for one package: of what was measured, and of the advisories if they are about it."""

    measured: Upgrade
    is_named: bool = False  #: the reader named what was measured, so it counts beside the advisories
    advised: UpgradeAnswer | None = None
    concerned: tuple[Matched, ...] = ()  #: faults that the job has with the release that it keeps
    old: StatedJob
    new: StatedJob

    @property
    def deciding(self) -> list[UpgradeVerdict | Verdict]:
        """The verdicts that count."""
        if self.concerned:
            return [UpgradeVerdict.NO]
        return [*([self.advised.verdict] if self.advised is not None else []), *self.measured_deciding]

    @property
    def measured_deciding(self) -> list[UpgradeVerdict]:
        """The verdict on what was measured, if it counts."""
        counts = self.advised is None or (self.is_named and self.measured.verdict is not UpgradeVerdict.UNKNOWN)
        return [self.measured.verdict] if counts else []


class TogetherAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of the advisories for all packages that change, as they go together."""

    advised: UpgradeAnswer
    old: StatedJob
    new: StatedJob

    @property
    def line(self) -> str:
        """The first line: the changes, and the verdict."""
        return upgrade_headline(self.advised, self.old, self.new)


def upgrades_text(
    answers: Sequence[UpgradeAnswers],
    together: TogetherAnswer | None,
    commands: Mapping[str, str],
    pins: Mapping[str, str],
    unchecked: Sequence[str],
) -> str:
    """Return the answer for a terminal, ending in a newline. ``commands``, by package, measure what is missing; ``pins`` are
    the installed releases; ``unchecked`` lists what the answer does not cover."""
    blocks = [
        [indented_plain(line) for line in _answer_block(one, commands, pins, is_alone=together is None)]
        for one in answers
    ]
    if together is not None:
        sections = upgrade_sections(together.advised, together.old, together.new)
        lines = [f"together: {together.line}", *(f"  {line}" for section in sections for line in section)]
        blocks.insert(0, [indented_plain(line) for line in lines])
    if unchecked:
        blocks.append([plain(f"not checked: {'; '.join(unchecked)}")])
    return "\n\n".join("\n".join(lines) for lines in blocks) + "\n"


def upgrade_line(one: UpgradeAnswers) -> str:
    """Return the first line on a package: the change, and the verdict."""
    if one.advised is not None:
        line = upgrade_headline(one.advised, one.old, one.new)
    else:
        line = f"{_change(one.measured)}: {_verdict_words(one.measured)}"
    if one.concerned:
        line = f"{_change(one.measured)}: it is installed, with {plural(len(one.concerned), 'known fault')}"
    rooms = one.measured.judgement.fit_neither if one.is_named else ()
    return f"{line}; {_fit_neither_text(rooms[0])}" if rooms else line


def _fit_neither_text(room: CardRoom) -> str:
    scenario = split_workload(room.workload).scenario
    needed, before = (quantity(one.peak_bytes, "bytes") for one in (room.own, room.baseline or room.own))
    return f"{scenario} fits {room.card} with neither: needs {needed}, was {before}"


def _answer_block(
    one: UpgradeAnswers, commands: Mapping[str, str], pins: Mapping[str, str], *, is_alone: bool
) -> Iterator[str]:
    """Yield the lines on one package: all that its upgrade brings if that is ``is_alone``, else its verdict with the
    reasons."""
    upgrade = one.measured
    command = commands.get(upgrade.package, "")
    yield upgrade_line(one)
    for each in one.concerned:
        yield from (f"  {line}" for line in advisory_lines(each, one.new))
    if one.concerned:
        return
    if one.advised is None:
        yield from _measured_lines(one, command, pins)
        return
    sections = upgrade_sections if is_alone else reason_sections
    for lines in sections(one.advised, one.old, one.new):
        yield from (f"  {line}" for line in lines)
    yield f"  measured here: {_measured_text(one)}"
    yield from (f"  {line}" for line in _measured_lines(one, command, pins))


def _measured_text(one: UpgradeAnswers) -> str:
    """Return the verdict of what was measured if it counts; else whether anything was."""
    upgrade = one.measured
    if upgrade.verdict is UpgradeVerdict.UNKNOWN:
        return f"nothing ({upgrade.judgement.reason})"
    if one.is_named and upgrade.verdict is UpgradeVerdict.YES and upgrade.judgement.known:
        return "what the advisories decide, and no other problem"
    if one.is_named:
        return _verdict_words(upgrade)
    return plural(len(upgrade.judgement.met), "difference for the worse", "differences for the worse")


def _measured_lines(one: UpgradeAnswers, command: str, pins: Mapping[str, str]) -> Iterator[str]:
    upgrade = one.measured
    if upgrade.comparison is not None:
        context = report_context(upgrade.comparison)
        yield from _problem_blocks(context, upgrade.stack, upgrade.judgement)
        if kept := problem_sections(context, upgrade.kept):
            yield f"  in both: {counts_text(context, kept)}"
        yield f"  {_basis_text(upgrade, context, pins)}"
    if command:
        target = one.old.going_to({upgrade.package: upgrade.target})
        yield f"  {measure_words(one.old, target)}: {command}"


def _change(upgrade: Upgrade) -> str:
    if upgrade.target == upgrade.installed:
        return f"{upgrade.package} {upgrade.installed}"
    return f"{upgrade.package} {upgrade.installed} -> {upgrade.target}"


def _verdict_words(upgrade: Upgrade) -> str:
    judgement = upgrade.judgement
    if upgrade.target == upgrade.installed:
        return "yes, it is installed"
    if judgement.verdict is UpgradeVerdict.UNKNOWN:
        return f"not measured here ({judgement.reason})"
    if judgement.verdict is UpgradeVerdict.NO:
        stay = f"no, stay at {upgrade.installed}"
        if not upgrade.instead or upgrade.comparison is None:
            return stay
        to = f"{stay} or go to {upgrade.comparison.names[upgrade.instead]}"
        return f"{to} and set {_setting_names(upgrade.instead_settings)}" if upgrade.instead_settings else to
    return f"yes, if you set {_setting_names(judgement.settings)}" if judgement.settings else "yes"


def _setting_names(settings: Sequence[str]) -> str:
    """Return the names of settings without their prefix: ``gradient_clipping`` for ``config.gradient_clipping``."""
    return " and ".join(setting.partition(".")[2] or setting for setting in settings)


def _problem_blocks(context: ReportContext, stack: str, judgement: UpgradeJudgement) -> Iterator[str]:
    texts: dict[str, list[str]] = {}
    for section in problem_sections(context, judgement.met):
        texts[section.title] = [text for line in section.problems for text in (line.sentences, f"  {_when(line)}")]
    lost = [str(room_text(context, stack, room)) for room in judgement.lost]
    if lost:
        texts.setdefault(KINDS[ProblemKind.OUT_OF_MEMORY].section, []).extend(lost)
    for title in dict.fromkeys(kind.section for kind in KINDS.values()):
        if title in texts:
            yield f"  {title}"
            yield from (f"    {text}" for text in texts[title])


def _when(line: ProblemLine) -> str:
    """Return the span of a problem: ``since 0.16.0 (not in 0.15.4), until 0.16.7 (not in 0.16.8)``."""
    since, until = line.words.since, line.words.until
    return f"since {since.release} ({since.beside}), until {until.release} ({until.beside})"


def _basis_text(upgrade: Upgrade, context: ReportContext, pins: Mapping[str, str]) -> str:
    """Return the basis of the answer, and the installed packages that differ from it."""
    judgement = upgrade.judgement
    of = f"{judgement.compared} of {plural(judgement.workloads, 'workload')} compared"
    measured = context.stacks[upgrade.stack].versions
    packages = [package for package in dict.fromkeys((*AXES, *measured)) if package in measured]
    others = {package: measured[package] for package in packages if package != upgrade.package}
    with_ = f", with {listing([f'{package} {version}' for package, version in others.items()])}" if others else ""
    yours = [f"{p} {pins[p]}" for p, version in others.items() if pins.get(p, version) != version]
    return f"{of}{with_}" + (f"; not with yours: {listing(yours)}" if yours else "")
