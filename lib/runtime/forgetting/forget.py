"""One person's data deleted below some folders: found, deleted, vacuumed, and looked for again."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from ...errors import ArgumentError
from ...jvm import forget_tables
from ..locations import below
from .claims import Claims
from .person import Identifier, Person
from .places import Root
from .report import Forgotten, Left, Scanned, TableReport
from .scan import Scan
from .work import Work


def forget(
    spark: SparkSession,
    roots: Sequence[str],
    where: Sequence[str],
    *,
    dry_run: bool = False,
    stopped: bool = False,
) -> Forgotten:
    """Delete one person's rows from all Delta tables below some folders, and prove it by a scan.

    A row is the person's where a column of a given name, at any depth, has the given value; a dead
    letter where any text or bytes of its record tell of the person. Tables that tell of the person
    in a row, an older file or their log are left with the files of their newest version alone: they
    cannot be read as of an earlier version any more. Their jobs go on from their checkpoints.

    Killed at any point it is finished by calling it again, since what is done follows from what is
    found. The jobs must have ended; one that is started meanwhile ends the call.

    Args:
        spark: a session with Delta.
        roots: folders with tables and their checkpoints.
        where: COLUMN=VALUE, or TABLE:COLUMN=VALUE for one table, by its path below the root or its
            name. Each one alone tells the person.
        dry_run: look, and change nothing.
        stopped: say of jobs whose checkpoints are not below the roots that they have ended.

    Raises:
        ArgumentError: for roots that are no folders or hold one another, and for no identifiers.
        TableError: for an append-only table with such rows; nothing was deleted then.
        CheckpointError: for a job that has not ended, or of which that is not known.
        ReplayMismatchError: for a table that was put back since its job's last batch.
        FencedError: where a job was started meanwhile.
    """
    began = datetime.now(UTC)
    clock = time.monotonic()
    person = Person([Identifier.parse(each) for each in where])
    places = [Root(path) for path in roots]
    _require_apart([place.path for place in places])
    found = [place.find() for place in places]
    checkpoints: list[str] = []
    for place, there in zip(places, found, strict=True):
        checkpoints += [place.of(name) for name in there.checkpoints]
    claims = Claims.of(spark, checkpoints, look=dry_run)
    work = [Work(spark, *pair, person, claims) for pair in zip(places, found, strict=True)]

    # Everything is refused, or found, before the first row is deleted.
    if not dry_run and not stopped:
        claims.require_known(path for each in work for path in each.paths)
    for each in work:
        each.require_deletable()
    outside = [sent for each in work for sent in each.outside()]
    outside += claims.dead_topics()
    before = [each.scan() for each in work]

    tables: list[TableReport] = []
    for each, seen in zip(work, before, strict=True):
        tables += each.forget(seen, dry_run=dry_run)
    if not dry_run:
        forget_tables(spark)
        claims.settle()

    after = before if dry_run else [each.scan(again=True) for each in work]
    left: list[Left] = []
    for each, seen in zip(work, after, strict=True):
        left += each.left(seen, dry_run=dry_run)
    return Forgotten(
        asked=person.identifiers,
        roots=[place.path for place in places],
        dry_run=dry_run,
        began=began,
        seconds=time.monotonic() - clock,
        tables=tables,
        left=left,
        topics=claims.topics,
        outside=outside,
        before=_scanned(before),
        after=None if dry_run else _scanned(after),
    )


def _require_apart(paths: Sequence[str]) -> None:
    if not paths:
        raise ArgumentError("there is no folder to look in.", "one root or more.")
    for one in paths:
        for other in paths:
            if below(one, other) or paths.count(one) > 1:
                raise ArgumentError(
                    f"the roots {one} and {other} hold one another.", "folders apart."
                )


def _scanned(scans: Iterable[Scan]) -> Scanned:
    every = list(scans)
    return Scanned(
        files=sum(each.files for each in every),
        bytes=sum(each.bytes for each in every),
        decoded=sum(each.decoded for each in every),
        found=sum(len({hit.file for hit in each.hits}) for each in every),
    )
