"""The commit stamp: what a commit says of the batch that it holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .batch import Batch, Offsets

_KIND = "tidegate/1"


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """Who wrote what: kept as JSON in the commit's userMetadata, and so atomic with its rows.

    `offsets` is the SHA-256 of the checkpoint's plan for the batch, `end` the Kafka offsets up to
    which it read, `rows` the batch's counts (in, out, dead, late; those that are known)."""

    job: str
    query: str
    run: str
    batch: int
    step: str
    offsets: str
    end: Offsets
    rows: Mapping[str, int]

    @classmethod
    def of(cls, batch: Batch, step: str, rows: Mapping[str, int]) -> Stamp:
        """Return the stamp of one step of a batch."""
        known = {"in": batch.rows_in, "dead": batch.dead, "late": batch.late}
        counts = {name: value for name, value in known.items() if value is not None} | dict(rows)
        return cls(
            job=batch.job,
            query=batch.query_id,
            run=batch.run_id,
            batch=batch.number,
            step=step,
            offsets=batch.offsets_hash,
            end=batch.end,
            rows=counts,
        )

    @property
    def app_id(self) -> str:
        """Delta's txnAppId: each step of a query has its own, for Delta skips the second write
        under one number."""
        return f"{self.job}/{self.query}/{self.step}"

    def text(self) -> str:
        """Return the JSON that goes into the commit."""
        return json.dumps({"stamp": _KIND} | self.__dict__, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str | None) -> Stamp | None:
        """Read a commit's userMetadata; None when it is not one of ours."""
        try:
            found: Any = json.loads(text or "")
            if found.pop("stamp") != _KIND:
                return None
            ends = {
                topic: {int(p): o for p, o in ps.items()} for topic, ps in found.pop("end").items()
            }
            return cls(end=ends, **found)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None
