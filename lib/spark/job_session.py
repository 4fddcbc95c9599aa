"""The session of a job: a copy of the caller's, with the settings that its results require."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from pyspark.sql import SparkSession

from ..errors import ConfigError, SetupError
from ..jvm import copy_session, require_pinned_threads, set_active_session, zero_digit
from .result_settings import apply_result_settings, require_result_settings
from .session import require_connectors

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def in_job_session(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Call a function with the session of a job as its argument `spark`; see `job_session`."""
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        bound = signature.bind(*args, **kwargs)
        with job_session(bound.arguments["spark"]) as bound.arguments["spark"]:
            return function(*bound.args, **bound.kwargs)

    return call


@contextmanager
def job_session(spark: SparkSession) -> Iterator[SparkSession]:
    """Yield a copy of a session, in which results do not depend on the caller's settings.

    The copy has the temporary views, functions and settings of the session, but for those of
    `SETTINGS`. The session itself stays as it is.

    Raises:
        SetupError: for a Spark Connect session, and for a session without Delta or Kafka.
        ConfigError: for a setting that would change results or guarantees.
    """
    require_job_session(spark)
    copy = copy_session(spark)
    apply_result_settings(copy)
    active_session = SparkSession.getActiveSession()
    try:
        yield copy
    finally:
        set_active_session(active_session or spark)


def require_job_session(spark: SparkSession) -> None:
    """Refuse a session in which no job can run; raises what `job_session` raises."""
    if not isinstance(spark, SparkSession):
        raise SetupError(
            f"the session is not a classic Spark session: {type(spark).__module__}."
            f"{type(spark).__name__}",
            "Spark Connect has no access to the Delta log and to the running query.",
            "use tidegate.spark_session(...), or spark-submit.",
        )
    require_connectors(spark)
    require_pinned_threads(spark)
    zero = zero_digit(spark)
    if zero != "0":
        raise ConfigError(
            f"invalid user.language of the JVM: its digit 0 is {zero!r}, and the names of files "
            "would have such digits",
            "a locale with the digits 0 to 9",
            "-Duser.language=en in spark.driver.extraJavaOptions and "
            "spark.executor.extraJavaOptions",
        )
    require_result_settings(spark)
