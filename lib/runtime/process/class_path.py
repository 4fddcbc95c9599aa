"""How a session gets the jars of Delta and Kafka."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from ...local_cores import local_cores
from .installation import jars

# Added to what an installation has as spark.driver.extraClassPath, which then still counts.
_CLASS_PATH = "spark.driver.defaultExtraClassPath"

WITH_SUBMIT = (
    "with spark-submit: --properties-file conf/spark-defaults.conf --jars '.jars/spark/*.jar'."
)
"""What a user is told who started Spark without the jars."""


def jar_settings(master: str) -> dict[str, str]:
    """Return the settings that bring a session the jars.

    They are on the class path of the driver's JVM, so that an archive of classes holds theirs too,
    which it does for no jar that Spark loads later. A cluster's executors fetch them.

    >>> list(jar_settings("local[2]")), list(jar_settings("spark://host:7077"))
    (['spark.driver.defaultExtraClassPath'], ['spark.driver.defaultExtraClassPath', 'spark.jars'])
    """
    found = jars("spark")
    brought = {_CLASS_PATH: str(found[0].parent.absolute() / "*")}
    if not local_cores(master):
        brought["spark.jars"] = ",".join(map(str, found))
    return brought


def jars_given(spark: SparkSession) -> list[Path]:
    """Return the jars that a session's settings bring, as `jar_settings` or a user wrote them."""
    fetched = (spark.conf.get("spark.jars", None) or "").split(",")
    all_of = spark.conf.get(_CLASS_PATH, None)
    mapped = sorted(Path(all_of).parent.glob("*.jar")) if all_of else []
    return [*(Path(jar) for jar in fetched if jar), *mapped]
