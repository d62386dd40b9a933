"""Pages as HTML: rendered by jinja2, with everything escaped. Only templates have markup."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import jinja2
import msgspec
from markupsafe import Markup, escape

from dsregress.probe.border.wire import Stretch
from dsregress.report import memory_timeline, svg
from dsregress.report.html import charts
from dsregress.report.html.page import Page, PageFrame
from dsregress.report.html.workload_facts import reading
from dsregress.report.kinds import SIGNS
from dsregress.report.plain_text import plain, plain_lines
from dsregress.wording import addresses, commands

_HERE = Path(__file__).parent

TEMPLATES = _HERE / "templates"


class Renderer:
    """The templates, with the variables and filters that all of them share."""

    def __init__(self, frame: PageFrame) -> None:
        self._frame_digest = page_digest(msgspec.msgpack.encode(frame), sources_digest().encode())
        self._environment = environment()
        self._environment.globals["frame"] = frame

    def digest(self, page: Page) -> str:
        """Return a digest of a page, its template, the frame and the sources, which is equal if the page would be rendered
        the same."""
        return page_digest(self._frame_digest.encode(), page.template.encode(), msgspec.msgpack.encode(page))

    def render(self, path: str, page: Page) -> str:
        """Return a page as HTML. ``path`` is its address in the site."""
        variables = msgspec.structs.asdict(page)
        return self._environment.get_template(page.template).render(
            root="../" * path.count("/"), path=path, **variables
        )


class _CompiledTemplates(jinja2.BytecodeCache):
    """A cache of the templates compiled in this process, for every site that it builds."""

    def __init__(self) -> None:
        self._by_key: dict[str, bytes] = {}

    def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        if (compiled := self._by_key.get(bucket.key)) is not None:
            bucket.bytecode_from_string(compiled)

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        self._by_key[bucket.key] = bucket.bytecode_to_string()


_COMPILED = _CompiledTemplates()


def environment() -> jinja2.Environment:
    """Return the environment of all templates, without their ``frame``, which `Renderer` adds."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        auto_reload=False,
        bytecode_cache=_COMPILED,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    made.filters["as_plain"] = msgspec.to_builtins
    made.filters["as_code"] = _code
    made.globals.update(
        kinds=SIGNS,
        chart=_chart,
        timeline_svg=_timeline,
        styles=charts.STYLES,
        reading=reading,
        name_parts=_name_parts,
        release_url=addresses.release_url,
        tag_url=addresses.tag_url,
        thread_name=addresses.thread_name,
        made_by=commands.REPORT_AS_SITE,
    )
    return made


@functools.cache
def sources_digest() -> str:
    """Return a digest of templates and code. If they change, every page is rendered again."""
    files = sorted([*_HERE.glob("*.py"), *TEMPLATES.glob("*"), Path(memory_timeline.__file__), Path(svg.__file__)])
    return page_digest(*(file.read_bytes() for file in files if file.is_file()))


def page_digest(*parts: bytes) -> str:
    """Return 24 hex digits of SHA-256 over the parts and their lengths."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "big"))
        whole.update(part)
    return whole.hexdigest()[:24]


def _printable(value: object) -> object:
    """Return text without control and bidirectional characters; markup (escaped text, a chart) unchanged."""
    return plain(value) if type(value) is str else value


def _code(text: str) -> Markup:
    """Return text escaped, with its lines and columns."""
    return escape(plain_lines(text))


@functools.lru_cache(maxsize=10_000)
def _name_parts(name: str) -> tuple[str, ...]:
    """Return the parts of a name, between which a line may break."""
    return tuple(re.split(r"(?<=[/=,])", plain(name)))


def _chart(
    title: str, labels: Sequence[str], series: Sequence[charts.Points], unit: str, marks: Sequence[int] = ()
) -> Markup:
    """Return `charts.line_chart` for lists, which templates pass."""
    return charts.line_chart(plain(title), tuple(map(plain, labels)), tuple(map(tuple, series)), unit, tuple(marks))


def _timeline(lines: Mapping[str, Sequence[Stretch]], workload: str) -> Markup:
    """Return `timeline.as_svg` as part of a page, styled by the page's stylesheet: the content security policy allows no
    other. `timeline.as_svg` escapes its input."""
    named = {
        plain(name): [Stretch(plain(stretch.phase), stretch.points) for stretch in stretches]
        for name, stretches in lines.items()
    }
    return Markup(memory_timeline.as_svg(named, plain(workload), styled=False))
