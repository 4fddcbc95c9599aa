"""An archive of the classes that Spark loads, from which a JVM starts with less CPU time.

`tidegate classes` makes the archive. A JVM whose Java, Spark or class path is another one than the
archive's starts without it.
"""

from __future__ import annotations

from pathlib import Path

from .installation import jars_home

# By default a JVM that does not take an archive says so on its standard output.
SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def place() -> Path:
    """Return where the archive lies, beside the jars; it may not have been made."""
    return jars_home() / "classes.jsa"


def sharing(archive: Path) -> str:
    """Return the options of a JVM that starts from an archive; none where there is no archive.

    >>> sharing(Path("/nowhere/classes.jsa"))
    ''
    """
    return f"-XX:SharedArchiveFile={archive} {SILENT}" if archive.exists() else ""
