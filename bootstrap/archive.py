"""Archive the classes that Spark loads, for the tests' JVMs: `python -m bootstrap.archive`.

This takes a minute of CPU time, and saves some ten seconds of each JVM that starts later."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tidegate.runtime.process.class_archive import SILENT, place
from tidegate.runtime.process.submit import command, environment


def make(archive: Path) -> None:
    """Run some of what jobs do, and keep the classes that this has loaded.

    The file gets its name when it is whole, since a JVM can crash by a part of one."""
    part = archive.with_suffix(".part")
    archive.unlink(missing_ok=True)
    part.unlink(missing_ok=True)
    java = f"-XX:ArchiveClassesAtExit={part} -XX:+UseSerialGC {SILENT}"
    script = Path(__file__).with_name("load_classes.py")
    line = command(script, conf={"spark.ui.enabled": "false"}, java=java)
    done = subprocess.run(line, env=environment(), capture_output=True, text=True)
    if done.returncode or not part.exists():
        sys.exit(f"the classes were not archived:\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    part.rename(archive)


if __name__ == "__main__":
    make(place())
