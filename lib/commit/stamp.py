"""The commit stamp: what a commit says of the batch that it holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ..offsets import EventTimes, Offsets
from .batch import Batch
from .plan_file import by_partition

_KIND = "tidegate/1"


def app_id(job: str, query: str, step: str) -> str:
    """Return Delta's txnAppId for a step of a query."""
    return f"{job}/{query}/{step}"


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """Who wrote what: JSON in the commit's userMetadata, and so atomic with the commit's rows.

    job, query, run, batch, step: the job's name, Spark's ids of the query and of its run, the
        batch's number, and the name of what was written.
    offsets: SHA-256 of the checkpoint's plan for the batch.
    end: the Kafka offsets up to which the batch read, exclusive.
    rows: the batch's counts (in, out, dead, late), as far as they are known.
    epoch, plan: the start of the job that wrote it, and a hash of what its query was.
    latest: the newest event time that had been read, in microseconds since 1970.
    topics: by name, Kafka's id of each topic that the offsets are of; None where no broker told.
    newest: where rows are late by the log, the newest event time of each partition up to the end.

    Stamps that were written before there were epochs have none of the last five.
    """

    job: str
    query: str
    run: str
    batch: int
    step: str
    offsets: str
    end: Offsets
    rows: Mapping[str, int]
    epoch: int | None = None
    plan: str | None = None
    latest: int | None = None
    topics: Mapping[str, str] | None = None
    newest: EventTimes | None = None

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
            epoch=batch.epoch,
            plan=batch.plan,
            latest=batch.latest,
            topics=batch.topics,
            newest=batch.newest,
        )

    @property
    def app_id(self) -> str:
        """Delta's txnAppId, of which each step of a query has its own.

        Delta skips the second write under one id and number.
        """
        return app_id(self.job, self.query, self.step)

    def text(self) -> str:
        """Return the JSON that goes into the commit."""
        known = {name: value for name, value in self.__dict__.items() if value is not None}
        return json.dumps({"stamp": _KIND} | known, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str | None) -> Stamp | None:
        """Return the stamp in a commit's userMetadata; None where another program wrote it."""
        try:
            found: Any = json.loads(text or "")
            if found.pop("stamp") != _KIND:
                return None
            end = by_partition(found.pop("end"))
            known = {each.name for each in fields(cls)} & found.keys()
            if found.get("newest") is not None:
                found["newest"] = by_partition(found["newest"])
            return cls(end=end, **{name: found[name] for name in known})
        except (ValueError, TypeError, KeyError, AttributeError):
            return None
