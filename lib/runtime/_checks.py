"""What is asked of a job's parts at construction: types, names, numbers, what goes together."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql.types import StructType

from ..commit.named import is_schema
from ..errors import ArgumentError, ColumnError, ColumnTypeError
from ..sinks import DeadTopic, Layout
from ..sinks.alarms import windows_of
from ..sinks.side_layout import require_shared
from ..sources import KafkaSource
from ..transform import Stateful, Stateless
from ..windows import Windowed

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
"""A job's name is part of application ids, and of paths."""


def require_type(value: object, kind: type, what: str, instead: str = "") -> None:
    """Refuse a value of another type."""
    if not isinstance(value, kind):
        raise ColumnTypeError(
            f"{what} is {value!r}, a {type(value).__name__}.", f"a {kind.__name__}.", instead
        )


def require_count(value: object, what: str, *, least: int = 0, most: int | None = None) -> None:
    """Refuse what is no whole number, or one out of range."""
    upper = "" if most is None else f" and at most {most:,}"
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not isinstance(value, int) or not whole or value < least or value > (most or value):
        raise ArgumentError(f"{what} is {value!r}.", f"a whole number, at least {least}{upper}.")


def require_share(value: object, what: str) -> None:
    """Refuse what is no number from 0 to 1."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not isinstance(value, int | float) or not number or not 0 <= value <= 1:
        raise ArgumentError(f"{what} is {value!r}.", "a share from 0 to 1, or None.", f"{what}=0.1")


def require_name(name: object) -> None:
    """Refuse a job's name that cannot stand in an application id."""
    if not isinstance(name, str) or not re.match(NAME, name):
        raise ArgumentError(
            f"the job's name is {name!r}.",
            "letters, digits, '_', '-' and '.', the first of them a letter or a digit.",
            'name="page_views"',
        )


def require_writer(job: object) -> None:
    """Refuse what cannot be the name of a writer, which is a part of application ids."""
    if not isinstance(job, str) or not job.strip() or "/" in job:
        raise ArgumentError(f"job is {job!r}.", "a name without a slash.", '"customers"')


def require_path(path: object, what: str) -> None:
    """Refuse what is no path of a folder."""
    if not isinstance(path, str) or not path:
        raise ArgumentError(f"{what} is {path!r}.", "a path, as text.", f'{what}="/tables/{what}"')


def require_schema(catalog: object) -> None:
    """Refuse what is no schema of a catalog."""
    if not isinstance(catalog, str) or not is_schema(catalog):
        raise ArgumentError(
            f"catalog is {catalog!r}.",
            "a schema, or a catalog and its schema: words of letters, digits and _.",
            'catalog="main.shop"',
        )


def require_inputs(inputs: object, kind: type) -> None:
    """Refuse inputs that are not one or more, each under a name that can be a keyword."""
    if not isinstance(inputs, Mapping):
        raise ColumnTypeError(
            f"inputs is a {type(inputs).__name__}.",
            "inputs by name.",
            'inputs={"clicks": Input(...)}',
        )
    named = [name for name in inputs if isinstance(name, str) and name.isidentifier()]
    if not inputs or len(named) < len(inputs):
        raise ArgumentError(
            f"the inputs are named {list(inputs)}.",
            "one input or more, each with a name of letters, digits and '_'.",
            'inputs={"clicks": Input(...)}',
        )
    for name, given in inputs.items():
        require_type(given, kind, f"inputs[{name!r}]", "Input(reading)")


def require_topics_apart(sources: Sequence[KafkaSource]) -> None:
    """Refuse several inputs that may read the same topic: its rows could not be told apart."""
    named = [topic for source in sources for topic in source.named]
    patterns = [source.pattern for source in sources if source.pattern]
    if len(set(named)) < len(named) or (patterns and len(sources) > 1):
        raise ArgumentError(
            f"the inputs read {named}.",
            "several inputs with topics of their own, named one by one and not by a pattern.",
            "a topic that is needed twice is one input, whose frame the transform uses twice.",
        )


def require_dead_topic(given: object, sources: Sequence[KafkaSource]) -> None:
    """Refuse a topic of dead letters that the job may read: it would read them for ever."""
    if given is None:
        return
    require_type(given, DeadTopic, "dead_topic", 'DeadTopic("localhost:9092", topic="dead")')
    assert isinstance(given, DeadTopic)
    for source in sources:
        # Java's patterns are read as Python's, which most are alike.
        matched = source.pattern and re.fullmatch(source.pattern, given.topic)
        if matched or given.topic in source.named:
            raise ArgumentError(
                f"dead_topic is {given.topic}, which the job reads.", "another topic."
            )


def require_sink(sink: object) -> None:
    """Refuse a sink that cannot write a batch."""
    if isinstance(sink, type) or not callable(getattr(sink, "write", None)):
        raise ColumnTypeError(
            f"sink is {sink!r}.", "a sink of tidegate.sinks.", 'sink=Append("/tables/views")'
        )


def require_transform(transform: object, inputs: Sequence[str]) -> None:
    """Refuse a transform that does not say what is late, or takes another number of frames."""
    if transform is None:
        return
    if not callable(transform) or not callable(getattr(type(transform), "late_at", None)):
        raise ColumnTypeError(
            f"transform is {transform!r}, which does not say which rows are late.",
            "windows, a join of streams or deduplication as a value, or a function in Stateless or "
            "Stateful.",
            "transform=Stateless(function), where the function keeps no state.",
        )
    called = transform.function if isinstance(transform, Stateless | Stateful) else transform
    _require_call(called, "transform", inputs, {})


def require_side_layout(layout: object, schemas: Iterable[StructType]) -> None:
    """Refuse what is no layout, and one by columns that not each table of side outputs has."""
    require_type(layout, Layout, "side_layout", 'Layout(cluster_by=["topic", "partition"])')
    assert isinstance(layout, Layout)
    for schema in schemas:
        try:
            require_shared(layout, schema)
        except (ColumnError, ColumnTypeError) as error:
            # The layout of the target has the same words.
            said = f"side_layout: {error.given}"
            raise type(error)(said, error.allowed, error.hint) from None


def require_each_batch(
    each_batch: Callable[..., object] | None, transform: object, inputs: Sequence[str]
) -> None:
    """Refuse a function of each batch that cannot be called with the batch's frames."""
    if each_batch is None:
        return
    if not callable(each_batch):
        raise ColumnTypeError(f"each_batch is {each_batch!r}.", "a function of a DataFrame.")
    if transform is None and len(inputs) > 1:
        _require_call(each_batch, "each_batch", (), dict.fromkeys(inputs, "frame"))
    else:
        _require_call(each_batch, "each_batch", ("rows",), {})


def _require_call(
    called: Callable[..., object], what: str, given: Sequence[str], named: Mapping[str, Any]
) -> None:
    try:
        signature = inspect.signature(called)
    except ValueError:  # A function of C has none; it is asked when it is called.
        return
    try:
        signature.bind(*given, **named)
    except TypeError as error:
        frames = ", ".join([*given, *(f"{name}=" for name in named)])
        raise ArgumentError(
            f"{what} takes {signature}: {error}.",
            f"a call with the frames ({frames}).",
        ) from None


def require_merging(sink: object, transform: object, each_batch: object, inputs: int) -> None:
    """Refuse emission "updates", corrections or `Corrected` where windows cannot be merged."""
    keeps = windows_of(sink)
    if keeps is None:
        raise ArgumentError(
            f"windows are to change after they came out, and the sink is {type(sink).__name__}.",
            "the sink Corrected for emission='updates' and for corrections.",
        )
    if inputs != 1 or each_batch is not None:
        raise ArgumentError(
            f"the sink is Corrected, with {inputs} inputs"
            f"{' and each_batch' if each_batch is not None else ''}.",
            "one input, whose windows reach the sink as they are.",
        )
    if not isinstance(transform, Windowed):
        raise ArgumentError(
            f"the sink is Corrected, and the transform is {transform!r}.",
            "windows whose aggregates merge.",
            'transform=Windowed(Tumbling("1 minute"), ...)',
        )
    if keeps.windowed != transform:
        raise ArgumentError(
            f"the sink merges {keeps.windowed!r}, and the transform is {transform!r}.",
            "one value for both.",
            "views = Windowed(...), then transform=views and Corrected(path, windowed=views, ...)",
        )


def require_late(late: object, inputs: Sequence[str]) -> None:
    """Refuse places of late rows that do not fit the inputs."""
    if late is None:
        return
    if isinstance(late, Mapping):
        unknown = [name for name in late if name not in inputs]
        if unknown:
            raise ArgumentError(
                f"late names {unknown}.", f"a path for each of the inputs: {', '.join(inputs)}."
            )
        for name, path in late.items():
            require_path(path, f"late[{name!r}]")
    elif len(inputs) > 1:
        raise ArgumentError(
            f"late is {late!r}, and there are {len(inputs)} inputs.",
            "a path for each input, by its name.",
            f'late={{"{inputs[0]}": "/tables/late_{inputs[0]}"}}',
        )
    else:
        require_path(late, "late")
