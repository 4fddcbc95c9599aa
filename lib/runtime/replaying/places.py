"""The names of a replay's folders, beside those of its job."""

from __future__ import annotations

from ..job import Job
from ..locations import below, whole

NEW = ".replay"
"""What the paths of a replay end in."""
OLD = ".before"
"""What the paths of tables end in whose place a replay has taken."""


def paths(job: Job, ending: str = NEW) -> dict[str, str]:
    """Return the path beside each that a job writes."""
    places = job.places
    own = [path for path, _ in job.sink.tables()]
    own += [places.dead.path, places.gaps.path, *(table.path for table in places.late.values())]
    own.append(places.checkpoint)
    # The outermost folders come first: what lies inside one moves with it.
    found: dict[str, str] = {}
    for path in sorted(own, key=len):
        outer = next((each for each in found if below(path, each)), None)
        rest = "" if outer is None else path.removeprefix(outer.rstrip("/"))
        found[path] = f"{path.rstrip('/')}{ending}" if outer is None else f"{found[outer]}{rest}"
    return found


def outermost(job: Job) -> list[str]:
    """Return the folders that a job writes, whole, without those inside others; checkpoint last."""
    checkpoint = whole(job.places.checkpoint)
    own = list(dict.fromkeys(whole(path) for path in paths(job)))
    found = [path for path in own if not any(below(path, other) for other in own)]
    return (
        [*(path for path in found if path != checkpoint), checkpoint]
        if checkpoint in found
        else found
    )
