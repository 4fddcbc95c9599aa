"""Execute notebooks: `python notebooks/run.py` writes the outputs of all of them into their
files."""

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
SECONDS_A_CELL = 300


@contextmanager
def kernel() -> Iterator[KernelManager]:
    """Start a kernel for one notebook after another: they share its Spark session, and nothing
    else."""
    # Sockets that are files: a port of the machine is chosen before it is bound, and what takes it
    # in between (Spark's own sockets do) is sent the notebook's messages.
    with TemporaryDirectory(prefix="tidegate-kernel-") as folder:
        sockets = f"{folder}/socket"
        manager = KernelManager(kernel_name="python3", transport="ipc", ip=sockets)
        manager.start_kernel(cwd=str(FOLDER))
        try:
            yield manager
        finally:
            manager.shutdown_kernel()


def executed(path: Path, manager: KernelManager) -> Any:
    """Run a notebook from top to bottom and give it with its outputs, less what the JVM says on its
    error stream."""
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    _forget(manager)
    NotebookClient(notebook, timeout=SECONDS_A_CELL, km=manager).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if "outputs" in cell:
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


def _forget(manager: KernelManager) -> None:
    """Take the names of the notebook before out of the kernel."""
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    client.execute_interactive("%reset -f", timeout=60, silent=True)
    client.stop_channels()


if __name__ == "__main__":
    with kernel() as shared:
        for path in sorted(FOLDER.glob("*.ipynb")):
            print(f"running {path.name}")
            nbformat.write(executed(path, shared), path)  # type: ignore[no-untyped-call]
