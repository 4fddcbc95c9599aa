"""What is free where a job writes."""

from __future__ import annotations

from pathlib import Path

from tidegate.errors import SetupError
from tidegate.runtime.process.room import with_room


def test_the_error_of_a_full_disk_names_the_place_and_its_free_bytes(tmp_path: Path) -> None:
    given = SetupError("a disk is full: no room", hint="make room")
    places = [str(tmp_path / "views"), str(tmp_path / "not" / "there"), "s3a://bucket/views"]
    told = with_room(given, places)
    assert f"bytes are free under {tmp_path})" in told.given
    assert told.given.startswith("a disk is full: no room (")
    assert told.hint == "make room"
