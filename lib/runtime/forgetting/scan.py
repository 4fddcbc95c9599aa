"""Every file below a root read: its name, its bytes, and what Parquet's bytes stand for."""

from __future__ import annotations

import gzip
import os
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
    """

    files: int
    bytes: int
    decoded: int
    hits: Sequence[Hit] = ()
    unread: Sequence[str] = field(default=())

    def of(self, place: str, kinds: Iterable[Kind] = ("rows", "log")) -> list[Hit]:
        """Return what was found in a table or a checkpoint."""
        return [hit for hit in self.hits if hit.place == place and hit.kind in set(kinds)]


def scan(root: Root, files: Sequence[File], person: Person) -> Scan:
    """Read all files, several at a time, and tell in which of them the person is.

    Each file is read as bytes, also those within .zip and .gz. Parquet is decoded besides: its
    values with dictionaries resolved, its statistics and its own notes.
    """

    def one(file: File) -> tuple[int, list[Hit], str | None] | None:
        own = person.within(root.of(file.place))
        if own is None:
            return None
        found: Counter[str] = Counter()
        try:
            size = _read(root, file, own, found)
            fault = None
        except (OSError, ValueError, pa.ArrowException, zipfile.BadZipFile, EOFError) as error:
            size, fault = 0, f"{file.name}: {str(error).splitlines()[0][:200]}"
        hits = [Hit(file.place, file.kind, file.name, at, number) for at, number in found.items()]
        return size, hits, fault

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        read = list(zip(files, threads.map(one, files), strict=True))
    told = [each for _, each in read if each is not None]
    whole = [file for file, each in read if each is not None and not file.empty]
    return Scan(
        files=len(whole),
        bytes=sum(size for size, _, _ in told),
        decoded=sum(_is_parquet(file) for file in whole),
        hits=[hit for _, hits, _ in told for hit in hits],
        unread=[fault for _, _, fault in told if fault],
    )


def _is_parquet(file: File) -> bool:
    return file.name.endswith(".parquet")


def _read(root: Root, file: File, person: Person, found: Counter[str]) -> int:
    if person.in_text(file.name) or person.in_text(unquote(unquote(file.name))):
        found["name"] += 1
    if file.empty:
        return 0
    with root.open(file.name) as stream:
        size = int(stream.size())
        is_parquet = _is_parquet(file)
        if file.name.endswith(".zip"):
            for chunks in _members(stream):
                found += _in_bytes(chunks, person, text_alone=False)
        elif file.name.endswith(".gz"):
            found += _in_bytes(_chunks(gzip.GzipFile(fileobj=stream)), person, text_alone=False)
        else:
            # What is a text in Parquet stands between lengths; its values are decoded below.
            found += _in_bytes(_chunks(stream), person, text_alone=is_parquet)
        if is_parquet:
            stream.seek(0)
            found += _in_parquet(stream, person)
    return size


def _chunks(stream: Any) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield bytes(chunk)


def _members(stream: Any) -> Iterator[Iterator[bytes]]:
    with zipfile.ZipFile(stream) as archive:
        for name in archive.namelist():
            with archive.open(name) as member:
                yield _chunks(member)


def _in_bytes(chunks: Iterable[bytes], person: Person, *, text_alone: bool) -> Counter[str]:
    """Return how often bytes tell of the person, as "bytes"."""
    needles = [each.encode() for each in person.needles]
    before, seen, number = b"", 0, 0
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
        before, seen = whole[start:], until - start
    return Counter({"bytes": number} if number else {})


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


def _in_parquet(stream: Any, person: Person) -> Counter[str]:
    """Return how often the values of a Parquet file tell of the person, by column."""
    file = parquet.ParquetFile(stream)
    found: Counter[str] = Counter()
    for value in (file.metadata.metadata or {}).values():
        found["notes"] += person.in_bytes(value)
    for group in range(file.metadata.num_row_groups):
        for number in range(file.metadata.num_columns):
            part = file.metadata.row_group(group).column(number)
            known = part.statistics
            if known is not None and known.has_min_max:
                path = part.path_in_schema.replace(".list.element", "")
                edges = (known.min, known.max)
                found[f"statistics of {path}"] += any(in_value(e, path, person) for e in edges)
    for batch in file.iter_batches(_ROWS):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            for path, values in leaves(column, name, person):
                found[path] += in_column(values, path, person)
    return +found
