"""Put a report that a pull request's own code wrote into one comment of it: ``python3 pull_request_comment.py NUMBER FILE``.

Runs by itself, in the base repository and with a token that may write; `.github/workflows/comment.yml` calls it. What FILE
holds is the author's word: it is quoted below a line of ours, and nothing in it links, shows an image, notifies anybody, or
is HTML, but for what folds our reports. The comment is found again by the marker that it begins with, and by its author.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence

MARKER = "<!-- dsregress: comment.yml -->"

_BOT = "github-actions[bot]"

#: GitHub takes 65,536 characters; of a file, what fills them.
_MOST_CHARACTERS = 60_000
_MOST_BYTES = 1 << 18

#: HTML that folds our reports, and breaks lines in their tables.
_TAGS = ("<details>", "</details>", "<summary>", "</summary>", "<br>")

#: Entities that our reports spell out, none of which makes anything but text; see `dsregress.report.plain_text`.
_ENTITIES = re.compile(r"&(?!(?:amp|lt|gt|#124|#96|#42|#91|#93|#126|#92|#35|#36|#33|#58|#46|#95);)")

#: What GitHub acts on anywhere in a text -> what stands for it.
_ACTED_ON = (
    (re.compile(r"\["), "&#91;"),
    (re.compile(r"\]"), "&#93;"),
    (re.compile(r"\$"), "&#36;"),
    (re.compile(r"@"), "@\u200b"),
    (re.compile(r"://"), "&#58;//"),
    (re.compile(r"(?i)\b(www|mailto|xmpp)([.:])"), "\\1\u200b\\2"),
    (re.compile(r"(?<!&)#(?=\d)"), "#\u200b"),
    (re.compile(r"(?i)\b(GH-)(?=\d)"), "\\1\u200b"),
    (re.compile(r"\b([0-9a-f]{6})(?=[0-9a-f]{1,34}\b)"), "\\1\u200b"),  # a commit, unless it is in two pieces
)


def quoted(text: str) -> str:
    """The text as a quotation, of bounded length, in which GitHub acts on nothing but its layout."""
    lines, length = [], 0
    for line in text.replace("\r", "").split("\n"):
        made = f"> {inert(line)}".rstrip()
        length += len(made) + 1
        if length > _MOST_CHARACTERS:
            lines.append("> ... (cut)")
            break
        lines.append(made)
    return "\n".join(lines)


def inert(line: str) -> str:
    """A line of Markdown that links, shows, and mentions nothing."""
    line = "".join(character for character in line if character.isprintable())
    line = _ENTITIES.sub("&amp;", line)
    line = line.replace("<", "&lt;")
    for tag in _TAGS:
        line = line.replace(tag.replace("<", "&lt;"), tag)
    for pattern, replacement in _ACTED_ON:
        line = pattern.sub(replacement, line)
    return line


def comment(report: str, run: str) -> str:
    """The whole comment; ``run`` is the address of the run that made the report."""
    first = (
        "**The code of this pull request wrote the report below, so its author could have written anything there.** "
        f"[The run that made it]({run})"
    )
    return f"{MARKER}\n{first}\n\n{quoted(report)}\n"


def own_comment(comments: Sequence[dict[str, object]]) -> int | None:
    """The id of the comment that this program made before; None where there is none."""
    for one in comments:
        user = one.get("user")
        is_bot = isinstance(user, dict) and user.get("login") == _BOT and user.get("type") == "Bot"
        if is_bot and str(one.get("body", "")).startswith(MARKER) and isinstance(one["id"], int):
            return one["id"]
    return None


def read_report(file: str) -> str:
    """The beginning of a regular file. Raises OSError."""
    handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as stream:
        return stream.read(_MOST_BYTES).decode("utf-8", "replace")


def main(number: int, file: str) -> None:
    """Raises OSError, `subprocess.CalledProcessError`."""
    repository, server = os.environ["GH_REPO"], os.environ["GITHUB_SERVER_URL"]
    body = comment(read_report(file), f"{server}/{repository}/actions/runs/{int(os.environ['RUN'])}")
    listed = _github("--paginate", "--slurp", f"repos/{repository}/issues/{number}/comments")
    found = own_comment([one for page in json.loads(listed) for one in page])
    if found is None:
        _github("--method", "POST", f"repos/{repository}/issues/{number}/comments", body=body)
    else:
        _github("--method", "PATCH", f"repos/{repository}/issues/comments/{found}", body=body)


def _github(*arguments: str, body: str | None = None) -> bytes:
    """What GitHub's API answers."""
    more = () if body is None else ("--input", "-")
    given = None if body is None else json.dumps({"body": body}).encode()
    return subprocess.run(["gh", "api", *arguments, *more], input=given, stdout=subprocess.PIPE, check=True).stdout


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
