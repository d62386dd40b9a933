"""Name the repository that builds a release in its metadata. Only the workflow that builds it knows which one that is."""

from __future__ import annotations

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class RepositoryUrls(MetadataHookInterface):
    """Fill in ``project.urls`` from GitHub's variables; elsewhere there are none."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the URLs of a distribution."""
        server, repository = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
        if not server or not repository:
            return
        home = f"{server}/{repository}"
        metadata["urls"] = {
            "Homepage": home,
            "Documentation": f"{home}#documentation",
            "Changelog": f"{home}/blob/HEAD/CHANGELOG.md",
            "Issues": f"{home}/issues",
            "Security": f"{home}/blob/HEAD/SECURITY.md",
        }
