"""``accuracy``: memory and step time of published jobs on real GPUs, compared with the simulation's predictions."""

from __future__ import annotations

import click

from dsregress.advice.accuracy import incomplete, missed, points
from dsregress.cli import options
from dsregress.cli.lines import print_note
from dsregress.cli.output import note_problems, write_answer
from dsregress.cli.progress import Progress
from dsregress.cli.stored_results import measuring_settings
from dsregress.errors import EXIT_HARNESS, EXIT_OK, EXIT_REGRESSION, NothingMeasured
from dsregress.model import Result
from dsregress.report.answers import accuracy as accuracy_report
from dsregress.run import pipeline, published_points
from dsregress.store import Store
from dsregress.wording.quantities import listing


@click.command("accuracy")
@click.option("--point", "wanted", multiple=True, metavar="GLOB", help="Only these points. Repeatable.")
@click.option("--fresh", is_flag=True, help="Simulate everything again, even if results are stored.")
@options.results_option
@options.json_option
@options.markdown_option
def accuracy_command(
    wanted: tuple[str, ...], fresh: bool, results: str | None, json_file: str | None, markdown_file: str | None
) -> int:
    """Simulate jobs whose memory or step time others have measured on GPUs, and print both figures.

    The points are in harness/dsregress/advice/measured/points.toml. Results are stored and reused. Results from
    --results are used even if another version of the probe simulated them.

    \b
    Examples:
      accuracy
      accuracy --point 'gpt2_zero*' --point offload_states
      accuracy --markdown docs/accuracy.md

    \b
    Exit codes: 0 every figure meets the goal or is explained; 1 one does not; 3 a figure has no prediction, because its job
    could not be simulated to its end; 4 no figure has one.
    """
    chosen = points(wanted)
    settings = options.load_settings(results=results)
    store = Store(settings.results)
    published: tuple[Result, ...] = ()
    if results is not None and not fresh:
        loaded = store.load()
        note_problems(loaded.problems)
        published = loaded.results
    installer, measuring = pipeline.new_installer(settings), measuring_settings(settings, store)
    with Progress() as progress:
        answers = published_points.predict_points(chosen, measuring, installer, progress, published, fresh=fresh)
    write_answer(
        lambda: accuracy_report.as_text(answers),
        (json_file, lambda: accuracy_report.as_json(answers)),
        (markdown_file, lambda: accuracy_report.as_markdown(answers)),
    )
    predicted = (figure.predicted_bytes is not None for found in answers for figure in found.figures)
    if not any(predicted) and all(found.step is None for found in answers):
        raise NothingMeasured("no point came to a figure", where="accuracy", hint="the table says why")
    if lacking := [found.point.name for found in incomplete(answers)]:
        print_note(f"not simulated to the end: {listing(lacking)}; the answer says why")
        return EXIT_HARNESS
    return EXIT_REGRESSION if any(not figure.explained for figure in missed(answers)) else EXIT_OK
