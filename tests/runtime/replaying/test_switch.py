"""Folders change names whatever happens in between, and what is in the way is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import CheckpointError
from tidegate.runtime.replaying import switch as switching
from tidegate.runtime.replaying.exchange import exchange
from tidegate.runtime.replaying.journal import Folder

KINDS = {
    "both": ("old", "new"),
    "only the old one": ("old", None),
    "only the new one": (None, "new"),
    "neither": (None, None),
}


class KilledError(Exception):
    """The process dies here."""


@pytest.mark.parametrize("in_one_step", [True, False], ids=["exchanged", "renamed"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_a_switch_that_dies_is_finished_by_calling_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, steps: int, in_one_step: bool
) -> None:
    old, new = KINDS[kind]
    place = tmp_path / "table"
    for path, content in ((place, old), (Path(f"{place}.replay"), new)):
        if content is not None:
            path.mkdir()
            (path / content).touch()
    folder = Folder(str(place), _number(place), _number(Path(f"{place}.replay")))
    left = steps
    rename = Path.rename

    def counted() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KilledError

    def dying_rename(path: Path, target: Path) -> Path:
        counted()
        return rename(path, target)

    def dying_exchange(one: Path, other: Path) -> bool:
        counted()
        return in_one_step and exchange(one, other)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", dying_rename)
        patch.setattr(switching, "exchange", dying_exchange)
        try:
            switching.rename(folder, ".replay", ".before")
        except KilledError:
            assert steps < 3
        assert not in_one_step or kind != "both" or place.exists()
    switching.rename(folder, ".replay", ".before")
    assert _names(place) == new
    assert _names(Path(f"{place}.before")) == old
    assert not Path(f"{place}.replay").exists()


def test_a_folder_that_somebody_has_put_there_is_not_taken_for_the_replay(tmp_path: Path) -> None:
    place = tmp_path / "table"
    folder = Folder(str(place), 1, 2)
    place.mkdir()
    with pytest.raises(CheckpointError, match="moved or restored"):
        switching.rename(folder, ".replay", ".before")


def _number(path: Path) -> int | None:
    return path.stat().st_ino if path.exists() else None


def _names(path: Path) -> str | None:
    return next((each.name for each in path.iterdir()), None) if path.exists() else None
