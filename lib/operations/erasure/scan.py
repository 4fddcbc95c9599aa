"""A scan of every file below a root: names, bytes, and the decoded values of Parquet."""

from __future__ import annotations

import gzip
import os
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from struct import pack
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from ...sketches import HEADER_BYTES, LABEL_BYTES, MAGIC
from .inventory import File, Root
from .subject import CONTROL_CHARACTERS, DataSubject

_CHUNK_BYTES = 4 * 1024 * 1024
_CONTEXT_BYTES = 1024
_BATCH_ROWS = 65_536
_BINARY_TYPES = ("binary", "large_binary")
_TEXT_TYPES = (*_BINARY_TYPES, "binary_view", "string", "large_string", "string_view")
_TOP_LABEL = b"top "
_INTEGER_ENCODINGS = (("<i", 32), ("<q", 64))
"""The encodings of integers in a sketch, and their bits."""


@dataclass
class FileScan:
    """The scan of one file.

    Attributes:
        matches: of the subject, in each column, in "bytes", and in the "name" of the file.
        sketches: the number of sketches by table, column and kind.
        error: why the file could not be read or decoded.
    """

    file: File
    size: int = 0
    matches: Counter[str] = field(default_factory=Counter)
    sketches: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    error: str = ""

    @property
    def is_match(self) -> bool:
        """Whether the subject is in the file or its name."""
        return self.matches.total() > 0

    @property
    def is_parquet(self) -> bool:
        """Whether the values of the file are decoded."""
        return self.file.name.endswith(".parquet")


def scan_files(root: Root, files: Sequence[File], subject: DataSubject) -> list[FileScan]:
    """Scan all files concurrently for the subject, except those to which no identifier applies.

    Each file is scanned as bytes, also inside of .zip and .gz. Parquet files are decoded too:
    values with dictionaries resolved, statistics, and key-value metadata.
    """
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        results = threads.map(lambda file: _scan_file(root, file, subject), files)
        return [each for each in results if each is not None]


def _scan_file(root: Root, file: File, subject: DataSubject) -> FileScan | None:
    """Scan a file; None if no identifier applies to its table."""
    local_subject = subject.for_path(root.absolute(file.owner))
    if local_subject is None:
        return None
    file_scan = FileScan(file)
    try:
        _scan_content(root, file_scan, local_subject)
    except (OSError, ValueError, pa.ArrowException, zipfile.BadZipFile, EOFError) as error:
        file_scan.error = f"{file.name}: {type(error).__name__}: {str(error)[:200]}"
    return file_scan


def _scan_content(root: Root, file_scan: FileScan, subject: DataSubject) -> None:
    name = file_scan.file.name
    file_scan.matches["name"] += any(map(subject.is_in_text, (name, unquote(unquote(name)))))
    if file_scan.file.is_empty:
        return
    is_parquet = file_scan.is_parquet
    with root.open(name) as stream:
        file_scan.size = int(stream.size())
        for chunks in _contents(name, stream):
            # Lengths surround a text in Parquet, so that word boundaries are unreliable; the
            # values are decoded below.
            file_scan.matches["bytes"] += _count_in_bytes(chunks, subject, text_only=is_parquet)
        if is_parquet:
            stream.seek(0)
            _scan_parquet(stream, file_scan, subject)


def _contents(name: str, stream: Any) -> Iterator[Iterator[bytes]]:
    """Return the decompressed bytes of a file, or of each file in an archive, in chunks."""
    if name.endswith(".zip"):
        with zipfile.ZipFile(stream) as archive:
            for member_name in archive.namelist():
                with archive.open(member_name) as member:
                    yield _chunks(member)
    else:
        yield _chunks(gzip.GzipFile(fileobj=stream) if name.endswith(".gz") else stream)


def _chunks(stream: Any) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK_BYTES):
        yield bytes(chunk)


def _count_in_bytes(
    chunks: Iterable[bytes], subject: DataSubject, *, text_only: bool = False
) -> int:
    needles = [each.encode() for each in subject.needles]
    tail = b""
    scanned_until = 0
    count = 0
    for chunk in chain(chunks, [b""]):
        buffer = tail + chunk
        # A match near the end is checked with the next chunk, which contains its context.
        scan_until = max(scanned_until, len(buffer) - _CONTEXT_BYTES) if chunk else len(buffer)
        positions = {position for needle in needles for position in _find_positions(buffer, needle)}
        count += sum(
            _is_in_window(buffer, position, subject, text_only=text_only)
            for position in positions
            if scanned_until <= position < scan_until
        )
        start = max(0, scan_until - _CONTEXT_BYTES)
        tail = buffer[start:]
        scanned_until = scan_until - start
    return count


def _is_in_window(buffer: bytes, position: int, subject: DataSubject, *, text_only: bool) -> bool:
    window = buffer[max(0, position - _CONTEXT_BYTES) : position + _CONTEXT_BYTES]
    text = window.decode("utf-8", "ignore")
    if subject.is_in_text(text):
        return True
    is_binary = not text_only and CONTROL_CHARACTERS.search(text) is not None
    return is_binary and any(each in window for each in subject.raw_byte_values)


def _find_positions(buffer: bytes, needle: bytes) -> Iterator[int]:
    position = buffer.find(needle)
    while position >= 0:
        yield position
        position = buffer.find(needle, position + 1)


def _scan_parquet(stream: Any, file_scan: FileScan, subject: DataSubject) -> None:
    """Scan the values of a Parquet file, its statistics and its key-value metadata."""
    file = parquet.ParquetFile(stream)
    matches = file_scan.matches
    for value in (file.metadata.metadata or {}).values():
        matches["metadata"] += subject.is_in_bytes(value)
    for path, bounds in _min_max_statistics(file.metadata):
        matches[f"statistics of {path}"] += any(
            _is_in_value(bound, path, subject) for bound in bounds
        )
    for batch in file.iter_batches(_BATCH_ROWS):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            for path, values in _leaf_columns(column, name, subject):
                count = _count_in_column(values, path, subject)
                matches[path] += count or _count_in_top_sketches(values, subject)
                for sketch_kind, number in _count_sketch_kinds(values).items():
                    file_scan.sketches[file_scan.file.owner, path, sketch_kind] += number


def _min_max_statistics(metadata: Any) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Return the minimum and maximum of each column chunk with statistics."""
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column_chunk = metadata.row_group(group).column(number)
            statistics = column_chunk.statistics
            if statistics is not None and statistics.has_min_max:
                path = column_chunk.path_in_schema.replace(".list.element", "")
                yield path, (statistics.min, statistics.max)


def _leaf_columns(column: Any, path: str, subject: DataSubject) -> Iterator[tuple[str, Any]]:
    """Return the leaf columns of a nested column, each with its dotted path.

    For a map, the key of an entry also acts as a name in a path if an identifier has that name.
    """
    arrow_type = column.type
    if pa.types.is_dictionary(arrow_type):
        yield from _leaf_columns(column.dictionary_decode(), path, subject)
    elif pa.types.is_struct(arrow_type):
        for number, part in enumerate(column.flatten()):
            yield from _leaf_columns(part, f"{path}.{arrow_type.field(number).name}", subject)
    elif pa.types.is_map(arrow_type):
        yield from _leaf_columns(column.keys, path, subject)
        yield from _leaf_columns(column.items, path, subject)
        yield from _map_entries(column, subject)
    elif pa.types.is_nested(arrow_type):
        yield from _leaf_columns(column.flatten(), path, subject)
    else:
        yield path, column


def _map_entries(column: Any, subject: DataSubject) -> Iterator[tuple[str, Any]]:
    if not pa.types.is_string(column.type.key_type):
        return
    for name in {each.column for each in subject.identifiers}:
        name_matches = pc.equal(pc.utf8_lower(column.keys), name.rpartition(".")[2].lower())
        values = column.items.filter(name_matches)
        if len(values):
            yield from _leaf_columns(values, name, subject)


def _count_in_column(values: Any, path: str, subject: DataSubject) -> int:
    """Return the number of values of a leaf column that contain an identifier."""
    arrow_type = values.type
    if pa.types.is_fixed_size_binary(arrow_type):
        arrow_type = pa.binary()
        values = values.cast(arrow_type)
    if str(arrow_type) not in _TEXT_TYPES:
        return sum(_count_equal(values, each) for each in subject.values_for_column(path))
    own_values = pa.array(subject.values_for_column(path), pa.string())
    candidates = pc.is_in(values, own_values.cast(arrow_type))
    for needle in subject.needles:
        # match_substring takes the pattern as text for bytes too.
        candidates = pc.or_(candidates, pc.fill_null(pc.match_substring(values, needle), False))
    return sum(_is_in_value(each, path, subject) for each in values.filter(candidates).to_pylist())


def _is_in_value(value: Any, path: str, subject: DataSubject) -> bool:
    own_values = subject.values_for_column(path)
    if isinstance(value, str):
        return value in own_values or subject.is_in_text(value)
    if isinstance(value, bytes):
        return value in map(str.encode, own_values) or subject.is_in_bytes(value)
    return any(_count_equal(pa.array([value]), each) > 0 for each in own_values)


def _count_equal(values: Any, text: str) -> int:
    """Return the number of values that equal a text cast to their type."""
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        matches = pc.equal(values, pa.scalar(text).cast(values.type))
        return int(pc.sum(matches).as_py() or 0)
    return 0


def _count_sketch_kinds(values: Any) -> Counter[str]:
    """Return the number of sketches of each kind in a leaf column."""
    if str(values.type) not in _BINARY_TYPES:
        return Counter()
    sketches = values.filter(pc.starts_with(values, MAGIC.decode()))
    labels = pc.binary_slice(sketches, HEADER_BYTES - LABEL_BYTES, HEADER_BYTES)
    counts: Counter[str] = Counter()
    for each in pc.value_counts(labels).to_pylist():
        counts[each["values"].split()[0].decode("ascii", "replace")] += each["counts"]
    return counts


def _count_in_top_sketches(values: Any, subject: DataSubject) -> int:
    """Return the number of top-k sketches of integers that contain one of the subject's numbers."""
    if str(values.type) not in _BINARY_TYPES:
        return 0
    sketches = values.filter(pc.starts_with(values, f"{MAGIC.decode()}\x01")).to_pylist()
    encoded_numbers = [
        pack(form, int(each.value))
        for each in subject.identifiers
        if each.is_distinctive and each.value.isdecimal()
        for form, bits in _INTEGER_ENCODINGS
        if int(each.value) < 1 << (bits - 1)
    ]
    return sum(
        each.startswith(_TOP_LABEL, HEADER_BYTES - LABEL_BYTES)
        and any(number in each[HEADER_BYTES:] for number in encoded_numbers)
        for each in sketches
    )
