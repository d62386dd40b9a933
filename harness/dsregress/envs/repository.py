"""A framework's git repository, local or remote: the commits between two releases, and the files of a commit.

A local clone is only read: nothing is checked out in it, no ref is made. A URL is cloned once, without file contents until
they are needed, and fetched again when a commit is missing.
"""

from __future__ import annotations

import errno
import hashlib
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dsregress.errors import EnvironmentUnavailable, UsageError
from dsregress.model import Failed
from dsregress.system import kept
from dsregress.system.files import new_folder

_COMMAND_S = 1800.0

#: Errors due to a file's name: too long, or with characters that the file system does not support.
_NAMES = (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL)

_DEEPEST = 8  # submodules of submodules
_MOST_LINKS = 256  # steps on the way of one link

#: Disables the user's hooks and monitors: they run programs that a measurement does not need.
_NOTHING_ELSE = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")

_URL = re.compile(r"[a-z+]+://|[\w.-]+@[\w.-]+:")


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """One commit."""

    sha: str
    date: str  #: of the committer, ISO 8601 with its zone
    subject: str

    @property
    def short(self) -> str:
        """The start of its hash, 12 digits."""
        return self.sha[:12]


class Repository:
    """See the module. Raises UsageError if the repository does not exist, EnvironmentUnavailable if git or a URL fails."""

    def __init__(self, place: str, *, cache: Path, environment: Mapping[str, str]) -> None:
        self.place = place
        # Without these, git would take an unpacked commit for a part of the repository that the harness lies in, or prompt
        # for a password.
        self._environment = {**environment, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        self._scratch: tempfile.TemporaryDirectory[str] | None = None  #: see `working_tree`
        self._is_remote = bool(_URL.match(place)) and not Path(place).exists()
        if self._is_remote:
            self._folder = cache / hashlib.sha256(place.encode()).hexdigest()[:16]
        else:
            self._folder = Path(place).expanduser().resolve()

    def open(self) -> None:
        """Find the repository; clone a URL that was not cloned yet."""
        if self._is_remote:
            if (self._folder / "HEAD").exists():
                return
            with new_folder(self._folder) as unfinished:
                self._run_remote(
                    unfinished, "clone", "--quiet", "--bare", "--filter=blob:none", "--", self.place, str(unfinished)
                )
        elif not self._folder.is_dir() or self._output("rev-parse", "--git-dir") is None:
            raise UsageError("not a git repository", where=self.place, hint="--repository takes a clone or a URL")

    def commit(self, name: str) -> Commit | None:
        """Return the commit of a name (a tag, a branch, a hash); None if it has none."""
        line = self._output("log", "-1", "--no-patch", "--format=%H%x09%cI%x09%s", f"{name}^{{commit}}", "--")
        if line is None and self._is_remote:
            self._run_remote(
                self._folder,
                "--git-dir",
                str(self._folder),
                "fetch",
                "--quiet",
                "--tags",
                "origin",
                "+refs/heads/*:refs/heads/*",
            )
            line = self._output("log", "-1", "--no-patch", "--format=%H%x09%cI%x09%s", f"{name}^{{commit}}", "--")
        return _commit(line.strip()) if line else None

    def release(self, package: str, version: str) -> Commit:
        """Return the commit of a release's tag, by the names that tags have: ``v1.2``, ``1.2``, ``package-1.2``; or, if
        ``version`` is not a release, the commit that it names. Raise UsageError."""
        names = [f"{kind}{version}" for kind in ("refs/tags/v", "refs/tags/", f"refs/tags/{package}-", "")]
        for name in names:
            if (found := self._output("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")) is not None:
                commit = self.commit(found.strip())
                if commit is not None:
                    return commit
        raise UsageError(
            f"has neither a tag v{version} or {version} nor a commit of that name",
            where=self.place,
            hint="git fetch --tags may help",
        )

    def between(self, old: Commit, new: Commit) -> tuple[Commit, ...]:
        """Return the commits from ``old`` to ``new``, both included, the oldest first: the first parents, so that a merged
        branch is one step.

        If ``old`` is no ancestor of ``new`` (release branches), start at the last commit that they share. Raise UsageError
        if they share none, or if ``new`` is the older one.
        """
        base = self._output("merge-base", old.sha, new.sha)
        if base is None:
            raise UsageError(
                f"{old.short} and {new.short} share no history", where=self.place, hint="use another clone"
            )
        start = self.commit(base.strip())
        if start is None or start.sha == new.sha:
            raise UsageError(f"{new.short} is not newer than {old.short}", where=self.place, hint="check its tags")
        text = self._output(
            "log", "--reverse", "--first-parent", "--format=%H%x09%cI%x09%s", f"{start.sha}..{new.sha}", "--"
        )
        return (start, *(_commit(line) for line in (text or "").splitlines() if line))

    def unpack(self, commit: Commit, folder: Path) -> Failed | None:
        """Write the files of a commit, and of the submodules that it pins, into a folder that does not exist yet.

        Return Failed if the commit cannot be written here, or a submodule of it is unavailable. Raise
        EnvironmentUnavailable, OSError.
        """
        return self._unpack(commit.sha, folder, depth=0)

    def _unpack(self, sha: str, folder: Path, depth: int) -> Failed | None:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix="dsregress-commit-", suffix=".tar", dir=folder.parent) as file:
            # By way of the disk: a commit may be larger than the memory.
            done = self._run("archive", "--format=tar", f"--output={file.name}", sha)
            if done.returncode != 0:
                raise self._failed(done, "cannot be unpacked")
            try:
                with tarfile.open(file.name) as archive:
                    extract(archive, folder)
            except OSError as error:
                if error.errno not in _NAMES:
                    raise
                return Failed("install", f"a file of the commit cannot be written: {error.strerror}")
        for path, pinned in self._submodules(sha):
            if depth == _DEEPEST:
                return Failed("install", f"submodule {path}: nested more than {_DEEPEST} deep")
            failed = self._unpack_submodule(sha, path, pinned, folder / path, depth + 1)
            if failed is not None:
                return failed
        return None

    def _submodules(self, sha: str) -> Iterator[tuple[str, str]]:
        """Yield path and pinned commit of each submodule at a commit."""
        for entry in (self._output("ls-tree", "-r", "-z", "--full-tree", sha) or "").split("\0"):
            kind, _, path = entry.partition("\t")
            if kind.startswith("160000 "):
                yield path, kind.split()[2]

    def _unpack_submodule(self, sha: str, path: str, pinned: str, folder: Path, depth: int) -> Failed | None:
        """Unpack a submodule from the user's clone, as `git submodule update` fetched it. Nothing is fetched: the addresses
        are the commit's, and unreviewed."""
        for name in self._submodule_names(sha, path):
            within = Path((self._output("rev-parse", "--absolute-git-dir") or "").strip()) / "modules" / name
            if ".." in Path(name).parts or Path(name).is_absolute() or not within.is_dir():
                continue
            module = Repository(str(within), cache=within, environment=self._environment)
            if module._output("cat-file", "-e", f"{pinned}^{{commit}}") is not None:
                return module._unpack(pinned, folder, depth)
        return Failed("install", f"submodule {path} is not in the clone at {pinned[:12]}")

    def _submodule_names(self, sha: str, path: str) -> Iterator[str]:
        """Yield the names of a submodule in the clone: by its path at this commit, and in the checked-out one."""
        yield path
        for at in (sha, "HEAD"):
            text = self._output("config", "--null", "--blob", f"{at}:.gitmodules", "--list") or ""
            for line in text.split("\0"):
                key, _, value = line.partition("\n")
                if key.startswith("submodule.") and key.endswith(".path") and value == path:
                    yield key.removeprefix("submodule.").removesuffix(".path")

    def changed_files(self, old: Commit, new: Commit) -> tuple[str, ...]:
        """Return the files of a change as ``git diff --stat`` lists them, most lines first: ``+12 -3
        deepspeed/runtime/zero/stage3.py``."""
        found = []
        for line in (self._output("diff", "--numstat", "--no-renames", old.sha, new.sha) or "").splitlines():
            added, removed, file = line.split("\t", 2)
            is_text = added != "-"
            size = int(added) + int(removed) if is_text else 0
            found.append((-size, f"+{added} -{removed} {file}" if is_text else f"binary {file}"))
        return tuple(text for _, text in sorted(found, key=lambda pair: pair[0]))

    def patch(self, old: Commit, new: Commit, files: Sequence[str]) -> tuple[str, ...]:
        """Return the lines of these files that a change touches, each file under its name, as ``git diff`` shows them."""
        found: list[str] = []
        for file in files:
            text = (
                self._output("diff", "--no-renames", "--no-color", "--no-ext-diff", old.sha, new.sha, "--", file) or ""
            )
            _, at, hunks = text.partition("\n@@ ")
            if at:  # binary files have none
                found += [file, *f"@@ {hunks}".splitlines()]
        return tuple(found)

    def head(self) -> Commit:
        """Return the checked-out commit. Raise UsageError."""
        found = self.commit("HEAD")
        if found is None:
            raise UsageError("has no commit", where=self.place, hint="run it in a clone of the framework")
        return found

    def first_day_of(self, text: str, file: str) -> str:
        """Return the day of the first commit in which a file, by its path from the folder of the repository, has a text;
        empty if none has it."""
        dates = (self._output("log", "--format=%cI", "-S", text, "--", file) or "").split()
        return dates[-1].partition("T")[0] if dates else ""

    def day_of_code(self) -> str:
        """Return the day of the last commit that changed Python code, or of the last one at all; empty without one."""
        for files in (["--", ":(top)*.py"], []):
            if date := self._output("log", "-1", "--format=%cI", *files):
                return date.partition("T")[0]
        return ""

    def root(self) -> Path:
        """Return the folder of its files. Raise UsageError."""
        found = self._output("rev-parse", "--show-toplevel")
        if found is None:
            raise UsageError("has no files here", where=self.place, hint="name a clone with a working tree")
        return Path(found.rstrip("\n"))

    def file_at(self, commit: Commit, file: str) -> bytes | None:
        """Return the content of a file at a commit, its path relative to the repository's root; None if it was not there."""
        done = self._run("show", f"{commit.sha}:{file}")
        return done.stdout if done.returncode == 0 else None

    def merge_base(self, commit: Commit, name: str) -> Commit:
        """Return the last commit that a commit shares with the one of a name. Raise UsageError."""
        other = self.commit(name)
        if other is None:
            hint = "fetch it: git fetch origin; a workflow needs fetch-depth: 0"
            raise UsageError(f"has no commit {name}", where=self.place, hint=hint)
        base = self.commit((self._output("merge-base", commit.sha, other.sha) or "").strip() or "-")
        if base is None:
            hint = "fetch its history: git fetch --unshallow; a workflow needs fetch-depth: 0"
            raise UsageError(f"{commit.short} and {name} share no history here", where=self.place, hint=hint)
        return base

    def working_tree(self, without: Iterable[Path] = ()) -> Commit:
        """Return the checked-out files as a commit, with what is changed or new, and neither ignored nor in a folder of
        ``without``; the checked-out commit if that is nothing. The same files are the same commit. It is written beside the
        repository, not into it, and kept as long as this object. Raise UsageError, EnvironmentUnavailable."""
        head = self.head()
        self._scratch = tempfile.TemporaryDirectory(prefix="dsregress-commit-")
        objects = (self._output("rev-parse", "--path-format=absolute", "--git-path", "objects") or "").strip()
        self._environment = {
            **self._environment,
            **{f"GIT_{who}_{what}": "dsregress" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
            **{f"GIT_{who}_DATE": head.date for who in ("AUTHOR", "COMMITTER")},
            "GIT_INDEX_FILE": str(Path(self._scratch.name, "index")),
            "GIT_OBJECT_DIRECTORY": self._scratch.name,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": objects,
        }
        top = Path((self._output("rev-parse", "--show-toplevel") or "").strip())
        inside = [folder.relative_to(top) for folder in without if folder.is_relative_to(top) and folder != top]
        excluded = [f":(top,exclude,literal){folder}" for folder in inside]
        for arguments in (("read-tree", head.sha), ("add", "--all", ":/", *excluded)):
            done = self._run(*arguments)
            if done.returncode != 0:
                raise self._failed(done, "its files cannot be read")
        tree = (self._output("write-tree") or "").strip()
        if tree == (self._output("rev-parse", f"{head.sha}^{{tree}}") or "").strip():
            return head
        made = self._output("commit-tree", tree, "-p", head.sha, "-m", "the working tree")
        found = self.commit((made or "").strip() or "-")
        if found is None:
            raise UsageError("its files cannot be read", where=self.place, hint="`git add --all` has to work there")
        return found

    def newest_tag(self, commit: Commit) -> str:
        """Return the newest tag at or before a commit that looks like a release, without its ``v``; empty if none does."""
        for pattern in ("v[0-9]*", "[0-9]*"):
            found = self._output("describe", "--tags", "--abbrev=0", f"--match={pattern}", commit.sha)
            if found is not None:
                return found.strip().removeprefix("v")
        return ""

    def _output(self, *arguments: str) -> str | None:
        done = self._run(*arguments)
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None

    def _run_remote(self, folder: Path, *arguments: str) -> None:
        done = _git(arguments, self._environment, folder)
        if done.returncode != 0:
            raise self._failed(done, "cannot be fetched")

    def _failed(self, done: subprocess.CompletedProcess[bytes], what: str) -> EnvironmentUnavailable:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        reason = lines[-1] if lines else "git printed no message"
        return EnvironmentUnavailable(f"{what}: {reason}", where=self.place, hint="a local clone needs no network")

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        lazily_fetched = self._folder if self._is_remote else None
        return _git(("-C", str(self._folder), *arguments), self._environment, lazily_fetched)


def _git(
    arguments: Sequence[str], environment: Mapping[str, str], fetching_into: Path | None
) -> subprocess.CompletedProcess[bytes]:
    """Run git. With ``fetching_into``, the command may talk to a server: for minutes, by processes of its own, which must
    not outlive us."""
    # `git bisect run` exports the repository's location, which every git below it would take for its own.
    own = {name: value for name, value in environment.items() if not name.startswith("GIT_DIR")}
    try:
        if fetching_into is not None:
            return kept.run_kept(
                ["git", *_NOTHING_ELSE, *arguments], folder=str(fetching_into), environment=own, timeout_s=_COMMAND_S
            )
        return subprocess.run(
            ["git", *_NOTHING_ELSE, *arguments],
            env=own,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_COMMAND_S,
            check=False,
        )
    except OSError as error:
        raise EnvironmentUnavailable(
            f"cannot be started: {error.strerror}", where="git", hint="install git; bisecting commits needs it"
        ) from None
    except subprocess.TimeoutExpired:
        raise EnvironmentUnavailable(
            f"did not end in {_COMMAND_S:.0f} s", where="git", hint="a local clone needs no network"
        ) from None


def _commit(line: str) -> Commit:
    sha, date, subject = line.split("\t", 2)
    return Commit(sha=sha, date=date, subject=subject)


def extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Extract an archive into a folder, except links that lead out of it: a build would follow them into the files of this
    machine."""
    # Before 3.10.12 and 3.11.4 (Debian 12 has 3.11.2) Python knows no filters. What is unpacked is code that is built next.
    known: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    members = archive.getmembers()
    links = {member.name: member for member in members if member.issym()}
    archive.extractall(folder, [member for member in members if not _leads_out(member, links)], **known)


def _leads_out(member: tarfile.TarInfo, links: Mapping[str, tarfile.TarInfo]) -> bool:
    """Return True if a link's target is outside the archive's folder, with every link on the way followed."""
    if member.islnk():
        return _within((), member.linkname) is None
    if not member.issym():
        return False
    place = tuple(member.name.split("/")[:-1])
    waiting = member.linkname.split("/")[::-1]
    if member.linkname.startswith("/"):
        return True
    for _ in range(_MOST_LINKS):
        if not waiting:
            return False
        step = _within(place, waiting.pop())
        if step is None:
            return True
        place = step
        link = links.get("/".join(place))
        if link is not None:
            if link.linkname.startswith("/"):
                return True
            place = place[:-1]
            waiting += link.linkname.split("/")[::-1]
    return True  # a circle


def _within(place: tuple[str, ...], path: str) -> tuple[str, ...] | None:
    """Return the target of a relative path from a folder; None if it is outside of the outermost one."""
    for part in path.split("/"):
        if part == "..":
            if not place:
                return None
            place = place[:-1]
        elif part not in ("", "."):
            place = (*place, part)
    return place
