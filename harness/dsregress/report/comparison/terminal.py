"""The report for a person at a terminal, 80 columns and wider: the answer on one screen, then its details."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from dsregress.compare import ProblemKind
from dsregress.messages import COMMA, SENTENCE, Message, joined, message, plural_message
from dsregress.report.context import ReportContext
from dsregress.report.first_screen import GRAVE, SERIOUS, WORDS, FirstScreen
from dsregress.report.plain_text import plain
from dsregress.report.problem_lines import ProblemLine, ProblemSection
from dsregress.report.report_view import View, report_view
from dsregress.report.rows import Row
from dsregress.report.tables import Table
from dsregress.wording.language import ENGLISH, Say, saying

#: Lines of the first screen: those of the smallest terminal.
MOST_LINES = 25

_STYLES = {
    "failed": "bold red",
    "wrong": "bold magenta",
    "regression": "red",
    "improvement": "green",
    "changed": "yellow",
}
_WORD_STYLES = {**dict.fromkeys(GRAVE, "bold red"), **dict.fromkeys(SERIOUS, "yellow")}

#: Columns of a row's label: the fewest if all releases fit then, else the most. Columns of a problem's releases.
_LEAST_LABEL, _MOST_LABEL, _MOST_RELEASES = 24, 40, 18

#: Before the further lines of a row's label.
_INDENT = "  "

#: The fewest rows of the overview, if there are as many.
_LEAST_ROWS = 2

#: The most lines of a problem if all problems fit then, else the second number.
_MOST_BLOCK, _CUT_BLOCK = 8, 3

_ERRORS = (ProblemKind.CRASH, ProblemKind.OUT_OF_MEMORY, ProblemKind.UNTESTABLE)


def show_comparison(
    context: ReportContext, console: Console, *, details: bool = False, language: str = ENGLISH
) -> None:
    """Print the answer in a language; with ``details``, also its details."""
    report = report_view(context)
    for line in first_lines(report.screen, console.width, saying(language)):
        console.print(line, no_wrap=True, overflow=line.overflow or "crop", crop=line.overflow != "ignore")
    if details:
        console.print(render(report))


def first_lines(screen: FirstScreen, width: int, say: Say = str) -> list[Text]:
    """Return the first screen, of at most `MOST_LINES` lines. Rows of the overview make room for the gravest problems."""
    ends_jobs = {
        line.number for one in screen.sections for line in one.problems[:1] if line.kind <= ProblemKind.OUT_OF_MEMORY
    }
    for most in range(len(screen.overview.rows), _LEAST_ROWS, -1):
        lines, shown = _screen_lines(_with_rows(screen, most), width, say)
        if shown >= ends_jobs:
            return lines
    return _screen_lines(_with_rows(screen, _LEAST_ROWS), width, say)[0]


def _with_rows(screen: FirstScreen, most: int) -> FirstScreen:
    """Return a screen whose overview has at most so many rows."""
    overview = screen.overview
    left = sum(len(row.workloads) for row in overview.rows[most:])
    shorter = msgspec.structs.replace(overview, rows=overview.rows[:most], more=overview.more + left)
    return msgspec.structs.replace(screen, overview=shorter)


def _screen_lines(screen: FirstScreen, width: int, say: Say) -> tuple[list[Text], set[int]]:
    """Return the lines, and the numbers of the problems among them."""
    lines = [
        *_wrapped(say(screen.recommendation_text), width, style="bold"),
        *_wrapped(say(screen.headline_text), width, style="" if screen.recommendation_text else "bold"),
        *_wrapped(say(screen.basis_text), width),
        *_overview(screen, width, say),
        *_figures(screen, width, say),
    ]
    # A line break within the command would be pasted with it: the terminal breaks the line.
    asked = message("Your upgrade: {command}", command=screen.upgrade)
    upgrade = [Text(say(asked), overflow="ignore")] if screen.upgrade else []
    rows = sum(-(-line.cell_len // width) for line in upgrade)
    column = _releases_column(screen.problems, say)
    room = MOST_LINES - len(lines) - rows - len(_wrapped(say(_see_more(len(screen.problems))), width))
    for most in (_MOST_BLOCK, _CUT_BLOCK):
        blocks = {line.number: list(_problem_block(line, column, width, most, say)) for line in screen.problems}
        shown = _shown(screen, blocks, room)
        if _line_count(screen, blocks) <= room:
            break
    told = [line for line in screen.problems if line.number in shown]
    column = _releases_column(told, say)  # narrower without those that only the details have
    blocks = {line.number: list(_problem_block(line, column, width, most, say)) for line in told}
    above = len(lines)
    for section in screen.sections:
        own = [text for line in section.problems if line.number in shown for text in blocks[line.number]]
        lines += [Text(say(_section_title(section, shown)), style="bold"), *own] if own else []
    lines += [*upgrade, *_wrapped(say(_see_more(len(screen.problems) - len(shown))), width)]
    if len(lines) + rows - len(upgrade) < MOST_LINES:
        lines.insert(above, Text())
    return lines, shown


def _releases_column(problems: Iterable[ProblemLine], say: Say) -> int:
    """Return the width of what stands beside problems."""
    beside = [text for line in problems for text in (say(line.words.releases), *line.words.advisories)]
    return min(_MOST_RELEASES, max(map(cell_len, beside), default=0))


def _figures(screen: FirstScreen, width: int, say: Say) -> list[Text]:
    """Return the figures of programs' runs, an empty line above them; empty without any."""
    return [Text(), *_wrapped(say(joined(SENTENCE, screen.figures)), width)] if screen.figures else []


def _see_more(left: int) -> Message:
    if not left:
        return message("Tables, evidence, commands: --details, or --html DIR")
    return plural_message(
        "{count:,} more problem, tables, evidence, commands: --details, or --html DIR",
        "{count:,} more problems, tables, evidence, commands: --details, or --html DIR",
        left,
    )


def _shown(screen: FirstScreen, blocks: Mapping[int, Sequence[Text]], room: int) -> set[int]:
    """Return the numbers of the problems that fit: the first of each section before any second, none of a section if a
    graver section has none, and of a section those up to some number."""
    numbers = [[line.number for line in section.problems] for section in screen.sections]
    shown: set[int] = set()
    for own in numbers:
        size = len(blocks[own[0]]) + 1  # with the section's title
        if size > room and shown:
            break
        shown.add(own[0])
        room -= size
    for number in (number for own in numbers if not shown.isdisjoint(own) for number in own[1:]):
        if number - 1 in shown and (size := len(blocks[number])) <= room:
            shown.add(number)
            room -= size
    return shown


def _section_title(section: ProblemSection, shown: Collection[int]) -> Message:
    """Return a section's heading, with the numbers of its problems that only the details have."""
    left = [line.number for line in section.problems if line.number not in shown]
    if not left:
        return section.heading
    numbers = message("{first} to {last}", first=left[0], last=left[-1]) if len(left) > 1 else str(left[0])
    return message("{heading} ({numbers}: --details)", heading=section.heading, numbers=numbers)


def _line_count(screen: FirstScreen, blocks: Mapping[int, Sequence[Text]]) -> int:
    """Return the number of lines of all problems and of their sections' titles."""
    return len(screen.sections) + sum(map(len, blocks.values()))


def _problem_block(line: ProblemLine, column: int, width: int, most: int, say: Say) -> Iterator[Text]:
    """Yield the lines of a problem, at most ``most``: ``2 0.16.0 to 0.16.7  backward holds ...``."""
    number = f"{line.number:>2} "
    releases = _cut_lines(say(line.words.releases), "", column, _CUT_BLOCK) or [""]
    names = [*releases, *line.words.advisories][: max(_CUT_BLOCK, len(releases))]
    words = _sentences(line, max(20, width - len(number) - column - 2), most, say) or [""]
    for at in range(max(len(names), len(words))):
        left = f"{number if at == 0 else ' ' * len(number)}{_padded(names[at] if at < len(names) else '', column)}"
        yield Text(f"{left}  {words[at] if at < len(words) else ''}".rstrip())


def _sentences(line: ProblemLine, width: int, most: int, say: Say) -> list[str]:
    """Return at most ``most`` lines, without what the section's title says. If the text is too long, the affected workloads
    are cut before the symptom; an error is cut at its own end, which is least informative."""
    words = line.words
    end, who = say(words.outcome), say(words.who)
    text = say(words.sentence(words.who, below_its_title=line.kind.has_no_right_side))
    if line.kind not in _ERRORS and who:
        while (shorter := _shorter(who)) and len(_lines(f"{text}{_apart(text, end)}", width)) > most:
            who = shorter
            cut = f"{who.rstrip(',')}..."
            text = say(words.sentence(cut, below_its_title=line.kind.has_no_right_side))
    return _cut_lines(text, end, width, most)


def _shorter(text: str) -> str:
    """Return a text without its last word, or its last character that fills two columns; empty if nothing is before it."""
    return " ".join("".join(_Wrapper.wordsep_simple_re.split(_widened(text))[:-1]).split()).replace(_FILLER, "")


def _apart(text: str, end: str) -> str:
    """Return the sentences after a text with a space before them, unless the text ends with a full stop that has its own."""
    return end if text.endswith("。") else f" {end}"


def _cut_lines(text: str, end: str, width: int, most: int) -> list[str]:
    """Return at most ``most`` lines: the text, shortened if it is too long, followed by ``end``."""
    end = _apart(text, end)
    lines = _lines(f"{text}{end}", width)
    while len(lines) > most and text:
        text = _shorter(text)
        while text and text[-1].isdigit():  # a figure without its unit
            text = _shorter(text)
        lines = _lines(f"{text.rstrip('.,:;，：；')}...{end}", width)
    return lines[:most]


def _overview(screen: FirstScreen, width: int, say: Say) -> list[Text]:
    """Return the rows, with as many of the newest columns as fit; empty if none fits."""
    overview = screen.overview
    headings = [(plain(one.label), [plain(text) for text in one.texts]) for one in overview.headings]
    labels = [plain(say(row.label)) for row in overview.rows]
    widths = [
        max(
            *(len(texts[at]) for _, texts in headings),
            *(cell_len(_word(row.words[at], say)) for row in overview.rows),
        )
        for at in range(len(overview.sizes))
    ]
    longest = max(map(cell_len, [*labels, *(label for label, _ in headings)]), default=0)
    beside = width - sum(size + 1 for size in widths)  # of all columns
    unbroken = max((cell_len(word) for label in labels for word in label.split()), default=0) + len(_INDENT)
    least = max(_LEAST_LABEL, min(unbroken, _MOST_LABEL))
    column = min(longest, beside if beside >= least else _MOST_LABEL)
    fitting = [at for at in range(len(widths)) if column + sum(size + 1 for size in widths[: at + 1]) <= width]
    if not fitting:
        return []
    lines = [Text()]
    for label, texts in headings:
        lines.append(_cells(_cut(label, column), column, [(texts[at], widths[at], "") for at in fitting]))
    for label, row in zip(labels, overview.rows, strict=True):
        words = [(_word(row.words[at], say), widths[at], _WORD_STYLES.get(row.words[at], "")) for at in fitting]
        first, *rest = _lines(label, column, indent=_INDENT) or [""]
        lines += [_cells(first, column, words), *map(Text, rest)]
    older = sum(overview.sizes[len(fitting) :])
    counts = [
        *(
            [plural_message("{count:,} more workload", "{count:,} more workloads", overview.more)]
            if overview.more
            else []
        ),
        *([plural_message("{count:,} older release", "{count:,} older releases", older)] if older else []),
    ]
    return [*lines, *([Text(say(message("and {counts}", counts=joined(COMMA, counts))))] if counts else [])]


def _word(word: str, say: Say) -> str:
    return say(WORDS.get(word, word))


def _cells(label: str, column: int, cells: Sequence[tuple[str, int, str]]) -> Text:
    """Return a row: its label, and words with their widths and styles."""
    line = Text(_padded(label, column))
    for text, size, style in cells:
        line.append(" ").append(text, style).append(" " * (size - cell_len(text)))
    line.rstrip()
    return line


def _padded(text: str, columns: int) -> str:
    return text + " " * (columns - cell_len(text))


def _cut(text: str, most: int) -> str:
    if cell_len(text) <= most:
        return text
    while cell_len(text) > most - 3:
        text = text[:-1]
    return f"{text}..."


#: Follows each character that fills two columns while lines are wrapped, so that a text's length is its width. Measured text
#: has none: `plain` removes it.
_FILLER = "\u2060"


class _Wrapper(textwrap.TextWrapper):
    """A wrapper that breaks lines between words, and after any character that fills two columns."""

    wordsep_simple_re = re.compile(rf"([\t\n ]+|(?<={_FILLER})(?![，。；：、）])(?=\S))")


def _lines(text: str, width: int, indent: str = "") -> list[str]:
    wrapper = _Wrapper(width, break_on_hyphens=False, subsequent_indent=indent)
    return [line.replace(_FILLER, "") for line in wrapper.wrap(_widened(plain(text)))]


def _widened(text: str) -> str:
    return "".join(f"{c}{_FILLER}" if unicodedata.east_asian_width(c) in "WF" else c for c in text)


def _wrapped(text: str, width: int, style: str = "") -> list[Text]:
    return [Text(line, style=style) for line in _lines(text, width)]


def render(report: View) -> Group:
    """Return the details as one renderable. Measured text is never parsed as markup."""
    parts: list[RenderableType] = [Text(), _plain_line(report.measured)]
    for kind in report.screen.sections:
        parts += _section(kind.title, [_problem_in_full(line) for line in kind.problems])
    for table in report.compatibility:
        parts += _section(table.title, [_grid(table), *_bullets(report.patterns)])
    for section in report.sections:
        parts += _section(section.title, _rendered_rows(section.rows, section.more))
    parts += _section("Could not be compared", _bullets(report.not_compared))
    parts += _section("Control: the baseline against itself", _bullets(report.control))
    for table in report.tables:
        parts += _section(table.title, [_grid(table)])
    parts += _section("Notes", _bullets([*([report.below] if report.below else []), *report.notes]))
    if report.reproduce:
        parts += _section("To reproduce problem 1", [Padding(_plain_line(report.reproduce), (0, 0, 0, 2))])
    return Group(*parts)


def _problem_in_full(line: ProblemLine) -> RenderableType:
    """Return all about a problem, including what the first screen has no room for."""
    text = Text(plain(f"{line.number}. {line.releases}: {line.sentences}"), style="bold", overflow="fold")
    for about in (f"since {line.since}", f"until {line.until}", *line.evidence):
        text.append(f"\n  {plain(about)}", "not bold dim")
    if line.related:
        text.append(f"\n  with it: {plain('; '.join(line.related[:4]))}", "not bold dim")
    return text


def _section(title: str, body: Sequence[RenderableType]) -> list[RenderableType]:
    return [Text(), _plain_line(title, "bold underline"), *body] if body else []


def _rendered_rows(rows: Sequence[Row], more: int) -> list[RenderableType]:
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, expand=False)
    grid.add_column("stack", no_wrap=False, overflow="fold")
    grid.add_column("finding", overflow="fold", ratio=1)
    for row in rows:
        text = Text()
        text.append(plain(row.message), _STYLES[row.kind])
        if row.workload:
            text.append(f"\n{plain(row.workload)}")
        for line in row.evidence:
            text.append(f"\n  {plain(line)}", "dim")
        if row.related:
            text.append(f"\n  with it: {plain('; '.join(row.related[:4]))}", "dim")
        if len(row.related) > 4:
            text.append(f"\n  and {len(row.related) - 4} more that moved with it", "dim")
        grid.add_row(Text(plain(row.stack)), text)
    return [grid, *([_plain_line(f"and {more:,} more; --json FILE has all")] if more else [])]


def _grid(table: Table) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for at, heading in enumerate(table.columns):
        grid.add_column(heading, justify="left" if at in (0, len(table.columns) - 1) else "right", overflow="fold")
    for row in table.rows:
        grid.add_row(*(Text(plain(cell)) for cell in row))
    return grid


def _bullets(lines: Sequence[str], style: str = "") -> list[RenderableType]:
    return [_hanging(line, style) for line in lines]


def _hanging(line: str, style: str) -> Grid:
    grid = Grid.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    grid.add_row(Text("-"), _plain_line(line, style))
    return grid


def _plain_line(text: str, style: str = "") -> Text:
    return Text(plain(text), style=style, overflow="fold")
