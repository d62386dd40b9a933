"""Files that name packages, with the files of requirements that they include."""

from __future__ import annotations

import os
from collections.abc import Sequence

from dsregress.cli.lines import print_note
from dsregress.cli.named_files import STDIN, read_named
from dsregress.versions import installed
from dsregress.versions.installed import InstalledPackages

PACKAGES_HINT = "name a requirements file, uv.lock or poetry.lock, or - for stdin"


def packages_of_file(
    source: str, *, name: str = "", hint: str = PACKAGES_HINT, within: Sequence[str] = ()
) -> InstalledPackages:
    """Return the packages of a file, which messages call ``name``, with those of the files of requirements that it includes,
    beside it. ``within`` are the files that include it. Raise UsageError, which ends with ``hint``."""
    name = name or (STDIN if source == "-" else source)
    parts = [installed.read_packages(read_named(source, hint=hint), name)]
    for file in parts[0].included:
        place = os.path.join(os.path.dirname(source), file)
        if place in (*within, source):
            continue
        if os.path.exists(place):
            parts.insert(0, packages_of_file(place, hint=hint, within=(*within, source)))
        else:
            print_note(f"{name}: {file} is not here, so that what it pins is not known")
    return installed.merged_packages(parts)
