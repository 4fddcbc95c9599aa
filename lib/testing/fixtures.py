"""Fixtures for pytest: with `pytest_plugins = ["tidegate.testing.fixtures"]` in your conftest.py they are yours.

def test_my_job(broker, topic):
    broker.create_topic(topic, partitions=2)
    ...
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator

import pytest

from .broker import Broker


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One embedded broker for all tests of the run; a test that kills a broker starts one of its
    own."""
    with Broker.start() as started:
        yield started


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test has, made of the test's own; the topic itself is not
    created."""
    return (
        f"{re.sub(r'[^A-Za-z0-9]+', '-', request.node.name)[:80].strip('-')}-{uuid.uuid4().hex[:8]}"
    )
