"""The options of a driver's JVM: what it starts from, and how Spark logs in it."""

from __future__ import annotations

from .class_archive import place, sharing
from .logs import spark_log


def java_options(more: str = "") -> str:
    """Return the options of a JVM that is started for Spark, after more of the caller's."""
    return " ".join(filter(None, [more, sharing(place()), spark_log()]))
