"""The settings that can change a result or a guarantee, and what a job does with each."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ..errors import ConfigError
from ..jvm import PIN_THREAD, UNPINNED_EFFECT
from ..versions import SUPPORTED_SPARK

_LOG = logging.getLogger(__name__)

Kind = Literal["Spark", "Delta", "PySpark", "process"]
"""A setting of the session or its Delta part, or an environment variable or locale."""


@dataclass(frozen=True)
class Setting:
    """A setting that can change a result or a guarantee.

    value: the value that a job runs with; None without a value.
    effect: what other values would change.
    refused: the values with which a job does not start; it replaces all others.
    replaced: examples of values that the job replaces.
    since: the first version of Spark that has the setting; an older one ignores its value.
    """

    name: str
    kind: Kind
    value: str | None
    effect: str
    refused: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    since: str = SUPPORTED_SPARK[0]


def _spark(
    name: str,
    value: str,
    effect: str,
    *,
    refused: str = "",
    replaced: str = "",
    since: str = SUPPORTED_SPARK[0],
) -> Setting:
    return _setting("Spark", f"spark.sql.{name}", value, effect, refused, replaced, since)


def _delta(
    name: str, value: str | None, effect: str, *, refused: str = "", replaced: str = ""
) -> Setting:
    return _setting("Delta", f"spark.databricks.delta.{name}", value, effect, refused, replaced)


def _setting(
    kind: Kind,
    name: str,
    value: str | None,
    effect: str,
    refused: str,
    replaced: str,
    since: str = SUPPORTED_SPARK[0],
) -> Setting:
    return Setting(name, kind, value, effect, _values(refused), _values(replaced), since)


def _values(text: str) -> tuple[str, ...]:
    return tuple(text.split("|")) if text else ()


_SKIPPED = "missing or corrupt files of a table would be skipped without an error"
_SHIFTED = "other readers would read days before 1582-10-15 as other days"
_UNCHECKED = "a damaged or foreign checkpoint would be used without an error"
_OTHER_MEANING = "the same SQL text would have another meaning"
_OTHER_RETENTION = "new tables would lose the numbers of their batches, or could not be changed"


SETTINGS: tuple[Setting, ...] = (
    # Values of columns.
    _spark(
        "session.timeZone",
        "UTC",
        "`hour(event_time)`, dates and texts of a time would depend on the machine",
        replaced="Asia/Kolkata|America/New_York",
    ),
    _spark(
        "parquet.outputTimestampType",
        "TIMESTAMP_MICROS",
        "other readers would read times before 1677 and after 2262 as other times",
        refused="TIMESTAMP_MILLIS",
        replaced="INT96",
    ),
    _spark(
        "ansi.enabled",
        "true",
        "a sum that exceeds its type would be a wrong number",
        refused="false",
    ),
    _spark(
        "storeAssignmentPolicy",
        "ANSI",
        "a value that does not fit its column would be stored as another value",
        refused="LEGACY",
    ),
    _spark(
        "decimalOperations.allowPrecisionLoss",
        "true",
        "products and quotients of decimals would have other types",
        refused="false",
    ),
    _spark(
        "legacy.timeParserPolicy",
        "CORRECTED",
        "a text could be parsed as another time than by other readers",
        refused="LEGACY",
    ),
    _spark(
        "timestampType",
        "TIMESTAMP_LTZ",
        "a TIMESTAMP would be a time without a zone instead of an instant",
        refused="TIMESTAMP_NTZ",
    ),
    _spark(
        "mapKeyDedupPolicy",
        "EXCEPTION",
        "a map would silently lose all but one value of a repeated key",
        refused="LAST_WIN",
    ),
    _spark(
        "parquet.datetimeRebaseModeInWrite",
        "CORRECTED",
        _SHIFTED,
        refused="LEGACY",
    ),
    _spark(
        "parquet.int96RebaseModeInWrite",
        "CORRECTED",
        _SHIFTED,
        refused="LEGACY",
    ),
    _spark(
        "parquet.datetimeRebaseModeInRead",
        "CORRECTED",
        _SHIFTED,
        refused="LEGACY",
    ),
    _spark(
        "parquet.int96RebaseModeInRead",
        "CORRECTED",
        _SHIFTED,
        refused="LEGACY",
    ),
    _spark(
        "avro.datetimeRebaseModeInRead",
        "CORRECTED",
        _SHIFTED,
        refused="LEGACY",
    ),
    _spark(
        "avro.datetimeRebaseModeInWrite",
        "CORRECTED",
        _SHIFTED,
        refused="LEGACY",
    ),
    _spark(
        "parquet.int96TimestampConversion",
        "false",
        "times in files of another writer would be shifted by the time zone",
        replaced="true",
    ),
    _spark(
        "parquet.int96AsTimestamp",
        "true",
        "times in files of another writer would be unreadable",
        replaced="false",
    ),
    _spark(
        "parquet.binaryAsString",
        "false",
        "bytes in files would be read as text",
        replaced="true",
    ),
    _spark(
        "parquet.inferTimestampNTZ.enabled",
        "true",
        "a time without a zone would be read as an instant",
        replaced="false",
    ),
    _spark(
        "parquet.writeLegacyFormat",
        "false",
        "decimals and lists would be written in a form that is not Parquet's standard",
        replaced="true",
    ),
    _spark(
        "icu.caseMappings.enabled",
        "true",
        "`upper` and `lower` would depend on the locale of the JVM",
        replaced="false",
    ),
    _spark(
        "json.enableExactStringParsing",
        "true",
        "an object in a text field would be written in another form",
        replaced="false",
    ),
    _spark(
        "json.enablePartialResults",
        "true",
        "a record with one unreadable field would lose its other fields",
        replaced="false",
    ),
    _spark(
        "jsonGenerator.ignoreNullFields",
        "true",
        "`to_json` would write null fields too",
        replaced="false",
    ),
    _spark(
        "variant.allowDuplicateKeys",
        "false",
        "a JSON object with a repeated key would silently lose a value",
        replaced="true",
    ),
    # The meaning of SQL text.
    _spark(
        "caseSensitive",
        "false",
        "`Page` and `page` would be two columns",
        refused="true",
    ),
    _spark(
        "parser.escapedStringLiterals",
        "false",
        _OTHER_MEANING,
        replaced="true",
    ),
    _spark(
        "parser.quotedRegexColumnNames",
        "false",
        _OTHER_MEANING,
        replaced="true",
    ),
    _spark(
        "ansi.doubleQuotedIdentifiers",
        "false",
        _OTHER_MEANING,
        replaced="true",
    ),
    _spark(
        "function.concatBinaryAsString",
        "false",
        _OTHER_MEANING,
        replaced="true",
    ),
    _spark(
        "function.eltOutputAsString",
        "false",
        _OTHER_MEANING,
        replaced="true",
    ),
    _spark(
        "groupByAliases",
        "true",
        _OTHER_MEANING,
        replaced="false",
    ),
    _spark(
        "analyzer.singlePassResolver.enabled",
        "false",
        "Spark would reject the query of a stream",
        replaced="true",
    ),
    _spark(
        "retainGroupColumns",
        "true",
        "aggregates would lose their keys",
        replaced="false",
    ),
    # Files.
    _spark(
        "files.ignoreMissingFiles",
        "false",
        _SKIPPED,
        refused="true",
    ),
    _spark(
        "files.ignoreCorruptFiles",
        "false",
        _SKIPPED,
        refused="true",
    ),
    _spark(
        "files.ignoreInvalidPartitionPaths",
        "false",
        _SKIPPED,
        refused="true",
    ),
    _spark(
        "sources.partitionOverwriteMode",
        "STATIC",
        "a table that is written again would retain old partitions",
        replaced="DYNAMIC",
    ),
    # Streams.
    _spark(
        "streaming.multipleWatermarkPolicy",
        "min",
        "rows of one input would be late by the times of another",
        refused="max",
    ),
    _spark(
        "streaming.noDataMicroBatches.enabled",
        "true",
        "the last results would not be emitted before the next record",
        refused="false",
    ),
    _spark(
        "streaming.statefulOperator.checkCorrectness.enabled",
        "true",
        "a query that loses rows behind the watermark would not be rejected",
        refused="false",
    ),
    _spark(
        "streaming.statefulOperator.allowMultiple",
        "true",
        _UNCHECKED,
        replaced="false",
    ),
    _spark(
        "streaming.statefulOperator.useStrictDistribution",
        "true",
        "rows of a key could be in another partition than its state",
        replaced="false",
    ),
    _spark(
        "streaming.unsupportedOperationCheck",
        "true",
        _UNCHECKED,
        refused="false",
    ),
    _spark(
        "streaming.checkpoint.verifyMetadataExists.enabled",
        "true",
        _UNCHECKED,
        refused="false",
        since="4.2",
    ),
    _spark(
        "streaming.stateStore.rocksdb.formatVersion",
        "5",
        "the state could not be written",
        replaced="6",
    ),
    _spark(
        "streaming.stateStore.stateSchemaCheck",
        "true",
        _UNCHECKED,
        refused="false",
    ),
    _spark(
        "streaming.stateStore.formatValidation.enabled",
        "true",
        _UNCHECKED,
        replaced="false",
    ),
    _spark(
        "streaming.stateStore.commitValidation.enabled",
        "true",
        _UNCHECKED,
        replaced="false",
        since="4.1",
    ),
    # Delta.
    _delta(
        "stats.collect",
        "true",
        "the number of rows of a commit would be unknown; the table property "
        "delta.dataSkippingNumIndexedCols = 0 disables all other statistics",
        refused="false",
    ),
    _delta(
        "write.utcTimestampPartitionValues",
        "true",
        "a time in a partition column would depend on the zone of its writer",
        replaced="false",
    ),
    _delta(
        "schema.autoMerge.enabled",
        "false",
        "a renamed column would silently be added as a new column",
        refused="true",
    ),
    _delta(
        "stalenessLimit",
        "0",
        "a job could read an older version of its own table",
        replaced="1h",
    ),
    _delta(
        "merge.materializeSource",
        "auto",
        "a merge would read its rows twice, and could apply two different results",
        refused="none",
    ),
    _delta(
        "commitInfo.userMetadata",
        None,
        "commits would have this text instead of the metadata of their batch",
        replaced="mine",
    ),
    _delta(
        "write.txnAppId",
        None,
        "Delta would skip batches by this number",
        replaced="mine",
    ),
    _delta(
        "write.txnVersion",
        None,
        "Delta would skip batches by this number",
        replaced="7",
    ),
    _delta(
        "properties.defaults.setTransactionRetentionDuration",
        None,
        _OTHER_RETENTION,
        replaced="interval 1 days",
    ),
    _delta(
        "properties.defaults.logRetentionDuration",
        None,
        _OTHER_RETENTION,
        replaced="interval 1 days",
    ),
    _delta(
        "properties.defaults.appendOnly",
        None,
        _OTHER_RETENTION,
        replaced="true",
    ),
)
"""The settings of the session."""

PINNED_THREADS = Setting(PIN_THREAD, "process", "true", UNPINNED_EFFECT, refused=("false",))
WORKER_PYTHON = Setting(
    "PYSPARK_PYTHON",
    "process",
    "the interpreter of the program, unless it is set",
    "Python workers would lack the packages of the program",
)
HARMLESS_SETTINGS: Mapping[str, str] = {
    "TZ": "the time zone of the process",
    "LC_ALL": "the locale of the process",
    "PYTHONHASHSEED": "the order of sets in Python",
    "user.timezone": "the time zone of the JVM",
    "user.language": "the language of the JVM; one with other digits than 0 to 9 is rejected",
    "user.country": "the country of the JVM",
}
"""Environment variables and properties of the JVM that change no result."""

_NAMES = {setting.name for setting in SETTINGS}
_LEGACY_PREFIXES = ("spark.sql.legacy.", "spark.databricks.delta.legacy.")


def require_result_settings(spark: SparkSession) -> None:
    """Refuse a session with a setting that would change results or guarantees.

    Raises ConfigError.
    """
    for setting in SETTINGS:
        if setting.refused:
            _require_allowed(setting, spark.conf.get(setting.name, None))


def _require_allowed(setting: Setting, value: str | None) -> None:
    if (value or "").lower() in map(str.lower, setting.refused):
        raise ConfigError(
            f"invalid {setting.name}: {value!r}, {setting.effect}",
            str(setting.value),
            f'spark.conf.set("{setting.name}", "{setting.value}")',
        )


def apply_result_settings(spark: SparkSession) -> None:
    """Set the values that a job runs with, and Spark's defaults for its legacy settings.

    Logs a warning with the legacy settings that were removed.
    """
    removed = [
        f"{key}={value}"
        for key, value in sorted(spark.conf.getAll.items())
        if key.startswith(_LEGACY_PREFIXES) and key not in _NAMES
    ]
    if removed:
        _LOG.warning("a job runs without these settings of the session: %s", ", ".join(removed))
    for key in [each.partition("=")[0] for each in removed]:
        spark.conf.unset(key)
    for setting in SETTINGS:
        if setting.value is None:
            spark.conf.unset(setting.name)
        elif (
            _value(spark, setting.name) != setting.value
        ):  # Setting a deprecated one logs a warning.
            spark.conf.set(setting.name, setting.value)


def _value(spark: SparkSession, name: str) -> str | None:
    """Return the value of a setting, which may be its default; None for one that Spark lacks."""
    try:
        return spark.conf.get(name)
    except PySparkException:
        return None
