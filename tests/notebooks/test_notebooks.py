"""The notebooks run from top to bottom, and draw."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import pytest

import tidegate

pytestmark = pytest.mark.slow

ROOT = Path(tidegate.__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
OF_THE_DRIVER = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_runs_from_top_to_bottom_and_draws(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OF_THE_DRIVER:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    notebook = runpy.run_path(str(ROOT / "notebooks" / "run.py"))["executed"](path)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert [output for output in outputs if "image/png" in output.get("data", {})]
