"""Paths of tables and checkpoints: normalization and overlap."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import ArgumentError
from tidegate.paths import is_below, local_path, normalize_path, require_disjoint


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        ("views", "s3a://lake/jobs", "s3a://lake/jobs/views"),
        ("a/../../b", "s3a://lake/jobs", "s3a://lake/b"),
        ("views", "dbfs:/jobs", "dbfs:/jobs/views"),
        ("/data//views/", "s3a://lake", "/data/views"),
        ("file:///data/views", "", "/data/views"),
        ("file:/data/views", "", "/data/views"),
        ("hdfs:/etc/x", "/data", "hdfs:/etc/x"),
        ("hdfs:///etc/x", "/data", "hdfs:///etc/x"),
        ("S3A://lake/views", "/data", "s3a://lake/views"),
        ("s3a://lake", "", "s3a://lake"),
    ],
)
def test_a_normalized_path_is_absolute_and_has_no_dots(path: str, root: str, expected: str) -> None:
    assert normalize_path(path, root) == expected


_PARTS = st.sampled_from(
    [*("..", ".", "", "/", "//", "a", "_b", "ü x", "%2e%2e", "a:b", "~", "$(id)", "\n"), "*"]
)
_SCHEMES = st.sampled_from(
    [
        *("", "/", "hdfs:/", "HDFS://", "dbfs:/", "S3A://lake", "file:", "file:///", "x", "s3a:"),
        "3:",
    ]
)


@given(
    scheme=_SCHEMES,
    parts=st.lists(_PARTS, max_size=6),
    root=st.sampled_from(["/data", "s3a://lake/jobs", "dbfs:/jobs", "file:/data"]),
)
def test_any_path_normalizes_and_does_not_escape_the_root_unnoticed(
    scheme: str, parts: list[str], root: str
) -> None:
    normalized = normalize_path(scheme + "/".join(parts), root)
    assert normalize_path(normalized) == normalized
    without_host = re.sub(r"^[a-z0-9+.-]+://[^/]*", "", normalized)
    assert not {"..", "."} & set(without_host.split("/"))
    normalized_root = normalize_path(root)
    for relative in ("..", "../..", "a/../../.."):
        assert not is_below(normalize_path(relative, root), normalized_root)


def test_a_local_symbolic_link_is_resolved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert normalize_path("link/views", str(tmp_path)) == str(tmp_path.resolve() / "real" / "views")


def test_only_paths_of_the_local_file_system_are_local() -> None:
    assert (
        local_path("/data")
        == local_path("file:/data")
        == local_path("file:///data")
        == Path("/data")
    )
    assert local_path("s3a://lake/data") is None
    assert local_path("hdfs:/data") is None


def test_a_folder_is_below_its_ancestors_and_not_below_itself() -> None:
    assert is_below("/data/a/b", "/data")
    assert not is_below("/data", "/data")
    assert not is_below("/database", "/data")


@pytest.mark.parametrize(
    ("tables", "checkpoint", "message"),
    [
        (
            [("one", "/d/a"), ("two", "/d/a")],
            "/d/c",
            "invalid one: '/d/a' overlaps with two, '/d/a'",
        ),
        (
            [("one", "/d/a"), ("two", "/d/a/b")],
            "/d/c",
            "invalid two: '/d/a/b' overlaps with one, '/d/a'",
        ),
        ([("one", "/d/a")], "/d/a", "a separate folder for the checkpoint"),
        ([("one", "/d/a")], "/d", "a separate folder for the checkpoint"),
        ([("one", "/d/a")], "/d/a/c", "VACUUM would delete it"),
        ([("one", "/d/a")], "/d/a/_delta_log/c", "VACUUM would delete it"),
        ([("one", "hdfs:/d/a"), ("two", "HDFS:/d/a/")], "/d/c", "invalid one: 'hdfs:/d/a'"),
    ],
)
def test_overlapping_tables_and_checkpoints_raise(
    tables: list[tuple[str, str]], checkpoint: str, message: str
) -> None:
    with pytest.raises(ArgumentError) as error:
        require_disjoint(tables, checkpoint)
    assert message in str(error.value)


def test_a_checkpoint_can_be_in_a_folder_of_a_table_that_vacuum_ignores() -> None:
    tables = [("one", "/d/a"), ("two", "/d/b")]
    require_disjoint(tables, "/d/a/_checkpoint")
    with pytest.raises(ArgumentError, match="VACUUM would delete it"):
        require_disjoint(tables, "/d/a/checkpoint")
