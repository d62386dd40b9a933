"""The answer to ``reproduce`` as an issue for the tracker of the package, in the order in which a maintainer reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from packaging.version import Version

from dsregress.advisories.advisory import Advisory
from dsregress.compare.metrics import BY_NAME, CONFIGURATION, DEVICE_EXCESS, DEVICE_PEAK, DEVICE_RETAINED, OUTCOME
from dsregress.model import Verdict, variant_values
from dsregress.probe.factor import Factor
from dsregress.probe.factors import BY_NAME as BY_PARAMETER
from dsregress.report.advisory_words import remedy_request
from dsregress.report.answers.reproduce_answer import known_advisory, known_upstream, output, spans
from dsregress.reproduce.configuration import in_keys, size_keys
from dsregress.reproduce.reduction import Condition
from dsregress.reproduce.reproduction import Reproduction
from dsregress.reproduce.script import Script
from dsregress.wording import addresses
from dsregress.wording.quantities import enumeration, listing, plural, shortened

#: Of a configuration for a tiny model.
_SIZE_KEYS = size_keys()

#: For these, the issue says how they were measured.
_BYTES = (DEVICE_RETAINED, DEVICE_EXCESS, DEVICE_PEAK)

#: The most letters of a title.
_LONGEST_TITLE = 89

#: The most letters of an error in a title, and the end of its first sentence.
_LONGEST_ERROR = 100
_SENTENCE = re.compile(r"(?<=[.;!?])\s|\n")

_MOST_REMEDIES = 4

#: Factors that are listed as not mattering; `--json` has all of them.
_MOST_FACTORS = 12


def issue_text(found: Reproduction, introduced: str = "") -> str:
    """Return the issue in Markdown, ending in a newline, after a comment for its sender; without a script unless one is
    confirmed. ``introduced``: the release and the change that introduced it, if a bisection found them."""
    blocks = [f"<!-- {_for_the_sender(found)} -->", f"# {_title(found)}"]
    if found.is_confirmed and found.script is not None:
        blocks += [*_description(found), *_cause(introduced), *_conditions(found), *_to_reproduce(found, found.script)]
    else:
        blocks += [f"**Not confirmed:** {found.why_not}.", *_conditions(found)]
    return "\n\n".join([*blocks, *_environment_lines(found)]) + "\n"


def _for_the_sender(found: Reproduction) -> str:
    known = f"Known upstream: {known_upstream(found)}."
    advisory = known_advisory(found)
    named = "" if advisory is None else f" It is {advisory.id}{_reports(advisory)}.{_remedies(advisory)}"
    sound = [Version(run.version) for run in found.runs if run.answer is Verdict.GOOD]
    later = [version for version in sound if version > Version(found.bad)]
    ended = f" {found.package} {min(later)} does not have it any more." if later else ""
    return f"Before you send this, search the tracker. {known}{named}{ended}"


def _remedies(advisory: Advisory) -> str:
    """Return what ends it, in the words of `audit`."""
    requests = [remedy_request(one) for one in advisory.remedies[:_MOST_REMEDIES]]
    return f" Remedies: {'; or '.join(requests)}." if requests else ""


def _reports(advisory: Advisory) -> str:
    """Return the issues and the fixes upstream that an advisory names."""
    parts = [f"reported in {listing(advisory.references.reported)}"] if advisory.references.reported else []
    parts += [f"fixed by {listing(advisory.references.fixed)}"] if advisory.references.fixed else []
    return f", {' and '.join(parts)}" if parts else ""


def _title(found: Reproduction) -> str:
    """Return the title: that of the advisory that knows it; else the symptom, its conditions, and the affected release."""
    if (advisory := known_advisory(found)) is not None:
        return advisory.title
    conditions = [*_needed(found), *(factor.text(values) for factor, values in _seen_with(found))]
    symptom, releases = _symptom(found), f" (in {found.package} {found.bad}, not in {found.good})"
    texts = (f"{symptom}{_with(conditions[:count])}{releases}" for count in range(len(conditions), -1, -1))
    short = f"{shortened(symptom, _LONGEST_TITLE - len(releases))}{releases}"
    text = next((one for one in texts if len(one) <= _LONGEST_TITLE), short)
    return text[0].upper() + text[1:]


def _with(conditions: Sequence[str]) -> str:
    return f" with {enumeration(conditions)}" if conditions else ""


def _symptom(found: Reproduction) -> str:
    question, metric = found.question, BY_NAME[found.question.metric]
    if metric is OUTCOME:
        return _short(next((run.line for run in found.runs if run.answer is Verdict.BAD), question.key))
    if metric is CONFIGURATION:
        return f"{question.key} has another default"
    if metric.wrong:
        return str(metric.wrong)
    phrase = BY_NAME[metric.explained_by or metric.name].phrase
    if phrase.after:
        return f"More {phrase.noun} is held after {question.phase}"
    return " ".join(str(phrase.of_subject(question.phase or "a step", "", more=True)).split())


def _short(error: str) -> str:
    """Return an error for a title: its class without the module, and its first sentence."""
    kind, colon, message = error.partition(": ")
    first = _SENTENCE.split(message, maxsplit=1)[0].rstrip(".:; ")
    return shortened(f"{kind.rpartition('.')[2]}{colon}{first}", _LONGEST_ERROR)


def _needed(found: Reproduction) -> list[str]:
    """Return the conditions of the finding, in words."""
    return [one.factor.text(one.shown, one.hidden) for one in found.reduced.needed]


def _seen_with(found: Reproduction) -> list[tuple[Factor, tuple[object, ...]]]:
    """Return the other factors of the smallest cell, with their values; all of its factors if no conditions were
    determined."""
    if found.reduced.conditions:
        return [(one.factor, one.shown) for one in found.reduced.seen_with]
    named = (name for name in variant_values(found.smallest.variant) if name in BY_PARAMETER)
    return [(BY_PARAMETER[name], (found.smallest.parameters[name],)) for name in named]


def _description(found: Reproduction) -> Iterator[str]:
    bad, good = found.runs[0], found.runs[1]
    metric = BY_NAME[found.question.metric]
    verb = "ends with" if metric is OUTCOME else "prints"
    compares = found.script is not None and found.script.compares
    other = "passes" if compares else f"prints `{good.line}`"
    yield f"With {found.package} {bad.version} the script below {verb} `{bad.line}`; with {good.version} it {other}."
    if metric in _BYTES:
        collected = "" if metric is DEVICE_PEAK else " after `gc.collect()`"
        yield (
            "Counted are the bytes of all live tensor storages on rank 0 that were made since the model, by the script's "
            f"`TorchDispatchMode`{collected}; not the memory of the process."
        )
    yield f"**Expected:** {_expected(found)}"
    for label, text in spans(found):
        measured = ", of those that were measured" if label == "affected releases" else ""
        yield f"**{label.capitalize()}**{measured}: {text}."


def _cause(introduced: str) -> Iterator[str]:
    if introduced:
        yield f"**First bad change**, {introduced}, found by bisection."


def _expected(found: Reproduction) -> str:
    metric = BY_NAME[found.question.metric]
    if metric is OUTCOME:
        return f"it trains, as in {found.good}."
    if metric is CONFIGURATION:
        return f"the value of {found.good}, unless a release note says otherwise."
    if metric.wrong:
        return "what plain PyTorch computes from the same weights and batches; the script has both."
    return f"about what {found.good} has for the same training, unless a release note says otherwise."


def _conditions(found: Reproduction) -> Iterator[str]:
    """Yield the conditions of the finding, found by varying one factor at a time, in the keys that a user configures."""
    p = found.reduced.parameters

    indifferent = [one.factor.noun for one in found.reduced.indifferent]
    lines = [f"- needs {in_keys(one.factor, one.shown, one.hidden, p)}{_not_with(one)}" for one in found.reduced.needed]
    lines += [f"- seen with {in_keys(factor, values, (), p)}" for factor, values in _seen_with(found)]
    lines += [f"- does not depend on {listing(indifferent, _MOST_FACTORS)}"] if indifferent else []
    unknown = [in_keys(one.factor, one.unknown, (), p) for one in found.reduced.open]
    lines += [f"- could not be determined with {'; '.join(unknown)}"] if unknown else []
    lines += [f"- goes away with {one.text}: `{one.run.line}` in {found.bad}" for one in found.remedies]
    if lines:
        yield "**When it happens:**\n\n" + "\n".join(lines)


def _not_with(one: Condition) -> str:
    """Return the values that were tried and do not show it; empty if they are obvious."""
    if len(one.shown) + len(one.hidden) < 3 or one.factor.limit(one.shown, one.hidden) is not None:
        return ""
    words = [one.factor.words.get(value, "not configured" if value is None else str(value)) for value in one.hidden]
    tried = f"{enumeration(words)} {'do' if len(words) > 1 else 'does'}"
    return f" ({tried} not show it)"


def _to_reproduce(found: Reproduction, script: Script) -> Iterator[str]:
    ranks = plural(script.ranks, "CPU process", "CPU processes")
    how = [ranks, "no GPU", "the first lines say how"]
    if any(f'"{key}"' in script.text for key in _SIZE_KEYS):
        how.append("the configured sizes are as small against its model as the defaults are against a large one")
    yield f"**To reproduce** ({'; '.join(how)}):\n\n```python\n{script.text}```"
    lines = [f"{found.package} {output(run)}" for run in found.runs]
    yield "**Output:**\n\n```\n" + "\n".join(lines) + "\n```"


def _environment_lines(found: Reproduction) -> Iterator[str]:
    """Yield the environment, as far as the script uses it, and public addresses."""
    used = found.cell.stack.versions
    if found.is_confirmed and found.script is not None:
        used = {name: version for name, version in used.items() if f" {name}==" in found.script.text}
    others = [f"{name} {version}" for name, version in used.items() if name != found.package]
    python = found.cell.stack.python.partition("+")[0]
    yield f"**Environment:** {', '.join([f'Python {python}', *others])}; CPU, gloo, {found.machine}. Not run on a GPU."
    yield f"**Sources:** {', '.join(_links(found))}"


def _links(found: Reproduction) -> Sequence[str]:
    """Return links: the changes between the two releases if they are adjacent, and each release's tag, or its page at the
    index."""
    versions = list(dict.fromkeys([found.good, found.bad, *(run.version for run in found.runs)]))
    links = []
    for version in versions:
        url = addresses.tag_url(found.package, version) or addresses.release_url(found.package, version)
        links.append(f"[{found.package} {version}]({url})")
    known = [one.version for one in found.history]
    ends = {known.index(found.good), known.index(found.bad)} if {found.good, found.bad} <= set(known) else set()
    compared = addresses.compare_url(found.package, *sorted((found.good, found.bad), key=known.index)) if ends else ""
    if compared and max(ends) - min(ends) == 1:
        links.insert(0, f"[what changed between them]({compared})")
    return links
