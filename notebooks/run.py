"""Execute all notebooks and store their outputs: `python notebooks/run.py`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
CELL_TIMEOUT_SECONDS = 300


@contextmanager
def open_kernel() -> Iterator[KernelManager]:
    """Start a kernel that executes notebooks in turn; they share its Spark session only."""
    # Unix sockets: a TCP port is chosen before it is bound, and another process, such as Spark,
    # could bind it in between.
    with TemporaryDirectory(prefix="tidegate-kernel-") as folder:
        sockets = f"{folder}/socket"
        manager = KernelManager(kernel_name="python3", transport="ipc", ip=sockets)
        manager.start_kernel(cwd=str(FOLDER))
        try:
            yield manager
        finally:
            manager.shutdown_kernel()


def execute_notebook(path: Path, manager: KernelManager) -> Any:
    """Execute a notebook and return it with its outputs, without those to standard error."""
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    _clear_names(manager)
    NotebookClient(notebook, timeout=CELL_TIMEOUT_SECONDS, km=manager).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if "outputs" in cell:
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


def _clear_names(manager: KernelManager) -> None:
    """Delete the names of the previous notebook from the kernel."""
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    client.execute_interactive("%reset -f", timeout=60, silent=True)
    client.stop_channels()


if __name__ == "__main__":
    with open_kernel() as shared:
        for path in sorted(FOLDER.glob("*.ipynb")):
            print(f"running {path.name}")
            nbformat.write(execute_notebook(path, shared), path)  # type: ignore[no-untyped-call]
