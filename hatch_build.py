"""The addresses of the project, of which the release workflow sets the first one."""

from __future__ import annotations

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

VARIABLE = "TIDEGATE_REPO_URL"
"""The address of the repository; a package that is built without it has no addresses."""


class ProjectUrls(MetadataHookInterface):
    """Adds the addresses to the metadata of a built package."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the addresses that the environment has."""
        repository = os.environ.get(VARIABLE, "").rstrip("/")
        site = os.environ.get("TIDEGATE_SITE_URL", "")
        urls = {"Repository": repository, "Documentation": site}
        if repository:
            urls |= {
                "Changelog": f"{repository}/blob/main/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }
        metadata["urls"] = {name: url for name, url in urls.items() if url}
