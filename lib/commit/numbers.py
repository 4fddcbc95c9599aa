"""The last number that a table has of an application id, told from its newest commits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..jvm import DeltaState
from .commit_file import digest_of, number_in

_FEW = 20
"""How many commits are read at most before Delta is asked, which may run a Spark job."""


@dataclass(frozen=True)
class _Known:
    """What a table's log said up to a version: the last number of an application id.

    `commit` is the hash of that version's commit, by which a restored table is noticed.
    """

    version: int
    number: int | None
    commit: str


_KNOWN: dict[tuple[str, str], _Known] = {}
"""By table id and application id: of the commits since the version that is known here, few have to
be read."""


def last_number(
    state: DeltaState, app_id: str, content: Callable[[int], bytes | None]
) -> int | None:
    """Return the last number of an application id up to a table's version; None where it has none.

    content: reads the commit of a version, or gives None where the log has it no longer.
    """
    key = (state.table_id(), app_id)
    newest = content(state.version)
    number = _found(state, app_id, content, _KNOWN.get(key))
    if newest is not None:
        _KNOWN[key] = _Known(state.version, number, digest_of(newest))
    return number


def _found(
    state: DeltaState,
    app_id: str,
    content: Callable[[int], bytes | None],
    known: _Known | None,
) -> int | None:
    """Return the last number out of the commits after the version that is known.

    Delta is asked where these commits are many, or no longer all there.
    """
    oldest = 0 if known is None else known.version
    if not 0 <= state.version - oldest <= _FEW:
        return state.transaction(app_id)
    for version in range(state.version, oldest - 1, -1):
        commit = content(version)
        if commit is None:
            return state.transaction(app_id)
        if known is not None and version == known.version:
            if digest_of(commit) == known.commit:
                return known.number
            # Another commit under that version: an older copy of the table was restored, and went
            # on from there.
            return state.transaction(app_id)
        number = number_in(commit, app_id)
        if number is not None:
            return number
    return None
