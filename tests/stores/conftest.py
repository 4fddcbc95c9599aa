"""One PostgreSQL for all tests of the run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .server import Server, started


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with started() as server:
        yield server
