"""What every test may use: the library's own fixtures, and the library as a zip."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.runtime.process.installation import project_root

pytest_plugins = ["tidegate.testing.fixtures"]


@pytest.fixture(scope="session")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`tidegate` as a zip for --py-files: Spark's workers import from .zip, not from .whl, though a
    wheel is one."""
    folder = tmp_path_factory.mktemp("shipped")
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder),
        str(project_root()),
    ]
    subprocess.run(build, check=True, capture_output=True)
    return Path(shutil.copy(next(folder.glob("*.whl")), folder / "tidegate.zip"))
