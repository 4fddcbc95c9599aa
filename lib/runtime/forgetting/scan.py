"""Every file below a root read: its name, its bytes, and what Parquet's bytes stand for."""

from __future__ import annotations

import gzip
import os
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import parquet

from .leaves import in_column, in_value, leaves
from .person import CONTROL, Person
from .places import File, Kind, Root
from .sketched import Sketch, among_top, kinds

_CHUNK = 4 * 1024 * 1024
_AROUND = 1024
_ROWS = 65_536


@dataclass(frozen=True)
class Hit:
    """Where a person was found: a file, a column or "bytes" or "name" in it, and how often.

    place, kind: the table or checkpoint that the file belongs to, and which part of it.
    """

    place: str
    kind: Kind
    file: str
    where: str
    count: int


@dataclass(frozen=True)
class Scan:
    """What a scan has read, and found.

    files, bytes: how many were read. decoded: how many Parquet files were decoded, each value of
    them, besides being read as bytes. unread: files that could not be read or decoded, and why.
    sketches: how many of each kind the tables have.
    """

    files: int
    bytes: int
    decoded: int
    hits: Sequence[Hit] = ()
    unread: Sequence[str] = ()
    sketches: Mapping[Sketch, int] = field(default_factory=dict)

    def of(self, place: str, kinds: Iterable[Kind] = ("rows", "log")) -> list[Hit]:
        """Return what was found in a table or a checkpoint."""
        return [hit for hit in self.hits if hit.place == place and hit.kind in set(kinds)]


def scan(root: Root, files: Sequence[File], person: Person) -> Scan:
    """Read all files, several at a time, and tell in which of them the person is.

    Each file is read as bytes, also those within .zip and .gz. Parquet is decoded besides: its
    values with dictionaries resolved, its statistics and its own notes.
    """
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        read = list(threads.map(lambda file: _one(root, file, person), files))
    whole = [each for each in read if each is not None and not each.file.empty]
    return Scan(
        files=len(whole),
        bytes=sum(each.size for each in whole),
        decoded=sum(_is_parquet(each.file) for each in whole),
        hits=[hit for each in read if each is not None for hit in each.hits()],
        unread=[each.fault for each in whole if each.fault],
        sketches=sum((each.sketches for each in whole), Counter[Sketch]()),
    )


@dataclass
class _Read:
    """A file, and what was found in it: by place, and sketches."""

    file: File
    size: int = 0
    found: Counter[str] = field(default_factory=Counter)
    sketches: Counter[Sketch] = field(default_factory=Counter)
    fault: str = ""

    def hits(self) -> Iterator[Hit]:
        """Return where the person was found."""
        file = self.file
        for where, number in self.found.items():
            if number:
                yield Hit(file.place, file.kind, file.name, where, number)


def _one(root: Root, file: File, person: Person) -> _Read | None:
    """Read a file; None for one in a table that the person is not told of."""
    own = person.within(root.of(file.place))
    if own is None:
        return None
    read = _Read(file)
    try:
        _read(root, read, own)
    except (OSError, ValueError, pa.ArrowException, zipfile.BadZipFile, EOFError) as error:
        read.fault = f"{file.name}: {type(error).__name__}: {str(error)[:200]}"
    return read


def _is_parquet(file: File) -> bool:
    return file.name.endswith(".parquet")


def _read(root: Root, read: _Read, person: Person) -> None:
    name = read.file.name
    read.found["name"] += person.in_text(name) or person.in_text(unquote(unquote(name)))
    if read.file.empty:
        return
    with root.open(name) as stream:
        read.size = int(stream.size())
        if name.endswith(".zip"):
            for chunks in _members(stream):
                read.found["bytes"] += _in_bytes(chunks, person)
        elif name.endswith(".gz"):
            read.found["bytes"] += _in_bytes(_chunks(gzip.GzipFile(fileobj=stream)), person)
        elif _is_parquet(read.file):
            # A text in Parquet stands between lengths; the values are decoded besides.
            read.found["bytes"] += _in_bytes(_chunks(stream), person, text_alone=True)
            stream.seek(0)
            _decode(stream, read, person)
        else:
            read.found["bytes"] += _in_bytes(_chunks(stream), person)


def _chunks(stream: Any) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield bytes(chunk)


def _members(stream: Any) -> Iterator[Iterator[bytes]]:
    with zipfile.ZipFile(stream) as archive:
        for name in archive.namelist():
            with archive.open(name) as member:
                yield _chunks(member)


def _in_bytes(chunks: Iterable[bytes], person: Person, *, text_alone: bool = False) -> int:
    """Return how often bytes tell of the person."""
    needles = [each.encode() for each in person.needles]
    before = b""
    seen = 0
    number = 0
    for chunk in chain(chunks, [b""]):
        whole = before + chunk
        # What is near the end is looked at with the next chunk, which shows what follows it.
        until = max(seen, len(whole) - _AROUND) if chunk else len(whole)
        at = {place for needle in needles for place in _places(whole, needle)}
        number += sum(
            _in_window(whole, place, person, text_alone=text_alone)
            for place in at
            if seen <= place < until
        )
        start = max(0, until - _AROUND)
        before = whole[start:]
        seen = until - start
    return number


def _in_window(whole: bytes, at: int, person: Person, *, text_alone: bool) -> bool:
    window = whole[max(0, at - _AROUND) : at + _AROUND]
    text = window.decode("utf-8", "ignore")
    if person.in_text(text):
        return True
    binary = not text_alone and CONTROL.search(text) is not None
    return binary and any(each in window for each in person.naked)


def _places(whole: bytes, needle: bytes) -> Iterator[int]:
    at = whole.find(needle)
    while at >= 0:
        yield at
        at = whole.find(needle, at + 1)


def _decode(stream: Any, read: _Read, person: Person) -> None:
    """Look at the values of a Parquet file, its statistics and its notes."""
    file = parquet.ParquetFile(stream)
    found = read.found
    for value in (file.metadata.metadata or {}).values():
        found["notes"] += person.in_bytes(value)
    for path, edges in _statistics(file.metadata):
        found[f"statistics of {path}"] += any(in_value(edge, path, person) for edge in edges)
    for batch in file.iter_batches(_ROWS):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            for path, values in leaves(column, name, person):
                found[path] += in_column(values, path, person) or among_top(values, person)
                for kind, number in kinds(values).items():
                    read.sketches[Sketch(read.file.place, path, kind)] += number


def _statistics(metadata: Any) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Return the least and the greatest value of each column of each group, where they are kept."""
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            part = metadata.row_group(group).column(number)
            known = part.statistics
            if known is not None and known.has_min_max:
                path = part.path_in_schema.replace(".list.element", "")
                yield path, (known.min, known.max)
