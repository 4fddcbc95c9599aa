"""What a job needs, by arithmetic that anyone can do again."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tidegate.command import app
from tidegate.errors import ArgumentError
from tidegate.runtime.sizing import Figures, Load, size

FIGURES = Figures(a_core=1_000, bytes=10, keeps="windows")


def test_cores_state_commits_and_files_follow_from_the_load() -> None:
    load = Load(kind="tumbling", rate=10_000, keys=600, size="20 seconds", every="1 minute")
    need = size(load, FIGURES)
    assert need.cores == 20, "ten at work, and as many left for catching up"
    assert need.kept == 600 * 1.5, "an open window of each key, and half of one that is waited for"
    assert (need.state, need.commits, need.files) == (9_000, 1_440, 28_800)
    assert need.first == "files"


@pytest.mark.parametrize(
    ("load", "kept"),
    [
        (Load(kind="hopping", rate=9, keys=1, size="1 minute", hop="10 seconds"), 7),
        (Load(kind="tumbling", rate=2, size="10 seconds"), 40),
    ],
)
def test_a_window_is_kept_for_each_pane_and_for_keys_that_come_alone(load: Load, kept: int) -> None:
    assert size(load, FIGURES).kept == kept


def test_a_join_keeps_its_events_and_enrichment_nothing() -> None:
    assert size(Load(kind="join", rate=100, size="50 seconds")).kept == 6_000
    assert size(Load(kind="enrich", rate=100)).state == 0


@pytest.mark.parametrize("wrong", [{"rate": 0}, {"keys": 0}, {"free": 1}, {"every": "0 seconds"}])
def test_a_load_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ArgumentError):
        Load(**{"kind": "tumbling", "rate": 1, **wrong})  # type: ignore[arg-type]


def test_the_command_takes_figures_of_one_s_own() -> None:
    asked = ["size", "enrich", "--rate", "1000000", "--a-core", "100000", "--every", "1 second"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert "cores:   20," in done.output
    assert "commits 150%" in done.output
    assert "the first is files" in done.output
