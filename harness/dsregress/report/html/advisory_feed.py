"""The advisories as feeds that other tools read: one JSON of all, OSV's archive of one file each, and Atom."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from xml.etree import ElementTree

import msgspec

from dsregress.advisories import osv
from dsregress.advisories.advisory import Advisory
from dsregress.advisories.shipped import read_advisories

_ATOM = "http://www.w3.org/2005/Atom"

#: Of each file in the archive, so that equal advisories make equal bytes: the first time that the format has.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


def feed_files() -> Iterator[tuple[str, bytes]]:
    """Yield ``(path, content)``."""
    advisories = read_advisories()
    yield "advisories.json", msgspec.json.encode([osv.advisory_fields(one) for one in advisories])
    yield "advisories.zip", _archive(advisories)
    yield "advisories.atom", _atom(advisories)


def _archive(advisories: tuple[Advisory, ...]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for one in advisories:
            entry = zipfile.ZipInfo(f"{one.id}.json", _NO_TIME)
            archive.writestr(entry, osv.encode_advisory(one), zipfile.ZIP_DEFLATED)
    return content.getvalue()


def _atom(advisories: tuple[Advisory, ...]) -> bytes:
    """Return the feed, the newest change first."""
    ElementTree.register_namespace("", _ATOM)
    feed = ElementTree.Element(f"{{{_ATOM}}}feed")
    _add(feed, "id", "urn:dsregress:advisories")
    _add(feed, "title", "Advisories about releases of the LLM training stack")
    _add(feed, "updated", _time(max(one.modified for one in advisories)))
    _add(_add(feed, "author"), "name", "dsregress")
    for one in sorted(advisories, key=lambda each: (each.modified, each.id), reverse=True):
        entry = _add(feed, "entry")
        _add(entry, "id", f"urn:dsregress:{one.id}")
        _add(entry, "title", f"{one.id}: {one.title}")
        _add(entry, "published", _time(one.published))
        _add(entry, "updated", _time(one.modified))
        releases = "; ".join(f"{each.package} {', '.join(each.affected)}" for each in one.ranges)
        _add(entry, "summary", f"{one.kind.value}: {one.sees}. Seen in {releases}.")
        for url in (*one.references.reported, *one.references.introduced, *one.references.fixed):
            _add(entry, "link").attrib.update({"rel": "related", "href": url})
    written: bytes = ElementTree.tostring(feed, encoding="utf-8", xml_declaration=True)
    return written


def _add(parent: ElementTree.Element, name: str, text: str = "") -> ElementTree.Element:
    child = ElementTree.SubElement(parent, f"{{{_ATOM}}}{name}")
    child.text = text or None
    return child


def _time(day: str) -> str:
    return f"{day}T00:00:00Z"
