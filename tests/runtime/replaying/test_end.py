"""Plans are cut back to the end, source by source and partition by partition."""

from __future__ import annotations

from tidegate.runtime.replaying.end import cut, passes

END = {"a": {0: 5, 1: 7}}


def test_a_plan_within_the_end_stays_as_it_is() -> None:
    plan = [{"a": {0: 5, 1: 6}}, {}]
    assert not passes(plan, END)
    assert cut(plan, [], END) == plan


def test_a_plan_past_the_end_is_cut_and_never_goes_back() -> None:
    assert passes([{"a": {0: 6, 1: 7}}], END)
    assert cut([{"a": {0: 6, 1: 2}}], [{"a": {0: 5, 1: 1}}], END) == [{"a": {0: 5, 1: 2}}]
    assert cut([{"a": {0: 9, 1: 9}}], [{"a": {0: 8, 1: 7}}], END) == [{"a": {0: 8, 1: 7}}]


def test_a_partition_that_the_end_does_not_know_is_not_read() -> None:
    plan = [{"a": {0: 5, 1: 7, 2: 3}, "b": {0: 4}}]
    assert passes(plan, END)
    assert cut(plan, [{"a": {2: 1}}], END) == [{"a": {0: 5, 1: 7, 2: 1}, "b": {0: 0}}]
