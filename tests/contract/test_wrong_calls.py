"""Wrong calls of the public API raise the library's error at the call, with a text of their row.

No row runs a Spark job.
"""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.contract.wrong_calls.confusions import COLUMNS, PARTS, UNITS
from tests.contract.wrong_calls.fixtures import CallInputs, call_inputs
from tests.contract.wrong_calls.jobs import JOBS
from tests.contract.wrong_calls.patterns import PAST, PATTERNS
from tests.contract.wrong_calls.sinks import SINKS
from tests.contract.wrong_calls.sources import JOINS, SOURCES
from tests.contract.wrong_calls.windows import AGGREGATES, WINDOWS
from tidegate.errors import TidegateError

KINDS = (WINDOWS, AGGREGATES, JOINS, SOURCES, SINKS, PATTERNS, PAST, JOBS, UNITS, COLUMNS, PARTS)
CALLS = {name: call for kind in KINDS for name, call in kind.items()}


@pytest.fixture(scope="module")
def inputs(spark: SparkSession) -> CallInputs:
    return call_inputs(spark)


def test_no_call_is_lost() -> None:
    assert len(CALLS) >= 550
    assert len(CALLS) == sum(map(len, KINDS))


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_raises_the_librarys_error(name: str, inputs: CallInputs) -> None:
    call, message = CALLS[name]
    with pytest.raises(TidegateError) as error:
        call(inputs)
    assert message in str(error.value)
    assert error.value.detail or error.value.remedy
