"""The number of examples of property tests that run a query or stream per example."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

Drawn = TypeVar("Drawn", bound=Hashable)
_FEW = "few"


def choose(*, long: bool) -> None:
    """Set the number of examples of `few`, and no deadline for any, before test collection."""
    settings.register_profile(
        _FEW,
        max_examples=25 if long else 2,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    # The machines are shared: the duration of an example says nothing.
    settings.register_profile("untimed", deadline=None, print_blob=True)
    settings.load_profile("untimed")


def few(examples: int | None = None) -> settings:
    """Return the settings of such a property test: the default number of examples, or that of its
    mark `draws`, which `make chaos` increases."""
    profile = settings.get_profile(_FEW)
    return profile if examples is None else settings(profile, max_examples=examples)


def varied(drawn: st.SearchStrategy[list[Drawn]]) -> st.SearchStrategy[list[Drawn]]:
    """Exclude lists of a single distinct value, with which hypothesis would start."""
    return drawn.filter(lambda some: len(set(some)) > 1)
