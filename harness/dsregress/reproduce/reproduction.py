"""From a finding to its conditions, a script that shows it, and the releases where it begins and ends."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec
from packaging.version import Version

from dsregress.bisect import questions
from dsregress.bisect.questions import Observation, Question
from dsregress.compare.comparison import DetailOf
from dsregress.compare.metrics import BY_NAME, OUTCOME, PARAMETER_ERROR, Direction
from dsregress.errors import HarnessError, NothingMeasured
from dsregress.model import Cell, Environment, Result, Stack, Verdict
from dsregress.probe.factors import BY_NAME as BY_FACTOR
from dsregress.probe.scenario import SHAPE, Scenario
from dsregress.reproduce import cells, reduction, requirements, running
from dsregress.reproduce.composers import composer
from dsregress.reproduce.factors import varied_in
from dsregress.reproduce.reduction import Condition, Reduced
from dsregress.reproduce.running import ScriptRun
from dsregress.reproduce.script import NoFragment, Script, Subject
from dsregress.run.session import Session
from dsregress.store import newest_by_cell
from dsregress.system.kept import Together
from dsregress.wording.quantities import shortened

#: Settings that are tried as remedies: each is a run of the script.
_MOST_REMEDIES = 3


#: The question whether training is right.
_TRUTH = Question(PARAMETER_ERROR.name)

#: The size that a script leaves out at first.
_BUCKET = "reduce_bucket_size"

#: Scripts that run at the same time. None is timed.
_AT_ONCE = 2


class ReleaseAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a stored result about one release."""

    version: str
    answer: Verdict
    text: str  #: the value in words


class ScriptRemedy(msgspec.Struct, frozen=True, kw_only=True):
    """A setting with which the script does not show the fault in the release that has it."""

    text: str
    run: ScriptRun


class Reproduction(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to ``reproduce``."""

    cell: Cell
    question: Question
    package: str  #: in which the releases differ
    bad: str
    good: str  #: a release that does not have it
    reduced: Reduced
    smallest: Cell  #: the cell that is left, in the release that has it
    script: Script | None  #: None: a part of it has no fragment
    runs: tuple[
        ScriptRun, ...
    ]  #: of the script: in the release that has the fault, in the other, and in a later sound one
    machine: str  #: operating system and architecture of these runs
    why_not: str = ""  #: why it is not confirmed
    history: tuple[ReleaseAnswer, ...] = ()  #: of the stored releases, oldest first
    remedies: tuple[ScriptRemedy, ...] = ()
    trials: int = 0  #: cells whose results were read to find its conditions

    @property
    def is_confirmed(self) -> bool:
        """True if the script shows the fault in the bad release, passes in the good one, and shows it in no later sound
        one."""
        answers = [run.answer for run in self.runs]
        return answers[:2] == [Verdict.BAD, Verdict.GOOD] and Verdict.BAD not in answers[2:]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The finding to reproduce."""

    cell: Cell
    question: Question | None  #: None: the gravest finding on the cell
    against: Stack | None  #: None: the nearest stored release that does not have it, else the baseline
    baseline: Stack
    package: str
    stored: Mapping[str, Result]  #: version -> the newest result of the same workload in that release
    detail_of: DetailOf  #: of these, and of what the session measures
    file: str
    conditions: bool = True  #: report what it needs


class ReducedFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding reduced to its conditions."""

    cell: Cell
    question: Question
    package: str  #: in which the releases differ
    good: Stack
    later: Stack | None  #: a newer one in which the finding has ended
    reduced: Reduced
    history: tuple[ReleaseAnswer, ...]
    trials: int
    file: str


def reproduce(request: Request, simplest: Scenario, session: Session) -> Reproduction:
    """Measure, reduce, write and run. Raise NothingMeasured if the finding is not seen, and the errors of a session."""
    package, bad = request.package, request.cell.stack
    question = _question_on_cell(request, session)
    history = _history(request, question, session)
    good = request.against or _nearest_good(request, history) or request.baseline
    if good.id == bad.id:
        raise NothingMeasured("no other release to compare with", where=bad.id, hint="name one: --against VERSION")
    session.build([bad, good])
    session.keep_open()
    pair = cells.ReleasePair(question, bad, good, session, simplest, request.detail_of)
    start = cells.at_small_size(request.cell, simplest)
    verdict = pair.begin(start)
    if verdict is not Verdict.BAD:
        known = "not seen" if verdict is Verdict.GOOD else "cannot be judged"
        what = f"{question.title}: {known} at a small size on {cells.DEVICE}: {pair.answers(start)}"
        raise NothingMeasured(
            what, where=request.cell.id, hint="name another release (--against) or finding (--metric)"
        )
    fixed = _fixed(history, bad.versions[package])
    shows, reduced = _reduced(request, pair, start, fixed, simplest)
    if request.conditions:
        reduced = _with_conditions(reduced, shows, simplest)
    session.end()  # scripts start processes of their own
    finding = ReducedFinding(
        cell=request.cell,
        question=question,
        package=package,
        good=good,
        later=request.stored[fixed].cell.stack if fixed else None,
        reduced=reduced,
        history=history,
        trials=pair.trials,
        file=request.file,
    )
    return write_script(finding, simplest, session)


def write_script(finding: ReducedFinding, simplest: Scenario, session: Session) -> Reproduction:
    """Write the script and run it. Raise the errors of a session."""
    bad, good, package = finding.cell.stack, finding.good, finding.package
    session.build([bad, good])
    smallest = cells.cell_of(simplest, bad, finding.reduced.parameters)
    subject = ScriptSubject(question=finding.question, bad=bad, good=good, package=package, file=finding.file)
    scripted = Scripted(subject, simplest, session)
    tried = scripted.confirmed(smallest.parameters)
    script, runs, why_not, reduced = tried.script, tried.runs, tried.why_not, finding.reduced
    if tried.needs_sizes:
        reduced = reduced.with_condition(_small_bucket(smallest.parameters))
    remedies: tuple[ScriptRemedy, ...] = ()
    if script is not None and runs and runs[0].answer is Verdict.BAD:
        later = scripted.in_others(script, finding.later)
        why_not = why_not or "; ".join(f"{one.version}: {one.line}" for one in later if one.answer is Verdict.BAD)
        runs = (*runs, *later)
        remedies = scripted.remedies(script, runs[0], smallest.parameters, reduced)
    return Reproduction(
        cell=finding.cell,
        question=finding.question,
        package=package,
        bad=bad.versions[package],
        good=good.versions[package],
        reduced=reduced,
        smallest=smallest,
        script=script,
        runs=runs,
        machine=f"{platform.system()} {platform.machine()}",
        why_not=why_not,
        history=finding.history,
        remedies=remedies,
        trials=finding.trials,
    )


def _reduced(
    request: Request, pair: cells.ReleasePair, start: dict[str, object], fixed: str, simplest: Scenario
) -> tuple[reduction.Shows, Reduced]:
    """Return the smallest cell, and the test that decides whether a cell shows the finding.

    A difference between two releases in a smaller cell may have another cause. It has if the release in which the finding
    has ended still shows it; then each trial is measured in that release as well.
    """
    factors = varied_in(cells.base_parameters(simplest))
    leaps = cells.leaps(request.cell)

    def reduced_by(shows: reduction.Shows) -> Reduced:
        return reduction.reduce(start, factors, shows, leaps, vary=False, is_valid=requirements.is_valid)

    found = reduced_by(pair.shows)
    if fixed not in request.stored:
        return pair.shows, found
    later = pair.against(request.stored[fixed].cell.stack)
    try:
        has_slipped = later.begin(start) is Verdict.BAD and later.shows([found.parameters]) != [Verdict.BAD]
    except HarnessError:  # as where its results are another machine's
        return pair.shows, found
    if not has_slipped:
        return pair.shows, found
    both = cells.shown_by_all((pair, later))
    return both, reduced_by(both)


def _with_conditions(reduced: Reduced, shows: reduction.Shows, simplest: Scenario) -> Reduced:
    factors = varied_in(cells.base_parameters(simplest))
    return reduction.reduce(reduced.parameters, factors, shows, is_valid=requirements.is_valid)


def _question_on_cell(request: Request, session: Session) -> Question:
    """Return the question as given, else the gravest finding on the cell. Measure the cell itself only as far as that
    needs."""
    question, bad = request.question, request.cell.stack
    if question is None:
        baseline = request.against or request.baseline
        results = _of_cell(request, [bad, baseline], session)
        question = cells.question_of(results, request.cell, baseline, session.settings, request.detail_of)
        return cells.with_error(question, results[0])
    if cells.lacks_error(question):
        return cells.with_error(question, *_of_cell(request, [bad], session))
    return question


def _of_cell(request: Request, stacks: Sequence[Stack], session: Session) -> list[Result]:
    """Return the cell's result in each of these stacks, stored or measured now."""
    package = request.package
    found = dict(request.stored)
    missing = {stack.versions[package]: stack for stack in stacks if stack.versions[package] not in found}
    if missing:
        session.build(list(missing.values()))
        wanted = [msgspec.structs.replace(request.cell, stack=stack) for stack in missing.values()]
        measured = newest_by_cell(session.measure(wanted, baseline=request.against or request.baseline))
        found |= {result.cell.stack.versions[package]: result for result in measured.values()}
    return [found[stack.versions[package]] for stack in stacks]


def _history(request: Request, question: Question, session: Session) -> tuple[ReleaseAnswer, ...]:
    """Return the answers of the stored results of the workload, the oldest release first."""
    limits = session.settings.thresholds
    detail_of = request.detail_of
    own = request.stored.get(request.cell.stack.versions[request.package])
    bad = None if own is None else questions.observe(question, own, detail_of)
    seen = {version: questions.observe(question, result, detail_of) for version, result in request.stored.items()}
    against = request.against or request.baseline
    good = seen.get(against.versions[request.package])
    if question.metric == OUTCOME.name:
        good = Observation(value="passed", text="passed")
    elif BY_NAME[question.metric].direction is Direction.AT_MOST_ONE:
        good = Observation(value=0.0, text="")  # the truth needs no other release
    if good is None:
        return ()
    found = []
    for version in sorted(seen, key=Version):
        answer = questions.judge_observation(question, seen[version], good, bad, limits)
        found.append(ReleaseAnswer(version=version, answer=answer, text=seen[version].text))
    return tuple(found)


def _nearest_good(request: Request, history: Sequence[ReleaseAnswer]) -> Stack | None:
    """Return the newest older release without the finding, else the oldest newer one."""
    own = Version(request.cell.stack.versions[request.package])
    good = [Version(one.version) for one in history if one.answer is Verdict.GOOD]
    near = max((v for v in good if v < own), default=None) or min((v for v in good if v > own), default=None)
    if near is None:
        return None
    return next(r.cell.stack for version, r in request.stored.items() if Version(version) == near)


def _fixed(history: Sequence[ReleaseAnswer], bad: str) -> str:
    """Return the oldest newer release that no longer has the finding; empty if none is known."""
    later = [one.version for one in history if one.answer is Verdict.GOOD and Version(one.version) > Version(bad)]
    return min(later, key=Version, default="")


def _small_bucket(parameters: Mapping[str, object]) -> Condition:
    """Return the condition of a script that does not show the finding with DeepSpeed's default bucket size. No cell has that
    size."""
    value = BY_FACTOR[_BUCKET].value_in(parameters)
    return Condition(factor=BY_FACTOR[_BUCKET], value=value, shown=(value,), hidden=(None,))


class TriedScript(msgspec.Struct, frozen=True, kw_only=True):
    """A script, and its runs in the two releases."""

    script: Script | None  #: None: a part of it has no fragment
    runs: tuple[ScriptRun, ...]  #: in the release that has the fault, and in the other
    why_not: str = ""  #: why it is not confirmed
    needs_sizes: bool = False  #: it has a small bucket, and without one passes in the release that has the fault

    @property
    def is_confirmed(self) -> bool:
        """True if the script shows the fault in the bad release and passes in the good one."""
        return [run.answer for run in self.runs] == [Verdict.BAD, Verdict.GOOD]


class ScriptSubject(msgspec.Struct, frozen=True, kw_only=True):
    """The finding that scripts should show."""

    question: Question
    bad: Stack  #: the release that has the fault
    good: Stack  #: the release that it is compared with
    package: str  #: in which they differ
    file: str  #: of the script


class Scripted:
    """Scripts of one finding, and their runs."""

    def __init__(self, subject: ScriptSubject, simplest: Scenario, session: Session) -> None:
        self._question, self._bad, self._good = subject.question, subject.bad, subject.good
        self._package, self._file = subject.package, subject.file
        self._defaults = cells.base_parameters(simplest)
        self._composer = composer(simplest.framework)
        self._session = session

    def confirmed(self, parameters: Mapping[str, object]) -> TriedScript:
        """Return the simplest script that shows the fault in the bad release and not in the good one; else the last one that
        could be written, and why it does not. Small buckets, which most faults do not need, are left out at first."""
        shortest: dict[str, TriedScript] = {}
        last = TriedScript(script=None, runs=())
        for model in self._composer.models:
            try:
                tried = self._tried(parameters, model)
            except NoFragment as error:
                last = msgspec.structs.replace(last, why_not=last.why_not or f"no fragment for {error}")
                continue
            if tried.is_confirmed:
                return tried
            if tried.script is None:
                last = msgspec.structs.replace(last, why_not=tried.why_not)
            else:
                last = shortest[model] = tried
        for model, short in shortest.items():
            tried = self._tried(parameters, model, is_sized=True, unless=short.script)
            if tried.is_confirmed:
                return msgspec.structs.replace(tried, needs_sizes=short.runs[0].answer is Verdict.GOOD)
        return last

    def _tried(
        self, parameters: Mapping[str, object], model: str, *, is_sized: bool = False, unless: Script | None = None
    ) -> TriedScript:
        """Try a script. ``unless`` is one that was tried before: the same text is not tried again. Raise NoFragment if the
        script cannot be written."""
        script = self._script(parameters, model, is_sized=is_sized)
        if unless is not None and script.text == unless.text:
            return TriedScript(script=None, runs=())
        if script.needs_expected:
            bad, good = self._run_all([(script, self._bad), (script, self._good)])
            try:
                shown = running.figure(script, bad) if bad.answer is Verdict.GOOD else msgspec.UNSET
                script = self._script(parameters, model, running.figure(script, good), shown, is_sized=is_sized)
            except ValueError as error:
                why = f"the script gives no figure in {self._good.versions[self._package]}: {error}"
                return TriedScript(script=None, runs=(), why_not=why)
        runs = self._run_all([(script, self._bad), (script, self._good)])
        why = "; ".join(f"{run.version}: {run.line}" for run in runs)
        tried = TriedScript(script=script, runs=runs, why_not=why)
        return msgspec.structs.replace(tried, why_not="") if tried.is_confirmed else tried

    def in_others(self, script: Script, stack: Stack | None) -> tuple[ScriptRun, ...]:
        """Return the script's run in a later release that should be sound again. If that release is unavailable, for example
        because its results come from another machine, the run is Unknown: it says nothing about the script."""
        version = "" if stack is None else stack.versions[self._package]
        if stack is None or version == self._good.versions[self._package]:
            return ()
        try:
            return (self._run(script, stack),)
        except HarnessError as error:
            return (ScriptRun(version=version, answer=Verdict.UNKNOWN, exit_code=None, line=shortened(error.what)),)

    def remedies(
        self, script: Script, bad: ScriptRun, parameters: Mapping[str, object], reduced: Reduced
    ) -> tuple[ScriptRemedy, ...]:
        """Return the settings that hid the fault in a cell and hide it in the script, provided that training with them
        matches plain PyTorch's, also with the largest accumulation: a setting may lead past a crash to a wrong gradient.
        Leave out settings that cost as much as the fault, whose run is ``bad``: without sharding nothing is held too long,
        because everything is held."""
        changes = [(one.factor, one.nearest_hidden) for one in reduced.needed if one.factor.configured]
        largest = {one.factor.name: max(one.shown) for one in reduced.needed if one.factor.counted}
        tried: list[tuple[str, list[Script]]] = []
        for factor, value in changes[:_MOST_REMEDIES]:
            changed = {**parameters, factor.name: value}
            try:
                # A figure of its own where one is compared with: another configuration holds and moves something else.
                other = self._expected(changed, script) if script.compares else msgspec.UNSET
                own = self._script(changed, script.model, other, is_sized=script.is_sized)
                tried.append((factor.text((value,)), [own, *self._truth({**changed, **largest}, own)]))
            except (NoFragment, ValueError):
                continue
        runs = iter(self._run_all([(one, self._bad) for _, scripts in tried for one in scripts]))
        found = [(text, [next(runs) for _ in scripts]) for text, scripts in tried]
        return tuple(
            ScriptRemedy(text=text, run=own[0])
            for text, own in found
            if all(run.answer is Verdict.GOOD for run in own)
            and not (script.counts and running.count(own[0]) >= running.count(bad))
        )

    def _truth(self, parameters: Mapping[str, object], own: Script) -> list[Script]:
        """Return the script that checks training; none if no fragment does and the script itself has a truth. Raise
        NoFragment if neither has one."""
        try:
            return [self._script(parameters, own.model, question=_TRUTH, is_sized=own.is_sized)]
        except NoFragment:
            if not own.has_truth:
                raise
            return []

    def _expected(self, parameters: Mapping[str, object], like: Script) -> object:
        """Return the good release's figure. Raise NoFragment, or ValueError if the script gives none."""
        script = self._script(parameters, like.model, is_sized=like.is_sized)
        return running.figure(script, self._run(script, self._good))

    def _script(
        self,
        parameters: Mapping[str, object],
        model: str,
        expected: object = msgspec.UNSET,
        shown: object = msgspec.UNSET,
        question: Question | None = None,
        *,
        is_sized: bool = False,
    ) -> Script:
        return self._composer.compose(
            Subject(
                parameters=dict(parameters),
                defaults={**self._defaults, SHAPE: parameters.get(SHAPE, {})},
                question=question or self._question,
                bad=self._bad.versions,
                good=self._good.versions,
                package=self._package,
                file=self._file,
                model=model,
                expected=expected,
                shown=shown,
                is_sized=is_sized,
            )
        )

    def _run(self, script: Script, stack: Stack) -> ScriptRun:
        (one,) = self._run_all([(script, stack)])
        return one

    def _run_all(self, wanted: Sequence[tuple[Script, Stack]]) -> tuple[ScriptRun, ...]:
        """Run scripts, several at a time, since each mostly imports. Return their runs in order."""
        environments = self._session.build([stack for _, stack in wanted])
        together = Together()

        def run(script: Script, stack: Stack, environment: Environment) -> ScriptRun:
            version, key = stack.versions[self._package], self._question.key
            return running.run_script(script, environment, version, key, self._session.settings, together.add)

        scripts, stacks = [script for script, _ in wanted], [stack for _, stack in wanted]
        with ThreadPoolExecutor(_AT_ONCE) as pool, contextlib.ExitStack() as on_failure:
            on_failure.callback(together.interrupt)  # so that the pool need not wait for those that still run
            runs = tuple(pool.map(run, scripts, stacks, environments))
            on_failure.pop_all()
        return runs
