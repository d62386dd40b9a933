"""``python -m skeletons WHAT FOLDER [--tiny] [--contents]``, in a measured environment.

The last line of stdout is its answer, see `skeletons.maker_answer`; the exit code of a refusal is 2.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from skeletons import make, make_pipeline
from skeletons.maker_answer import answer_line
from skeletons.pipelines import known_pipeline_name


def _say(answer: dict[str, object]) -> None:
    sys.stdout.write(answer_line(answer))


def main() -> int:
    """Make the skeleton that the command line names, print the answer, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m skeletons")
    parser.add_argument("what")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--contents", action="store_true")
    given = parser.parse_args()
    try:
        pipeline = known_pipeline_name(given.what)
        if pipeline is not None:
            files = make_pipeline.make_pipeline(pipeline, given.folder, shrunk=given.tiny, contents=given.contents)
        else:
            files = make.make_skeleton(given.what, given.folder, shrunk=given.tiny, contents=given.contents)
    except make.SkeletonError as error:
        _say({"error": str(error)})
        return 2
    except OSError as error:
        _say({"error": f"{error.filename or given.folder}: {error.strerror}"})
        return 2
    except ImportError as error:
        _say({"error": f"the environment has no {error.name}; name a stack that has it"})
        return 2
    _say({"files": files})
    return 0


if __name__ == "__main__":
    sys.exit(main())
