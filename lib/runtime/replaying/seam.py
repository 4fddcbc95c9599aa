"""Whether a job's results up to an instant, and a replay's after it, are the results of one job."""

from __future__ import annotations

from ...commit.identity import Identity
from ...windows import Windowed
from ..job import Job
from ..query.plan import described, plan_of


def seam(job: Job, identity: Identity) -> str | None:
    """Return why results of the job that ran and of the changed one do not fit; None if they do.

    identity: of the job that ran. Other windows would overlap where both meet, or leave rows out.
    """
    now = plan_of(job)
    for name in job.inputs:
        part = f"{name}.reading"
        if now[part] != identity.plan.get(part):
            return f"{part} was {identity.plan.get(part)} and is {now[part]}"
    was = identity.plan.get("transform", "")
    if isinstance(job.transform, Windowed):
        window = described(job.transform.window)
        if f"(window={window}, " not in was:
            return f"the window was another one in {was}, and is {window}"
        return None
    if now["transform"] != was:
        return f"transform was {was} and is {now['transform']}"
    return None
