"""Packages that a Dockerfile or a shell script installs, as lines of a requirements file. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from dsregress.versions.image_tags import packages_of_image

#: ``RUN pip install``, ``python -m pip install``, ``uv pip install``, ``bash -c "pip install``, and in a notebook
#: ``!pip install``.
_INSTALLS = re.compile(
    r"^(?:RUN\s+)?(?:--mount=\S+\s+)*[!%$]?\s*(?:\S+\s+)*?[\"']?(?:uv\s+)?pip[\d.]*\s+install\s+(?P<words>.*)$"
)
_SEPARATOR = re.compile(r"&&|\|\||;|\|")
_CONTINUED = re.compile(r"\\\s*\n")
#: Lines of a comment, which end no line that goes on, and the rest of a line behind its command or its pin.
_COMMENT_LINES = re.compile(r"^[ \t]*#.*\n", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*")

#: ``ARG NAME=VALUE``, ``ENV NAME=VALUE``, ``export NAME=VALUE``
_VARIABLE = re.compile(r"""^\s*(?:(?:ARG|ENV|export)\s+)?(?P<name>[A-Za-z_]\w*)=["']?(?P<value>[\w.+-]+)["']?\s*$""")
_USED = re.compile(r"\$\{?(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[\w.+-]*))?\}?")

#: Options of pip and uv that take the next word, but ``-r``.
_OF_INDEXES = (
    "-i --index-url --extra-index-url -f --find-links --trusted-host --proxy --timeout --retries --torch-backend"
)
_OF_PLACES = "-e --editable -t --target --prefix --root -p --python --platform --cache-dir -c --constraint"
_WITH_VALUE = frozenset(f"{_OF_INDEXES} {_OF_PLACES} --no-binary --only-binary --index-strategy".split())
_OF_FILE = ("-r", "--requirement")
_UPGRADES = re.compile(r"(?:^|\s)(?:-U|--upgrade)(?:\s|$)")
#: A checkout on a server: pip's form without a name.
_CHECKOUT = re.compile(r"git\+[a-z]+://\S+")


def installed_lines(text: str) -> list[str] | None:
    """Return what the ``pip install`` lines of a text install, a later one in place of an earlier one and of what its images
    bring; None if it has neither. What a variable without a value here decides is not pinned."""
    whole = _CONTINUED.sub(" ", _COMMENT_LINES.sub("", text))
    lines = [_COMMENT.sub("", line).strip() for line in whole.splitlines()]
    commands = [part.strip() for line in lines for part in _SEPARATOR.split(line)]
    found = [match["words"] for part in commands if (match := _INSTALLS.match(part))]
    variables = {match["name"]: match["value"] for line in lines if (match := _VARIABLE.match(line))}
    brought = [packages_of_image(_expanded(line, variables)) for line in lines]
    if not found and not any(brought):
        return None
    kept = {re.split("[= ]", one, maxsplit=1)[0]: one for one in brought if one}
    for words in found:
        for word in requirements_of_call(_expanded(words, variables)):
            name = re.split(r"[\s\[=<>!~@;$]", word, maxsplit=1)[0]
            is_file = word.startswith(_OF_FILE)
            key = word if is_file else name.lower()
            if word == name and key in kept and not _UPGRADES.search(words):
                continue  # it is there, so that pip leaves it as it is
            kept[key] = name if "$" in word and not is_file else word
    return list(kept.values())


def _expanded(words: str, variables: Mapping[str, str]) -> str:
    return _USED.sub(lambda match: variables.get(match["name"], match["default"] or match[0]), words)


def requirements_of_call(words: str) -> Iterator[str]:
    """Yield the requirements among the words after ``pip install``, and ``-r FILE`` for each file of them."""
    try:
        rest = iter(shlex.split(words, comments=True))
    except ValueError:  # a quote that is not closed, or that another shell's command begins with
        rest = (word.strip("\"'") for word in words.split())
    for word in rest:
        if word in _OF_FILE:
            yield f"-r {next(rest, '')}"
        elif word in _WITH_VALUE:
            next(rest, None)
        elif _CHECKOUT.match(word) or (
            re.match(r"[A-Za-z0-9]", word) and not re.search(r"[/\\]", word.partition("@")[0])
        ):
            yield word  # and no option, file or folder
