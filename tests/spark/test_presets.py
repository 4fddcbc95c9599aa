"""Presets: named settings that leave protected settings unchanged, and their precedence."""

from __future__ import annotations

from typing import get_args

import pytest

from tidegate.spark.presets import PRESETS, SHUFFLE_PARTITIONS, Preset
from tidegate.spark.session import (
    BUILT_IN_SETTINGS,
    default_settings,
    has_default_partitions,
    merge_settings,
)

NAMES = get_args(Preset)
PROTECTED_SETTINGS = (
    "spark.sql.extensions",
    "spark.sql.catalog.",
    "spark.delta.logStore.",
    "spark.databricks.delta.write.",
    "spark.databricks.delta.properties.",
    "spark.databricks.delta.retentionDurationCheck",
    "spark.sql.streaming.checkpoint",
    "spark.sql.streaming.minBatchesToRetain",
    "spark.sql.streaming.multipleWatermarkPolicy",
    "spark.sql.streaming.noDataMicroBatches",
    "spark.sql.streaming.statefulOperator.",
    "spark.sql.streaming.stateStore.commitValidation",
    "spark.sql.streaming.stateStore.rowChecksum",
    "spark.sql.ansi.",
    "spark.sql.caseSensitive",
    "spark.sql.legacy.",
    "spark.sql.session.timeZone",
    "spark.redaction.",
)
"""Prefixes of settings that no preset may set: exactly-once semantics or results depend on them."""


def test_each_preset_has_different_settings() -> None:
    assert set(NAMES) == set(PRESETS)
    assert len({tuple(sorted(each.items())) for each in PRESETS.values()}) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_sets_no_protected_setting_and_no_default_again(
    name: Preset,
) -> None:
    settings = PRESETS[name]
    assert [key for key in settings if key.startswith(PROTECTED_SETTINGS)] == []
    assert not settings.items() & {**default_settings(), **BUILT_IN_SETTINGS}.items()


def test_protected_settings_are_among_the_library_s_defaults() -> None:
    assert {"spark.sql.extensions", "spark.delta.logStore.file.impl"} <= {
        key for key in default_settings() if key.startswith(PROTECTED_SETTINGS)
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_takes_precedence_over_the_file_and_user_settings_over_a_preset(
    name: Preset,
) -> None:
    file = default_settings()
    local = {"spark.master": "local[3]"}
    assert PRESETS[name].items() <= merge_settings(file, file, local, name).items()
    own = dict.fromkeys(PRESETS[name], "own")
    assert own.items() <= merge_settings(file, own, local, name).items()
    assert own.items() <= merge_settings(file, {}, {**local, **own}, name).items()
    assert (
        merge_settings(file, {}, {**local, SHUFFLE_PARTITIONS: "7"}, name)[SHUFFLE_PARTITIONS]
        == "7"
    )


@pytest.mark.parametrize(
    ("master", "partitions", "warns"),
    [("local[2]", None, False), ("spark://h:7077", None, True), ("spark://h:7077", "48", False)],
)
def test_a_cluster_without_a_setting_for_partitions_has_a_warning(
    master: str, partitions: str | None, warns: bool
) -> None:
    conf = {"spark.master": master, **({SHUFFLE_PARTITIONS: partitions} if partitions else {})}
    assert has_default_partitions(merge_settings(default_settings(), {}, conf)) is warns
