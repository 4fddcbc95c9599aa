"""The benchmark harness: ratios by round, the choice of contestants, tables and warm-up."""

from __future__ import annotations

import time
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import pytest
import typer

from benchmarks.support import contestant_process
from benchmarks.support.click_topic import _values
from benchmarks.support.harness import (
    Run,
    Runs,
    comparison_table,
    format_runs,
    ratio,
    select_contestants,
)
from benchmarks.support.warm_up import MAX_RUNS, is_steady


def run(seconds: float, cpu: float = 1.0) -> Run:
    return {"seconds": seconds, "cpu": cpu, "peak_mib": 100.0, "rows_out": 7.0, "matched": 3.0}


def test_a_ratio_is_the_median_over_the_rounds_with_its_range() -> None:
    assert (
        ratio([run(2), run(9), run(6)], [run(1), run(3), run(1)], "seconds") == "3.00 (2.00-6.00)"
    )


def test_without_a_baseline_there_is_no_ratio() -> None:
    assert ratio([run(2)], [], "seconds") == "-"


def test_half_the_time_is_twice_the_speed() -> None:
    by_time = format_runs([run(2)], [run(4)], 8_000)
    by_speed = format_runs([run(2)], [run(4)], 8_000, speed=True)
    assert by_time == ["4.0", "0.50 (0.50-0.50)", "1.00 (1.00-1.00)", "100", "7"]
    assert by_speed == ["4.0", "2.00 (2.00-2.00)", "1.00 (1.00-1.00)", "100", "7"]


def test_an_unknown_contestant_raises_with_the_known_ones() -> None:
    assert select_contestants(["floor", "tumbling"], None) == ["floor", "tumbling"]
    assert select_contestants(["floor", "tumbling"], ["tumbling"]) == ["tumbling"]
    with pytest.raises(
        typer.BadParameter, match="unknown contestant: tumblin; expected one of: floor, tumbling"
    ):
        select_contestants(["floor", "tumbling"], ["tumblin"])


def test_a_table_has_a_row_for_each_contestant_and_a_column_for_each_count() -> None:
    runs: Runs = {"plain PySpark": [run(4)], "tidegate": [run(2)]}
    baselines = dict.fromkeys(runs, "plain PySpark")
    comparison = comparison_table(runs, 8_000, baselines, title="Windows", counts=["matched"])
    columns = [str(column.header) for column in comparison.columns]
    assert columns[0] == "contestant"
    assert columns[2:4] == ["time / plain PySpark", "CPU / plain PySpark"]
    assert columns[-2:] == ["rows out", "matched"]
    assert comparison.row_count == 2
    assert list(comparison.columns[2].cells) == ["1.00 (1.00-1.00)", "0.50 (0.50-0.50)"]


def test_a_hot_key_has_its_share_of_the_messages_at_the_same_times() -> None:
    even, hot = (_values(np.random.default_rng(5), 0, 2_000, 0.0, share, 100) for share in (0, 0.9))
    one = b'"page":"/products/category-0000/index.html","user":"user-00000000"'
    assert sum(one in value for value in even) == 0
    assert 1_700 < sum(one in value for value in hot) < 1_900
    assert [value.partition(b",")[0] for value in even] == [v.partition(b",")[0] for v in hot]


def test_times_are_steady_if_the_last_two_agree() -> None:
    assert is_steady([20.0, 10.0, 9.5])
    assert is_steady([10.0, 10.5])
    assert not is_steady([20.0, 10.0])
    assert not is_steady([9.5, 9.5, 10.0])
    assert not is_steady([9.5])
    assert is_steady([10.0, 9.0], tolerance=0.1)


@pytest.mark.parametrize(
    ("seconds", "runs"), [([20, 10, 9.6, 9.5], 3), ([10, 5] * MAX_RUNS, MAX_RUNS), ([4, 4, 4], 2)]
)
def test_a_contestant_warms_up_until_its_times_agree(
    seconds: list[float], runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A run starts when the previous run ends.
    ends = list(accumulate(seconds, initial=0))
    clock = iter([at for pair in pairwise(ends) for at in pair])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    folders: list[Path] = []
    contestant_process.warm_up(folders.append, Path("/somewhere/warm"))
    assert folders == [Path(f"/somewhere/warm-{number}") for number in range(runs)]
