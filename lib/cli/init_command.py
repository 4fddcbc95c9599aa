"""`tidegate init`: a new project with a job, its configuration, a test and a Makefile."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ArgumentError

Folder = Annotated[Path, typer.Argument(help="The folder; created if it does not exist.")]
Name = Annotated[str, typer.Option(help="The name of the job and of its files.")]

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TEMPLATE = "views"
_SUFFIX = ".txt"


def init(folder: Folder, name: Name = _TEMPLATE) -> None:
    """Create a project: a job in Python, its TOML file, a test, and a Makefile."""
    file_names = write_project(folder, name)
    typer.echo(f"Created in {folder}: {', '.join(file_names)}.")
    typer.echo(f"Next: cd {folder}, set your topic in {name}.toml, and run make test.")


def write_project(folder: Path, name: str = _TEMPLATE) -> list[str]:
    """Write the files of a project and return their names.

    Raises ArgumentError if the name is not a valid module name, or if one of the files exists.

    >>> import tempfile
    >>> write_project(Path(tempfile.mkdtemp()))
    ['Makefile', 'README.md', 'conftest.py', 'test_views.py', 'views.py', 'views.toml']
    """
    if not _NAME.fullmatch(name):
        raise ArgumentError(
            f"invalid --name: {name!r}",
            "lowercase letters, digits and '_', starting with a letter",
            "--name views",
        )
    texts = {
        file.name.removesuffix(_SUFFIX).replace(_TEMPLATE, name): file.read_text(encoding="utf-8")
        for file in sorted(files(__package__).joinpath("project").iterdir(), key=lambda f: f.name)
        if file.name.endswith(_SUFFIX)
    }
    existing = [file for file in texts if (folder / file).exists()]
    if existing:
        raise ArgumentError(
            f"invalid folder: {str(folder)!r} already contains {', '.join(existing)}",
            "a folder without these files",
        )
    folder.mkdir(parents=True, exist_ok=True)
    title = "".join(part.capitalize() for part in name.split("_"))
    for file, text in texts.items():
        content = text.replace("@name@", name).replace("@Name@", title)
        (folder / file).write_text(content, encoding="utf-8")
    return list(texts)
