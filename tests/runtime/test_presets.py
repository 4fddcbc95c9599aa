"""Presets: settings by name that leave the promise alone, and who has the last word on them."""

from __future__ import annotations

from typing import get_args

import pytest

from tidegate.runtime.process.presets import PARTITIONS, PRESETS, PROMISED, Preset
from tidegate.runtime.process.session import BUILT_IN, choose, defaults, unsized

NAMES = get_args(Preset)


def test_each_name_has_settings_of_its_own() -> None:
    assert set(NAMES) == set(PRESETS)
    assert len({tuple(sorted(each.items())) for each in PRESETS.values()}) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_sets_nothing_that_the_promise_stands_on_and_nothing_that_is_set_already(
    name: Preset,
) -> None:
    settings = PRESETS[name]
    assert [key for key in settings if key.startswith(PROMISED)] == []
    assert not settings.items() & {**defaults(), **BUILT_IN}.items()


def test_what_the_promise_stands_on_has_the_library_s_own_settings() -> None:
    assert {"spark.sql.extensions", "spark.delta.logStore.file.impl"} <= {
        key for key in defaults() if key.startswith(PROMISED)
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_counts_more_than_the_file_and_less_than_what_a_user_has_set(
    name: Preset,
) -> None:
    file = defaults()
    local = {"spark.master": "local[3]"}
    assert PRESETS[name].items() <= choose(file, file, local, name).items()
    own = dict.fromkeys(PRESETS[name], "own")
    assert own.items() <= choose(file, own, local, name).items()
    assert own.items() <= choose(file, {}, {**local, **own}, name).items()
    assert choose(file, {}, {**local, PARTITIONS: "7"}, name)[PARTITIONS] == "7"


@pytest.mark.parametrize(
    ("master", "partitions", "warns"),
    [("local[2]", None, False), ("spark://h:7077", None, True), ("spark://h:7077", "48", False)],
)
def test_a_cluster_on_which_nobody_has_said_the_partitions_is_told(
    master: str, partitions: str | None, warns: bool
) -> None:
    given = {"spark.master": master, **({PARTITIONS: partitions} if partitions else {})}
    assert unsized(choose(defaults(), {}, given)) is warns
