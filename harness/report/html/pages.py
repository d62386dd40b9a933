"""Pages on disk: rendered by jinja2 with everything escaped, and only where what they say has changed."""

from __future__ import annotations

import copy
import functools
import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup, escape

from harness.probe.border.wire import Stretch
from harness.report import timeline
from harness.report.html import charts
from harness.report.html.facts import Spot, reading
from harness.report.html.frame import Frame
from harness.report.kinds import SIGNS
from harness.report.plain import plain

_HERE = Path(__file__).parent

#: Where the pages of a build and their digests are noted, for the next one.
MANIFEST = ".dsregress-site.json"

#: What a build may remove: files of the names that `harness.report.urls` gives.
_OURS = re.compile(
    r"(?:[a-z]+/){0,1}[A-Za-z0-9_=.,-]{1,80}\.(?:html|js|json|svg|css)|badge/[\w=.-]{1,80}/[\w=.-]{1,80}\.(?:svg|json)"
)

STATIC = ("style.css", "site.js", "compare.js", "icon.svg")


class Pages:
    """The files of one site. Names of pages come from ``places`` alone."""

    def __init__(self, folder: Path, frame: Frame) -> None:
        self.folder = folder
        self.digests: dict[str, str] = {}
        self.written = 0
        self._folders: set[Path] = set()
        self._frame = frame
        self._before = _read_manifest(folder / MANIFEST)
        self._frame_digest = _digest(msgspec.msgpack.encode(frame), sources_digest().encode())
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            auto_reload=False,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_printable,
        )
        self._environment.globals.update(
            frame=frame,
            kinds=SIGNS,
            chart=_chart,
            timeline_svg=_timeline,
            styles=charts.STYLES,
            reading=reading,
            spot=spot_cell,
            spots=spot_cells,
            cells=number_cells,
            release_rows=functools.partial(release_rows, frame),
            breakable=breakable,
        )

    def page(self, path: str, template: str, context: Mapping[str, Any]) -> None:
        """Render a page, unless the last build rendered it from the same."""
        digest = _digest(self._frame_digest.encode(), template.encode(), msgspec.msgpack.encode(context))
        if self._same(path, digest):
            return
        root = "../" * path.count("/")
        text = self._environment.get_template(template).render(root=root, path=path, **context)
        self._write(path, [text.encode()], digest)

    def file(self, path: str, content: bytes | Iterable[bytes]) -> None:
        """Write a file, unless it is there with this content."""
        chunks = [content] if isinstance(content, bytes) else list(content)
        digest = _digest(*chunks)
        if not self._same(path, digest):
            self._write(path, chunks, digest)

    def static(self) -> None:
        """Styles and scripts, stored once for all pages."""
        for name in STATIC:
            self.file(f"static/{name}", (_HERE / "static" / name).read_bytes())

    def apart(self) -> Pages:
        """The same site with books of its own, for whoever makes a part of it."""
        part = copy.copy(self)
        part.digests, part.written = {}, 0
        return part

    def note(self, digests: Mapping[str, str], written: int) -> None:
        """What was made apart, perhaps by another process."""
        self.digests.update(digests)
        self.written += written

    def finish(self) -> int:
        """Remove pages of the last build that are no pages any more; returns how many. Notes the pages there are."""
        stale = [path for path in self._before if path not in self.digests and _OURS.fullmatch(path)]
        for path in stale:
            (self.folder / path).unlink(missing_ok=True)
        manifest = msgspec.json.encode({"schema": 1, "pages": dict(sorted(self.digests.items()))})
        _replace(self.folder / MANIFEST, [msgspec.json.format(manifest, indent=0)])
        return len(stale)

    def _same(self, path: str, digest: str) -> bool:
        self.digests[path] = digest
        return self._before.get(path) == digest and (self.folder / path).is_file()

    def _write(self, path: str, chunks: Iterable[bytes], digest: str) -> None:
        file = self.folder / path
        if file.parent not in self._folders:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._folders.add(file.parent)
        _replace(file, chunks)
        self.written += 1


@functools.cache
def sources_digest() -> str:
    """Of templates and code: another version of them makes every page anew."""
    files = sorted([*_HERE.glob("*.py"), *(_HERE / "templates").glob("*"), Path(timeline.__file__)])
    return _digest(*(file.read_bytes() for file in files if file.is_file()))


def _chart(
    title: str, labels: Sequence[str], series: Sequence[charts.Points], unit: str, marks: Sequence[int] = ()
) -> Markup:
    """`charts.line_chart` for lists, which templates have."""
    return charts.line_chart(plain(title), tuple(map(plain, labels)), tuple(map(tuple, series)), unit, tuple(marks))


def _timeline(lines: Mapping[str, Sequence[Stretch]], workload: str) -> Markup:
    """`timeline.as_svg` as part of a page, drawn by the page's stylesheet: the content security policy allows no other.
    It has escaped what it was given."""
    named = {
        plain(name): [Stretch(plain(one.phase), one.points) for one in stretches] for name, stretches in lines.items()
    }
    return Markup(timeline.as_svg(named, plain(workload), styled=False))


@functools.lru_cache(maxsize=10_000)
def spot_cell(one: Spot | None, root: str) -> Markup:
    """One cell of the matrix. By hand, since there are many of them."""
    if one is None:
        return _NOT_RUN
    sign, word = SIGNS[one.kind]
    title, text = escape(plain(one.title)), escape(plain(one.text))
    small = Markup("<small>{}</small>").format(text) if text else ""
    return _SPOT.format(kind=one.kind, page=root + one.page, title=title, sign=sign, word=word, small=small)


def spot_cells(spots: Sequence[Spot | None], root: str) -> Markup:
    """A row of the matrix."""
    return Markup("\n".join([spot_cell(one, root) for one in spots]))


def release_rows(frame: Frame, rows: Sequence[Mapping[str, Any]], root: str) -> Markup:
    """The releases of a workload: by hand too, as there are as many of them as results."""
    lines = []
    for row in rows:
        release = frame.releases[row["at"]]
        time = f'<td class="n">{_text(row["time"])}{_small(row["time_verdict"])}</td>'
        lines.append(
            f"<tr>{_release_heading(release.name, root + release.page)}{spot_cell(row['spot'], root)}"
            f"{number_cells(row['peaks'])}{time}<td>{_text(row['outcome'])}</td></tr>\n"
        )
    return Markup("".join(lines))


@functools.lru_cache(maxsize=10_000)
def _release_heading(name: str, page: str) -> str:
    return f'<th scope="row"><a href="{_text(page)}">{_text(name)}</a></th>'


@functools.lru_cache(maxsize=1_000)
def _small(text: str) -> str:
    return f" <small>{_text(text)}</small>" if text else ""


@functools.lru_cache(maxsize=10_000)
def _text(text: str) -> str:
    return str(escape(plain(text)))


_NOT_RUN = Markup(
    '<td class="k-none" data-kind="none"><span class="sr">not run</span><span aria-hidden="true">·</span></td>'
)
_SPOT = Markup(
    '<td class="k-{kind}" data-kind="{kind}"><a href="{page}" title="{title}">'
    '<span class="sign" aria-hidden="true">{sign}</span> {word}{small}</a></td>'
)


def number_cells(texts: Sequence[str]) -> Markup:
    """Cells of a table of figures."""
    return Markup("".join(map(_number_cell, texts)))


@functools.lru_cache(maxsize=10_000)
def _number_cell(text: str) -> Markup:
    return Markup('<td class="n">{}</td>').format(plain(text))


def breakable(name: str) -> Markup:
    """A name that may be broken between its parts, and not in the middle of a word."""
    parts = [escape(part) for part in re.split(r"(?<=[/=,])", plain(name))]
    return Markup("<wbr>").join(parts)


def _printable(value: Any) -> Any:
    """Text without control and bidirectional characters; what jinja2 has escaped, or a chart, as it is."""
    return plain(value) if type(value) is str else value


def _read_manifest(file: Path) -> dict[str, str]:
    try:
        pages = msgspec.json.decode(file.read_bytes()).get("pages", {})
    except (OSError, ValueError, AttributeError):  # none yet, or damaged: everything is made anew
        return {}
    return {str(path): str(digest) for path, digest in pages.items()} if isinstance(pages, dict) else {}


def _replace(file: Path, chunks: Iterable[bytes]) -> None:
    unfinished = file.with_name(f".{file.name}.unfinished")
    with unfinished.open("wb") as stream:
        stream.writelines(chunks)
    os.replace(unfinished, file)


def _digest(*parts: bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "big"))
        whole.update(part)
    return whole.hexdigest()[:24]
