"""The fields of a finding in JSON."""

from __future__ import annotations

from dsregress.model import Finding

#: Fields that a reader does not need beside the ``message``, which is made of them, and stands for the first.
_IN_MESSAGE = ("sentence", "claim", "model", "outcome")

_FIELDS = tuple(
    "message" if name == _IN_MESSAGE[0] else name for name in Finding.__struct_fields__ if name not in _IN_MESSAGE[1:]
)


def finding_fields(found: Finding) -> dict[str, object]:
    """Return the fields by name, as they are: with infinities, and text that is not printable."""
    return {name: getattr(found, name) for name in _FIELDS}
