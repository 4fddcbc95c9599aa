"""What a job's query is, part by part, in text that stays the same from start to start.

A value is told by its class and by the fields that differ from their defaults, so that a field
which a later version adds changes nothing; a function by its name and what it has closed over, and
a lambda by what it does besides.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any

from pyspark.sql import Column
from pyspark.sql.types import DataType

from ...aggregates import Aggregate
from ...durations import microseconds
from ...errors import TidegateError
from ...sources import KafkaSource, Reading
from ..job import Job

_DEEPEST = 12
_LIBRARY = f"{__name__.partition('.')[0]}."
_PLAIN = (bool, int, float, bytes, date)
_COUNTED = re.compile(r"\b([xyz])_\d+\b")
_BODY = re.compile(r", code (\d+\.\d+):[0-9a-f]{12}")
_FROM_NOW_ON = "counts for the rows of the next batch on; what the tables hold stays as it is"
_SAFE = {
    "topics": "topics that were added are read from their start",
    "format": "counts for the records of the next batch on; dead letters of before stay there",
    "reading": "counts for the records of the next batch on; what was late or refused stays so",
}
BOUND = ("inputs", "emission", "transform")
"""The parts that a checkpoint's state is made of; the others may change between two batches."""


def plan_of(job: Job) -> dict[str, str]:
    """Return what decides about a job's rows, by parts."""
    steps = {path: f"<{step}>" for path, step in job.sink.tables()}
    parts = {"inputs": ", ".join(job.inputs)}
    for name, given in job.inputs.items():
        parts[f"{name}.topics"] = _topics(given.reading.source)
        parts[f"{name}.format"] = described(given.reading.format)
        parts[f"{name}.reading"] = _reading(given.reading)
        if given.by_log:
            # Another lateness would make other rows late from some batch on.
            parts[f"{name}.late"] = f"by the log, after {described(given.reading.lateness)}"
    parts["transform"] = described(job.transform)
    parts["each_batch"] = described(job.each_batch)
    parts["emission"] = job.emission
    parts["corrections"] = described(job.corrections)
    parts["sink"] = described(job.sink, steps)
    return parts


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Return the parts that differ, in the new order.

    What a lambda does is compared where both were told by one version of Python.
    """
    return [part for part in {**new, **old} if not _same(old.get(part), new.get(part))]


def _same(old: str | None, new: str | None) -> bool:
    if old is None or new is None or set(_BODY.findall(old)) == set(_BODY.findall(new)):
        return old == new
    return _BODY.sub("", old) == _BODY.sub("", new)


def told(part: str, old: str | None, new: str | None) -> str:
    """Tell how a part has changed."""
    same = old is not None and new is not None and _BODY.sub("", old) == _BODY.sub("", new)
    more = ": the code of a lambda is another" if same else ""
    return f"{part} was {old} and is {new}{more}"


def safe(part: str) -> str:
    """Tell what a changed part means for a checkpoint that is not bound to it."""
    return _SAFE.get(part.rpartition(".")[2], _FROM_NOW_ON)


def bound(part: str, old: str | None, new: str | None) -> bool:
    """Return whether a checkpoint is bound to a part of its plan."""
    if part != "transform":
        return part in BOUND or part.endswith(".late")
    return not all(text is not None and _keeps_no_state(text) for text in (old, new))


def _keeps_no_state(transform: str) -> bool:
    return transform == "None" or transform.startswith("Stateless(")


def _topics(source: KafkaSource) -> str:
    chosen = source.topics or source.pattern or source.partitions
    return described(chosen)


def _reading(reading: Reading) -> str:
    """Return the fields of a reading that are no parts of their own."""
    own = [each for each in fields(reading) if each.name not in ("source", "format")]
    return _fielded(reading, own, {}, 0)


def described(value: Any, names: Mapping[str, str] | None = None, depth: int = 0) -> str:
    """Return a value as text.

    names: what texts are called that must not count, such as the path of a table.
    """
    known = names or {}
    below = partial(described, names=known, depth=depth + 1)
    if value is None or depth > _DEEPEST:
        return "None" if value is None else "..."
    if isinstance(value, str):
        return known.get(value) or _text(value)
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{below(key)}: {below(each)}' for key, each in value.items())}}}"
    if isinstance(value, Set):
        return f"{{{', '.join(sorted(map(below, value)))}}}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(below, value))}]"
    return _of_a_kind(value, known, depth, below)


def _of_a_kind(
    value: Any, names: Mapping[str, str], depth: int, below: Callable[[Any], str]
) -> str:
    if isinstance(value, Column):
        # Spark numbers the variables of lambda functions anew in each session.
        return _COUNTED.sub(r"\1", str(value))
    if isinstance(value, DataType):
        return value.json()
    if isinstance(value, Aggregate):
        return _aggregate(value, below)
    if is_dataclass(value) and not isinstance(value, type):
        return _fielded(value, fields(value), names, depth)
    if isinstance(value, partial):
        return f"partial({below(value.func)}, {below(value.args)}, {below(value.keywords)})"
    if isinstance(value, MethodType):
        return f"{below(value.__self__)}.{value.__name__}"
    if isinstance(value, FunctionType):
        return _function(value, below)
    return type(value).__qualname__ if not isinstance(value, type) else value.__qualname__


def _text(value: str) -> str:
    """Return a text; durations that are one length are one text, however they are written."""
    try:
        return str(timedelta(microseconds=microseconds(value, least=0)))
    except (TidegateError, OverflowError):
        return repr(value)


def _fielded(value: Any, chosen: Sequence[Field[Any]], names: Mapping[str, str], depth: int) -> str:
    told = []
    for each in chosen:
        # Settings such as a password are no part of what a value is.
        if not each.compare:
            continue
        text = described(getattr(value, each.name), names, depth + 1)
        if text != _default(each, names, depth):
            told.append(f"{each.name}={text}")
    return f"{type(value).__name__}({', '.join(told)})"


def _default(each: Field[Any], names: Mapping[str, str], depth: int) -> str | None:
    if each.default is not MISSING:
        return described(each.default, names, depth + 1)
    if each.default_factory is not MISSING:
        return described(each.default_factory(), names, depth + 1)
    return None


def _aggregate(value: Aggregate, below: Callable[[Any], str]) -> str:
    """Return which aggregate it is, by the functions that it is made of."""
    lifts = [below(part.lift) for _, part in value.reductions]
    made = [*(lifts or [below(value.partial)]), below(value.finish)]
    return " ".join(dict.fromkeys(made))


def _function(value: FunctionType, below: Callable[[Any], str]) -> str:
    """Return a function's name, and the values that it has closed over."""
    module = value.__module__ or ""
    if module == "__main__":
        # A program is the same whether it is run or imported.
        module = Path(getattr(sys.modules["__main__"], "__file__", None) or "__main__").stem
    name = value.__qualname__.removesuffix(".<locals>.<lambda>")
    own = value.__name__ == "<lambda>" and not module.startswith(_LIBRARY)
    cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=False)
    kept = []
    for held, cell in cells:
        try:
            content = cell.cell_contents
        except ValueError:  # The cell of a name that is bound later is empty.
            continue
        if content is not value:
            kept.append(f"{held}={below(content)}")
    if own and value.__defaults__:
        kept.append(f"defaults={below(value.__defaults__)}")
    named = f"{module.rpartition('.')[2]}.{name}({', '.join(kept)})"
    return f"{named}{_body(value.__code__)}" if own else named


def _body(code: CodeType) -> str:
    """Return a hash of what a lambda does; bytecode is another one in each version of Python."""
    version = ".".join(map(str, sys.version_info[:2]))
    return f", code {version}:{hashlib.sha256(_code(code).encode()).hexdigest()[:12]}"


def _code(code: CodeType) -> str:
    constants = [_code(each) if isinstance(each, CodeType) else _constant(each)
                 for each in code.co_consts]  # fmt: skip
    return f"{code.co_code.hex()} {constants} {code.co_names}"


def _constant(value: object) -> str:
    """Return a constant as text; the order of a set is another one in each process."""
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)
