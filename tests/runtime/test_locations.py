"""Locations of tables and checkpoints: their plain form, and which exclude another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import ArgumentError
from tidegate.runtime.locations import below, keep_apart, local, whole


@pytest.mark.parametrize(
    ("path", "root", "wanted"),
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
def test_a_path_is_made_absolute_and_plain(path: str, root: str, wanted: str) -> None:
    assert whole(path, root) == wanted


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
def test_a_hostile_path_is_plain_and_either_below_the_root_or_seen_not_to_be(
    scheme: str, parts: list[str], root: str
) -> None:
    place = whole(scheme + "/".join(parts), root)
    assert whole(place) == place
    beside_the_host = re.sub(r"^[a-z0-9+.-]+://[^/]*", "", place)
    assert not {"..", "."} & set(beside_the_host.split("/"))
    home = whole(root)
    for other in ("..", "../..", "a/../../.."):
        assert not below(whole(other, root), home)


def test_a_link_of_this_machine_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert whole("link/views", str(tmp_path)) == str(tmp_path.resolve() / "real" / "views")


def test_only_paths_of_this_machine_are_local() -> None:
    assert local("/data") == local("file:/data") == local("file:///data") == Path("/data")
    assert local("s3a://lake/data") is None
    assert local("hdfs:/data") is None


def test_a_folder_is_below_another_whatever_its_depth_and_not_below_itself() -> None:
    assert below("/data/a/b", "/data")
    assert not below("/data", "/data")
    assert not below("/database", "/data")


@pytest.mark.parametrize(
    ("tables", "checkpoint", "says"),
    [
        ([("one", "/d/a"), ("two", "/d/a")], "/d/c", "one is /d/a, and two is /d/a"),
        ([("one", "/d/a"), ("two", "/d/a/b")], "/d/c", "two is /d/a/b, and one is /d/a"),
        ([("one", "/d/a")], "/d/a", "a folder of the checkpoint's own"),
        ([("one", "/d/a")], "/d", "a folder of the checkpoint's own"),
        ([("one", "/d/a")], "/d/a/c", "where VACUUM would delete it"),
        ([("one", "/d/a")], "/d/a/_delta_log/c", "where VACUUM would delete it"),
        ([("one", "hdfs:/d/a"), ("two", "HDFS:/d/a/")], "/d/c", "one is hdfs:/d/a"),
    ],
)
def test_tables_and_checkpoint_that_share_a_folder_are_refused(
    tables: list[tuple[str, str]], checkpoint: str, says: str
) -> None:
    with pytest.raises(ArgumentError) as told:
        keep_apart(tables, checkpoint)
    assert says in str(told.value)


def test_a_checkpoint_may_lie_in_a_table_where_vacuum_leaves_it_alone() -> None:
    keep_apart([("one", "/d/a"), ("two", "/d/b")], "/d/a/_checkpoint")
