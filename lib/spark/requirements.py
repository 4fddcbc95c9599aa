"""The interpreter of Python workers."""

from __future__ import annotations

import os
import sys


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
