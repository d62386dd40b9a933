"""The packages that failed imports name."""

from __future__ import annotations

import re

import msgspec

from dsregress.model import Signature

#: Python's words for a failed import. A module without a dot, and a name from a file without a folder, may be the program's
#: own: only the others say that an installed package is of a release that lacks them.
_NO_MODULE = re.compile(r"No module named '(?P<package>\w+)(?P<is_installed>\.)?")
_NO_NAME = re.compile(r"cannot import name '[^']+' from '(?P<package>\w+)[^']*'(?P<is_installed> \((?P=package)/)?")


#: Compiled code of a package that does not go with this torch or this system.
_NOT_LOADED = re.compile(r"undefined symbol|[Cc]ould not load this library|cannot open shared object file")


class FailedImport(msgspec.Struct, frozen=True):
    """The package that lacks an imported part."""

    package: str
    is_installed: bool  #: it is, in a release that lacks the part


def failed_import(signature: Signature | None) -> FailedImport | None:
    """Return what an error says of an import that failed; None for any other error."""
    said = signature.message if signature is not None else ""
    found = _NO_NAME.search(said) or _NO_MODULE.search(said)
    return FailedImport(found["package"], bool(found["is_installed"])) if found is not None else None


def is_not_loaded(signature: Signature) -> bool:
    """Return True if the compiled code of a package cannot be loaded here."""
    return _NOT_LOADED.search(signature.message) is not None
