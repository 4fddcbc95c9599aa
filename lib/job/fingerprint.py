"""The fingerprint of a job: a text for each part of its query that decides about its rows.

A checkpoint stores the fingerprint, so it must not contain names that a refactoring of tidegate
changes. A value of a library class is described by the `plan_name` of the class, and by the fields
that differ from their defaults, so that a new field with a default changes nothing. The key of a
field is its name, unless `plan_keys` of the class maps the name to the key that checkpoints have:

    plan_name: ClassVar[str] = "tumbling"
    plan_keys: ClassVar[Mapping[str, str]] = {"renamed": "size"}

`tests/golden/fingerprints.json` pins the names and the keys. A public function of the library is
described by its name, or by its `plan_name` (see `tidegate.transform.plan_name`), which a private
function must have. A user's function is described by `<module>.<qualified name>` and by the values
that it binds: closure, arguments of `functools.partial`, and defaults of a lambda. Its code does
not count; `Job.revision` does. The texts belong to the format version of the lineage file.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import KW_ONLY, MISSING, Field, dataclass, fields, is_dataclass
from datetime import date, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from pyspark.sql import Column
from pyspark.sql.types import DataType

from ..aggregates import Aggregate
from ..durations import microseconds
from ..errors import CheckpointError, TableMismatchError, TidegateError
from ..transform import Stateless
from .job import Job

_MAX_DEPTH = 12
_LIBRARY = __name__.partition(".")[0]
_NUMBERED_VARIABLE = re.compile(r"\b([xyz])_\d+\b")
_OPENING, _CLOSING = "([{", ")]}"
_CALL = re.compile(r"(?P<head>[^'\"()\[\]{}]*[(\[{])(?P<arguments>.*)[)\]}]", re.DOTALL)
_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|.", re.DOTALL)
_SHORT_TEXT = 60
"""The length of a text that is shown as it is."""
_INPUT_FIELDS_WITH_PARTS = ("source", "format")
_NEXT_BATCH_EFFECT = "applies from the next batch; existing rows do not change"
_SAFE_CHANGE_EFFECTS = {
    "topics": "added topics are read from their start",
    "format": "applies from the next batch; existing dead letters do not change",
    "input": "applies from the next batch; existing late rows and dead letters do not change",
}
CHECKPOINT_BOUND_PARTS = ("inputs", "watermark", "emit", "transform", "revision")
"""The parts that the state of a checkpoint depends on; other parts may change between batches.

`transform` and `revision` may change too if the transform is stateless before and after.
"""


def job_fingerprint(job: Job) -> dict[str, str]:
    """Return the fingerprint of a job, by parts.

    The parts of an input are `<input>.topics`, `.format`, `.input` and, with watermarks other than
    "global", `.watermark`. A checkpoint stores the names of the parts and their texts.
    """
    output_labels = {path: f"<{output}>" for path, output in job.sink.tables()}
    parts = {"inputs": ", ".join(job.inputs)}
    for name, job_input in job.inputs.items():
        source = job_input.source
        parts[f"{name}.topics"] = describe_value(
            source.topics or source.pattern or source.partitions
        )
        parts[f"{name}.format"] = describe_value(job_input.format)
        parts[f"{name}.input"] = _Describer({}).describe_fields(
            job_input,
            [each for each in fields(job_input) if each.name not in _INPUT_FIELDS_WITH_PARTS],
        )
        if job_input.late_by_log:
            # With another delay, other rows would be late from the next batch.
            delay = describe_value(job_input.watermark_delay)
            parts[f"{name}.watermark"] = f"by the log, after {delay}"
        elif job_input.watermarks == "partition":
            # The checkpoint of one stream would continue with one watermark.
            parts[f"{name}.watermark"] = "per partition"
    parts["transform"] = describe_value(job.transform)
    parts["each_batch"] = describe_value(job.each_batch)
    parts["emit"] = job.emit
    parts["allowed_lateness"] = describe_value(job.allowed_lateness)
    parts["sink"] = describe_value(job.sink, output_labels)
    parts["revision"] = str(job.revision)
    return parts


def describe_value(value: Any, labels: Mapping[str, str] | None = None) -> str:
    """Return a value as text.

    labels: replacements for strings that must not matter, such as the path of a table.

    >>> from tidegate.windows import Tumbling
    >>> describe_value(Tumbling("60 seconds"))
    'tumbling(size=0:01:00)'
    """
    return _Describer(labels or {}).describe(value)


@dataclass(frozen=True)
class _Describer:
    """Describes a value and the values in it.

    labels: replacements for strings. depth: how deep the value is within the described one.
    """

    labels: Mapping[str, str]
    depth: int = 0

    def describe(self, value: Any) -> str:
        """Return a value as text."""
        if value is None or self.depth > _MAX_DEPTH:
            return "None" if value is None else "..."
        if isinstance(value, str):
            return self.labels.get(value) or _describe_text(value)
        if isinstance(value, timedelta):
            return str(value)
        if isinstance(value, date):
            return value.isoformat()
        if isinstance(value, bool | int | float | bytes | Decimal):
            return repr(value)
        if isinstance(value, Column):
            # Spark renumbers the variables of lambda functions in each session.
            return _NUMBERED_VARIABLE.sub(r"\1", str(value))
        if isinstance(value, DataType):
            return value.json()
        if isinstance(value, Mapping):
            items = [f"{self._nested(key)}: {self._nested(item)}" for key, item in value.items()]
            return f"{{{', '.join(items)}}}"
        if isinstance(value, Set):
            return f"{{{', '.join(sorted(map(self._nested, value)))}}}"
        if isinstance(value, Sequence):
            return f"[{', '.join(map(self._nested, value))}]"
        if isinstance(value, Aggregate):
            return self._describe_aggregate(value)
        callable_text = self._describe_callable(value)
        if callable_text is not None:
            return callable_text
        if is_dataclass(value) and not isinstance(value, type):
            return self.describe_fields(value, fields(value))
        return _plan_name(value if isinstance(value, type) else type(value))

    def _nested(self, value: Any) -> str:
        return _Describer(self.labels, self.depth + 1).describe(value)

    def describe_fields(self, value: Any, chosen_fields: Sequence[Field[Any]]) -> str:
        """Return the plan name of a dataclass value, and the fields that are not the default."""
        keys: Mapping[str, str] = getattr(value, "plan_keys", {})
        texts = {}
        for field in chosen_fields:
            # Settings such as a password are not compared.
            if not field.compare or field.name == "plan_name":
                continue
            text = self._nested(getattr(value, field.name))
            if text != self._describe_default(field):
                texts[keys.get(field.name, field.name)] = text
        own_name = getattr(value, "__dict__", {}).get("plan_name")
        return _call_text(own_name or _plan_name(type(value)), texts)

    def _describe_default(self, field: Field[Any]) -> str | None:
        if field.default is not MISSING:
            return self._nested(field.default)
        if field.default_factory is not MISSING:
            return self._nested(field.default_factory())
        return None

    def _describe_aggregate(self, value: Aggregate) -> str:
        if value.plan_name:
            arguments = value.plan_arguments
        elif value.reductions:
            parts = {name: {part.operation: part.lift} for name, part in value.reductions}
            arguments = {"reductions": parts, "finish": value.finish}
        else:
            arguments = {"partial": value.partial, "merge": value.merge, "finish": value.finish}
        texts = {
            key: self._nested(argument)
            for key, argument in arguments.items()
            if argument is not None
        }
        return _call_text(value.plan_name or "aggregate", texts)

    def _describe_callable(self, value: Any) -> str | None:
        """Return a function, method or partial as text; None for any other value."""
        if isinstance(value, partial):
            keys: Mapping[str, str] = getattr(value.func, "plan_keys", {})
            keywords = {
                keys.get(name, name): self._nested(bound) for name, bound in value.keywords.items()
            }
            texts = [*map(self._nested, value.args), *_keyword_texts(keywords)]
            return f"{self.describe(value.func)}({', '.join(texts)})"
        if isinstance(value, MethodType):
            method = value.__func__
            name = vars(method).get("plan_name") or method.__name__
            return f"{self._nested(value.__self__)}.{name}"
        if isinstance(value, BuiltinFunctionType):
            return value.__qualname__
        if not isinstance(value, FunctionType):
            return None
        texts = sorted(self._nested(bound) for bound in _bound_values(value))
        return _plan_name(value) + (f"({', '.join(texts)})" if texts else "")


def _describe_text(value: str) -> str:
    """Return a string as text; equal durations have equal texts."""
    try:
        return str(timedelta(microseconds=microseconds(value, min_value=0)))
    except (TidegateError, OverflowError):
        return repr(value)


def _call_text(name: str, texts: Mapping[str, str]) -> str:
    return f"{name}({', '.join(_keyword_texts(texts))})"


def _keyword_texts(texts: Mapping[str, str]) -> list[str]:
    return [f"{key}={texts[key]}" for key in sorted(texts)]


def _plan_name(named: Any) -> str:
    """Return the plan name of a class or function, or `<module>.<name>`.

    A user's subclass has a name of its own. A name in the library is alone: its modules may move.
    """
    plan_name: str | None = vars(named).get("plan_name")
    if plan_name:
        return plan_name
    module: str | None = named.__module__
    short_name: str = named.__qualname__.replace("<locals>.", "")
    if (module or "").partition(".")[0] == _LIBRARY:
        return short_name
    if module == "__main__":
        # A program has the same fingerprint whether it is run or imported.
        file = getattr(sys.modules["__main__"], "__file__", None) or "__main__"
        return f"{Path(file).stem}.{short_name}"
    return f"{(module or '').rpartition('.')[2]}.{short_name}"


def _bound_values(function: FunctionType) -> list[object]:
    """Return the values of a function's closure, and the default values of a lambda."""
    values: list[object] = []
    if function.__name__ == "<lambda>":
        values += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:  # The cell is empty: its name is bound later.
            continue
    return [value for value in values if value is not function]


@dataclass(frozen=True)
class FingerprintDiff:
    """The difference between the recorded fingerprint of a checkpoint and the current one.

    recorded: empty if the checkpoint has none.
    table_count: the number of tables that the sink writes.
    """

    recorded: Mapping[str, str]
    current: Mapping[str, str]
    _: KW_ONLY
    table_count: int = 1

    @property
    def changed_parts(self) -> list[str]:
        """The parts that differ, in the current order.

        >>> FingerprintDiff({"emit": "final"}, {"emit": "changes"}).changed_parts
        ['emit']
        """
        if not self.recorded:
            return []
        parts = dict.fromkeys([*self.current, *self.recorded])
        return [part for part in parts if self.recorded.get(part) != self.current.get(part)]

    @property
    def descriptions(self) -> list[str]:
        """The changed parts, as text.

        >>> FingerprintDiff({"emit": "final"}, {"emit": "changes"}).descriptions
        ['emit changed from final to changes']
        """
        return [self._describe(part) for part in self.changed_parts]

    def is_checkpoint_bound(self, part: str) -> bool:
        """Return whether the state of a checkpoint depends on a part of the fingerprint."""
        last_name = part.rpartition(".")[2]
        if last_name in ("transform", "revision"):
            return not all(map(_is_stateless, (self.recorded, self.current)))
        return last_name in CHECKPOINT_BOUND_PARTS

    def require_allowed(
        self, number: int, find_written_outputs: Callable[[], Sequence[str]]
    ) -> str:
        """Refuse a change that the checkpoint does not allow; return the allowed ones as text.

        number: the batch after the last complete one, by its number in the tables.
        find_written_outputs: returns the outputs that already have this batch.

        Raises:
            CheckpointError: if the state of the checkpoint depends on a changed part.
            TableMismatchError: if some tables have the batch, written with another fingerprint.
        """
        bound_parts = [part for part in self.changed_parts if self.is_checkpoint_bound(part)]
        if bound_parts:
            changes = "; ".join(map(self._describe, bound_parts))
            raise CheckpointError(
                f"the checkpoint does not fit the job: {changes}",
                f"the state of the checkpoint depends on the {' and the '.join(bound_parts)}. "
                "Nothing was written.",
                f"restore the previous configuration; or {_remedy(bound_parts)}.",
            )
        # With a single table, a changed sink does not affect rows in other tables.
        relevant_parts = [
            part for part in self.changed_parts if part != "sink" or self.table_count > 1
        ]
        outputs = find_written_outputs() if relevant_parts else []
        if outputs:
            raise TableMismatchError(
                f"batch {number} is incomplete, and the job has changed: "
                f"{'; '.join(map(self._describe, relevant_parts))}",
                f"{', '.join(outputs)} already has the batch; with another configuration, a "
                "record could be written to two tables. Nothing was written.",
                "finish the batch with the previous configuration, then change it; or use a new "
                "checkpoint with --resume-from-table.",
            )
        effects = {
            part: _SAFE_CHANGE_EFFECTS.get(part.rpartition(".")[2], _NEXT_BATCH_EFFECT)
            for part in self.changed_parts
        }
        safe_changes = "; ".join(f"{self._describe(part)}: {effects[part]}" for part in effects)
        return f"safe changes: {safe_changes}" if safe_changes else "unchanged"

    def _describe(self, part: str) -> str:
        old, new = changed_text(str(self.recorded.get(part)), str(self.current.get(part)))
        return f"{part} changed from {old} to {new}"


def _remedy(bound_parts: Sequence[str]) -> str:
    """Return how a job continues after a change of these parts."""
    new_start = "use a new checkpoint and new tables"
    if "inputs" in bound_parts:
        return new_start
    return (
        "tidegate replay JOB, which computes new tables from the job's first record on, and then "
        "tidegate replay JOB --swap, which replaces the tables and the checkpoint by them; or "
        f"{new_start}"
    )


def changed_text(old: str, new: str) -> tuple[str, str]:
    """Return the arguments that differ between two texts of a fingerprint.

    >>> changed_text("window_aggregation(aggs={'n': count()}, window=tumbling(size=0:00:10))",
    ...              "window_aggregation(aggs={'n': count()}, window=tumbling(size=0:00:20))")
    ('window=tumbling(size=0:00:10)', 'window=tumbling(size=0:00:20)')
    """
    if max(len(old), len(new)) <= _SHORT_TEXT:
        return old, new
    old_call, new_call = _CALL.fullmatch(old), _CALL.fullmatch(new)
    if old_call is None or new_call is None or old_call["head"] != new_call["head"]:
        return old, new
    old_arguments, new_arguments = (
        _split_arguments(call["arguments"]) for call in (old_call, new_call)
    )
    removed = [each for each in old_arguments if each not in new_arguments]
    added = [each for each in new_arguments if each not in old_arguments]
    if len(removed) == len(added) == 1:
        return changed_text(removed[0], added[0])
    if not removed and not added:
        return old, new
    return ", ".join(removed) or "nothing", ", ".join(added) or "nothing"


def _split_arguments(text: str) -> list[str]:
    """Return the parts between the commas that are in no brackets or quotes."""
    parts, depth = [""], 0
    for token in _TOKEN.findall(text):
        depth += (token in _OPENING) - (token in _CLOSING)
        if token == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return [part.strip() for part in parts]


def _is_stateless(fingerprint: Mapping[str, str]) -> bool:
    transform = fingerprint.get("transform", "")
    return transform == "None" or transform.startswith(f"{Stateless.plan_name}(")
