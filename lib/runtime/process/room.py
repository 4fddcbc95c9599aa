"""What is free where a job writes, for the errors of a disk that is full."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from ...errors import SetupError
from ..locations import local


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


def with_room(error: SetupError, places: Iterable[str]) -> SetupError:
    """Return the error with what is free where the job writes."""
    return SetupError(f"{error.given} ({free(places)})", error.allowed, error.hint)


def existing(place: str) -> Path | None:
    """Return a folder of this machine, or the nearest one above it that is there."""
    folder = local(place)
    while folder is not None and not folder.exists():
        folder = folder.parent
    return folder
