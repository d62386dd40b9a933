"""The comment that `.github/workflows/comment.yml` makes of a text that the author of a pull request controls."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

SCRIPT = ROOT / ".github" / "pull_request_comment.py"
_spec = importlib.util.spec_from_file_location("pull_request_comment", SCRIPT)
assert _spec is not None
assert _spec.loader is not None
comments = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(comments)

RUN = "https://github.com/a/b/actions/runs/7"


def test_the_first_line_is_ours_and_says_whose_text_follows() -> None:
    assert comments.comment("### all is well\n\n| a | b |\n| --- | ---: |\n| `x` | **1** |\n", RUN) == (
        "<!-- dsregress: comment.yml -->\n"
        "**The code of this pull request wrote the report below, so its author could have written anything there.** "
        "[The run that made it](https://github.com/a/b/actions/runs/7)\n"
        "\n"
        "> ### all is well\n"
        ">\n"
        "> | a | b |\n"
        "> | --- | ---: |\n"
        "> | `x` | **1** |\n"
        ">\n"
    )


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("![x](https://evil/x.png)", "!&#91;x&#93;(https&#58;//evil/x.png)"),
        ("[x](https://evil)", "&#91;x&#93;(https&#58;//evil)"),
        ("[x]: //evil", "&#91;x&#93;: //evil"),
        ("see www.evil.com", "see www\u200b.evil.com"),
        ("mailto:a@b.c", "mailto\u200b:a@\u200bb.c"),
        ("<img src=x> <script> <!-- -->", "&lt;img src=x> &lt;script> &lt;!-- -->"),
        ("<DETAILS open>", "&lt;DETAILS open>"),
        ("<details><summary>2 more</summary>a<br>b</details>",) * 2,
        ("@all @a/b", "@\u200ball @\u200ba/b"),
        ("&#64;all &commat;all &lt;b&gt;", "&amp;#\u200b64;all &amp;commat;all &lt;b&gt;"),
        ("fixes #12, a/b#3, GH-4", "fixes #\u200b12, a/b#\u200b3, GH-\u200b4"),
        ("0123456789abcdef0123456789abcdef01234567", "012345\u200b6789abcdef0123456789abcdef01234567"),
        ("$$x$$", "&#36;&#36;x&#36;&#36;"),
        ("a\u202eb\x1b[31m\u200b", "ab&#91;31m"),
        ("<!-- dsregress: comment.yml -->", "&lt;!-- dsregress: comment.yml -->"),
    ],
)
def test_nothing_in_the_text_links_shows_or_notifies(line: str, made: str) -> None:
    assert comments.inert(line) == made


def test_a_report_of_ours_keeps_its_layout() -> None:
    report = (ROOT / "tests" / "golden" / "report.md").read_text(encoding="utf-8")
    kept = [line.removeprefix(">").removeprefix(" ") for line in comments.quoted(report).split("\n")]
    assert kept == report.split("\n")


@pytest.mark.parametrize("text", ["x" * 300_000, "<\n" * 100_000, "a\n" * 200_000, "[" * 300_000])
def test_a_comment_has_room_at_github(text: str) -> None:
    made = comments.comment(text, RUN)
    assert len(made) < 65_536
    assert made.endswith("> ... (cut)\n")


def own(**changed: object) -> dict[str, object]:
    bot = {"login": "github-actions[bot]", "type": "Bot"}
    return {"id": 5, "user": bot, "body": f"{comments.MARKER}\nold", **changed}


def test_only_a_comment_of_ours_is_written_again() -> None:
    another_workflows = own(body="coverage 93 %")
    forged = own(user={"login": "mallory", "type": "User"})
    quoting = own(body=f"> {comments.MARKER}")
    ghost = own(user=None)
    assert comments.own_comment([another_workflows, forged, quoting, ghost]) is None
    assert comments.own_comment([forged, own(), own(id=6)]) == 5


@pytest.mark.parametrize(
    ("pages", "call"),
    [
        ([[]], "api --method POST repos/a/b/issues/3/comments --input -"),
        ([[own(body="other")], [own(id=9)]], "api --method PATCH repos/a/b/issues/comments/9 --input -"),
    ],
)
def test_a_comment_is_found_by_its_id_through_the_api(pages: list[object], call: str, tmp_path: Path) -> None:
    (tmp_path / "pages.json").write_text(json.dumps(pages))
    (tmp_path / "report.md").write_text("@all")
    gh = tmp_path / "gh"
    gh.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\ncase "$2" in --paginate) cat {tmp_path}/pages.json;; '
                  f"*) cat > {tmp_path}/body;; esac\n")  # fmt: skip
    gh.chmod(0o755)
    subprocess.run(
        [sys.executable, str(SCRIPT), "3", str(tmp_path / "report.md")],
        env={
            "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
            "GH_REPO": "a/b",
            "GITHUB_SERVER_URL": "https://github.com",
            "RUN": "7",
        },
        check=True,
    )
    assert (tmp_path / "calls").read_text().splitlines() == [
        "api --paginate --slurp repos/a/b/issues/3/comments",
        call,
    ]
    assert json.loads((tmp_path / "body").read_text()) == {"body": comments.comment("@all", RUN)}


def test_a_link_in_the_place_of_the_report_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "report.md").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic links"):
        comments.read_report(str(tmp_path / "report.md"))
