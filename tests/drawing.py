"""How much is drawn by a property each of whose examples runs queries, or a stream."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

Drawn = TypeVar("Drawn", bound=Hashable)
_FEW = "few"


def choose(*, long: bool) -> None:
    """Choose how many examples `few` is, before the tests are collected."""
    settings.register_profile(
        _FEW,
        max_examples=25 if long else 2,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )


def few(examples: int | None = None) -> settings:
    """Return the settings of such a property, which has the mark `draws` so that `make chaos` draws
    more of it: as many examples as all of them draw, or as the mark says."""
    profile = settings.get_profile(_FEW)
    return profile if examples is None else settings(profile, max_examples=examples)


def varied(drawn: st.SearchStrategy[list[Drawn]]) -> st.SearchStrategy[list[Drawn]]:
    """Leave out lists of one value: the simplest example, with which hypothesis begins, would be
    one of the few."""
    return drawn.filter(lambda some: len(set(some)) > 1)
