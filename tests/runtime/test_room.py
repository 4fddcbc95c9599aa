"""What is free where a job writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import SetupError
from tidegate.runtime.process.room import room_told


@pytest.mark.parametrize(
    "error",
    [SetupError("a disk is full: no room", hint="make room"), OSError("No space left on device")],
)
def test_the_error_of_a_full_disk_names_the_place_and_its_free_bytes(
    tmp_path: Path, error: Exception
) -> None:
    places = [str(tmp_path / "views"), str(tmp_path / "not" / "there"), "s3a://bucket/views"]
    with pytest.raises(SetupError) as told, room_told(places):
        raise error
    assert f"bytes are free under {tmp_path})" in told.value.given
    assert told.value.given.startswith("a disk is full: ")
    assert "make room" in str(told.value.hint)


@pytest.mark.parametrize("error", [SetupError("no Java"), OSError("no such file"), ValueError("x")])
def test_any_other_error_stays_as_it_is(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(type(error)) as told, room_told([str(tmp_path)]):
        raise error
    assert told.value is error
