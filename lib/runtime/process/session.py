"""The Spark session of a job.

It has the settings of conf/spark-defaults.conf, the jars, and a preset for small machines.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from ...errors import SetupError
from ...jvm import find_at_once, has_class
from ...local_cores import local_cores
from ..config.secrets import SECRET
from .class_path import WITH_SUBMIT, jar_settings
from .installation import conf as conf_text
from .java_options import java_options
from .local_files import use_bare_files
from .presets import PARTITIONS, SNAPSHOT, Preset, settings_of

_LOG = logging.getLogger(__name__)

SMALL = (PARTITIONS, SNAPSHOT)
"""On one machine these are its cores, if the settings file alone has set them: more only cost
time."""

_CLASSES = {
    "org.apache.spark.sql.delta.DeltaLog": "Delta (delta-spark)",
    "org.apache.spark.sql.kafka010.KafkaSourceProvider": "Kafka (spark-sql-kafka-0-10)",
}
_NEEDED = ("spark.sql.extensions", "spark.sql.catalog.spark_catalog")
"""The settings without which no sink can write."""

BUILT_IN = {
    "spark.master": "local[*]",
    "spark.redaction.regex": SECRET,
    # Spark's own bar would overwrite the job's line.
    "spark.ui.showConsoleProgress": "false",
}


def spark_session(
    name: str,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    preset: Preset | None = None,
    partitions: int | None = None,
) -> SparkSession:
    """Return a Spark session with Delta, Kafka and RocksDB state.

    A setting counts in this order: `conf`, `master` and `partitions` of this call, what
    spark-submit or the environment has set, the `preset`, conf/spark-defaults.conf. Without a
    master it is local[*]. The jars are added when Spark starts from here; under spark-submit its
    --jars or --packages bring them. A running session is given back as it is, once it is seen to
    have Delta and Kafka; a warning says which of the settings it lacks, a preset's among them.

    preset: "small" or "fresh", settings for a kind of job: see PRESETS.
    partitions: spark.sql.shuffle.partitions, which a checkpoint keeps for its state.

    Raises SetupError where the jars are missing, or the session lacks Delta or Kafka.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    running = SparkSession.getActiveSession()
    if running is not None:
        require_equipped(running, preset)
        return running
    given = dict(conf or {})
    if partitions is not None:
        given[PARTITIONS] = str(partitions)
    if master is not None:
        given["spark.master"] = master
    already = _submitted_with() if submitted() else {}
    settings = choose(defaults(), already, given, preset)
    if (
        not submitted()
        and not (settings.keys() & {"spark.jars", "spark.jars.packages"})
        and not _bundled()
    ):
        settings |= jar_settings(settings["spark.master"])
    if not submitted():
        # Unlike extraJavaOptions, which an installation's spark-defaults.conf may have, and which
        # then still count.
        settings.setdefault("spark.driver.defaultJavaOptions", java_options())
    builder = SparkSession.builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    if unsized(settings):
        _LOG.warning(
            "%s = %s, on a cluster; a checkpoint keeps the number that it begins with: give two or "
            "three times the cluster's cores, as [spark] partitions",
            PARTITIONS,
            settings[PARTITIONS],
        )
    made = builder.getOrCreate()
    missing = _missing(made)
    if missing:
        raise SetupError(
            f"a new Spark session has no {missing}.",
            "a session with the jars of Delta and Kafka.",
            f"{WITH_SUBMIT} spark.jars and spark.jars.packages of one's own name them too. "
            "Elsewhere a new process, or a notebook's kernel anew: Spark's JVM has the jars that "
            "its first session brought, though that one was stopped.",
        )
    use_bare_files(made)
    find_at_once(made)
    return made


def unsized(settings: Mapping[str, str]) -> bool:
    """Return whether a cluster's session has the number of partitions meant for one machine."""
    alone = local_cores(settings["spark.master"]) > 0
    return not alone and settings[PARTITIONS] == defaults()[PARTITIONS]


def require_equipped(spark: SparkSession, preset: Preset | None = None) -> None:
    """Refuse a session without Delta or Kafka, and warn of settings that it has otherwise.

    Raises SetupError.
    """
    missing = _missing(spark)
    if missing:
        raise SetupError(
            f"the running Spark session has no {missing}.",
            "a session with the jars of Delta and Kafka.",
            "spark_session(...) in a new process, or a notebook's kernel anew, before any other "
            "session is made; or, in that one's builder, "
            f"spark.jars.packages={','.join(packages())}",
        )
    wanted = {**defaults(), **settings_of(preset)}
    unlike = {key: spark.conf.get(key, None) for key in wanted if key not in SMALL}
    unlike = {key: value for key, value in unlike.items() if value != wanted[key]}
    lacking = [key for key in _NEEDED if not _lists(unlike.get(key, wanted[key]), wanted[key])]
    if lacking:
        raise SetupError(
            f"the running Spark session is not set up for Delta: {', '.join(lacking)}.",
            "; ".join(f"{key}={wanted[key]}" for key in lacking),
            "spark_session(...) before any other session is made, or these in its builder.",
        )
    told = [f"{key}={wanted[key]}" for key in sorted(unlike.keys() - {*_NEEDED})]
    if told:
        _LOG.warning("the running Spark session lacks settings of tidegate: %s", ", ".join(told))


def _missing(spark: SparkSession) -> str:
    """Return which of Delta and Kafka a session does not have."""
    return " and no ".join(jar for name, jar in _CLASSES.items() if not has_class(spark, name))


def _lists(value: str | None, wanted: str) -> bool:
    return wanted in [part.strip() for part in (value or "").split(",")]


def packages() -> list[str]:
    """Return the coordinates of the jars for Spark's class path, for spark.jars.packages.

    What these need in turn is left to Spark.
    """
    found = ElementTree.fromstring(conf_text("ivy.xml")).iter("dependency")
    return [
        f"{one.get('org')}:{one.get('name')}:{one.get('rev')}"
        for one in found
        if one.get("name", "").startswith(("delta-spark", "spark-sql-kafka"))
    ]


def submitted() -> bool:
    """Return whether spark-submit runs this program.

    The JVM is then its parent, and was there first.
    """
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _submitted_with() -> dict[str, str]:
    """Return spark-submit's settings, its --master among them."""
    # They are the JVM's: a SparkConf that is made before Python has met it is empty, and says
    # nothing of it.
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def defaults() -> dict[str, str]:
    """Return the settings of conf/spark-defaults.conf."""
    lines = (line.strip() for line in conf_text("spark-defaults.conf").splitlines())
    pairs = (line.split(None, 1) for line in lines if line and not line.startswith("#"))
    return {key: value.strip() for key, value in pairs}


def choose(
    file: Mapping[str, str],
    already: Mapping[str, str],
    given: Mapping[str, str],
    preset: Preset | None = None,
) -> dict[str, str]:
    """Merge the settings, and fit the partition numbers to one machine where nobody chose them.

    A value that equals the file's counts as the file's: spark-submit does not say where a setting
    comes from.
    """
    merged = {**file, **BUILT_IN, **already, **given}
    for key, value in settings_of(preset).items():
        if key not in given and merged.get(key) == file.get(key):
            merged[key] = value
    cores = local_cores(merged["spark.master"])
    for key in SMALL:
        if cores and key not in given and merged.get(key) == file.get(key):
            merged[key] = str(cores)
    return merged


def quiet(spark: SparkSession, level: str = "FATAL") -> None:
    """Set what Spark logs.

    A job reports its own errors, and Spark's Java stack traces would bury them.
    """
    context: SparkContext = spark.sparkContext
    context.setLogLevel(level)


def _bundled() -> bool:
    home = os.environ.get("SPARK_HOME")
    return home is not None and any(Path(home, "jars").glob("delta-spark*.jar"))
