"""Resource estimates follow from the workload and the measurements."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tidegate.cli import app
from tidegate.errors import ArgumentError
from tidegate.operations.sizing import Measurements, Workload, estimate_resources

MEASUREMENTS = Measurements(events_per_core=1_000, bytes_per_item=10, state_contents="windows")


def test_cores_state_commits_and_files_follow_from_the_workload() -> None:
    workload = Workload(
        job_kind="tumbling", rate=10_000, keys=600, size="20 seconds", every="1 minute"
    )
    needs = estimate_resources(workload, MEASUREMENTS)
    assert needs.cores == 20, "ten in use, and ten as spare capacity"
    assert needs.state_items == 600 * 1.5, (
        "an open window of each key, and half of one within the watermark delay"
    )
    assert (needs.state_bytes, needs.commits_per_day, needs.files_per_day) == (9_000, 1_440, 28_800)
    assert needs.first_limit == "files"


@pytest.mark.parametrize(
    ("workload", "state_items"),
    [
        (Workload(job_kind="hopping", rate=9, keys=1, size="1 minute", hop="10 seconds"), 7),
        (Workload(job_kind="tumbling", rate=2, size="10 seconds"), 40),
    ],
)
def test_state_has_a_window_for_each_pane_and_each_unique_key(
    workload: Workload, state_items: int
) -> None:
    assert estimate_resources(workload, MEASUREMENTS).state_items == state_items


def test_a_join_stores_its_events_and_an_enrichment_nothing() -> None:
    assert (
        estimate_resources(Workload(job_kind="join", rate=100, size="50 seconds")).state_items
        == 6_000
    )
    assert estimate_resources(Workload(job_kind="enrich", rate=100)).state_bytes == 0


@pytest.mark.parametrize(
    "option",
    [{"rate": 0}, {"keys": 0}, {"spare_capacity": 1}, {"every": "0 seconds"}, {"job_kind": "x"}],
)
def test_an_invalid_workload_is_an_error(option: dict[str, object]) -> None:
    (name,) = option
    with pytest.raises(ArgumentError, match=name):
        Workload(**{"job_kind": "tumbling", "rate": 1, **option})  # type: ignore[arg-type]


def test_the_command_accepts_own_measurements() -> None:
    arguments = ["sizing", "enrich", "--rate", "1000000", "--every", "1 second"]
    result = CliRunner().invoke(app, [*arguments, "--events-per-core", "100000"])
    assert result.exit_code == 0, result.output
    assert "cores:   20," in result.output
    assert "commits 150%" in result.output
    assert "first limit: files" in result.output
