"""The answer at the top of every report: what was compared, how each release fares, and the problems. Pure."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from dsregress.advice.assessment import Assessment, assess
from dsregress.advice.card_rooms import CardRooms
from dsregress.advisories.matching import known_packages
from dsregress.advisories.shipped import read_advisories
from dsregress.compare import ProblemKind
from dsregress.compare.comparison import EVERYTHING
from dsregress.compare.metrics import FED_DIFFERENCE, START_WEIGHTS
from dsregress.compare.result_pairs import LIMIT
from dsregress.messages import COMMA, SENTENCE, TO, Message, Text, joined, message, name_list, plural_message
from dsregress.model import Passed, Skipped, is_measurement, split_workload
from dsregress.report.context import ReportContext
from dsregress.report.plain_text import plain
from dsregress.report.problem_kinds import KINDS
from dsregress.report.problem_lines import ProblemLine, ProblemSection, counts_text, problem_sections
from dsregress.report.release_choice import choice_text, choose
from dsregress.report.run_figures import program_figures
from dsregress.versions.commits import is_commit
from dsregress.versions.releases import parsed_version
from dsregress.wording import commands, workload_words
from dsregress.wording.names import common_text, stored_name, varied_axes, version_of
from dsregress.wording.quantities import shortened

SAME, FITS, NO_FIT, PASSES, NO_VERDICT, NOT_RUN = "same", "fits", "no fit", "passes", "?", "-"

#: All words, as other languages have them too.
WORDS: Mapping[str, Message] = {
    one.id: one
    for one in (
        *(kind.run_word for kind in KINDS.values()),
        *(message("same"), message("fits"), message("no fit"), message("passes")),
    )
}

#: The words, gravest first, for reports that highlight them.
GRAVE = ("WRONG", "DIFFERS", "CRASH", "OOM")
SERIOUS = ("LEAK", "SAVES", "larger", "slower", "untested")

#: The placeholder for the user's release.
YOURS = "YOURS"

#: Rows of the overview; the details have the other workloads.
MOST_ROWS = 4

#: Characters of a program's launch line, in a row's label and in the basis, and how many programs the basis names.
_MOST_LABEL, _MOST_LINE, _MOST_PROGRAMS = 40, 160, 2

#: Characters of the reason why runs were not tested.
_MOST_REASON = 240


class OverviewRow(msgspec.Struct, frozen=True):
    """Workloads that fare alike."""

    label: Text
    workloads: tuple[str, ...]
    words: tuple[str, ...]  #: one for each column


class OverviewHeading(msgspec.Struct, frozen=True):
    """One line above the columns."""

    label: str  #: the package; empty if only one varies
    texts: tuple[str, ...]  #: each column's releases, which fare alike on all rows: ``0.16.0-0.16.7``


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """Releases, the newest first, by workloads."""

    headings: tuple[OverviewHeading, ...]  #: one for each package that varies
    sizes: tuple[int, ...]  #: releases of each column
    rows: tuple[OverviewRow, ...]  #: the worst first
    more: int  #: workloads that have no row


class FirstScreen(msgspec.Struct, frozen=True, kw_only=True):
    """The answer."""

    headline_text: Text
    basis_text: Text
    overview: Overview
    sections: tuple[ProblemSection, ...]
    #: the command that judges an upgrade of the user's to the release to use; empty if there is none, or if several
    #: packages vary
    upgrade: str
    figures: tuple[Text, ...] = ()  #: of programs, if there is no problem
    recommendation_text: Text = ""  #: the release to use; empty if nothing is worse, or no release can be chosen

    @property
    def recommendation(self) -> str:
        """The recommendation in English."""
        return plain(str(self.recommendation_text))

    @property
    def headline(self) -> str:
        """The headline in English."""
        return plain(str(self.headline_text))

    @property
    def basis(self) -> str:
        """The basis in English."""
        return plain(str(self.basis_text))

    @property
    def problems(self) -> tuple[ProblemLine, ...]:
        """Return the problems of all sections, in the order of their numbers."""
        return tuple(line for section in self.sections for line in section.problems)


def first_screen(context: ReportContext, verdict: Text, not_measured: Text = "") -> FirstScreen:
    """Return the answer. ``verdict`` is the headline if there is no problem; ``not_measured`` are the stacks that lack
    results."""
    assessed = assess(context.comparison, context.rooms)
    sections = problem_sections(context, assessed)
    headline = verdict
    if sections:
        headline = message(
            "{compared}: {counts}", compared=_compared_releases(context), counts=counts_text(context, sections)
        )
    if not_measured:
        headline = message("{headline}; not measured: {stacks}", headline=headline, stacks=not_measured)
    lines = [line for section in sections for line in section.problems]
    choice = choose(context, lines) if lines and not context.comparison.why_nothing_goes_on else None
    newest = context.comparison.stacks[-1].id if context.comparison.stacks else ""
    return FirstScreen(
        recommendation_text=choice_text(context, choice) if choice else "",
        headline_text=headline,
        basis_text=_basis(context),
        overview=_overview(context, assessed),
        sections=sections,
        upgrade=_upgrade(context, choice.stack if choice else "" if lines else newest),
        figures=() if sections else program_figures(context),
    )


def _compared_releases(context: ReportContext) -> Text:
    """Return what was compared: ``deepspeed 0.15.0 to 0.19.8``."""
    stacks, names = context.comparison.stacks, context.comparison.names
    if len(stacks) == 1:
        return names[stacks[0].id]
    if not context.only_axis:
        packages = name_list(context.axes, 3)
        return plural_message(
            "{count:,} stack, {packages} vary", "{count:,} stacks, {packages} vary", len(stacks), packages=packages
        )
    return message(
        "{package} {first} to {last}",
        package=context.only_axis,
        first=names[stacks[0].id],
        last=names[stacks[-1].id],
    )


def _basis(context: ReportContext) -> Text:
    comparison = context.comparison
    size = message(
        "{releases} on {workloads}",
        releases=plural_message("{count:,} release", "{count:,} releases", len(comparison.stacks)),
        workloads=plural_message("{count:,} workload", "{count:,} workloads", len(comparison.cells.workloads)),
    )
    ran = message(
        "{passed:,} of {runs} passed, {compared:,} compared with {baseline}",
        passed=comparison.passed,
        runs=plural_message("{count:,} run", "{count:,} runs", comparison.ran),
        compared=comparison.compared,
        baseline=context.baseline,
    )
    if days := comparison.measured_days:
        ran = message("{runs}, measured {days}", runs=ran, days=joined(TO, days))
    said = (joined(COMMA, (size, *common_text(comparison.stacks))), ran)
    sentences = [message("{sentence}.", sentence=one) for one in said]
    of_programs = (
        *_programs(context),
        *_made_up(context),
        *_without_values(context),
        *_other_data(context),
        *_going_on(context),
    )
    return joined(SENTENCE, (*sentences, *_skipped(context), *of_programs))


def _skipped(context: ReportContext) -> Iterator[Text]:
    """Yield the most frequent reason why runs were not tested, which no problem mentions, if nothing could be compared."""
    reasons = Counter(
        outcome.reason
        for by_stack in context.comparison.ended.values()
        for outcome in by_stack.values()
        if isinstance(outcome, Skipped)
    )
    if not reasons or context.comparison.compared:
        return
    said = reasons.most_common(1)[0][0]
    reason: Text = shortened(said, _MOST_REASON)
    if said.startswith(LIMIT):
        whole = f"it cannot be simulated: {said.removeprefix(LIMIT)}"
        reason = shortened(whole, _MOST_REASON)
    if len(reasons) > 1:
        reason = message("{reason}, and {others} other reasons", reason=reason, others=len(reasons) - 1)
    yield plural_message(
        "{count:,} run not tested: {reason}.", "{count:,} runs not tested: {reason}.", reasons.total(), reason=reason
    )


def _programs(context: ReportContext) -> Iterator[Text]:
    """Yield the launch line of each program. Everything else, also the commands, uses the program's short name."""
    comparison = context.comparison
    parameters = {split_workload(w).scenario: comparison.parameters[w] for w in comparison.cells.workloads}
    said = [
        _program(scenario, own["program"], own["world_size"])
        for scenario, own in parameters.items()
        if "program" in own and workload_words.is_given_program(scenario)
    ]
    if said:
        yield message("{sentence}.", sentence=name_list(said, _MOST_PROGRAMS))


def _made_up(context: ReportContext) -> Iterator[Text]:
    """Yield that a given program had made-up rows, if one may have had."""
    own = context.comparison.parameters
    if any(
        own[one].get("synthetic_data") and workload_words.is_given_program(split_workload(one).scenario)
        for one in context.comparison.cells.workloads
    ):
        yield message(
            "Data that are not here are made up, and models whose weights are not here keep their initial ones."
        )


def _without_values(context: ReportContext) -> Iterator[Text]:
    """Yield what was not compared, and how to, if a program was only simulated."""
    given = [split_workload(one) for one in context.comparison.cells.workloads]
    devices = {one.device for one in given if workload_words.is_given_program(one.scenario)}
    if devices == {"sim"} and context.comparison.compared:
        yield message("Losses and gradients are not compared in sim: --device cpu --tiny does.")


def _other_data(context: ReportContext) -> Iterator[Text]:
    """Yield how the data, or the random weights, of the first release differ that has other ones by no fault: losses may not
    be compared, or less strictly."""
    comparison = context.comparison
    of_chance = (FED_DIFFERENCE.name, START_WEIGHTS.name)
    fed = [one for one in comparison.findings if one.metric in of_chance and one.kind == "changed"]
    for found in fed[:1]:
        yield message("{release}: {finding}.", release=comparison.names[found.stack], finding=found.sentence)


def _going_on(context: ReportContext) -> Iterator[Text]:
    """Yield why nothing was compared of lines that were to go on from another one's files."""
    if reason := context.comparison.why_nothing_goes_on:
        yield message("No second line was compared: {reason}.", reason=reason)


def _program(scenario: str, line: str, ranks: int) -> Text:
    launched = workload_words.shortened_launch_line(line, _MOST_LINE)
    if workload_words.leaves_ranks_open(line, ranks):
        return message("{program}: {line} (as 1 rank; --ranks N for more)", program=scenario, line=launched)
    return message("{program}: {line}", program=scenario, line=launched)


def _upgrade(context: ReportContext, chosen: str) -> str:
    """Return the command for the reader's own upgrade, to the chosen stack; empty if there is none. A release that the
    report rules out is no goal, and neither is one that was not measured."""
    stacks, package = context.comparison.stacks, context.only_axis
    if not package or len(stacks) < 2 or not chosen:
        return ""
    stack = context.stacks[chosen]
    release = stack.versions[package]
    if is_commit(release):
        return ""
    if package in known_packages(read_advisories()) and parsed_version(release) is not None:
        return commands.audit_upgrade(package, release)
    return commands.compare(YOURS, stored_name(stack, package))


def _overview(context: ReportContext, assessed: Sequence[Assessment]) -> Overview:
    """Return the overview, with equal columns and equal rows merged."""
    comparison, words = context.comparison, _run_words(context, assessed)
    newest_first = [stack.id for stack in reversed(comparison.stacks)]
    gravity = {word: at for at, word in enumerate(dict.fromkeys(kind.word for kind in KINDS.values()))}
    alike: dict[tuple[str, ...], list[str]] = {}
    for workload in comparison.cells.workloads:
        alike.setdefault(tuple(words.get((s, workload), NOT_RUN) for s in newest_first), []).append(workload)

    def rank(item: tuple[tuple[str, ...], list[str]]) -> tuple[bool, int, int]:
        """Return a row's key for sorting, gravest first. Rows that judge one release alone come last: they say nothing about
        an upgrade."""
        row, members = item
        judged = [word for word in row if word not in (NO_VERDICT, NOT_RUN)]
        return len(judged) < min(2, len(row)), min(gravity.get(w, len(gravity)) for w in row), -len(members)

    worst_first = sorted(alike.items(), key=rank)
    shown = worst_first[:MOST_ROWS]
    fares = list(zip(*(row for row, _ in shown), strict=True))
    headings, runs = _columns(context, fares)
    labels = _labels(context, [members for _, members in shown])
    rows = tuple(
        OverviewRow(label, tuple(members), tuple(row[run[0]] for run in runs))
        for label, (row, members) in zip(labels, shown, strict=True)
    )
    return Overview(
        headings=headings,
        sizes=tuple(map(len, runs)),
        rows=rows,
        more=sum(len(members) for _, members in worst_first[MOST_ROWS:]),
    )


def _columns(
    context: ReportContext, fares: Sequence[tuple[str, ...]]
) -> tuple[tuple[OverviewHeading, ...], list[list[int]]]:
    """Return the headings, and the indices of each column's stacks, the newest first. ``fares`` are the stacks' words.

    If any stack is an interpreter that existed, stacks are named; otherwise each package that varies has a line of
    versions, and the stacks of one column differ in one package at most.
    """
    newest_first = context.comparison.stacks[::-1]
    if len(context.axes) < 2 or any(stack.existed for stack in newest_first):
        runs = [list(run) for _, run in itertools.groupby(range(len(fares)), fares.__getitem__)]
        names = [context.name_of(stack.id) for stack in newest_first]
        return (OverviewHeading("", tuple(_range([names[at] for at in run]) for run in runs)),), runs
    runs = []
    for at, own in enumerate(fares):
        if runs and fares[runs[-1][0]] == own and len(varied_axes([newest_first[one] for one in (*runs[-1], at)])) < 2:
            runs[-1].append(at)
        else:
            runs.append([at])
    versions = {axis: [version_of(stack, axis) or NOT_RUN for stack in newest_first] for axis in context.axes}
    return tuple(
        OverviewHeading(axis, tuple(_range([own[at] for at in run]) for run in runs)) for axis, own in versions.items()
    ), runs


def _range(newest_first: Sequence[str]) -> str:
    first, last = newest_first[-1], newest_first[0]
    return first if first == last else f"{first}-{last}"


def _run_words(context: ReportContext, assessed: Sequence[Assessment]) -> Mapping[tuple[str, str], str]:
    """Return stack and workload -> its word, for every run."""
    comparison, rooms = context.comparison, context.rooms
    words: dict[tuple[str, str], str] = {}
    for one in reversed(assessed):  # the gravest last
        for workload, stacks in one.problem.affected.items():
            for stack in stacks:
                kind = _kind(one, rooms, stack, workload)
                # Another cost is no word for a run whose card is named: there it counts whether it fits.
                is_other = kind.is_cost and kind is not ProblemKind.LARGER_CARD
                if is_other and (fits := _fit_word(rooms, stack, workload)):
                    words[stack, workload] = fits
                else:
                    words[stack, workload] = KINDS[kind].word
    unjudged = {(one.stack, one.workload) for one in comparison.not_compared if one.what == EVERYTHING}
    for workload in comparison.cells.workloads:
        for stack in comparison.cells.stacks_of(workload):
            if (stack, workload) not in words:
                is_judged = (stack, workload) not in unjudged
                words[stack, workload] = _sound(context, stack, workload, is_judged=is_judged)
    return words


def _kind(assessed: Assessment, rooms: CardRooms, stack: str, workload: str) -> ProblemKind:
    """Return the kind that a problem has for one run. The step time of a model that fits a processor is the host's work."""
    if assessed.kind is ProblemKind.LARGER_CARD:
        room = rooms.of(stack, workload)
        return assessed.kind if room is not None and room.needs_larger_card else assessed.problem.kind
    if assessed.kind is ProblemKind.OUT_OF_MEMORY and (stack, workload) not in assessed.too_large:
        return assessed.problem.kind
    if assessed.kind is ProblemKind.SLOWER and split_workload(workload).device == "cpu":
        return ProblemKind.MORE
    return assessed.kind


def _sound(context: ReportContext, stack: str, workload: str, *, is_judged: bool) -> str:
    """Return the word of a run without a problem."""
    comparison = context.comparison
    ended = comparison.ended.get(workload, {})
    if not isinstance(ended.get(stack, Passed()), Passed):
        return NOT_RUN
    if fits := _fit_word(context.rooms, stack, workload):
        return fits
    if is_judged:
        others = (one for one in comparison.cells.stacks_of(workload) if one != stack)
        return SAME if any(isinstance(ended.get(one, Passed()), Passed) for one in others) else PASSES
    base = ended.get(comparison.baseline)
    return PASSES if base is not None and is_measurement(base) else NO_VERDICT


def _fit_word(rooms: CardRooms, stack: str, workload: str) -> str:
    """Return the word for whether a simulated run fits the card that its scenario names; empty if it names none. Without a
    run of the baseline, a run that does not fit says nothing about the release."""
    room = rooms.of(stack, workload)
    if room is None:
        return ""
    if room.own.fits:
        return FITS
    is_the_release = room.is_too_large and room.baseline is not None
    return KINDS[ProblemKind.OUT_OF_MEMORY].word if is_the_release else NO_FIT


def _labels(context: ReportContext, rows: Sequence[Sequence[str]]) -> list[Text]:
    """Return a label for each row. Equal labels also get the scenarios and the number of workloads."""
    labels = [_label(context, members) for members in rows]
    return [
        label
        if labels.count(label) == 1
        else message("{scenarios} ({count}), {label}", scenarios=_scenarios(members), count=len(members), label=label)
        for label, members in zip(labels, rows, strict=True)
    ]


def _scenarios(members: Sequence[str]) -> Text:
    return name_list(list(dict.fromkeys(split_workload(workload).scenario for workload in members)), 1)


def _label(context: ReportContext, members: Sequence[str]) -> Text:
    models, cards = [], []
    for workload in members:
        parameters = context.comparison.parameters[workload]
        models.append(_job(parameters, split_workload(workload).scenario))
        if split_workload(workload).device == "sim" and parameters.get("gpu"):
            cards.append(str(parameters["gpu"]))
    text = workload_words.row_label(members, models)
    return message("{job}, on {card}", job=text, card=cards[0]) if len(set(cards)) == 1 else text


def _job(parameters: Mapping[str, object], scenario: str) -> str:
    """Return the model that is trained; for a given program, its launch line."""
    if "program" in parameters and workload_words.is_given_program(scenario):
        return workload_words.shortened_launch_line(str(parameters["program"]), _MOST_LABEL)
    return str(parameters.get("model", scenario))
