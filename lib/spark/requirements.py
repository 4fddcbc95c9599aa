"""What tidegate requires of the process: a version of Spark, and the interpreter of its workers."""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, version

from ..errors import SetupError

SUPPORTED_SPARK = ("4.0", "4.1", "4.2")
"""The supported versions of Spark, the oldest first; conf/ivy.xml has the jars of each."""
_FIRST_RELEASE = (4, 0, 1)
"""The first release with which Delta works."""


def require_supported_spark() -> None:
    """Raise SetupError for a version of PySpark that tidegate does not support."""
    try:
        installed = installed_pyspark()
    except PackageNotFoundError:
        return
    if not _is_supported(installed):
        versions = ", ".join(SUPPORTED_SPARK)
        first = ".".join(map(str, _FIRST_RELEASE))
        raise SetupError(
            f"unsupported pyspark {installed}: tidegate supports {versions}, from {first} on",
            "another version has other classes and another form of checkpoints.",
            f"pip install 'pyspark=={SUPPORTED_SPARK[-1]}.*', or a tidegate for pyspark "
            f"{installed}.",
        )


def installed_pyspark() -> str:
    """Return the version of PySpark, of the loaded package or else of the installed one.

    Raises PackageNotFoundError if there is none, or a package without metadata is not loaded yet,
    such as that of spark-submit.
    """
    loaded = sys.modules.get("pyspark")
    return version("pyspark") if loaded is None else str(loaded.__version__)


def spark_version() -> str:
    """Return the version of the installed Spark without its patch level, such as "4.2"."""
    return ".".join(installed_pyspark().split(".")[:2])


def _is_supported(installed: str) -> bool:
    numbers = tuple(int(part) for part in installed.split(".")[:3] if part.isdecimal())
    return ".".join(map(str, numbers[:2])) in SUPPORTED_SPARK and numbers >= _FIRST_RELEASE


def use_own_interpreter() -> None:
    """Make this interpreter that of Python workers, unless the caller has chosen one.

    Spark would use the first python3 of the PATH, which may lack the packages of the program.
    """
    if "PYSPARK_PYTHON" in os.environ:
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if "pyspark" in sys.modules:
        from pyspark import SparkContext

        context = SparkContext._active_spark_context
        # The executors of a cluster may have no such file.
        if context is not None and str(context.master).startswith("local"):
            context.pythonExec = sys.executable
