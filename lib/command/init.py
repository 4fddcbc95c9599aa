"""`tidegate init`: a project of one's own, with a job, its configuration, a test and a Makefile."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ArgumentError
from ..runtime.process.exit_codes import guarded

Where = Annotated[Path, typer.Argument(help="The folder; made where it is not there.")]
Name = Annotated[str, typer.Option(help="The job's name, which its files bear too.")]

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TEMPLATE = "views"
_SUFFIX = ".txt"


def init(folder: Where, name: Name = _TEMPLATE) -> None:
    """Begin a project: a job in Python, its TOML file, a test of it, and a Makefile."""

    def work() -> None:
        made = begin(folder, name)
        typer.echo(f"Made in {folder}: {', '.join(made)}.")
        typer.echo(f"Next: cd {folder}, put your topic into {name}.toml, and make test.")

    raise typer.Exit(guarded(work))


def begin(folder: Path, name: str = _TEMPLATE) -> list[str]:
    """Write the files of a project, and return their names.

    Raises ArgumentError for a name that no module can have, and where one of the files is there.
    """
    if not _NAME.fullmatch(name):
        raise ArgumentError(
            f"--name {name!r}.", "small letters, digits and '_', a letter first.", "--name views"
        )
    texts = {
        file.name.removesuffix(_SUFFIX).replace(_TEMPLATE, name): file.read_text(encoding="utf-8")
        for file in sorted(files(__package__).joinpath("project").iterdir(), key=lambda f: f.name)
        if file.name.endswith(_SUFFIX)
    }
    there = [file for file in texts if (folder / file).exists()]
    if there:
        raise ArgumentError(
            f"{folder} has {', '.join(there)} already.", "a folder without these.", "another folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    title = "".join(part.capitalize() for part in name.split("_"))
    for file, text in texts.items():
        own = text.replace("@name@", name).replace("@Name@", title)
        (folder / file).write_text(own, encoding="utf-8")
    return list(texts)
