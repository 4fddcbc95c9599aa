"""Scans find a data subject in files of every kind, without Spark."""

from __future__ import annotations

import gzip
import zipfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tidegate.operations.erasure.inventory import Root
from tidegate.operations.erasure.scan import scan_files
from tidegate.operations.erasure.subject import DataSubject, Identifier

ANNA = "anna.b-77"
SUBJECT = DataSubject([Identifier.parse(f"user_id={ANNA}"), Identifier.parse("customer.no=42")])
LONG = b" " + b"x" * (4 * 1024 * 1024 - 5)
"""A text after it crosses a chunk boundary."""
SKETCH = b"TGS\x01abcd" + b"theta precision=12".ljust(56) + b"?"


def column(values: object, **options: object) -> dict[str, object]:
    return {"c": pa.array(values, **options)}


FILES: dict[str, bytes | dict[str, object]] = {
    "name/user_id=anna.b-77/x": b"",
    "name/%61nna.b-77": b"",
    "not/joanna.b-77": b"joanna.b-77 anna.b-777 anna.b-77-2",
    "bytes/end": LONG + b" " + ANNA.encode(),
    "bytes/start": ANNA.encode() + LONG,
    "bytes/avro": b"\x00\x01H" + ANNA.encode() + b"H",
    "bytes/json": b'{"no": 42}',
    "not/json": b'{"no": 421, "n": 42}',
    "bytes/a.gz": gzip.compress(ANNA.encode()),
    "c/text.parquet": column([ANNA, None, "joanna.b-77"]),
    "c/dictionary.parquet": {"c": pa.array(["a", f"by {ANNA}", "a"]).dictionary_encode()},
    "c/bytes.parquet": column([b"\x00H" + ANNA.encode() + b"H"]),
    "c.customer.no/number.parquet": column([{"customer": {"no": 42}}]),
    "c/list.parquet": column([[], [ANNA]]),
    "customer.no/map.parquet": column([[("no", "42")]], type=pa.map_(pa.string(), pa.string())),
    "not/number.parquet": column([42, 421]),
    "not/sketch.parquet": column([SKETCH, None, SKETCH]),
    "not/empty.parquet": column([], type=pa.string()),
}


def test_a_subject_is_found_in_names_bytes_archives_and_decoded_values(tmp_path: Path) -> None:
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            parquet.write_table(pa.table(content), path, compression="zstd")
    with zipfile.ZipFile(tmp_path / "bytes/a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside", f"it is {ANNA}")
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1")
    (tmp_path / "empty" / f"user_id={ANNA}").mkdir(parents=True)
    root = Root(str(tmp_path))
    scan = scan_files(root, root.take_inventory().files, SUBJECT)

    parts: dict[str, set[str]] = {}
    for each in scan:
        if each.is_match:
            parts[each.file.name] = set(+each.matches)
    expected = {name: name.split("/")[0] for name in [*FILES, "bytes/a.zip"]}
    for name, part in expected.items():
        if part == "not":
            assert name not in parts
        else:
            assert part in parts[name], (name, parts.get(name))
    assert set(parts) - set(expected) == {f"empty/user_id={ANNA}"}
    assert sum((each.sketches for each in scan), Counter()) == {("not", "c", "theta"): 2}
    assert [each.file.name for each in scan if each.error] == ["damaged.parquet"]
    assert sum(not each.file.is_empty for each in scan) == len(FILES) + 2


@pytest.mark.parametrize("size", [1023, 1024, 1025, 4 * 1024 * 1024])
def test_a_match_is_counted_once_at_any_chunk_boundary(tmp_path: Path, size: int) -> None:
    (tmp_path / "x").write_bytes(b" " * (4 * 1024 * 1024 - size) + f"{ANNA} ".encode() * 3 + LONG)
    root = Root(str(tmp_path))
    (scan,) = scan_files(root, root.take_inventory().files, SUBJECT)
    assert scan.matches.total() == 3
