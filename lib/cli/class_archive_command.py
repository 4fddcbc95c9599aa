"""`tidegate class-archive`: an archive of Spark's classes for faster starts of the driver."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from ..spark.class_archive import create_class_archive
from ..spark.jars import jar_settings
from ..spark.session import archive_path, cds_options

ArchiveFile = Annotated[
    Path | None,
    typer.Option("--to", dir_okay=False, help="The archive.", show_default="next to the jars"),
]

_MEGABYTE = 1_000_000


def class_archive(to: ArchiveFile = None) -> None:
    """Archive the classes that Spark loads, so that a driver starts with less CPU time.

    Sessions that tidegate starts use the archive next to the jars. Re-create it after an update of
    Java or Spark; a JVM ignores an archive of another version.
    """
    file = (to or archive_path()).absolute()
    typer.echo("archiving the classes that Spark loads, about 30 seconds ...")
    started = time.monotonic()
    create_class_archive(file)
    size = file.stat().st_size / _MEGABYTE
    typer.echo(f"{file}: {size:,.0f} MB, after {time.monotonic() - started:.0f} s")
    jars = " ".join(f"--conf '{key}={path}'" for key, path in jar_settings("local").items())
    typer.echo(f"for spark-submit: {jars} --driver-java-options '{cds_options(file)}'")
