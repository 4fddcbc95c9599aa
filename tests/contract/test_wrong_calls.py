"""Wrong calls of the public API: each is refused by the library's own error, at the call.

What a call says is told in its row: a text that its error must have. No row runs a Spark job.
"""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import TidegateError

from .wrong_calls.given import Given
from .wrong_calls.given import given as made
from .wrong_calls.jobs import JOBS
from .wrong_calls.patterns import PAST, PATTERNS
from .wrong_calls.sinks import SINKS
from .wrong_calls.sources import JOINS, SOURCES
from .wrong_calls.windows import AGGREGATES, WINDOWS

KINDS = (WINDOWS, AGGREGATES, JOINS, SOURCES, SINKS, PATTERNS, PAST, JOBS)
CALLS = {name: call for kind in KINDS for name, call in kind.items()}


@pytest.fixture(scope="module")
def given(spark: SparkSession) -> Given:
    return made(spark)


def test_there_are_no_fewer_calls_than_were_tried() -> None:
    assert len(CALLS) >= 143
    assert len(CALLS) == sum(map(len, KINDS))


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_is_told_by_the_library_s_own_error(name: str, given: Given) -> None:
    call, says = CALLS[name]
    with pytest.raises(TidegateError) as told:
        call(given)
    assert says in str(told.value)
    assert told.value.allowed or told.value.hint
