"""Package indexes on this machine: with the days of uploads, or answering as broken ones do."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LOGIN_PAGE = b"<html><body><h1>Welcome to our network</h1><a href='/login'>Log in</a></body></html>"


class HttpIndex:
    """A simple index of the wheels and sources in a folder. ``status`` and ``page``, where set, answer everything. Of
    ``uploaded``, which maps releases (``mine-1.0``) to days, it says the upload times."""

    def __init__(self, wheels: Path, uploaded: Mapping[str, str] = {}) -> None:
        self.wheels, self.uploaded = wheels, uploaded
        self.status = 200
        self.page: bytes | None = None
        self.asked: list[str] = []
        self.url = ""

    def answer(self, path: str) -> tuple[int, bytes]:
        """Status and content for a path."""
        self.asked.append(path)
        if self.status != 200 or self.page is not None:
            return self.status, self.page or b""
        if (file := self.wheels / path.rpartition("/")[2].replace("%2B", "+")).is_file():
            return 200, file.read_bytes()
        package = path.strip("/").rpartition("/")[2]
        if self.uploaded:
            return self._answer_with_days(package)
        links = [f'<a href="/files/{file.name}">{file.name}</a>' for file in self._files_of(package)]
        return (200, "\n".join(links).encode()) if links else (404, b"")

    def _files_of(self, package: str) -> list[Path]:
        """The wheels and sources of a package."""
        return sorted(self.wheels.glob(f"{package.replace('-', '_')}-*[lz]"))

    def _answer_with_days(self, package: str) -> tuple[int, bytes]:
        """Answer as PEP 691 and 700 have it. A release without a day was always there."""
        files = [
            {
                "filename": file.name,
                "url": f"/files/{file.name}",
                "hashes": {},
                "size": file.stat().st_size,
                "upload-time": f"{self.uploaded.get(_release(file), '2020-01-01')}T12:00:00Z",
            }
            for file in self._files_of(package)
        ]
        versions = [_release(Path(str(file["filename"]))).rpartition("-")[2] for file in files]
        page = {"meta": {"api-version": "1.1"}, "name": package, "versions": versions, "files": files}
        return (200, json.dumps(page).encode()) if files else (404, b"")


def _release(file: Path) -> str:
    """The release that a wheel or a source is of: ``mine-1.0``."""
    return "-".join(file.name.removesuffix(".tar.gz").split("-")[:2])


@contextlib.contextmanager
def served(wheels: Path, uploaded: Mapping[str, str] = {}) -> Iterator[HttpIndex]:
    """Serve the wheels in a folder from 127.0.0.1 until the end of the block."""
    index = HttpIndex(wheels, uploaded)
    page_type = "application/vnd.pypi.simple.v1+json" if uploaded else "text/html"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, content = index.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", "application/zip" if self.path.endswith(".whl") else page_type)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_GET

        def log_message(self, *of: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        index.url = f"http://127.0.0.1:{server.server_port}/simple/"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield index
        finally:
            server.shutdown()
