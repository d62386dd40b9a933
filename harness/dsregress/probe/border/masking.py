"""Masks launch lines and programs' output for storage and publication: no secrets, and home folders as ``~``.

A secret is recognized by its name (``--api_key X``, ``HF_TOKEN=X``, ``"password": "X"``), by its beginning (``hf_``,
``sk-``, ``ghp_``, ``AKIA``), or by its place: in an address (``https://user:X@host``, ``?sig=X``), in a header
(``Authorization: Bearer X``). Words of training have such names, too: ``--max_tokens 512``, ``--pad_token '<pad>'``,
``--input_key question``. They tell workloads apart, so they stay.

The mask does not depend on the secret: the same line with another token is the same line. Standard library only.
"""

from __future__ import annotations

import os
import re

from dsregress.probe.shell_syntax import joined
from vgpu.json_tables import decoded_text_lists, table_beside

#: Replaces a secret.
MASK = "***"

_WORDS = decoded_text_lists(table_beside(__file__))

#: Where one of these is a word of a name, its value is secret.
_ALWAYS = frozenset(_WORDS["secret"])
#: The same, where a word ends with one of these: ``PGPASSWORD``.
_ENDINGS = _WORDS["secret_endings"]

#: Words that, before ``key`` or ``token``, mark a secret.
_OWNERS = frozenset(_WORDS["owners"])

#: Values that are no secrets: a switch, a number, a ``{placeholder}``.
_PLAIN = re.compile(r"(?i:true|false|none|null|empty|yes|no|auto)?|[-+]?\d{1,6}(?:\.\d{1,6})?|\{\w+\}|\*{3}")
#: Values of a vaguer name: as long and as mixed as generated ones.
_RANDOM = re.compile(r"(?=\S*\d)(?=\S*[A-Za-z])[\w+=.~-]{16,200}")
_WANDB = re.compile(r"[0-9a-f]{40}")

_NAME = r"(?<![\w.-])(?P<name>[\w.+-]{0,60}(?:key|token|secret|passw|passphrase|credential|wandb)[\w.-]{0,40})"
_QUOTED = r"\"[^\"\n]*\"|'[^'\n]*'|\\."
#: ``NAME=VALUE`` as a word, ``--name VALUE``, ``'--name', 'VALUE'``, and ``"name": "VALUE"`` within a word.
_PAIRS = (
    re.compile(rf"{_NAME}(?P<between>=|[ \t]=[ \t](?=[\"']))(?P<value>(?:{_QUOTED}|[^\s\"'\\])+)", re.IGNORECASE),
    re.compile(rf"(?<!\S)(?=-){_NAME}(?P<between>\s+)(?P<value>(?!-)(?:{_QUOTED}|[^\s\"'\\])+)", re.IGNORECASE),
    re.compile(rf"(?<=[\"'])(?=-){_NAME}(?P<between>[\"'],\s*)(?P<value>\"[^\"\n]*\"|'[^'\n]*')", re.IGNORECASE),
    re.compile(
        rf"{_NAME}(?P<between>(?:\\*[\"'])?\s*:\s*)"
        r"(?P<value>\\+\"[^\"\\\n]*\\+\"|\"[^\"\n]*\"|'[^'\n]*'|[^\s\"',;}\]]+)",
        re.IGNORECASE,
    ),
)
_OPENING = re.compile(r"\\*[\"']")

#: Tokens by how their services make them.
_TOKENS = re.compile(rf"\b(?:{'|'.join(_WORDS['tokens'])})")
_IN_ADDRESS = re.compile(r"(?<=://)(?:[^/\s@:\"'<>]*:[^/\s\"'<>]+|[^/\s@:\"'<>]{20,})(?=@)")
#: Signatures of addresses that admit whoever has them, and the header that does.
_ADMITTING = re.compile(
    r"(?P<before>[?&](?:X-Amz-Signature|Signature|sig)=|\bAuthorization(?:\\*[\"'])?\s{0,9}[:=]\s{0,9}(?:\\*[\"'])?"
    r"(?:(?:Bearer|Basic|Token)\s{1,9})?)[^\s\"'\\&,;]+",
    re.IGNORECASE,
)

_HOMES = r"/home/[^/\s:;,\"'=]+|/Users/[^/\s:;,\"'=]+|/root"
_BEFORE, _BEHIND = r"(?<![\w.~-])", r"(?![\w.-])"


def without_secrets(text: str) -> str:
    """Return the text with `MASK` in place of each secret."""
    for pattern in _PAIRS:
        text = pattern.sub(_masked_pair, text)
    text = _ADMITTING.sub(rf"\g<before>{MASK}", text)
    return _IN_ADDRESS.sub(MASK, _TOKENS.sub(MASK, text))


def masked_launch_line(line: str) -> str:
    """Return a launch line as it is stored and published: on one line, without secrets, and with ``~`` for home folders."""
    own = os.path.expanduser("~").rstrip("/")
    homes = f"{re.escape(own)}|{_HOMES}" if own.startswith("/") else _HOMES
    return re.sub(f"{_BEFORE}(?:{homes}){_BEHIND}", "~", without_secrets(joined(line)))


def _masked_pair(found: re.Match[str]) -> str:
    value = found["value"]
    opening = _OPENING.match(value)
    quote = opening[0] if opening and value.endswith(opening[0], opening.end()) else ""
    if not _is_secret(found["name"], value.strip("\"'\\")):
        return found[0]
    return f"{found['name']}{found['between']}{quote}{MASK}{quote}"


def _is_secret(name: str, value: str) -> bool:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().replace("-", "_").replace(".", "_").strip("_+").split("_")
    if _PLAIN.fullmatch(value):
        return value[-1:].isdigit() and words[-1].endswith(_ENDINGS)
    if not _ALWAYS.isdisjoint(words) or any(word.endswith(_ENDINGS) for word in words):
        return True
    if "wandb" in words and _WANDB.fullmatch(value):
        return True
    *owners, last = words
    if last not in ("key", "token"):
        return False
    is_variable = name == name.upper()
    is_owned = bool(owners) and owners[-1] in _OWNERS
    return is_variable or is_owned or words == ["token"] or _RANDOM.fullmatch(value) is not None
