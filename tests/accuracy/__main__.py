"""``nox -s accuracy``: memory and step time of published jobs on real GPUs, compared with the simulation's predictions."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from dsregress.cli import options, signals
from dsregress.cli.lines import print_note
from dsregress.cli.output import note_problems, write_answer
from dsregress.cli.progress import Progress
from dsregress.cli.stored_results import measuring_settings
from dsregress.errors import EXIT_HARNESS, EXIT_OK, EXIT_REGRESSION, EXIT_USAGE, HarnessError, NothingMeasured
from dsregress.model import Result
from dsregress.run import pipeline
from dsregress.store import Store
from dsregress.wording.quantities import listing
from tests.accuracy import page, simulated
from tests.accuracy.points import incomplete, missed, read_points


@click.command("accuracy", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--point", "wanted", multiple=True, metavar="GLOB", help="Only these points. Repeatable.")
@click.option("--fresh", is_flag=True, help="Simulate everything again, even if results are stored.")
@options.results_option
@options.answer_options(markdown=True)
def command(wanted: tuple[str, ...], fresh: bool, results: str | None, files: options.AnswerFiles) -> int:
    """Simulate jobs whose memory or step time others have measured on GPUs, and print both figures.

    The points are in tests/accuracy/measured/*.toml. Results are stored and reused. Results from --results are used
    even if another version of the probe simulated them.

    \b
    Exit codes: 0 every figure meets the goal or is explained; 1 one does not; 3 a figure has no prediction, because its job
    could not be simulated to its end; 4 no figure has one.
    """
    chosen = read_points(wanted)
    settings = options.load_settings(results=results)
    store = Store(settings.results)
    published: tuple[Result, ...] = ()
    if results is not None and not fresh:
        loaded = store.load()
        note_problems(loaded.problems)
        published = loaded.results
    installer, measuring = pipeline.new_installer(settings), measuring_settings(settings, store)
    with Progress() as progress:
        answers = simulated.simulate_points(chosen, measuring, installer, progress, published, fresh=fresh)
    write_answer(
        lambda: page.as_text(answers),
        (files.json, lambda: page.as_json(answers)),
        (files.markdown, lambda: page.as_markdown(answers)),
    )
    predicted = (figure.predicted_bytes is not None for found in answers for figure in found.figures)
    if not any(predicted) and all(found.step is None for found in answers):
        raise NothingMeasured("no point came to a figure", where="accuracy", hint="see the table for the reasons")
    if lacking := [found.point.name for found in incomplete(answers)]:
        print_note(f"not simulated to the end: {listing(lacking)}; see the answer for the reasons")
        return EXIT_HARNESS
    return EXIT_REGRESSION if any(not figure.explained for figure in missed(answers)) else EXIT_OK


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    try:
        code: int = command.main(arguments, prog_name="nox -s accuracy --", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE
    except HarnessError as error:
        print_note(f"error: {error}")
        return error.exit_code
    except signals.Interrupted as error:
        print_note("interrupted; what was simulated is stored")
        return 128 + error.number
    return code


if __name__ == "__main__":
    signals.catch()
    sys.exit(main())
