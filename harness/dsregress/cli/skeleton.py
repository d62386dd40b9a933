"""``skeleton CONFIG``: a checkpoint of the right shapes and sizes, without weights and without a download."""

from __future__ import annotations

from pathlib import Path

import click

from dsregress.cli import options
from dsregress.cli.building import built_here
from dsregress.cli.command_json import text_beside, write_command_json
from dsregress.config.variables import child_environment
from dsregress.errors import EnvironmentUnavailable, UsageError
from dsregress.model import Environment
from dsregress.probe.border import skeleton_maker
from dsregress.run import pipeline
from dsregress.wording.quantities import plural, quantity
from skeletons.maker_answer import SkeletonRefused


@click.command("skeleton")
@click.argument("config")
@click.option("--out", required=True, metavar="DIR", help="The folder to create.")
@click.option("--tiny", is_flag=True, help="Same architecture, with two layers, small sizes and weights.")
@options.stack_options
@options.json_option
def skeleton_command(config: str, out: str, tiny: bool, stacks: options.StackOptions, json_file: str | None) -> None:
    """Make a checkpoint without weights: configuration, tokenizer, and safetensors files that take no space.

    CONFIG is a config.json, a folder with one, or the name of a known model. Give DIR to your program instead of the model.
    transformers itself decides which tensors there are, in the release of the named stack, else of the last configured one.

    \b
    Examples:
      dsregress skeleton Qwen/Qwen2.5-7B --out qwen
      dsregress skeleton my-model/config.json --out mine --transformers 4.57.6
      dsregress skeleton meta-llama/Llama-3.1-70B --tiny --out small
    """
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError("already exists, and is not empty", where=out, hint="name another folder")
    environment = _built_environment(stacks)
    what = str(Path(config).absolute()) if Path(config).exists() else config
    python = environment.python
    try:
        files = skeleton_maker.make_skeleton(
            python, what, folder.absolute(), child_environment(), tiny=tiny, contents=tiny
        )
    except SkeletonRefused as error:
        raise UsageError(str(error), where="skeleton") from None
    except skeleton_maker.MakerFailed as error:
        hint = f"check that it works: {python} -c 'import transformers'"
        raise EnvironmentUnavailable(str(error), where=python, hint=hint) from None
    say = text_beside(json_file)
    for file in files:
        say(f"{file.name}  {_size_text(file.size_bytes, file.disk_bytes)}")
    size, disk = (sum(getattr(file, field) for file in files) for field in ("size_bytes", "disk_bytes"))
    say(f"{out}: {plural(len(files), 'file')}, {_size_text(size, disk)}")
    made = [{"name": file.name, "size_bytes": file.size_bytes, "disk_bytes": file.disk_bytes} for file in files]
    write_command_json(json_file, "skeleton", folder=out, files=made)


def _size_text(size_bytes: int, disk_bytes: int) -> str:
    return f"{quantity(size_bytes, 'bytes')}, {quantity(disk_bytes, 'bytes')} on disk"


def _built_environment(stacks: options.StackOptions) -> Environment:
    settings = options.load_settings()
    installer = pipeline.new_installer(settings)
    planned = pipeline.plan_stacks(settings, stacks.choice(), installer)
    if planned.existing:  # --python
        return planned.existing[-1]
    return built_here(planned.stacks[-1], settings, installer)
