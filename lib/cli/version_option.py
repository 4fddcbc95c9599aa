"""The option `tidegate --version`: the versions that decide what a job can use."""

from __future__ import annotations

import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from .. import __version__
from ..errors import SetupError
from ..spark.jars import java_path
from ..versions import installed_pyspark

_TIMEOUT_SECONDS = 60
_JAVA_VERSION = re.compile(r'version "([^"]+)"')


def version_lines() -> list[str]:
    """Return the versions of tidegate, Spark, Delta, Python and Java, without starting Spark."""
    return [
        f"tidegate {__version__}",
        f"Spark {installed_pyspark()}",
        f"Delta {_delta_version()}",
        f"Python {platform.python_version()}",
        f"Java {_java_version()}",
    ]


def _delta_version() -> str:
    try:
        return version("delta-spark")
    except PackageNotFoundError:
        return "not installed"


def _java_version() -> str:
    """Return the version of the Java that Spark would use; the reason if it does not run."""
    try:
        run = subprocess.run(
            [java_path(), "-version"], capture_output=True, text=True, timeout=_TIMEOUT_SECONDS
        )
    except (SetupError, OSError, subprocess.TimeoutExpired) as error:
        return f"not usable: {error}".splitlines()[0]
    match = _JAVA_VERSION.search(run.stderr + run.stdout)
    return match[1] if match else f"not usable: {java_path()} ended with code {run.returncode}"


def _print_versions(is_requested: bool) -> None:
    if is_requested:
        typer.echo("\n".join(version_lines()))
        raise typer.Exit


VersionOption = Annotated[
    bool,
    typer.Option(
        "--version",
        callback=_print_versions,
        is_eager=True,
        help="Print the versions of tidegate, Spark, Delta, Python and Java.",
    ),
]
