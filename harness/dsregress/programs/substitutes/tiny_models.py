"""``--tiny``: builds models of transformers from a shrunk configuration (`skeletons.tiny`).

A configuration is shrunk where it enters: when it is read from a file or a name, and when a model is built from one that
the program made itself. Before that, the program's own configuration object has the sizes that it set.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from skeletons import tiny
from vgpu.replacing import Patches

#: No shrunk vocabulary is smaller.
_FEWEST_TOKENS = 128

#: By how much of a vocabulary a program hardly enlarges it.
_MOST_ADDED = 0.25


def beyond_vocabulary(error: BaseException) -> str:
    """Return a line if the program's own token ids exceed the vocabulary that `skeletons.tiny` shrank; ""
    for any other error. An embedding that a release failed to enlarge is only a few rows short, or has none."""
    if not isinstance(error, IndexError):
        return ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        ids, weight = frame.f_locals.get("input"), frame.f_locals.get("weight")
        if frame.f_code.co_name == "embedding" and ids is not None and weight is not None:
            largest, rows = int(ids.max()), weight.shape[0]
            if rows >= _FEWEST_TOKENS and largest >= rows * (1 + _MOST_ADDED):
                return f"token id {largest} is beyond the {rows} tokens of a model that --tiny shrank"
    return ""


@contextlib.contextmanager
def shrunk_models(substitute: Callable[[Any], Any], seen: set[str]) -> Iterator[None]:
    """Shrink configurations within the block. ``substitute`` returns what a model is loaded from instead of a given
    folder; the names of the classes whose configurations were shrunk are added to ``seen``."""
    try:
        from transformers import configuration_utils, modeling_utils
        from transformers.models.auto import auto_factory
    except ImportError:
        yield
        return
    configuration = base_configuration(configuration_utils)
    model, auto = modeling_utils.PreTrainedModel, auto_factory._BaseAutoModelClass

    def small(value: object) -> Any:
        if isinstance(value, configuration):
            tiny.shrink_config(value)
            seen.add(type(value).__name__)
        return value

    def small_inputs(original: Any) -> Any:
        """Return the function with shrunk configurations among its arguments and a substituted folder to load from."""

        @functools.wraps(original)
        def wrapped(first: object, *args: object, **options: object) -> Any:
            name = "pretrained_model_name_or_path"
            if name in options:
                options[name] = substitute(options[name])
            elif args:
                args = (substitute(args[0]), *args[1:])
            for value in (*args, *options.values()):
                small(value)
            return original(first, *args, **options)

        return wrapped

    def small_result(original: Any) -> Any:
        @functools.wraps(original)
        def wrapped(*args: object, **options: object) -> Any:
            result = original(*args, **options)
            small(result[0] if isinstance(result, tuple) else result)
            return result

        return wrapped

    with Patches("models are shrunk") as patches:

        def wrap(owner: Any, name: str, wrapper: Any) -> None:
            held = inspect.getattr_static(owner, name, None)
            if isinstance(held, classmethod):
                patches.replace(owner, name, classmethod(wrapper(held.__func__)))
            else:
                patches.replace(owner, name, wrapper(held))

        wrap(configuration, "from_dict", small_result)
        wrap(configuration, "get_config_dict", small_inputs)
        for owner, name in ((model, "_from_config"), (auto, "from_config")):
            wrap(owner, name, small_inputs)
            wrap(owner, "from_pretrained", small_inputs)
        wrap(model, "__init__", small_inputs)
        yield


def is_larger(folder: Any) -> bool:
    """Return True if the configuration in a folder would be shrunk."""
    import transformers

    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        fields = json.load(file)
    try:
        config = type(transformers.AutoConfig.for_model(fields.get("model_type"))).from_dict
    except (ValueError, KeyError):
        return False  # the program's own class, shrunk when it is built
    untouched = getattr(config, "__wrapped__", None)
    held = config.__func__.__wrapped__(config.__self__, fields) if untouched is not None else config(fields)
    return tiny.shrink_config(held)


def base_configuration(configuration_utils: Any) -> Any:
    """Return the class that all configurations extend; its spelling changed in transformers 5."""
    return getattr(configuration_utils, "PreTrainedConfig", None) or configuration_utils.PretrainedConfig
