"""Gives a program its models without a download.

    with local_weights(folder, tiny=False, contents=False) as weights:
        ...  # the program

Within the block, a model that a program names is, in this order: the files at that path; the user's Hugging Face cache;
a *skeleton* (`skeletons`) of a model whose configuration is cached or known, made in ``folder`` when it is
first needed. Anything else is one line (`NotHere`).

Replaced are those functions of huggingface_hub which fetch a file. Everything above them is the real code, which loads
the configuration, tokenizer and weights from files. With ``tiny``, models of transformers are shrunk by their
configuration (`substitutes.tiny_models`). With ``contents``, weights are a function of their names (`cpu`);
otherwise they read as zeros (`sim`, where nothing reads them).
"""

from __future__ import annotations

import contextlib
import functools
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dsregress.programs.substitutes import synthetic_files, tiny_models
from dsregress.programs.substitutes.needed_skeletons import Skeletons
from dsregress.programs.substitutes.unread_weights import unread_weights
from dsregress.programs.substitutes.unwritten_weights import unwritten_weights
from dsregress.programs.world import offline
from dsregress.programs.world.resource_errors import NotHere
from skeletons.hub_names import has_own_code, is_called_after_another, known_model_name, nearest_known_name
from skeletons.known_models import known_models
from skeletons.pipelines import known_pipeline_name, known_pipelines
from vgpu.error_chain import behind
from vgpu.replacing import Patches

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")

#: Which release of huggingface_hub has a method of ``HfApi`` first.
_SINCE = dict.fromkeys(("file_exists", "repo_exists"), "huggingface_hub 0.17") | {
    "resolve_revision": "huggingface_hub 2"
}


@contextlib.contextmanager
def local_weights(
    folder: str | os.PathLike[str], tiny: bool = False, contents: bool = False, without: bool = False
) -> Iterator[LocalWeights]:
    """Load models within the block as the module describes. ``folder`` may be shared by ranks and runs: its entries are
    named by their content. ``without``: a file of weights of an unknown repository is a made-up one
    (`substitutes.absent_weights`)."""
    weights = LocalWeights(Skeletons(Path(folder), tiny=tiny, contents=contents), without)
    with Patches("models without a download") as patches:
        patches.enter_context(offline.no_network())
        _answer_hub(patches, weights)
        _pass_errors_on(patches)
        patches.enter_context(warnings.catch_warnings())
        # In sim, what is loaded has contents and its target has none, which torch takes for a mistake.
        warnings.filterwarnings("ignore", message=".*copying from a non-meta parameter in the checkpoint to a meta")
        if not contents:
            patches.enter_context(unread_weights())
            patches.enter_context(unwritten_weights())
        for path, name in synthetic_files.absent_models().items():
            weights.put_in(name, path)
        if tiny:
            patches.enter_context(tiny_models.shrunk_models(weights.substitute, weights.shrunk))
        yield weights


class LocalWeights:
    """The models that a program was given."""

    def __init__(self, skeletons: Skeletons, without: bool = False) -> None:
        self.skeletons = skeletons
        self.without = without
        self.shrunk: set[str] = set()  #: classes of the configurations that were shrunk
        self._folders: dict[tuple[str, str], Path | None] = {}
        self._caches: dict[str, Any] = {}  #: the program's own cache folders
        self.cached: Any = lambda *_, **__: None  #: huggingface_hub's own ``try_to_load_from_cache``

    def folder(self, name: str, cache: object = None) -> Path | None:
        """Return the skeleton of a model; None if the user has the real one. Raise NotHere if there is neither."""
        key = (name, str(cache or ""))
        self._caches.setdefault(key[1], cache)  # some look-ups for one model have its cache_dir, and some lack it
        if key not in self._folders:
            places = [cache, *(other for other in self._caches.values() if other != cache)]
            found = (self.cached(name, "config.json", cache_dir=place) for place in places)
            config = next((path for path in found if isinstance(path, str)), None)
            if config is not None:
                real = Path(config).parent
                whole = any(file.suffix in _WEIGHTS for file in real.iterdir())
                self._folders[key] = None if whole and not self.skeletons.tiny else self.skeletons.of(str(real), name)
            elif (known := known_model_name(name) or known_pipeline_name(name)) is not None:
                own = name if is_called_after_another(name) else known
                self._folders[key] = self.skeletons.of(own, own)
            else:
                raise NotHere(f"{name} is not here, and {_unknown(name)}", _made_known(name))
        return self._folders[key]

    def of_file(self, name: str, file: str, cache: object = None) -> Path | str | None:
        """Return the skeleton as `folder` does, or the path of a made-up file of weights in place of that of an unknown
        repository."""
        try:
            return self.folder(name, cache)
        except NotHere as absence:
            if not synthetic_files.is_of_weights(file):
                raise
            if not self.without:
                what = f"{name} is not here, and {_unknown(name)}"
                raise NotHere(what, "give --synthetic-data to keep initial weights") from absence
            return synthetic_files.file_of_weights(file)

    def put_in(self, name: str, path: str) -> None:
        """Put a known model where a program looks for a folder of it: the user's own if it is in the cache."""
        found = self.folder(name)
        if found is None:
            found = Path(str(self.cached(name, "config.json"))).parent
        _linked(found, _file_names(found), path)

    def known(self, name: str, cache: object = None) -> Path | None:
        """Return the skeleton as `folder` does, but None instead of an error."""
        try:
            return self.folder(name, cache)
        except NotHere:
            return None

    def substitute(self, given: object) -> Any:
        """Return the folder of a shrunk model in place of a user's folder with a larger one; anything else unchanged."""
        if not isinstance(given, (str, os.PathLike)) or not os.path.isfile(os.path.join(given, "config.json")):
            return given
        if Path(given).resolve().is_relative_to(self.skeletons.folder.resolve()) or not tiny_models.is_larger(given):
            return given
        return str(self.skeletons.of(os.path.abspath(given), f"local/{os.path.basename(os.path.abspath(given))}"))


def _unknown(name: str) -> str:
    """Return the reason for which a model has no skeleton."""
    return "its classes are code of its repository" if has_own_code(name) else "no known model"


def _made_known(name: str) -> str:
    """Return the next step for a model that is not known: libraries take a folder of its name, where the program is
    launched, for the model."""
    nearest = nearest_known_name(name, [*known_models(), *known_pipelines()])
    made = f"`skeleton config.json --out {name}` makes it"
    if has_own_code(name):
        made += ", with the Python files of its repository beside config.json"
    return made + (f", or name {nearest}, which is known" if nearest else "")


def _pass_errors_on(patches: Patches) -> None:
    """Let NotHere through: transformers replaces every error of its search for a configuration with advice about the
    hub."""
    try:
        from transformers import configuration_utils
    except ImportError:
        return
    kind = tiny_models.base_configuration(configuration_utils)
    original = vars(kind)["get_config_dict"].__func__

    @functools.wraps(original)
    def get_config_dict(cls: object, *args: Any, **options: Any) -> Any:
        try:
            return original(cls, *args, **options)
        except OSError as error:
            absence = behind(error, NotHere)
            if absence is not None:
                raise absence from None
            raise

    patches.replace(kind, "get_config_dict", classmethod(get_config_dict))


def _answer_hub(patches: Patches, weights: LocalWeights) -> None:
    """Replace the functions that fetch files or describe repositories. Repositories of data sets are unaffected."""
    try:
        import huggingface_hub
        from huggingface_hub import _snapshot_download, file_download, hf_api
    except ImportError:
        return
    missing = huggingface_hub._CACHED_NO_EXIST
    download, load, snapshot = (
        file_download.hf_hub_download,
        file_download.try_to_load_from_cache,
        _snapshot_download.snapshot_download,
    )
    weights.cached = load

    def ours(repo_id: Any, repo_type: object) -> bool:
        return repo_type in (None, "model") and not os.path.isdir(repo_id)

    def hf_hub_download(repo_id: str, filename: str, **options: Any) -> str:
        cache = options.get("cache_dir")
        if not ours(repo_id, options.get("repo_type")):
            return str(download(repo_id, filename, **options))
        name = "/".join(part for part in (options.get("subfolder"), filename) if part)
        real = load(repo_id, name, cache_dir=cache, revision=options.get("revision"))
        if isinstance(real, str) and not (weights.skeletons.tiny and weights.known(repo_id, cache)):
            return real  # also of a repository without a config.json: an adapter
        folder = weights.of_file(repo_id, name, cache)
        if folder is None:
            return str(download(repo_id, filename, **options))
        if isinstance(folder, str):
            return folder
        if not (folder / name).is_file():
            raise _not_found(f"{repo_id} has no {name}")
        return str(_linked(folder, [name], options.get("local_dir")) / name)

    def try_to_load_from_cache(repo_id: str, filename: str, *args: object, **options: object) -> Any:
        names = ("cache_dir", "revision", "repo_type")
        options = {**dict(zip(names, args)), **options}
        folder = None
        if ours(repo_id, options.get("repo_type")):
            folder = weights.known(repo_id, options.get("cache_dir"))
        if folder is None:
            return load(repo_id, filename, **options)
        return str(folder / filename) if (folder / filename).is_file() else missing

    def snapshot_download(repo_id: str, **options: object) -> str:
        folder = None
        if ours(repo_id, options.get("repo_type")):
            folder = weights.folder(repo_id, options.get("cache_dir"))
        if folder is None:
            return str(snapshot(repo_id, **options))
        return str(_linked(folder, _file_names(folder), options.get("local_dir")))

    for original, made in ((download, hf_hub_download), (load, try_to_load_from_cache), (snapshot, snapshot_download)):
        patches.everywhere(original, made, original.__name__)
    for name, made_of in _descriptions(hf_api, weights, ours).items():
        if patches.has(hf_api.HfApi, name, since=_SINCE.get(name, "")):
            patches.definition(hf_api.HfApi, name, made_of(getattr(hf_api.HfApi, name)))


def _descriptions(hf_api: Any, weights: LocalWeights, ours: Any) -> dict[str, Any]:
    """Return, for methods of ``HfApi``, the function that makes a replacement from the original."""

    def answered(answer: Any) -> object:
        def of(original: Any) -> Any:
            def method(self: object, repo_id: str, *args: object, **options: object) -> Any:
                is_ours = ours(repo_id, options.get("repo_type"))
                folder = weights.known(repo_id, options.get("cache_dir")) if is_ours else None
                return (
                    original(self, repo_id, *args, **options)
                    if folder is None
                    else answer(repo_id, folder, *args, **options)
                )

            return method

        return of

    def info(repo_id: str, folder: Path, *_: object, **__: object) -> object:
        return hf_api.ModelInfo(
            id=repo_id, sha=folder.name, private=False, disabled=False, gated=False, downloads=0, likes=0, tags=[],
            siblings=[{"rfilename": name} for name in _file_names(folder)], library_name="transformers",
        )  # fmt: skip

    return {
        "model_info": answered(info),
        "repo_info": answered(info),
        "list_repo_files": answered(lambda repo_id, folder, *_, **__: _file_names(folder)),
        "file_exists": answered(lambda repo_id, folder, filename, **_: (folder / filename).is_file()),
        "repo_exists": answered(lambda *_, **__: True),
        # transformers 5 calls this first; of its look-ups for an adapter only this one has the program's cache_dir.
        "resolve_revision": answered(lambda *_, revision=None, **__: revision),
    }


def _file_names(folder: Path) -> list[str]:
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())


def _linked(folder: Path, names: list[str], target: Any) -> Path:
    """Return the folder, or the program's own, ``target``, with links to its files."""
    if target is None:
        return folder
    for name in names:
        place = Path(target) / name
        place.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # it is the program's, or another rank was faster
            place.symlink_to(folder / name)
    return Path(target)


def _not_found(message: str) -> Exception:
    """Return the hub's error for a file that a repository lacks. Releases differ in the arguments of its constructor."""
    from huggingface_hub.utils import EntryNotFoundError

    try:
        return EntryNotFoundError(message)
    except TypeError:
        error = EntryNotFoundError.__new__(EntryNotFoundError)
        error.args = (message,)
        return error
