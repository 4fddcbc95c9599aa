"""`tidegate classes`: an archive of Spark's classes, from which drivers start sooner."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from ..runtime.process.archiving import archive
from ..runtime.process.class_archive import place, sharing
from ..runtime.process.class_path import jar_settings
from ..runtime.process.exit_codes import guarded

To = Annotated[
    Path | None,
    typer.Option("--to", dir_okay=False, help="The file; beside the jars, unless given."),
]

_MEGABYTE = 1_000_000


def classes(to: To = None) -> None:
    """Archive the classes that Spark loads, so that a driver starts with less CPU time.

    Sessions that tidegate starts take an archive that lies beside the jars. Make it anew after an
    update of Java or Spark: one that does not fit is passed over.
    """

    def work() -> None:
        file = (to or place()).absolute()
        typer.echo("archiving the classes that Spark loads, some half a minute ...", err=True)
        began = time.monotonic()
        archive(file)
        size = file.stat().st_size / _MEGABYTE
        typer.echo(f"{file}: {size:,.0f} MB, after {time.monotonic() - began:.0f} s")
        jars = " ".join(f"--conf '{key}={path}'" for key, path in jar_settings("local").items())
        typer.echo(f"spark-submit takes it with: {jars} --driver-java-options '{sharing(file)}'")

    raise typer.Exit(guarded(work))
