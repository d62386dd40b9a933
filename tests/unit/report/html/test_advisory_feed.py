"""The advisories as feeds: what a reader of each format finds in them."""

from __future__ import annotations

import io
import json
import zipfile
from xml.etree import ElementTree

from dsregress.advisories import osv
from dsregress.advisories.shipped import read_advisories
from dsregress.report.html.advisory_feed import feed_files

ATOM = "{http://www.w3.org/2005/Atom}"


def test_each_feed_has_every_advisory() -> None:
    files = dict(feed_files())
    advisories = read_advisories()
    assert [record["id"] for record in json.loads(files["advisories.json"])] == [f"x_{one.id}" for one in advisories]
    with zipfile.ZipFile(io.BytesIO(files["advisories.zip"])) as archive:
        found = [osv.decode_advisory(archive.read(name)) for name in archive.namelist()]
    assert tuple(found) == advisories
    feed = ElementTree.fromstring(files["advisories.atom"])
    titles = {entry.findtext(f"{ATOM}title") for entry in feed.iter(f"{ATOM}entry")}
    assert titles == {f"{one.id}: {one.title}" for one in advisories}
    assert all(entry.findtext(f"{ATOM}updated") for entry in feed.iter(f"{ATOM}entry"))


def test_the_same_advisories_make_the_same_bytes() -> None:
    """So that a build of the site writes them only if they changed."""
    assert dict(feed_files()) == dict(feed_files())
