"""The notebooks run from top to bottom, and draw."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from pyspark.sql import SparkSession

import tidegate

ROOT = Path(tidegate.__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


class Shell(InteractiveShell):
    """IPython without a terminal and without windows."""

    def enable_gui(self, gui: str | None = None) -> None:
        """Do nothing: pictures are outputs of cells."""


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """IPython in this process, so that all notebooks share the tests' session."""
    monkeypatch.chdir(ROOT / "notebooks")
    backend = plt.get_backend()
    made = Shell.instance()
    made.run_line_magic("matplotlib", "inline")
    yield made
    plt.switch_backend(backend)
    Shell.clear_instance()


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_runs_from_top_to_bottom_and_draws(
    path: Path, shell: InteractiveShell, spark: SparkSession
) -> None:
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    drawn = 0
    for cell in notebook.cells:
        if cell.cell_type == "code":
            with capture_output() as seen:
                shell.run_cell(cell.source).raise_error()  # type: ignore[no-untyped-call]
            drawn += sum("image/png" in output.data for output in seen.outputs)
    assert drawn


def test_notebooks_are_executed_in_a_kernel_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "small.ipynb"
    cells = [nbformat.v4.new_code_cell("6 * 7")]  # type: ignore[no-untyped-call]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)  # type: ignore[no-untyped-call]
    notebook = runpy.run_path(str(ROOT / "notebooks" / "run.py"))["executed"](path)
    assert notebook.cells[0].outputs[0].data["text/plain"] == "42"
