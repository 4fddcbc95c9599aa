"""The notebooks run from top to bottom, and draw."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import pytest

import tidegate

pytestmark = pytest.mark.slow

ROOT = Path(tidegate.__file__).parents[1]
OF_THE_DRIVER = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")


@pytest.mark.timeout(1800)
def test_the_notebooks_run_from_top_to_bottom_and_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OF_THE_DRIVER:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    runner = runpy.run_path(str(ROOT / "notebooks" / "run.py"))
    paths = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert len(paths) > 3
    with runner["kernel"]() as kernel:
        for path in paths:
            notebook = runner["executed"](path, kernel)
            outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
            assert [each for each in outputs if "image/png" in each.get("data", {})], path.name
