"""A job that writes beside itself: every path with an ending, and nothing else changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

from ...errors import ArgumentError
from ..job import Job
from ..query.places import steps
from ..query.plan import plan_of
from .places import paths


def beside(job: Job) -> Job:
    """Return the job with each of its tables, and the checkpoint, under a path of its own.

    That is the path with NEW behind it; what lies inside a table stays inside. The job ends when it
    has read what there is, serves no metrics, keeps no report, sends no dead letters, names no
    table, and works off no backlog as a batch.

    Raises:
        ArgumentError: for a job that sends rows to a topic, a webhook or a store, that names a path
            of its own where no other can be put, or that has an idle time-out.
    """
    for name, given in job.inputs.items():
        if given.idle is not None:
            raise ArgumentError(
                f"the input {name!r} of {job.name!r} has an idle time-out, and a replay has no "
                "clock.",
                "inputs without idle, for a job that is replayed.",
                "leave idle out, in the job that goes on with the replay's checkpoint too.",
            )
    told = sorted(set(_senders(job.sink)))
    if told:
        raise ArgumentError(
            f"{job.name!r} sends rows to {' and '.join(told)}, and a replay would send them again.",
            "a job whose tables are all that it writes.",
            "the same job without that sink.",
        )
    moves = paths(job)
    late = {name: moves[table.path] for name, table in job.places.late.items()}
    made = replace(
        job,
        sink=_moved(job.sink, moves),
        checkpoint=moves[job.places.checkpoint],
        dead_topic=None,
        dead=moves[job.places.dead.path],
        gaps=moves[job.places.gaps.path],
        catalog=None,
        late=late if len(job.inputs) > 1 else next(iter(late.values())),
        every=None,
        backlog=None,
        metrics_port=None,
        report=None,
    )
    _require_moved(job, made, moves)
    return made


def _moved(value: Any, moves: Mapping[str, str]) -> Any:
    """Return a value with the paths in it put elsewhere; the same value where it has none."""
    move = partial(_moved, moves=moves)
    if isinstance(value, str):
        return moves.get(value, value)
    if isinstance(value, Mapping):
        return _if_other(value, {key: move(each) for key, each in value.items()})
    if isinstance(value, list | tuple):
        return _if_other(value, type(value)(map(move, value)))
    if isinstance(value, partial):
        keywords = {key: move(each) for key, each in value.keywords.items()}
        other = partial(value.func, *map(move, value.args), **keywords)
        same = other.args == value.args and other.keywords == value.keywords
        return value if same else other
    if is_dataclass(value) and not isinstance(value, type):
        own = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        put = {name: move(each) for name, each in own.items()}
        changed = {name: each for name, each in put.items() if each is not own[name]}
        return replace(value, **changed) if changed else value
    return value


def _senders(value: Any) -> Iterator[str]:
    """Return what the sinks in a value send rows to, where that is no table."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from _senders(each)
    elif is_dataclass(value) and not isinstance(value, type):
        sends = getattr(value, "sends", None)
        if isinstance(sends, str):
            yield sends
        yield from _senders([getattr(value, each.name) for each in fields(value)])


def _if_other(value: Any, made: Any) -> Any:
    return value if made == value else made


def _require_moved(job: Job, made: Job, moves: Mapping[str, str]) -> None:
    """Refuse a job that would still write to, or read from, a table of the old one."""
    here = set(moves)
    wanted = {step: moves[path] for step, path in steps(job).items()}
    still = {step: path for step, path in steps(made).items() if path != wanted.get(step)}
    for part, text in plan_of(made).items():
        named = [path for path in here if repr(path) in text]
        if named:
            still[part] = ", ".join(named)
    if still:
        told = "; ".join(f"{part} names {path}" for part, path in still.items())
        raise ArgumentError(
            f"{job.name!r} cannot be replayed: {told}, where no other path can be put.",
            "paths as fields of the sink, or as arguments of a functools.partial.",
            "partial(function, path=...) in place of a function that holds the path.",
        )
