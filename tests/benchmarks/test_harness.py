"""The benchmarks' figures: ratios by round, the contestants of a run, the table that is printed."""

from __future__ import annotations

import time
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import pytest
import typer

from benchmarks import contest
from benchmarks.harness import Run, Runs, chosen, figures, ratio, table
from benchmarks.steady import MOST, steady
from benchmarks.topic import _values


def run(seconds: float, cpu: float = 1.0) -> Run:
    return {"seconds": seconds, "cpu": cpu, "peak_mib": 100.0, "rows_out": 7.0, "met": 3.0}


def test_a_ratio_is_the_median_over_the_rounds_with_its_range() -> None:
    assert (
        ratio([run(2), run(9), run(6)], [run(1), run(3), run(1)], "seconds") == "3.00 (2.00-6.00)"
    )


def test_without_a_rival_there_is_no_ratio() -> None:
    assert ratio([run(2)], [], "seconds") == "-"


def test_a_contestant_of_half_the_time_has_twice_the_speed() -> None:
    by_time = figures([run(2)], [run(4)], 8_000)
    by_speed = figures([run(2)], [run(4)], 8_000, speed=True)
    assert by_time == ["4.0", "0.50 (0.50-0.50)", "1.00 (1.00-1.00)", "100", "7"]
    assert by_speed == ["4.0", "2.00 (2.00-2.00)", "1.00 (1.00-1.00)", "100", "7"]


def test_a_contestant_that_nobody_knows_is_refused_with_those_that_there_are() -> None:
    assert chosen(["floor", "tumbling"], None) == ["floor", "tumbling"]
    assert chosen(["floor", "tumbling"], ["tumbling"]) == ["tumbling"]
    with pytest.raises(typer.BadParameter, match="tumblin: the contestants are floor, tumbling"):
        chosen(["floor", "tumbling"], ["tumblin"])


def test_a_table_has_a_row_for_each_contestant_and_a_column_for_each_count() -> None:
    runs: Runs = {"by hand": [run(4)], "ours": [run(2)]}
    rivals = dict.fromkeys(runs, "by hand")
    made = table(runs, 8_000, rivals, title="Windows", counts=["met"])
    columns = [str(column.header) for column in made.columns]
    assert columns[0] == "contestant"
    assert columns[2:4] == ["time / by hand", "CPU / by hand"]
    assert columns[-2:] == ["rows out", "met"]
    assert made.row_count == 2
    assert list(made.columns[2].cells) == ["1.00 (1.00-1.00)", "0.50 (0.50-0.50)"]


def test_a_hot_key_has_its_share_of_the_messages_and_leaves_the_others_as_they_are() -> None:
    even, hot = (_values(np.random.default_rng(5), 0, 2_000, 0.0, share, 100) for share in (0, 0.9))
    one = b'"page":"/products/category-0000/index.html","user":"user-00000000"'
    assert sum(one in value for value in even) == 0
    assert 1_700 < sum(one in value for value in hot) < 1_900
    assert [value.partition(b",")[0] for value in even] == [v.partition(b",")[0] for v in hot]


def test_times_agree_where_the_last_is_within_a_share_of_the_one_before() -> None:
    assert steady([20.0, 10.0, 9.5])
    assert steady([10.0, 10.5])
    assert not steady([20.0, 10.0])
    assert not steady([9.5, 9.5, 10.0])
    assert not steady([9.5])
    assert steady([10.0, 9.0], within=0.1)


@pytest.mark.parametrize(
    ("seconds", "runs"), [([20, 10, 9.6, 9.5], 3), ([10, 5] * MOST, MOST), ([4, 4, 4], 2)]
)
def test_a_contestant_warms_up_until_its_times_agree(
    seconds: list[float], runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A run begins where the one before it has ended.
    ends = list(accumulate(seconds, initial=0))
    clock = iter([at for pair in pairwise(ends) for at in pair])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    folders: list[Path] = []
    contest.warm_up(folders.append, Path("/somewhere/warm"))
    assert folders == [Path(f"/somewhere/warm-{number}") for number in range(runs)]
