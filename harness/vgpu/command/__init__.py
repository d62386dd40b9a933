"""The command ``vgpu``: ``vgpu run`` runs a launch line on a virtual card, ``vgpu cards`` lists the known ones.

Exit codes: 0 the program ran, 1 it failed, 2 usage, 3 it needs what is not modelled.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from vgpu import card_catalogue, isolation
from vgpu.command.apart import run_apart
from vgpu.command.launch_words import LaunchWordsError
from vgpu.text_columns import aligned_lines

RAN, FAILED, USAGE, NOT_MODELLED = 0, 1, 2, 3
INTERRUPTED = 130  # as shells have it

_EPILOG = """\
LINE is how the job is launched, unchanged: torchrun train.py ARGS, deepspeed train.py ARGS, python train.py ARGS,
python -m MODULE ARGS, or train.py ARGS. The program runs as one of the ranks. What it writes is discarded, as the weights
that it saves have no values; where a machine cannot do that, writes are refused.

examples:
  vgpu run --card H100-80G --ranks 8 -- torchrun train.py --config small.yaml
  vgpu run --card A100-40G --ranks 32 --rank 31 --timeline memory.html -- deepspeed train.py --deepspeed zero3.json

exit codes: 0 the program ran, 1 it failed, 2 usage, 3 it needs what is not modelled"""


def main(words: Sequence[str] | None = None) -> int:
    """Run the command with these words, by default those of this process. Return its exit code."""
    parser = _parser()
    options = parser.parse_args(words)
    if options.command == "cards":
        print(_card_table())
        return RAN
    if importlib.util.find_spec("torch") is None:
        return _usage_error("torch is not installed here: pip install torch")
    return _run_command(options)


def _run_command(options: argparse.Namespace) -> int:
    """Run the launch line in a process of its own, apart from the user's files, and keep its page alone."""
    timeline = None if options.timeline is None else Path(options.timeline).absolute()
    if timeline is not None and not timeline.parent.is_dir():
        return _usage_error(f"--timeline: {Path(options.timeline).parent}: no such folder")
    with tempfile.TemporaryDirectory(prefix="vgpu-") as folder:
        page = Path(folder) / "run" / "timeline.html"
        page.parent.mkdir()
        try:
            ended = run_apart(page.parent, lambda: _run_line(options, page))
        except ChildProcessError as error:
            print(f"vgpu: {error}", file=sys.stderr)
            return FAILED
        except KeyboardInterrupt:
            print("vgpu: interrupted", file=sys.stderr)
            return INTERRUPTED
        finally:
            isolation.discard(page.parent)
        if timeline is not None and page.is_file():
            shutil.copyfile(page, timeline)
            print(f"\ntimeline  {options.timeline}")
    return ended


def _run_line(options: argparse.Namespace, page: Path) -> int:
    from vgpu.command.running import RankRequest, run_line

    line = options.line[1:] if options.line[:1] == ["--"] else options.line
    request = RankRequest(
        card=options.card,
        rank=options.rank,
        ranks=options.ranks,
        ranks_per_node=options.ranks_per_node,
        steps=options.steps,
    )
    try:
        return run_line(line, request, run_folder=page.parent, page=page if options.timeline is not None else None)
    except (LaunchWordsError, card_catalogue.UnknownCard) as error:
        return _usage_error(str(error))


def _usage_error(why: str) -> int:
    print(f"vgpu: {why}", file=sys.stderr)
    return USAGE


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="vgpu", description="Run a CUDA training script without a GPU, and see what the card would hold."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("cards", help="list the known cards", description="List the known cards.")
    run = commands.add_parser(
        "run",
        help="run a launch line on a virtual card",
        usage="%(prog)s [options] -- LINE",
        description="Run an unmodified training script as one rank of many, without a GPU, and print what its card\n"
        "would hold by phase, its collectives, and what was not modelled.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("--card", default="H100-80G", help="the card, see 'vgpu cards' (default: %(default)s)")
    run.add_argument("--ranks", type=_positive, metavar="N", help="number of ranks (default: the launcher's, or 1)")
    run.add_argument("--rank", type=int, default=0, metavar="R", help="the rank that runs here (default: %(default)s)")
    run.add_argument(
        "--ranks-per-node", type=_positive, metavar="N", help="ranks of a node (default: the launcher's, or 8)"
    )
    run.add_argument(
        "--steps",
        type=_step_count,
        default=2,
        metavar="N",
        help="end the program after N optimizer steps, or 'all' to let it end by itself (default: %(default)s)",
    )
    run.add_argument("--timeline", metavar="FILE.html", help="write the live bytes over time as one page")
    run.add_argument("line", nargs=argparse.REMAINDER, metavar="-- LINE", help="the launch line")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def _step_count(text: str) -> int | None:
    return None if text == "all" else _positive(text)


def _card_table() -> str:
    rows = [("card", "memory", "usable", "capability", "SMs", "as torch calls it")]
    rows += [
        (
            card.name,
            f"{card.memory_mib:,} MiB",
            f"{card.usable_bytes:,} bytes",
            card.compute_capability,
            str(card.multiprocessors),
            card.cuda_name,
        )
        for card in card_catalogue.known_cards().values()
    ]
    return "\n".join(aligned_lines(rows, "<>>>><"))
