"""What tidegate requires of the process: a version of Spark, and the interpreter of its workers."""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, version

from ..errors import SetupError

SUPPORTED_SPARK = "4.2"


def require_supported_spark() -> None:
    """Raise SetupError for a version of PySpark that tidegate does not support."""
    loaded = sys.modules.get("pyspark")
    try:
        # spark-submit brings PySpark without its metadata.
        installed = version("pyspark") if loaded is None else str(loaded.__version__)
    except PackageNotFoundError:
        return
    if not installed.startswith(f"{SUPPORTED_SPARK}."):
        raise SetupError(
            f"unsupported pyspark {installed}: tidegate supports {SUPPORTED_SPARK}",
            "another version has other classes and another form of checkpoints.",
            f"pip install 'pyspark=={SUPPORTED_SPARK}.*', or a tidegate for pyspark {installed}.",
        )


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
