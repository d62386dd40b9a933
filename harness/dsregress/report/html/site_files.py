"""The files of a site, written only if their content has changed since the last build."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from dsregress.probe.border.untrusted import MOST_FILE_BYTES, read_regular
from dsregress.report.html.page import Page
from dsregress.report.html.rendering import Renderer, page_digest
from dsregress.system.decoding import Damaged, decoded
from dsregress.system.files import write_atomically

_HERE = Path(__file__).parent

#: Records the files of a build and their digests, for the next build.
MANIFEST = ".dsregress-site.json"

#: In the place of a digest, while a build may be writing the file. No content has it.
_UNKNOWN = ""

#: Names of files that a build may remove: those that `dsregress.report.urls` returns.
_OURS = re.compile(
    r"(?:[a-z]+/){0,1}[A-Za-z0-9_=.,-]{1,80}\.(?:html|js|json|svg|css|zip|atom)|badge/[\w=.-]{1,80}/[\w=.-]{1,80}\.(?:svg|json)"
)

STATIC = ("style.css", "age.js", "shared.js", "site.js", "audit.js", "upgrade.js", "compare.js", "icon.svg")


class SiteFiles:
    """The files of one site. Their paths come from `dsregress.report.urls` alone."""

    def __init__(self, folder: Path, renderer: Renderer) -> None:
        self.folder = folder
        self.digests: dict[str, str] = {}
        self.written = 0
        self._renderer = renderer
        self._folders: set[Path] = set()
        self._before = _read_manifest(folder / MANIFEST)

    def begin(self) -> None:
        """Record that a build has begun. If it does not finish, the next one trusts no digest and writes every file again.

        Raise OSError if the record cannot be written.
        """
        self._note(dict.fromkeys(self._before, _UNKNOWN))

    def page(self, path: str, page: Page) -> None:
        """Render and write a page, unless the last build rendered it from the same data."""
        known = self._renderer.digest(page)
        if not self._is_unchanged(path, known):
            self._write(path, [self._renderer.render(path, page).encode()])

    def file(self, path: str, content: bytes | Iterable[bytes]) -> None:
        """Write a file, unless it exists with this content."""
        chunks = [content] if isinstance(content, bytes) else list(content)
        if not self._is_unchanged(path, page_digest(*chunks)):
            self._write(path, chunks)

    def static(self) -> None:
        """Write styles and scripts, once for all pages."""
        for name in STATIC:
            self.file(f"static/{name}", (_HERE / "static" / name).read_bytes())

    def part(self) -> SiteFiles:
        """Return the same site with its own digests and count, for a process that writes a part of it."""
        part = copy.copy(self)
        part.digests, part.written = {}, 0
        return part

    def add(self, digests: Mapping[str, str], written: int) -> None:
        """Add the digests and the count of a part, perhaps written by another process."""
        self.digests.update(digests)
        self.written += written

    def finish(self) -> int:
        """Remove files of the last build that this one does not have, and record those that it has. Return the number of
        removed files."""
        stale = [path for path in self._before if path not in self.digests and _OURS.fullmatch(path)]
        for path in stale:
            (self.folder / path).unlink(missing_ok=True)
        self._note(self.digests)
        return len(stale)

    def _note(self, digests: Mapping[str, str]) -> None:
        manifest = msgspec.json.encode({"schema": 1, "pages": dict(sorted(digests.items()))})
        write_atomically(self.folder / MANIFEST, [msgspec.json.format(manifest, indent=0)], durable=False)

    def _is_unchanged(self, path: str, known: str) -> bool:
        self.digests[path] = known
        return self._before.get(path) == known and (self.folder / path).is_file()

    def _write(self, path: str, chunks: Iterable[bytes]) -> None:
        file = self.folder / path
        if file.parent not in self._folders:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._folders.add(file.parent)
        write_atomically(file, chunks, durable=False)
        self.written += 1


_manifest: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


def _read_manifest(file: Path) -> dict[str, str]:
    try:
        pages = decoded(_manifest, read_regular(file, MOST_FILE_BYTES)).get("pages", {})
    except (OSError, Damaged, AttributeError):  # none yet, or damaged: everything is made again
        return {}
    return {str(path): str(known) for path, known in pages.items()} if isinstance(pages, dict) else {}
