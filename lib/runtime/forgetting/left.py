"""What a scan still finds, and what its owner can do about it."""

from __future__ import annotations

from collections import Counter

from .places import Kind, Root
from .report import Left
from .scan import Scan
from .sketched import TOP_LEFT

_WHY: dict[Kind, tuple[str, str]] = {
    "rows": (
        "rows that are not the person's by the columns that were named, and tell of the person in "
        "another column.",
        "Name that column too: --where TABLE:COLUMN=VALUE deletes these rows.",
    ),
    "log": (
        "the table's log, its comments or its properties tell of the person.",
        "Run this again; what stays then is a comment, a property or a name of the table.",
    ),
    "checkpoint": (
        "the query's checkpoint, its state most likely, tells of the person.",
        "State passes out with the watermark, and its old files a hundred batches later: let the "
        "job run on, and run this again. Or begin a new checkpoint with --resume-from-table, or by "
        "tidegate replay, and delete the old one.",
    ),
    "other": (
        "a file of no table tells of the person.",
        "Its owner deletes it, or the part of it.",
    ),
}


def left(root: Root, seen: Scan, *, tables_too: bool) -> list[Left]:
    """Return what a scan has found; of a dry run without what tables hold, which would go."""
    found: Counter[tuple[str, Kind, str]] = Counter()
    for hit in seen.hits:
        if tables_too or hit.kind in ("checkpoint", "other"):
            place = hit.file if hit.kind == "other" else hit.place
            found[(place, hit.kind, hit.where)] += hit.count
    tops = {(each.place, each.column) for each in seen.sketches if each.kind == "top"}
    told = []
    for (place, kind, where), number in sorted(found.items()):
        why, way = TOP_LEFT if (place, where) in tops else _WHY[kind]
        told.append(Left(path=root.of(place), where=where, count=number, why=why, way=way))
    unread = [
        Left(
            path=root.path,
            where="a file that cannot be read",
            count=0,
            why=fault,
            way="See to it that it can be read, or delete it; then run this again.",
        )
        for fault in seen.unread
    ]
    return [*told, *unread]
