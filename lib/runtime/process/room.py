"""What is free where a job writes, for the errors of a disk that is full."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from ...errors import SetupError
from ..locations import local
from .failures import is_of_a_disk, plain


def free(places: Iterable[str]) -> str:
    """Tell the free bytes of each of these places that is on this machine, the fullest first.

    Places on one disk are told by the first of them.
    """
    told: dict[int, tuple[int, Path]] = {}
    for place in places:
        folder = existing(place)
        if folder is not None:
            told.setdefault(folder.stat().st_dev, (shutil.disk_usage(folder).free, folder))
    return "; ".join(
        f"{number:,} bytes are free under {at}" for number, at in sorted(told.values())
    )


@contextmanager
def room_told(places: Iterable[str]) -> Iterator[None]:
    """Raise what failed for want of room, or of leave to write, with what is free in these places.

    Any other error is raised as it is.
    """
    try:
        yield
    except (SetupError, OSError, Py4JError, PySparkException) as error:
        failure = error if isinstance(error, SetupError) else plain(error)
        if not is_of_a_disk(failure):
            raise
        given = f"{failure.given} ({free(places)})"
        raise SetupError(given, failure.allowed, failure.hint) from (error.__cause__ or error)


def existing(place: str) -> Path | None:
    """Return a folder of this machine, or the nearest one above it that is there."""
    folder = local(place)
    while folder is not None and not folder.exists():
        folder = folder.parent
    return folder
