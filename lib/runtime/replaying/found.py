"""What was found of a replay that was held against its job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from ...differences import Differences
from ...errors import DifferenceError
from ..job import Job


@dataclass(frozen=True, kw_only=True)
class Held:
    """How the rows of a replay differ from those of the job.

    target, replayed: the paths of the two tables.
    found: the differences; "expected" are the job's rows, and "found" those of the replay.
    until: results after this instant are not compared, since one of the two may not have them yet;
        None where all rows are.
    since: results at this instant or before it are not compared either, as the replay begins in the
        middle and they may lack rows; None where none does.
    before: how many rows of the job's target are of such results, or without state of records
        before the replay's start.
    late: rows that the job had left out as late, and the replay has not; and those that it has left
        out, and the job had not.
    unexplained: the differences in windows that none of these rows belongs to; None where it is not
        known which windows a row belongs to.
    rows: by step, how many rows the job's table has, and the replay's.
    columns: those that one of the tables alone has, which are not compared.
    """

    target: str
    replayed: str
    found: Differences
    until: datetime | None
    since: datetime | None
    before: int
    late: tuple[int, int]
    unexplained: Differences | None
    rows: Mapping[str, tuple[int, int]]
    columns: Sequence[str]

    def as_dict(self) -> dict[str, Any]:
        """Return what was found, for JSON."""
        told = asdict(self)
        return {
            **told,
            "until": None if self.until is None else self.until.isoformat(),
            "since": None if self.since is None else self.since.isoformat(),
            "agree": self.found.agree,
        }


def require_agreement(job: Job, found: Held) -> None:
    """Refuse differences.

    Raises:
        DifferenceError: which tells how many there are.
    """
    if not found.found.agree:
        raise DifferenceError(
            f"the replay of {job.name!r} differs from its table: {found.found.missing:,} rows are "
            f"in {found.target} alone, {found.found.extra:,} in {found.replayed} alone, and "
            f"{found.found.different:,} differ.",
            "the same rows, unless the job was changed to give others.",
            "look at the differences; where they are what the change was for, --switch puts the "
            "replay in place.",
        )
