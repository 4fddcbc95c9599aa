"""The configuration reference: sections, keys, types and defaults from the models of the jobs.

The meaning of a key comes from the comments of conf/jobs/<job>.toml, where people edit it."""

from __future__ import annotations

import inspect
import json
import re
import sys
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import BaseMetadata
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tidegate import Config
from tidegate.config import config_types as values
from tidegate.config.sections import OutputSection
from tidegate.jobs import BUILT_IN_JOBS

ROOT = Path(__file__).parents[2]
FIRST = "page_views"
"""The job whose file has the most comments."""
KINDS = {
    "Duration": "duration",
    "CalendarDuration": "duration, or a period of a calendar",
    "NonNegativeDuration": "duration, or 0 seconds",
    "ZonedDatetime": "time with a zone",
    "Offsets": "offsets",
    "Names": "names",
    "Columns": "names of columns",
    "Root": "folder",
    "Location": "folder, below the root unless it is absolute",
    "Table": "folder below the root",
}
"""Labels of the named types of the models; others have their own names."""
PLAIN: dict[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    datetime: "time with a zone",
    date: "date",
    type(None): "nothing",
}
SECTION = re.compile(r"^\[(?P<name>[a-z_]+)\]")
COMMENT = re.compile(r"^(?:# )?(?:optional: )?(?P<key>[a-z_]+) = .*?\s# (?P<text>.*)$")
FOLDERS = {"table": "the target table"}
"""The meaning of the folders whose keys are not their meaning."""
IN_ROOT = re.compile(r"(; )?\ball tables are folders below root(; )?")
"""A part of comments that the type of a table's key repeats."""
BEFORE = """# Configuration

The sections and keys of a job's TOML file, with their types and defaults. To write a file, copy
`conf/jobs/<job>.toml`, which shows each key of a job:

```toml
[input]
topics = ["clicks"]
watermark_delay = "10 seconds"
```

A value is read from, in this order of precedence:

| source | form |
|---|---|
| the command line | `--set input.watermark_delay="10 seconds"` |
| the environment | `TIDEGATE_INPUT__WATERMARK_DELAY="10 seconds"` |
| the file | `tidegate run JOB --config FILE` |
| the default | see the tables below |

A script, such as `jobs/page_views.py`, reads `conf/jobs/<job>.toml` without `--config`.

`--show-config` prints the effective configuration with the source of each value, and masks secrets.
A secret, such as a Kafka password, is a reference, `env:NAME` or `file:PATH`, never plain text.

Durations have a unit: `500 milliseconds`, `10 seconds`, `5 minutes`, `1 hour`, `7 days`.
"""


def page() -> str:
    """Return the page: the shared sections, then each job with its own sections."""
    jobs = dict(_jobs())
    shared = _shared(jobs.values())
    parts = [BEFORE, "## Sections that jobs share\n"]
    for section, names in shared.items():
        title = ", ".join(f"[{name}]" for name in names) + _kind(section)
        parts += [
            f"### {title} {{ #{_anchor(section)} }}\n",
            _section(section, _comments(names, [FIRST, *jobs]), _base(section, shared)),
        ]
    parts.append("## Jobs\n")
    for name, model in jobs.items():
        parts += [f"### {name}\n", _about(name), _listed(model, shared)]
        for key, section in _sections(model):
            if section not in shared:
                parts += [
                    f"#### [{key}]{_kind(section)} of {name}\n",
                    _section(section, _comments([key], [name]), _base(section, shared)),
                ]
    return "\n".join(parts)


def _jobs() -> Iterator[tuple[str, type[Config]]]:
    """Yield each job's name and the model of its configuration."""
    for file in sorted((ROOT / "conf" / "jobs").glob("*.toml")):
        yield file.stem, BUILT_IN_JOBS[file.stem].model


def _about(job: str) -> str:
    module = sys.modules[BUILT_IN_JOBS[job].model.__module__]
    return f"{(inspect.getdoc(module) or '').splitlines()[0]}\n"


def _sections(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, field in model.model_fields.items():
        for one in _models(field.annotation):
            yield field.alias or name, one


def _models(annotation: Any) -> Iterator[type[Any]]:
    """Yield the models and dataclasses of an annotation."""
    if inspect.isclass(annotation) and (
        issubclass(annotation, BaseModel) or is_dataclass(annotation)
    ):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _models(part)


def _shared(models: Any) -> dict[type[BaseModel], list[str]]:
    """Return the sections of the library, each with the names under which jobs have them."""
    found: dict[type[BaseModel], list[str]] = {}
    for model in models:
        for name, section in _sections(model):
            if section.__module__.startswith(("tidegate.config.", "tidegate.job.")):
                names = found.setdefault(section, [])
                if name not in names:
                    names.append(name)
    # Each job has its own [output], with these keys.
    return {**found, OutputSection: ["output"]}


def _base(
    section: type[BaseModel], shared: dict[type[BaseModel], list[str]]
) -> type[BaseModel] | None:
    """Return the shared section whose keys a section has, or None."""
    return next((base for base in section.__mro__[1:] if base in shared), None)


def _anchor(section: type[BaseModel]) -> str:
    """Return the id of the heading of a shared section."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", section.__name__).lower()


def _listed(model: type[BaseModel], shared: dict[type[BaseModel], list[str]]) -> str:
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    names = [f"`[{name}]`" for name, field in fields.items() if _is_section(field)]
    return f"Sections: {', '.join(names)}.\n"


def _is_section(field: FieldInfo) -> bool:
    """Return whether a field is a section with fixed keys, or a table with arbitrary keys."""
    free = typing.get_origin(field.annotation) is dict
    return free or any(_models(field.annotation))


def _section(
    section: type[BaseModel], comments: dict[str, str], base: type[BaseModel] | None = None
) -> str:
    """Return the purpose and the keys of a section; with a base, those that differ from it."""
    fields = _fields(section)
    inherited: dict[str, FieldInfo] = {}
    lines = [_purpose(section), ""]
    if base is not None:
        inherited = _fields(base)
        # Fields have no equality; their texts contain all that the page shows.
        fields = {
            name: field
            for name, field in fields.items()
            if repr(field) != repr(inherited.get(name))
        }
        ending = ", and:" if fields else "."
        lines += [f"The section has [these keys](#{_anchor(base)}){ending}", ""]
    if fields:
        lines += ["| key | value | default | meaning |", "|---|---|---|---|"]
    for name, field in fields.items():
        key = field.alias or name
        text = field.description or comments.get(key, "")
        if not text and name in inherited:
            text = (inherited[name].description or "").partition("; default: ")[0]
        if key == "kind" and _kind(section):
            text = "the kind of windows"
        if not text and _value(field).startswith("folder"):
            text = FOLDERS.get(key, key.replace("_", " "))
        text, _, described_default = text.partition("default: ")
        default = described_default or _default(field)
        text = text.rstrip("; ")
        lines.append(f"| `{key}` | {_cell(_value(field))} | {_cell(default)} | {_cell(text)} |")
    return "\n".join(lines) + "\n"


def _fields(section: type[Any]) -> dict[str, FieldInfo]:
    """Return the fields of a model, or of a dataclass."""
    if not is_dataclass(section):
        return dict(section.model_fields)
    hints = typing.get_type_hints(section, include_extras=True)
    return {
        field.name: FieldInfo.from_annotated_attribute(hints[field.name], field.default)
        for field in fields(section)
    }


def _kind(section: type[Any]) -> str:
    """Return the kind of a section that has several kinds, as a suffix of its title."""
    field = _fields(section).get("kind")
    kinds = typing.get_args(field.annotation) if field else ()
    return f" of kind {kinds[0]}" if len(kinds) == 1 else ""


def _purpose(section: type[BaseModel]) -> str:
    text = inspect.getdoc(section) or ""
    text = text.partition("\n\n")[0] if is_dataclass(section) else text.partition("\n\n>>>")[0]
    text = re.sub(r"^(One of )?\[\[?[a-z_.<>]+\]?\][^:\n]*: ", "", text).strip()
    return text[:1].upper() + text[1:]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return _default_text(field.get_default(call_default_factory=True, validated_data={}))
    if field.default is PydanticUndefined:
        return "required"
    return _default_text(field.default)


def _default_text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"`{json.dumps(value)}`" if value else "empty"
    return f"`{value}`" if value or value == 0 else "empty"


def _value(field: FieldInfo) -> str:
    annotation: Any = field.annotation
    for extra in field.metadata:
        annotation = Annotated[annotation, extra]
    return _type(annotation)


def _type(annotation: Any) -> str:
    for name, alias in vars(values).items():
        if typing.get_origin(alias) is Annotated and alias == annotation:
            return KINDS.get(name, PLAIN[str] if alias.__origin__ is str else name)
    origin: Any = typing.get_origin(annotation)
    parts = typing.get_args(annotation)
    if origin is Annotated:
        bounds = [_bound(extra) for extra in parts[1:]]
        return " ".join([_type(parts[0]), *filter(None, bounds)])
    if origin is Literal:
        return ", ".join(f"`{part}`" for part in parts)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_type(part) for part in parts if part is not type(None)))
    if origin in (list, tuple):
        return f"list of {_type(parts[0])}"
    if origin is dict and typing.get_origin(parts[1]) is dict and int in typing.get_args(parts[1]):
        return "offsets"
    if origin is dict:
        return f"table of {_type(parts[1])}"
    return PLAIN.get(annotation, "section")


def _bound(extra: Any) -> str:
    names = {"gt": "above", "ge": "from", "lt": "below", "le": "to"}
    if not isinstance(extra, BaseMetadata):
        return ""
    return " ".join(
        f"{word} {getattr(extra, name)}" for name, word in names.items() if hasattr(extra, name)
    )


def _comments(sections: Iterable[str], jobs: Iterable[str]) -> dict[str, str]:
    """Return the comments of the keys of sections, from the first file that has one."""
    text: dict[str, str] = {}
    for job in jobs:
        current = ""
        for line in (ROOT / "conf" / "jobs" / f"{job}.toml").read_text("utf-8").splitlines():
            begins = SECTION.match(line)
            current = begins["name"] if begins else current
            found = COMMENT.match(line)
            if found and current in sections:
                text.setdefault(found["key"], IN_ROOT.sub("", found["text"]))
    return text
