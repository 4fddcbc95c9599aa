"""Execute notebooks: `python notebooks/run.py` writes the outputs of all of them into their
files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
SECONDS_A_CELL = 300


def executed(path: Path) -> Any:
    """Run a notebook from top to bottom and give it with its outputs, less what the JVM says on its
    error stream."""
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(notebook, timeout=SECONDS_A_CELL, resources={"metadata": {"path": str(FOLDER)}})
    client.execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if "outputs" in cell:
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        print(f"running {path.name}")
        nbformat.write(executed(path), path)  # type: ignore[no-untyped-call]
