"""Problems in words, the same for every format: what, where, since and until, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from dsregress.advice.assessment import Assessment
from dsregress.advice.other_packages import other_packages
from dsregress.advisories.advisory import Advisory, Ruling
from dsregress.advisories.remedy_choice import is_another_job
from dsregress.compare import Problem, ProblemKind
from dsregress.compare.finding_groups import kind_of
from dsregress.compare.metrics import WEIGHT_PRECISION
from dsregress.compare.problems import (
    is_in_its_line,
    is_of_program,
    lacking_package,
    raising_package,
    refusing_package,
    waits_in_program,
)
from dsregress.compare.release_ranges import axis_range_text, range_text
from dsregress.messages import (
    AND,
    COLON,
    COMMA,
    SEMICOLON,
    SENTENCE,
    Message,
    Text,
    joined,
    message,
    name_list,
    plural_message,
)
from dsregress.model import Failed, Finding, TimedOut, split_workload
from dsregress.probe.border.detail_lines import place_of_gathering
from dsregress.probe.border.processor_faults import OF_PROCESSORS
from dsregress.probe.factor import either
from dsregress.report.advisory_words import remedy_request
from dsregress.report.card_room_text import room_text
from dsregress.report.context import ReportContext
from dsregress.report.plain_text import plain
from dsregress.report.problem_kinds import KINDS
from dsregress.report.symptoms import Symptom, first_finding, symptom_of
from dsregress.wording import workload_words
from dsregress.wording.names import varied_axes, version_of
from dsregress.wording.workload_words import DistinguishingParameters, conditions_text

#: Workloads that are listed if nothing distinguishes them from the others.
_MOST_WORKLOADS = 2

#: Dtypes in which a model can be loaded.
_FLOATING = ("float64", "float32", "float16", "bfloat16")

#: If more defaults changed, it is another interface, and no single default explains anything.
_MOST_MOVED = 4

#: Remedies of an advisory that are named with a problem.
_MOST_REMEDIES = 2


class ProblemEnd(msgspec.Struct, frozen=True):
    """The first or the last release with a problem."""

    release: Text
    beside: Text  #: its neighbor that was measured without the problem, or why there is none

    @property
    def text(self) -> Text:
        """Both: ``0.16.0; not in 0.15.4``."""
        return joined(SEMICOLON, (self.release, self.beside))


class ProblemWords(msgspec.Struct, frozen=True, kw_only=True):
    """A problem in words, in parts."""

    releases: Text  #: ``0.16.0 to 0.16.7``
    who: Text  #: the affected workloads; empty if the symptom is of all, or of none
    symptom: Symptom | None  #: None if the setting is all there is to say
    setting: Text  #: the changed default that explains it; empty if none does
    consequences: tuple[Text, ...]  #: the effect on the named card, and what to do
    ruled: Text = ""  #: by the advisories that know it: that it is no fault, or what ends it
    advisories: tuple[str, ...] = ()  #: their ids
    since: ProblemEnd
    until: ProblemEnd

    @property
    def outcome(self) -> Text:
        """The consequences, and the ruling, behind the sentence."""
        return joined(SENTENCE, (*self.consequences, self.ruled))

    @property
    def end(self) -> Text:
        """The same, with the advisories."""
        see = message("See {advisories}.", advisories=joined(AND, self.advisories)) if self.advisories else ""
        return joined(SENTENCE, (*self.consequences, self.ruled, see))

    @property
    def text(self) -> Text:
        """The affected workloads and the symptom, as a sentence."""
        return self.sentence(self.who)

    def sentence(self, who: Text, *, below_its_title: bool = False) -> Text:
        """Return the sentence about ``who``; without what the title of its section says, if it is below that."""
        what: Text = ""
        if self.symptom is not None:
            what = self.symptom.below_title if below_its_title else self.symptom.text
        return message("{sentence}.", sentence=joined(COLON, (who, joined(SEMICOLON, (what, self.setting)))))


class ProblemLine(msgspec.Struct, frozen=True, kw_only=True):
    """One problem."""

    number: int
    kind: ProblemKind
    words: ProblemWords
    having: tuple[str, ...]  #: stack ids, here and below
    free: tuple[str, ...]
    unknown: tuple[str, ...]
    workloads: tuple[str, ...]
    release_to_use: str  #: a stack id; empty if none is known, or none is needed
    setting: str  #: the changed default that explains it; empty if none does
    keys: tuple[tuple[str, ...], ...]  #: of its findings
    evidence: tuple[str, ...]  #: of the worst run
    related: tuple[str, ...]  #: findings that appeared and disappeared with it
    worst: Finding
    advisories: tuple[str, ...] = ()  #: ids of those that know it

    @property
    def releases(self) -> str:
        """The affected releases in English, as every text below."""
        return str(self.words.releases)

    @property
    def text(self) -> str:
        """The affected workloads, and the symptom."""
        return plain(str(self.words.text))

    @property
    def consequence(self) -> str:
        """The effect on the named card, and what to do; empty if nothing is known, or needed."""
        return plain(str(joined(SENTENCE, self.words.consequences)))

    @property
    def since(self) -> str:
        """The first release, with the neighbor that was measured without it."""
        return str(self.words.since.text)

    @property
    def until(self) -> str:
        """The last release, with the neighbor that was measured without it."""
        return str(self.words.until.text)

    @property
    def sentences(self) -> str:
        """Return the text, the consequence, and the advisories."""
        return f"{self.text} {plain(str(self.words.end))}".rstrip()


class ProblemSection(msgspec.Struct, frozen=True):
    """The problems under one title."""

    heading: Message
    problems: tuple[ProblemLine, ...]

    @property
    def title(self) -> str:
        """The heading in English."""
        return str(self.heading)


def problem_sections(context: ReportContext, assessed: Sequence[Assessment]) -> tuple[ProblemSection, ...]:
    """Return all problems by title, the gravest first, numbered throughout."""
    lines = problem_lines(context, assessed)
    titles = dict.fromkeys(KINDS[line.kind].title for line in lines)
    return tuple(
        ProblemSection(title, tuple(line for line in lines if KINDS[line.kind].title == title)) for title in titles
    )


def problem_lines(context: ReportContext, assessed: Sequence[Assessment]) -> list[ProblemLine]:
    """Return a line for each problem, numbered."""
    distinguishing = DistinguishingParameters(context.comparison.parameters)
    return [
        _problem_line(context, one, affected_text(one.problem, distinguishing), number)
        for number, one in enumerate(assessed, 1)
    ]


def counts_text(context: ReportContext, sections: Sequence[ProblemSection]) -> Text:
    """Return the number of problems by title: ``1 silent change of training, 5 that cost more; fixed since 0.16.8: 2
    crashes``. Problems of the baseline alone are counted apart: they are no cost of an upgrade."""

    def counted(is_fixed: bool) -> Text:
        counts = ((one, sum(_is_fixed(context, line) == is_fixed for line in one.problems)) for one in sections)
        return joined(COMMA, (_count(one.problems[0].kind, number) for one, number in counts if number))

    if not (fixed := counted(True)):
        return counted(False)
    worse = counted(False) or message("nothing is worse")
    return message("{worse}; fixed since {release}: {fixed}", worse=worse, release=context.baseline, fixed=fixed)


def _count(kind: ProblemKind, number: int) -> Message:
    """Return the number of the problems in a kind's section."""
    match kind:
        case ProblemKind.WRONG:
            return plural_message("{count:,} fault in training", "{count:,} faults in training", number)
        case ProblemKind.DIFFERENT:
            return plural_message("{count:,} silent change of training", "{count:,} silent changes of training", number)
        case ProblemKind.CRASH:
            return plural_message("{count:,} crash", "{count:,} crashes", number)
        case ProblemKind.OUT_OF_MEMORY:
            return plural_message("{count:,} out of memory", "{count:,} out of memory", number)
        case ProblemKind.LEAK:
            return plural_message("{count:,} memory leak", "{count:,} memory leaks", number)
        case ProblemKind.SAVES:
            return plural_message("{count:,} changed checkpoint", "{count:,} changed checkpoints", number)
        case ProblemKind.LARGER_CARD:
            return plural_message("{count:,} that needs a larger card", "{count:,} that need a larger card", number)
        case ProblemKind.SLOWER | ProblemKind.MORE:
            return plural_message("{count:,} that costs more", "{count:,} that cost more", number)
        case ProblemKind.UNTESTABLE:
            return plural_message(
                "{count:,} that cannot be tested here", "{count:,} that cannot be tested here", number
            )


def _is_fixed(context: ReportContext, line: ProblemLine) -> bool:
    """Return True if the baseline alone has a problem, and a later release was measured without it."""
    baseline, order = context.comparison.baseline, context.order
    return line.having == (baseline,) and any(order[stack] > order[baseline] for stack in line.free)


def _problem_line(context: ReportContext, assessed: Assessment, affected: Text, number: int) -> ProblemLine:
    problem = assessed.problem
    known = context.knowledge.of_problem(problem)
    return ProblemLine(
        number=number,
        kind=assessed.kind,
        words=_problem_words(context, assessed, affected, known),
        advisories=tuple(one.id for one in known),
        having=problem.having,
        free=problem.free,
        unknown=problem.unknown,
        workloads=tuple(problem.affected),
        release_to_use=assessed.release,
        setting=problem.setting.key if problem.setting is not None else "",
        keys=tuple(found.key for found in (*problem.findings, *problem.related)),
        evidence=(problem.worst.message, *problem.worst.evidence),
        related=tuple(dict.fromkeys(found.message for found in problem.related)),
        worst=problem.worst,
    )


def _problem_words(
    context: ReportContext, assessed: Assessment, affected: Text, known: Sequence[Advisory]
) -> ProblemWords:
    problem, setting = assessed.problem, assessed.problem.setting
    since, until = _ends(context, problem)
    changed: Text = ""
    if setting is not None:
        changed = message(
            "{key} is {now} where it is not set, was {before}",
            key=_short_key(setting.key),
            now=setting.value,
            before=setting.baseline,
        )
    is_setting_alone = setting is not None and assessed.kind is ProblemKind.DIFFERENT
    return ProblemWords(
        releases=_ranges_text(context, problem),
        who="" if is_setting_alone or assessed.kind is ProblemKind.UNTESTABLE else affected,
        symptom=None if is_setting_alone else symptom_of(context, problem),
        setting=changed,
        consequences=tuple(_consequences(context, assessed, is_ruled=bool(known))),
        ruled=_ruling_text(context, assessed, known) if known else "",
        advisories=tuple(one.id for one in known),
        since=since,
        until=until,
    )


def _ruling_text(context: ReportContext, assessed: Assessment, known: Sequence[Advisory]) -> Text:
    """Return what the advisories that know a problem say and the measured releases cannot: that another training is no
    fault; what ends a problem in the release that has it, else that no release is without."""
    if assessed.release or assessed.problem.setting is not None:
        return ""
    if assessed.kind.has_no_right_side and all(one.ruling is not Ruling.FAULT for one in known):
        return _no_fault_text(known)
    knowledge = context.knowledge
    ending = knowledge.ending_settings(assessed.problem) or knowledge.remedies_within(assessed.problem)
    remedies = [remedy_request(one).partition(";")[0] for one in ending[:_MOST_REMEDIES]]
    if assessed.kind.is_cost or not remedies:
        return ""
    remedy = either(remedies)
    return message("{sentence}.", sentence=f"{remedy[:1].upper()}{remedy[1:]}")


def _no_fault_text(known: Sequence[Advisory]) -> Text:
    """Return that a change is no fault, with what to set for the old behaviour."""
    remedies = (remedy for one in known for remedy in one.remedies)
    settings = [remedy_request(one) for one in remedies if one.fact and not is_another_job(one)]
    if not settings:
        return message("No fault.")
    return message("No fault: {settings}.", settings=either(settings[:_MOST_REMEDIES]))


def _short_key(setting: str) -> str:
    return setting.partition(".")[2] or setting


def _ends(context: ReportContext, problem: Problem) -> tuple[ProblemEnd, ProblemEnd]:
    """Return since when and until when, with the neighbors that do not have the problem. No release is known to be without
    an intermittent problem."""
    if problem.worst.intermittent:
        others = message("others, which ran once, may go wrong now and then as well")
        return _end(context, problem.since, "", others), _end(context, problem.until, "", others)
    after = message("no later release was measured without it")
    if problem.until == context.comparison.stacks[-1].id:
        after = message("still in the newest measured")
    return (
        _end(context, problem.since, problem.before, message("no earlier release was measured without it")),
        _end(context, problem.until, problem.after, after),
    )


def _end(context: ReportContext, stack: str, neighbor: str, otherwise: Text) -> ProblemEnd:
    """Return a release with its neighbor, or with ``otherwise`` if no neighbor was measured without the problem."""
    if not neighbor:
        return ProblemEnd(context.name_of(stack), otherwise)
    beside = message("not in {release}", release=context.name_beside(neighbor, stack))
    return ProblemEnd(context.name_beside(stack, neighbor), beside)


def _ranges_text(context: ReportContext, problem: Problem) -> Text:
    """Return the affected releases as ranges, each of which ends at a release without a verdict. If several packages vary,
    name the package that varies among the affected stacks, or one of which every unaffected stack has another release; else
    return the number of stacks."""
    stacks, names = context.comparison.stacks, context.comparison.names
    having = [stack for stack in stacks if stack.id in problem.having]
    if len(context.axes) < 2 or any(stack.existed for stack in having):
        return range_text(problem.having, stacks, names)
    axes = varied_axes(having)
    if len(axes) == 1:
        alike = [one for one in stacks if set(varied_axes([one, having[0]])) <= set(axes)]
        return axis_range_text(axes[0], having, alike)
    free = [stack for stack in stacks if stack.id in problem.free]
    beside = [stack for stack in stacks if stack.id in (problem.before, problem.after)]
    for axis in (*varied_axes([having[0], *beside]), *context.axes):
        with_it, without = ({version_of(stack, axis) for stack in some} for some in (having, free))
        if free and "" not in with_it and with_it.isdisjoint(without):
            return axis_range_text(axis, having, stacks)
    if len(having) == 1:
        return names[having[0].id]
    return plural_message(
        "{having} of {count:,} stack", "{having} of {count:,} stacks", len(stacks), having=len(having)
    )


def _consequences(context: ReportContext, assessed: Assessment, *, is_ruled: bool) -> Iterator[Text]:
    problem = assessed.problem
    if problem.setting is not None:
        yield message("Set it; {value} keeps the old behaviour.", value=problem.setting.baseline)
        if assessed.room is not None:
            yield room_text(context, problem.worst.stack, assessed.room)
        return
    if assessed.kind is ProblemKind.UNTESTABLE:
        yield from _untestable(context, problem)
        return
    if (asked := _precision_to_ask_for(context, problem)) is not None:
        yield asked
        return
    if assessed.kind.has_no_right_side and not is_ruled:
        yield message("This comparison cannot tell which release is right.")
    if assessed.kind is not ProblemKind.CRASH and 1 <= len(problem.moved) <= _MOST_MOVED:
        is_newer = context.order[problem.until] > context.order[context.comparison.baseline]
        moved = [
            message(
                "{key} ({before}, now {now})",
                key=one.key.partition(".")[2],
                before=one.baseline if is_newer else one.value,
                now=one.value if is_newer else one.baseline,
            )
            for one in problem.moved
        ]
        yield message("Defaults that changed with it, and may be why: {settings}.", settings=name_list(moved))
    if assessed.room is not None:
        yield room_text(context, problem.worst.stack, assessed.room)
    if assessed.kind is ProblemKind.CRASH and _is_of_processors(problem):
        yield message("This may happen on CPU ranks only; --device sim runs the job as on a card.")
    if problem.kind is ProblemKind.MORE and kind_of(problem.worst) is ProblemKind.LEAK:
        yield message("This is a shrunk model; --device sim measures the job as it is.")
    if assessed.release:
        release = context.name_beside(assessed.release, problem.worst.stack)
        is_older = context.order[assessed.release] < context.order[problem.since]
        if not is_older or assessed.kind < ProblemKind.LEAK:
            yield message("Use {release}.", release=release)
        elif assessed.release == problem.before:
            yield message("The last release without it is {release}.", release=release)
        else:
            yield message("The last sound release is {release}.", release=release)
    is_everywhere = len(problem.having) == len(context.stacks)
    if assessed.kind is ProblemKind.CRASH and is_everywhere and workload_words.is_given_program(problem.worst.scenario):
        others = [*_other_packages(context, problem)]
        if not others and not is_ruled and len(context.stacks) > 1:
            yield message("It fails alike in every release that was measured.")
        yield from others


def _untestable(context: ReportContext, problem: Problem) -> Iterator[Text]:
    """Yield why a failure tells nothing of the releases, and what may pass."""
    versions = context.stacks[problem.worst.stack].versions
    lacking, refusing = (
        "" if package in context.axes else f"{package} {versions.get(package.replace('_', '-'), '')}".strip()
        for package in (lacking_package(problem.worst), refusing_package(problem.worst))
    )
    if lacking:
        yield message(
            "It imports what {package} does not have: the compared releases are not at fault.", package=lacking
        )
    elif refusing:
        yield message(
            "It calls what {package} does not have: the compared releases are not at fault.", package=refusing
        )
    elif waits_in_program(problem.worst):
        yield _waiting_text(problem.worst)
    elif package := raising_package(problem.worst):
        yield message("It arises in {package}: the compared releases are not at fault.", package=package)
    elif place := _place_of_copies(problem):
        yield message(
            "At {place} sim gives a rank its own objects in place of the others', maybe why: --device cpu runs them all.",
            place=place,
        )
    elif is_of_program(problem.worst):
        yield message("It fails alike in every release that was measured: look in the program first.")
    others = [*_other_packages(context, problem)]
    if is_in_its_line(problem.worst) and not others and not is_of_program(problem.worst):
        yield message("It fails in a line of the program's own: look there first.")
    yield from others


def _waiting_text(found: Finding) -> Text:
    """Return where a program waited, without an end, before its first step."""
    places = found.outcome.whereabouts if isinstance(found.outcome, TimedOut) else ()
    if not places:
        return message("No release is known to be at fault: find out what the program waits for.")
    return message("It waited at {place}: find out for what, as no release is known to be at fault.", place=places[0])


def _place_of_copies(problem: Problem) -> str:
    """Return where a program whose own code failed had gathered this rank's objects in place of the others'."""
    outcome = problem.worst.outcome
    if not isinstance(outcome, Failed) or not is_of_program(problem.worst):
        return ""
    return place_of_gathering(outcome.detail)


def _is_of_processors(problem: Problem) -> bool:
    outcome = problem.worst.outcome
    return isinstance(outcome, Failed) and outcome.detail.endswith(OF_PROCESSORS)


def _precision_to_ask_for(context: ReportContext, problem: Problem) -> Text | None:
    """Return how to keep the precision of the weights, if that is what differs first: it takes an argument, no release."""
    first = first_finding(problem)
    cell = context.comparison.cells.of(context.comparison.baseline, first.workload)
    if first.metric != WEIGHT_PRECISION.name or cell is None:
        return None
    before = dict(cell.trained)[first.model].dtype
    if before not in _FLOATING:
        return None
    return message("{argument} where the model is loaded keeps the old precision.", argument=f"dtype=torch.{before}")


#: Packages that transformers 4 and 5 have in different releases, and the stack with those of transformers 4.
_OF_TRANSFORMERS = frozenset(("transformers", "huggingface-hub"))
_STACK_OF_4 = "--stack transformers-4"


def _is_newer_than_4(version: str) -> bool:
    return version.partition(".")[0].isdecimal() and int(version.partition(".")[0]) > 4


def _other_packages(context: ReportContext, problem: Problem) -> Iterator[Text]:
    """Yield the option for other packages that may pass, if there is one whose releases are known to go together: the
    configured stack with transformers 4. A package without a release is no advice, and `first_attempt` tries those of the
    program's day."""
    stack = context.stacks[problem.worst.stack]
    packages = other_packages(problem, stack, context.axes)
    if not _OF_TRANSFORMERS.isdisjoint(packages) and _is_newer_than_4(stack.versions.get("transformers", "")):
        yield message("Other packages may pass: {options}.", options=_STACK_OF_4)


def affected_text(problem: Problem, distinguishing: DistinguishingParameters) -> Text:
    """Return the affected workloads in words: their scenario if all of its workloads are affected, or the parameters that no
    unaffected workload has, with their number; else a list of workloads."""
    affected = list(problem.affected)
    scenarios = {split_workload(workload).scenario for workload in affected}
    beside = [other for other in problem.unaffected if split_workload(other).scenario in scenarios]
    if len(scenarios) == 1 and not beside:
        return _with_count(scenarios.pop(), affected)
    if not problem.unaffected:
        return plural_message("all {count:,} workload", "all {count:,} workloads", len(affected))
    conditions = distinguishing.of(affected, problem.unaffected)
    found = [conditions_text(conditions)]
    if len(scenarios) == 1 and (inside := distinguishing.of(affected, beside)):
        found.append(joined(COMMA, (scenarios.pop(), conditions_text(inside))))
    # A parameter by its own name says nothing without its scenario, nor with values of several.
    named = [one for one in conditions if one.has_own_name]
    if (len(found) > 1 and named) or (len(scenarios) > 1 and any(len(one.values) > 1 for one in named)):
        del found[0]
    if said := [text for text in found if text]:
        return _with_count(min(said, key=lambda text: len(str(text))), affected)
    return name_list([workload.rpartition("/")[0] for workload in affected], _MOST_WORKLOADS)


def _with_count(who: Text, affected: Sequence[str]) -> Text:
    if len(affected) == 1:
        return who
    return plural_message("{who} ({count:,} workload)", "{who} ({count:,} workloads)", len(affected), who=who)
