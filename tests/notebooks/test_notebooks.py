"""The notebooks run from top to bottom, and draw."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import nbformat
import pytest

from docs._site.notebooks import pages
from tidegate.spark.jars import project_root

FOLDER = project_root() / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

pytestmark = pytest.mark.pages


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_runs_from_top_to_bottom_and_draws(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cells run in this process, in the session of the tests."""
    matplotlib.use("Agg")
    drawn: list[int] = []

    def show() -> None:
        drawn.extend(plt.get_fignums())
        plt.close("all")

    monkeypatch.setattr(plt, "show", show)
    monkeypatch.chdir(FOLDER)
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(read(path).cells):
        if cell.cell_type == "code":
            exec(compile(cell.source, f"{path.name}[{number}]", "exec"), names)
    assert drawn


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_links_of_a_notebook_lead_to_files_in_the_repository_and_in_the_site(path: Path) -> None:
    texts = [cell.source for cell in read(path).cells if cell.cell_type == "markdown"]
    files = re.findall(r"\]\(([^)#:]+)", "\n".join(texts))
    assert [file for file in files if not (FOLDER / file).exists()] == []
    page = pages()[f"notebooks/{path.stem}.md"]
    links = re.findall(r"\]\((\.\./[^)#]+\.md)", page)
    assert len(links) == len(files)
    assert [link for link in links if not (project_root() / "docs/guides" / link).exists()] == []


def test_a_kernel_executes_a_notebook_and_stores_its_pictures(tmp_path: Path) -> None:
    """As `make notebooks` does."""
    runner = runpy.run_path(str(FOLDER / "run.py"))
    notebook = read(NOTEBOOKS[0])
    source = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    notebook.cells = [nbformat.v4.new_code_cell(source)]  # type: ignore[no-untyped-call]
    path = tmp_path / "short.ipynb"
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
    with runner["open_kernel"]() as kernel:
        (cell,) = runner["execute_notebook"](path, kernel).cells
    assert [output for output in cell.outputs if "image/png" in output.get("data", {})]


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
