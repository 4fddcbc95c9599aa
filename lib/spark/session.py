"""The Spark session of a job: settings of conf/spark-defaults.conf, jars, presets, JVM options."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

from pyspark import SparkConf, SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from ..columns import require_instance, require_integer
from ..errors import SetupError
from ..jvm import RENAMING_CHECKPOINT_MANAGER, has_class, has_default_log, import_python_utils
from ..paths import local_path
from ..secrets import SECRET_PATTERN
from ..versions import spark_version
from .jars import SPARK_SUBMIT_HINT, jar_settings, jars_home, read_conf
from .presets import SHUFFLE_PARTITIONS, SNAPSHOT_PARTITIONS, Preset, local_cores, preset_settings
from .spark_logging import jvm_output_through_process, spark_log_option

_LOG = logging.getLogger(__name__)

CORE_COUNT_SETTINGS = (SHUFFLE_PARTITIONS, SNAPSHOT_PARTITIONS)
"""Settings that default to the number of cores of a local master."""

_REQUIRED_CLASSES = {
    "org.apache.spark.sql.delta.DeltaLog": "Delta (delta-spark)",
    "org.apache.spark.sql.kafka010.KafkaSourceProvider": "Kafka (spark-sql-kafka-0-10)",
}
_REQUIRED_SETTINGS = ("spark.sql.extensions", "spark.sql.catalog.spark_catalog")
"""Settings that every sink requires."""

BUILT_IN_SETTINGS = {
    "spark.master": "local[*]",
    "spark.redaction.regex": SECRET_PATTERN,
    # Spark's progress bar would overwrite the job's progress line.
    "spark.ui.showConsoleProgress": "false",
}

# By default a JVM that rejects an archive prints this to its standard output.
CDS_LOGGING_OFF = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_BARE_FILE_SYSTEM = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
_FILE_SYSTEM_KEY = "fs.file.impl"
_LOG_LEVEL_KEY = "spark.log.level"
_CHECKPOINT_MANAGER_KEY = "spark.sql.streaming.checkpointFileManagerClass"


def spark_session(
    name: str,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    preset: Preset | None = None,
    partitions: int | None = None,
) -> SparkSession:
    """Return a Spark session with Delta, Kafka and the RocksDB state store.

    Settings in descending precedence: `conf`, `master` and `partitions` of this call, settings of
    spark-submit or the environment, the `preset`, conf/spark-defaults.conf. The default master is
    local[*]. A new JVM gets the jars; under spark-submit, --jars or --packages add them. If a
    session is active, the function checks it for Delta and Kafka and returns it unchanged; a
    warning lists settings that differ.

    preset: "small" or "fresh", settings for a kind of job: see PRESETS.
    partitions: spark.sql.shuffle.partitions, which a checkpoint fixes for its state.

    Raises SetupError if jars are missing, or the session has no Delta or Kafka, and ArgumentError
    and ColumnTypeError for an invalid argument, before a JVM starts.

    >>> spark_session("views", master="local[2]").version >= "4"
    True
    """
    require_instance(name, "name", str, 'spark_session("views")')
    preset_settings(preset)
    if partitions is not None:
        require_integer(partitions, "partitions", 1, 1_000_000, "partitions=48")
    if master is not None:
        require_instance(master, "master", str, 'master="local[4]"')
    if conf is not None:
        require_instance(conf, "conf", Mapping, 'conf={"spark.driver.memory": "4g"}')
    active_session = SparkSession.getActiveSession()
    if active_session is not None:
        require_delta_and_kafka(active_session, preset)
        return active_session
    call_settings = dict(conf or {})
    if partitions is not None:
        call_settings[SHUFFLE_PARTITIONS] = str(partitions)
    if master is not None:
        call_settings["spark.master"] = master
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # spark-submit runs this program, and its JVM has the settings; a SparkConf created before
        # the connection to it is empty.
        SparkContext._ensure_initialized()
        submitted_settings = dict(SparkConf().getAll())
        settings = merge_settings(default_settings(), submitted_settings, call_settings, preset)
        if has_default_log():
            # By default Spark would log a hundred lines of the level INFO before the job's first.
            settings.setdefault(_LOG_LEVEL_KEY, "WARN")
    else:
        settings = merge_settings(default_settings(), {}, call_settings, preset)
        has_jars = settings.keys() & {"spark.jars", "spark.jars.packages"} or _has_bundled_jars()
        settings |= {} if has_jars else jar_settings(settings["spark.master"])
        # Not extraJavaOptions, which an installation's spark-defaults.conf may set.
        settings.setdefault("spark.driver.defaultJavaOptions", java_options())
    builder = SparkSession.builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    if has_default_partitions(settings):
        _LOG.warning(
            "%s = %s on a cluster; a checkpoint fixes this number: set [spark] partitions to two "
            "or three times the cluster's cores",
            SHUFFLE_PARTITIONS,
            settings[SHUFFLE_PARTITIONS],
        )
    with jvm_output_through_process():
        session = builder.getOrCreate()
    missing = _missing_connectors(session)
    if missing:
        raise SetupError(
            f"the new Spark session has no {missing}",
            "its JVM was started without the jars of Delta and Kafka, by spark-submit, by own "
            "spark.jars or spark.jars.packages, or by an earlier session of this process",
            f"{SPARK_SUBMIT_HINT}; elsewhere a new process, or a restart of the notebook's kernel",
        )
    use_bare_file_system(session)
    import_python_utils(session)
    _log_query_errors(enabled=False)
    return session


def has_default_partitions(settings: Mapping[str, str]) -> bool:
    """Return whether a cluster's session has the default number of partitions of a local master."""
    is_local = local_cores(settings["spark.master"]) > 0
    return not is_local and settings[SHUFFLE_PARTITIONS] == default_settings()[SHUFFLE_PARTITIONS]


def require_connectors(spark: SparkSession) -> None:
    """Raise SetupError if a session lacks Delta or Kafka, or the settings of Delta."""
    missing = _missing_connectors(spark)
    if missing:
        raise SetupError(
            f"the active Spark session has no {missing}",
            "another program created it without the jars of Delta and Kafka",
            "call spark_session(...) first in a new process or notebook kernel; or set, in the "
            f"other builder, spark.jars.packages={','.join(spark_packages())}",
        )
    expected = default_settings()
    missing_settings = [
        key
        for key in _REQUIRED_SETTINGS
        if expected[key] not in re.split(r"\s*,\s*", spark.conf.get(key, None) or "")
    ]
    if missing_settings:
        raise SetupError(
            f"the active Spark session lacks settings of Delta: {', '.join(missing_settings)}",
            "another program created it without them",
            "call spark_session(...) first, or set in the other builder "
            + "; ".join(f"{key}={expected[key]}" for key in missing_settings),
        )


def require_delta_and_kafka(spark: SparkSession, preset: Preset | None = None) -> None:
    """Raise SetupError if a session has no Delta or Kafka; warn about settings that differ."""
    require_connectors(spark)
    expected = {**default_settings(), **preset_settings(preset)}
    actual = {key: spark.conf.get(key, None) for key in expected}
    compared = expected.keys() - {*_REQUIRED_SETTINGS, *CORE_COUNT_SETTINGS}
    differing = sorted(key for key in compared if actual[key] != expected[key])
    if differing:
        settings = ", ".join(f"{key}={expected[key]}" for key in differing)
        _LOG.warning("the active Spark session lacks settings of tidegate: %s", settings)


def _missing_connectors(spark: SparkSession) -> str:
    """Return the connectors that a session lacks, joined to a message."""
    missing = [jar for name, jar in _REQUIRED_CLASSES.items() if not has_class(spark, name)]
    return " and no ".join(missing)


def spark_packages(spark: str | None = None) -> list[str]:
    """Return the Maven coordinates for spark.jars.packages; Spark resolves their dependencies.

    spark: a supported version of Spark, such as "4.1"; by default the installed one.
    """
    dependencies = ElementTree.fromstring(read_conf("ivy.xml")).iter("dependency")
    return [
        f"{each.get('org')}:{each.get('name')}:{each.get('rev')}"
        for each in dependencies
        if each.get("conf", "").startswith(f"spark-{spark or spark_version()}->")
    ]


def default_settings() -> dict[str, str]:
    """Return the settings of conf/spark-defaults.conf."""
    lines = (line.strip() for line in read_conf("spark-defaults.conf").splitlines())
    pairs = (line.split(None, 1) for line in lines if line and not line.startswith("#"))
    return {key: value.strip() for key, value in pairs}


def merge_settings(
    file_settings: Mapping[str, str],
    submitted_settings: Mapping[str, str],
    call_settings: Mapping[str, str],
    preset: Preset | None = None,
) -> dict[str, str]:
    """Merge the settings; default partition numbers of a local master become its cores.

    A submitted value that equals the file's counts as the file's, because spark-submit does not
    expose the source of a setting.
    """
    merged = {**file_settings, **BUILT_IN_SETTINGS, **submitted_settings, **call_settings}
    for key, value in preset_settings(preset).items():
        if key not in call_settings and merged.get(key) == file_settings.get(key):
            merged[key] = value
    cores = local_cores(merged["spark.master"])
    for key in CORE_COUNT_SETTINGS:
        if cores and key not in call_settings and merged.get(key) == file_settings.get(key):
            merged[key] = str(cores)
    return merged


def set_log_level(spark: SparkSession, level: str = "FATAL") -> None:
    """Set Spark's log level; by default only fatal errors, because a job reports its own errors.

    >>> set_log_level(spark)
    """
    context: SparkContext = spark.sparkContext
    context.setLogLevel(level)
    _log_query_errors(enabled=level.upper() not in ("FATAL", "OFF"))


def _log_query_errors(*, enabled: bool) -> None:
    """Set whether PySpark prints each error of a query as JSON, also one that is raised anyway."""
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = not enabled


def _has_bundled_jars() -> bool:
    home = os.environ.get("SPARK_HOME")
    return home is not None and any(Path(home, "jars").glob("delta-spark*.jar"))


def archive_path() -> Path:
    """Return the path of the class archive, next to the jars; it may not exist."""
    return jars_home() / "classes.jsa"


def cds_options(archive: Path) -> str:
    """Return the options of a JVM that uses a class archive; empty if it does not exist.

    `tidegate class-archive` creates the archive. A JVM with another Java, Spark or class path
    ignores it.

    >>> cds_options(Path("/nowhere/classes.jsa"))
    ''
    """
    return f"-XX:SharedArchiveFile={archive} {CDS_LOGGING_OFF}" if archive.exists() else ""


def java_options(extra: str = "") -> str:
    """Return the options of a JVM for Spark, after the `extra` ones."""
    return " ".join(filter(None, [extra, cds_options(archive_path()), spark_log_option()]))


def use_bare_file_system(spark: SparkSession) -> None:
    """Use a local file system that starts no processes, if the session has its jar.

    Hadoop's file system for `file:` starts `chmod` for each new file, and Spark's rename of a
    checkpoint file starts `readlink` four times: about twenty processes for a batch with state, a
    third of its CPU time. The replacement creates the same files, checksums and permissions with
    calls of Java's API. It is for local masters only, because the executors of a cluster may not
    have the class.
    """
    is_local = (spark.conf.get("spark.master", None) or "").startswith("local")
    if is_local and has_class(spark, _BARE_FILE_SYSTEM):
        spark.conf.set(_FILE_SYSTEM_KEY, _BARE_FILE_SYSTEM)
        # Spark caches a Hadoop file system before the jar is on its class path.
        spark.conf.set(f"{_FILE_SYSTEM_KEY}.disable.cache", "true")


@contextmanager
def checkpoint_by_rename(spark: SparkSession, path: str) -> Iterator[None]:
    """Make queries that start in this block write checkpoints with FileSystem renames.

    This applies only to checkpoints in the local file system, where both checkpoint managers of
    Spark check for the file and then rename. In HDFS the default manager renames in one step.
    """
    previous_manager = spark.conf.get(_CHECKPOINT_MANAGER_KEY, None)
    has_bare_file_system = spark.conf.get(_FILE_SYSTEM_KEY, None) == _BARE_FILE_SYSTEM
    if not has_bare_file_system or previous_manager is not None or local_path(path) is None:
        yield
        return
    spark.conf.set(_CHECKPOINT_MANAGER_KEY, RENAMING_CHECKPOINT_MANAGER)
    try:
        yield
    finally:
        spark.conf.unset(_CHECKPOINT_MANAGER_KEY)
