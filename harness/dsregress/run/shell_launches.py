"""The launch line that a shell makes of a line with variables, pipes or a script: ``bash scripts/sft.sh 2>&1 | tee log``.

bash carries out the line, and the script, with stand-ins for the launchers: they record how they are called, and start
nothing. Besides them there are only tools that read, print, and change files, and scripts of Python that need the standard
library alone (`shell_python`); any other command does nothing. What is
written stays away from the user's files as what a program writes does (`vgpu.isolation`): the texts that the script wrote,
such as ``cat > ds_config.json <<EOF``, are returned with its launch.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dsregress.config.variables import shell_environment
from dsregress.errors import UsageError
from dsregress.probe.border.masking import without_secrets
from dsregress.probe.launch_line import LaunchLine, LaunchLineError, parse_words
from dsregress.probe.program_imports import all_imports, files_in_reach
from dsregress.probe.shell_syntax import first_of_a_shell, joined
from dsregress.wording.quantities import listing
from vgpu import isolation

#: Seconds that a script has to start its program.
_TIMEOUT_S = 20

#: Bytes of a file that a script writes and its program reads, and the names of those that no program reads.
_LARGEST_TEXT = 1 << 20
_LOGS = (".log", ".out", ".err", ".pid")

_TABLES = json.loads(Path(__file__).with_name("shell_commands.json").read_text())
_COMMANDS: dict[str, list[str]] = _TABLES["commands"]

#: Variables that a machine sets for whoever starts a job on it, by the names that launchers have for them.
_OF_ONE_NODE: dict[str, str] = _TABLES["one_node_of_eight_cards"]

_RECORDER = "shell_recorder.sh"

_VARIABLE = re.compile(r"[A-Za-z_]\w*=")

#: A line in which bash says what went wrong: ``run.sh: line 3: DATA: unbound variable``.
_COMPLAINT = re.compile(r"^(?:.*: line \d+: .*|.*: No such file or directory)$", re.MULTILINE)

#: What bash says where it cannot write: a folder that is not there, relative to the one of the line.
_ABSENT_FOLDER = re.compile(r"(?:.*: line \d+: |tee: )?((?!/)[^:\s]*/)[^:/\s]*: No such file or directory$")

#: What bash says of a variable that a line, or a script with ``set -u``, takes as set.
_UNSET = re.compile(r"(?:^|\s)([A-Za-z_]\w*): unbound variable$")

#: ``$HF_TOKEN`` and ``${WANDB_API_KEY}``, which no run sends anywhere.
_CREDENTIAL = re.compile(r"\$\{?([A-Z][A-Z0-9_]*_(?:TOKEN|KEY))\b")

#: Writes a call of a launcher into a file: the folder, the number of words, the words, the variables.
_RECORD = """#!{bash}
at=$(mktemp "$DSREGRESS_RECORDER/calls/$EPOCHREALTIME.XXXXXX")
{{ printf '%s\\0' "$PWD" "$#" {name} "$@"; env -0; }} >"$at"
"""

#: Carries out a script of Python that prepares: ``python make_config.py``.
_PYTHON = Path(__file__).with_name("shell_python.py")

#: ``uv run OPTIONS train.py ARGS``, and the like: the command after the runner's own options.
_RUN = Path(__file__).with_name("shell_runner.sh").read_text(encoding="utf-8")

#: ``sbatch OPTIONS script.slurm`` and ``srun OPTIONS torchrun ...`` on one node.
_SLURM = Path(__file__).with_name("shell_slurm.sh").read_text(encoding="utf-8")

#: ``MASTER_ADDR=$(hostname -I | awk '{print $1}')``: any machine's name would make it another program there.
_HOSTNAME = "#!{bash}\ncase ${{1-}} in -[iI]*) echo 127.0.0.1 ;; *) echo localhost ;; esac\n"

#: ``ray job submit -- python -m train``.
_RAY = Path(__file__).with_name("shell_ray.sh").read_text(encoding="utf-8")

#: Stand-ins that answer the same each time: the same line is to be the same program tomorrow.
_REPEATABLE = {
    "date": '#!{bash}\nexec {tool} -u -d @0 "$@"\n',
    "shuf": '#!{bash}\nexec {tool} --random-source=<(yes) "$@"\n',
}

#: ``nvidia-smi -L | wc -l``, ``nvidia-smi --query-gpu=name --format=csv,noheader``: a node of eight cards.
_CARDS = Path(__file__).with_name("shell_cards.sh").read_text(encoding="utf-8")

#: Takes on the shield of a run, and becomes bash.
_SHIELDED = (
    "import os, sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]); from vgpu import isolation; "
    "isolation.join_shield(Path(sys.argv[2])); os.chdir(sys.argv[3]); os.execv(sys.argv[4], sys.argv[4:])"
)

#: Variables that the shell, or this module, sets.
_NOT_THE_SCRIPTS = frozenset(("_", "BASH_ENV", "OLDPWD", "PATH", "PWD", "SHLVL", "TMPDIR", "DSREGRESS_RECORDER"))

#: Modules of which a program that trains imports one.
_OF_TORCH = {"torch", "transformers", "accelerate", "deepspeed", "lightning", "pytorch_lightning", "trl", "diffusers"}

#: The folder of our own modules.
_HARNESS = str(Path(isolation.__file__).parents[2])

_HINT = "write the line that it starts, e.g. 'torchrun train.py'"


@dataclass(frozen=True)
class Launch:
    """A launch line, and the folder in which it starts."""

    line: str
    folder: str
    empty: tuple[str, ...] = ()  #: launcher's options that the line leaves out, as they had no value: ``--nnodes=``
    written: tuple[tuple[str, str], ...] = ()  #: path in the folder -> content, of the files that the script wrote
    filled: tuple[tuple[str, str], ...] = ()  #: variable -> value, of those that the line leaves to the machine


class SeveralLaunches(UsageError):
    """A line that comes to several ``launches``; their ``lines`` are without secrets."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self.launches = tuple(launches)
        self.lines = [without_secrets(launch.line) for launch in launches]
        super().__init__(f"starts {len(launches)} programs", where="--program", hint="give one of these lines")

    def first_that_trains(self) -> Launch | None:
        """Return the first launch if all start one program, besides scripts that never import torch: stages, folds or
        settings of one training, of which the others may need what it writes. None if several programs may train."""
        training = [launch for launch in self.launches if _may_train(launch)]
        return training[0] if len({_program_of(launch) for launch in training}) == 1 else None


def _program_of(launch: Launch) -> tuple[str, str]:
    line = _parsed(launch)
    return (line.program, launch.folder) if line is not None else ("", launch.folder)


def _may_train(launch: Launch) -> bool:
    """Return False for a file of Python that imports torch nowhere, nor do the files of its folder that it imports."""
    line = _parsed(launch)
    if line is None or line.is_module or line.is_command:
        return True
    file = Path(launch.folder, line.program)
    if not file.is_file():
        return True
    reached = files_in_reach([file], [str(file.parent), launch.folder])
    return any(_OF_TORCH & all_imports(each) for each in reached)


@dataclass(frozen=True)
class _Record:
    """The calls of launchers in their order, the commands that were left out, bash's last complaint, and written files."""

    launches: list[Launch]
    left_out: list[str]
    complaint: str
    texts: dict[str, str]  #: absolute path -> content, of what was written


def needs_shell(line: str) -> bool:
    """Return True if a shell, or a command that starts another one, carries out ``line``."""
    line = joined(line)
    try:
        words = [word for word in shlex.split(line) if not _VARIABLE.match(word)]
    except ValueError:
        return False
    if not words:
        return False
    first = os.path.basename(words[0])
    is_started = first in _COMMANDS["starters"] or first.endswith(".sh")
    is_run = first in _COMMANDS["runners"] and words[1:2] == ["run"]
    return is_started or is_run or bool(first_of_a_shell(line)) or "\n" in line


def launch_of_shell(line: str, folder: Path) -> Launch:
    """Return the one launch that ``line`` comes to if a shell carries it out in ``folder``. Raise UsageError if it starts no
    program, or several."""
    line = joined(line)
    record, filled = _recorded_with_variables(line, folder)
    absent = _ABSENT_FOLDER.match(record.complaint) if not record.launches else None
    if absent is not None:  # of a log, which no one is to read
        record = _recorded(f"mkdir -p {shlex.quote(absent[1])}\n{line}", folder, filled)
    if not record.launches and (keys := _credentials_in(_files_of(line, folder))):  # it may have asked for one
        record = _recorded(line, folder, {**filled, **dict.fromkeys(keys, "unused")})
    launches = [dataclasses.replace(launch, filled=tuple(filled.items())) for launch in record.launches]
    found = {launch: parsed for launch in launches if (parsed := _parsed(launch)) is not None}
    of_ranks = [launch for launch, parsed in found.items() if parsed.launcher != "python"]
    chosen = of_ranks or list(found)
    if len(chosen) == 1:
        launch = _where_its_program_is(chosen[0], found[chosen[0]], _folders_of_scripts(line, folder))
        return _with_texts(launch, record.texts)
    if chosen:
        raise SeveralLaunches([_with_texts(launch, record.texts) for launch in chosen])
    why = record.complaint or (f"it calls {', '.join(record.left_out)}" if record.left_out else "")
    raise UsageError(f"starts no program{': ' if why else ''}{why}", where="--program", hint=_HINT)


def _with_texts(launch: Launch, texts: dict[str, str]) -> Launch:
    """Return a launch with the files that its script wrote in its folder, without logs."""
    folder = os.path.realpath(launch.folder)
    own = {
        os.path.relpath(path, folder): text
        for path, text in texts.items()
        if Path(path).is_relative_to(folder) and not path.endswith(_LOGS)
    }
    return dataclasses.replace(launch, written=tuple(sorted(own.items())))


def _where_its_program_is(launch: Launch, parsed: LaunchLine, of_scripts: list[Path]) -> Launch:
    """Return a launch in the folder of the repository that has its program: its script may first change to a folder of its
    author's machine, or must be started in its own folder, one of those ``of_scripts``."""
    folder = Path(launch.folder)
    if parsed.is_module or parsed.is_command or (folder / parsed.program).exists():
        return launch
    for at in (*of_scripts, *_folders_above(folder)):
        if (at / parsed.program).is_file():
            return dataclasses.replace(launch, folder=str(at))
    return launch


def _folders_above(folder: Path) -> Iterator[Path]:
    """Yield the folders above this one, up to that of its repository."""
    if (folder / ".git").exists():
        return
    for at in folder.parents:
        yield at
        if (at / ".git").exists():
            return


def _folders_of_scripts(line: str, folder: Path) -> list[Path]:
    """Return the folders, below ``folder``, of the files that a shell's line names."""
    return [at for file in _files_of(line, folder) if (at := Path(os.path.normpath(file.parent))) != folder]


def _files_of(line: str, folder: Path) -> list[Path]:
    """Return the files in ``folder`` that a shell's line names."""
    try:
        words = shlex.split(line)
    except ValueError:
        return []
    return [folder / word for word in words if (folder / word).is_file()]


def _credentials_in(files: Iterable[Path]) -> list[str]:
    """Return the variables of keys and tokens that scripts read, and without which they may end."""
    texts = (file.read_text("utf-8", "replace") for file in files if file.stat().st_size < _LARGEST_TEXT)
    return sorted({name for text in texts for name in _CREDENTIAL.findall(text)})


def _parsed(launch: Launch) -> LaunchLine | None:
    """Return the parts of a launch; None if it is none, or one that prepares: ``python -m pip``."""
    try:
        line = parse_words(shlex.split(launch.line))
    except LaunchLineError:
        return None
    return None if line.is_module and line.program in _COMMANDS["prepare"] else line


def _recorded_with_variables(line: str, folder: Path) -> tuple[_Record, dict[str, str]]:
    """Carry out ``line`` as on one node, which sets the variables that are returned. Raise UsageError that names all others
    that are not set."""
    filled: dict[str, str] = {}
    unset: list[str] = []
    record = _recorded(line, folder)
    while (found := _UNSET.search(record.complaint)) and found[1] not in (*filled, *unset):
        if found[1] in _OF_ONE_NODE:
            filled[found[1]] = _OF_ONE_NODE[found[1]]
        else:
            unset.append(found[1])
        record = _recorded(line, folder, {**filled, **dict.fromkeys(unset, "unset")})
    if unset:
        values = " ".join(f"{name}=VALUE" for name in unset)
        hint = f"write {'it' if len(unset) == 1 else 'them'} before the line: '{values}; torchrun ...'"
        raise UsageError(f"no value for {listing(unset, len(unset))}", where="--program", hint=hint)
    return record, filled


def _recorded(line: str, folder: Path, variables: Mapping[str, str] | None = None) -> _Record:
    """Carry out ``line`` in ``folder`` with more ``variables``. Raise UsageError if that is not possible here, or does not
    end."""
    bash = shutil.which("bash")
    with tempfile.TemporaryDirectory(prefix="dsregress-") as made:
        run = Path(made)
        try:
            if bash is None or isolation.make_shield(run, []) == isolation.NONE:
                what = "no shell can run here without changing files"
                raise UsageError(what, where="--program", hint=_HINT)
            _write_commands(run / "commands", bash)
            (run / "calls").mkdir()
            left_out = run / "left_out"
            left_out.touch()
            recorder = Path(__file__).with_name(_RECORDER)
            environment = shell_environment(
                {**(variables or {}), "DSREGRESS_RECORDER": made, "BASH_ENV": str(recorder)}
            )
            complaint = _run_bash(run, bash, line, folder, environment)
            launches = [_launch(file, environment) for file in sorted((run / "calls").iterdir())]
            names = list(dict.fromkeys(left_out.read_text().split("\n")[:-1]))
            texts = isolation.written_texts(run, os.path.realpath(folder), _LARGEST_TEXT)
            return _Record(list(dict.fromkeys(launches)), names, complaint, texts)
        finally:
            isolation.discard(run)


def _run_bash(run: Path, bash: str, line: str, folder: Path, environment: dict[str, str]) -> str:
    """Run bash until it and all that it started have ended. Return bash's last complaint. Raise UsageError if they do not
    end."""
    ended, running = os.pipe()  # open for reading until the last process that holds the other end has ended
    with (run / "said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _SHIELDED, _HARNESS, str(run), str(folder), bash, "-uc", line],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            pass_fds=(running,),
            start_new_session=True,
        )
    os.close(running)
    try:
        if not select.select([ended], [], [], _TIMEOUT_S)[0]:
            what = f"had not started its program after {_TIMEOUT_S} s"
            raise UsageError(what, where="--program", hint=_HINT)
    finally:
        os.close(ended)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    complaints = _COMPLAINT.findall((run / "said").read_text(errors="replace"))
    return re.sub(rf"^({re.escape(bash)}: |\S*{_RECORDER}: )(line \d+: )?", "", complaints[-1]) if complaints else ""


def _write_commands(folder: Path, bash: str) -> None:
    """Make the folder of all commands that a script has."""
    folder.mkdir()
    scripts = {name: _RECORD.format(bash=bash, name=name) for name in _COMMANDS["launchers"]}
    prepare = shlex.join([sys.executable, "-I", "-S", str(_PYTHON), _HARNESS, str(folder / "python")])
    scripts |= {name: f'{scripts[name]}exec {prepare} "$@"\n' for name in ("python", "python3")}
    scripts |= {name: _RUN.format(bash=bash) for name in _COMMANDS["runners"]}
    scripts |= dict.fromkeys(("bash", "sh", "dash", "zsh"), f'#!{bash}\nexec {bash} "$@"\n')
    scripts |= {"srun": _SLURM.format(bash=bash, start=""), "sbatch": _SLURM.format(bash=bash, start=f"{bash} ")}
    scripts |= {"scontrol": f'#!{bash}\n[ "$1" = show ] && [ "${{2%s}}" = hostname ] && echo localhost\nexit 0\n'}
    scripts["hostname"] = _HOSTNAME.format(bash=bash)
    scripts["ray"] = _RAY.format(bash=bash)
    scripts["nvidia-smi"] = _CARDS.format(bash=bash)
    for name, text in _REPEATABLE.items():
        if tool := shutil.which(name):
            scripts[name] = text.format(bash=bash, tool=tool)
    for name, text in scripts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    for name in _COMMANDS["tools"]:
        if tool := shutil.which(name):
            (folder / name).symlink_to(os.path.realpath(tool) if "/" in tool else tool)


def _launch(file: Path, before: dict[str, str]) -> Launch:
    """Return a recorded call, with the variables that the script set."""
    folder, count, *rest = os.fsdecode(file.read_bytes()).split("\0")[:-1]
    words = rest[: int(count) + 1]
    variables = dict(each.split("=", 1) for each in rest[int(count) + 1 :] if "=" in each)
    new = {name: value for name, value in variables.items() if before.get(name) != value and name.isidentifier()}
    if "PYTHONPATH" in new:
        new["PYTHONPATH"] = os.pathsep.join(_below(each, folder) for each in new["PYTHONPATH"].split(os.pathsep))
    set_words = [f"{name}={value}" for name, value in sorted(new.items()) if not _is_set_here(name)]
    empty = _empty_options(words)
    for option in empty:
        words.remove(option)  # the first one is the launcher's
    return Launch(shlex.join((*set_words, *words)), folder, empty)


def _is_set_here(variable: str) -> bool:
    return variable in _NOT_THE_SCRIPTS or variable.startswith("SLURM_")


def _empty_options(words: list[str]) -> tuple[str, ...]:
    """Return the launcher's options without a value: scripts fill them from a cluster's variables."""
    try:
        return tuple(word for word in parse_words(words).options if word.endswith("="))
    except LaunchLineError:
        return ()


def _below(path: str, folder: str) -> str:
    """Return a path relative to ``folder`` if it lies below it, so that the run's copy is used."""
    return os.path.relpath(path, folder) if path and Path(path).is_relative_to(folder) else path
