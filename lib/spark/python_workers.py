"""The check that Spark's Python workers can import the packages of the program."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ..errors import SetupError

_LOG = logging.getLogger(__name__)
_APPLICATION_ID = "spark.app.id"
_FAILURES = (
    re.compile(r"No module named '[\w.]+'"),
    re.compile(r"Cannot run program \"[^\"]+\""),
    re.compile(r"\[PYTHON_VERSION_MISMATCH\][^\n]*"),
    re.compile(r"\[PACKAGE_NOT_INSTALLED\][^\n]*"),
    re.compile(r"\[UNSUPPORTED_PACKAGE_VERSION\][^\n]*"),
)
_checked_applications: set[str] = set()


def require_python_workers(spark: SparkSession) -> None:
    """Raise SetupError if a Python worker cannot start, or cannot import numpy and tidegate.

    A session that another program created can have workers with another interpreter. The check runs
    one task, once per Spark application.
    """
    application = spark.conf.get(_APPLICATION_ID, None) or ""
    if application in _checked_applications:
        return
    try:
        spark.range(0, 1, 1, 1).mapInArrow(_import_packages, "id BIGINT").collect()
    except (PySparkException, Py4JError) as error:
        text = str(error)
        reason = next((match[0] for each in _FAILURES if (match := each.search(text))), None)
        if reason is None:
            _LOG.debug("the check of Python workers failed", exc_info=True)
            return
        raise SetupError(
            f"Spark's Python workers cannot run tidegate: {reason}",
            f"the workers use the interpreter {_worker_interpreter()}, which lacks packages of "
            "the program or is another version of Python",
            "import tidegate before the session is created, or set PYSPARK_PYTHON to the "
            "interpreter with tidegate; on a cluster install tidegate on the executors",
        ) from None
    _checked_applications.add(application)


def _import_packages(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the batches; a worker imports tidegate to load this function."""
    import numpy  # noqa: F401

    yield from batches


def _worker_interpreter() -> str:
    context = SparkContext._active_spark_context
    return "python3" if context is None else str(context.pythonExec)
