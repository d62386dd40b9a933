"""Keeps the network, and trackers that need it, off by environment variables and the libraries' own switches. Connections
made despite these are refused (`world.local_sockets`).

Variables are set for the process and its children, and restored. A library that was imported before has already read
them, so its switch, if it has one, is set as well.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from dsregress.programs.world import local_sockets
from vgpu.json_tables import decoded_entries, decoded_text, table_beside
from vgpu.replacing import Patches, variables

VARIABLES = {name: decoded_text(value) for name, value in decoded_entries(table_beside(__file__)["variables"]).items()}

#: Module, name, and the releases that have it.
_SWITCHES: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("huggingface_hub.constants", "HF_HUB_OFFLINE", {}),
    ("transformers.utils.hub", "_is_offline_mode", {"until": "transformers 4"}),
    ("datasets.config", "HF_DATASETS_OFFLINE", {}),
    ("datasets.config", "HF_HUB_OFFLINE", {"since": "datasets 3.0"}),
)


@contextlib.contextmanager
def no_network() -> Iterator[None]:
    """Keep the Hugging Face libraries offline, trackers that send off, and uploads from happening within the block."""
    with (
        local_sockets.local_sockets_only(),
        variables(VARIABLES),
        Patches("no network, no trackers that send, no uploads") as patches,
    ):
        for module, name, releases in _SWITCHES:
            if module in sys.modules:
                patches.replace(sys.modules[module], name, True, **releases)
        _quiet_hub(patches)
        _report_here_alone(patches)
        yield


#: The trackers that write files here and send nothing, as transformers names them: by `VARIABLES`, if not by themselves.
_WRITE_HERE = frozenset(("tensorboard", "wandb", "mlflow"))


def _report_here_alone(patches: Patches) -> None:
    """Make ``report_to`` name no tracker but those that write files, whichever are requested: what is not installed is not
    missed. The callback of a tracker is code of the release, and may fail."""
    try:
        from transformers.integrations import integration_utils as integrations
    except ImportError:
        return
    callbacks_of = integrations.get_reporting_integration_callbacks

    def callbacks_here(report_to: str | list[str] | None) -> list[object]:
        named = [report_to] if isinstance(report_to, str) else report_to or []
        here = [name for name in integrations.get_available_reporting_integrations() if name in _WRITE_HERE]
        return list(callbacks_of([name for name in here if name in named or "all" in named]))

    patches.definition(integrations, "get_reporting_integration_callbacks", callbacks_here)


def _quiet_hub(patches: Patches) -> None:
    """Make uploads (``push_to_hub``) succeed without sending anything."""
    try:
        from huggingface_hub import hf_api
    except ImportError:
        return

    def create_repo(self: object, repo_id: str, **options: object) -> object:
        return hf_api.RepoUrl(f"https://huggingface.co/{repo_id if '/' in repo_id else 'local/' + repo_id}")

    def upload(self: object, *arguments: object, **options: object) -> None:
        return None

    made = {
        "create_repo": create_repo,
        **dict.fromkeys(("upload_folder", "upload_file", "create_commit", "create_branch"), upload),
    }
    for name, method in made.items():
        patches.definition(hf_api.HfApi, name, method)
