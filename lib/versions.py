"""The supported versions of Spark, and the features that an older one lacks."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version

from .errors import SetupError

SUPPORTED_SPARK = ("4.0", "4.1", "4.2")
"""The supported versions of Spark, the oldest first; conf/ivy.xml has the jars of each."""
_FIRST_RELEASE = (4, 0, 1)
"""The first release with which Delta works."""
UNSUPPORTED = "unsupported with pyspark"
"""The beginning of the error of a feature that requires a newer Spark."""


def installed_pyspark() -> str:
    """Return the version of PySpark, of the loaded package or else of the installed one.

    Raises PackageNotFoundError if PySpark is not loaded and has no metadata, as with spark-submit.
    """
    loaded = sys.modules.get("pyspark")
    return version("pyspark") if loaded is None else str(loaded.__version__)


def spark_version() -> str:
    """Return the version of Spark without its patch level, such as "4.2"."""
    return ".".join(map(str, _numbers(installed_pyspark())[:2]))


def is_spark_at_least(minimum: str) -> bool:
    """Return whether the version of Spark is this one, such as "4.1", or a newer one."""
    return _numbers(spark_version()) >= _numbers(minimum)


def require_spark(minimum: str, feature: str) -> None:
    """Raise SetupError if Spark is older than the version that a feature requires.

    >>> require_spark("4.0", "reading from Kafka")
    """
    if not is_spark_at_least(minimum):
        raise SetupError(
            f"{UNSUPPORTED} {installed_pyspark()}: {feature} requires Spark {minimum}",
            f"an older Spark lacks functions that {feature} uses.",
            f"pip install 'pyspark=={SUPPORTED_SPARK[-1]}.*'",
        )


def require_supported_spark() -> None:
    """Raise SetupError for a version of PySpark that tidegate does not support."""
    try:
        installed = installed_pyspark()
    except PackageNotFoundError:
        return
    if spark_version() not in SUPPORTED_SPARK or _numbers(installed) < _FIRST_RELEASE:
        versions = ", ".join(SUPPORTED_SPARK)
        first = ".".join(map(str, _FIRST_RELEASE))
        raise SetupError(
            f"unsupported pyspark {installed}: tidegate supports {versions}, from {first} on",
            "another version has other classes and another form of checkpoints.",
            f"pip install 'pyspark=={SUPPORTED_SPARK[-1]}.*', or a tidegate for pyspark "
            f"{installed}.",
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdecimal())
