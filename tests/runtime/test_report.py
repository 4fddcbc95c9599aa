"""The page of a run: whole, right, and nothing in it but what the run told."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tidegate.errors import SetupError
from tidegate.runtime.summary import Counted, Summary
from tidegate.runtime.telemetry.behind import Behind
from tidegate.runtime.telemetry.gauge import gauge
from tidegate.runtime.telemetry.record import Record
from tidegate.runtime.telemetry.report import Report
from tidegate.runtime.telemetry.report.chart import Line, chart
from tidegate.runtime.telemetry.report.page import State, page
from tidegate.runtime.telemetry.report.units import duration, octets, short, ticks

from .test_progress import REPORT
from .watched import Watched

BEGUN = 1_772_442_350.0
HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'


class Read(HTMLParser):
    """A page's elements, its tiles by name, and its tables row by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes += attrs
        self._open.append(tag)

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self._open[-1], data))

    def of(self, element: str) -> list[str]:
        return [text for tag, text in self.texts if tag == element]

    @property
    def tiles(self) -> dict[str, str]:
        return dict(zip(self.of("dt"), self.of("dd"), strict=True))


def record(batches: int = 3) -> Record:
    kept = Record(Summary(job=HOSTILE), detailed=True, clock=lambda: BEGUN)
    for number in range(batches):
        counted = Counted(
            number=number,
            rows_in=1_000 + number,
            rows_out=10,
            dead=2,
            late=5,
            reached={},
            reasons={("decode", HOSTILE): 2},
            outcome="written",
        )
        kept.add(counted)
        kept.saw(replace(gauge(REPORT), batch=number, ended=BEGUN + 2 * number))
    place = (HOSTILE, 0)
    kept.is_behind(
        Behind(
            rows={place: 27},
            seconds={place: 90.0},
            kept={place: 4},
            retention={HOSTILE: 7_200.0},
            head_room={HOSTILE: 7_110.0},
        )
    )
    return kept


def written(kept: Record, state: State | None = None) -> str:
    return page(kept.now(), state or State("ended", "Ended."), BEGUN + 60)


def test_every_number_of_the_page_is_that_of_the_run() -> None:
    read = Read(written(record()))
    assert read.tiles == {
        "batches": "3",
        "rows read": "3,003",
        "rows written": "30",
        "late rows": "15",
        "dead letters": "6",
        "lag, records": "27",
        "watermark behind the clock": "58.8 s",
        "time of the run": "1 min",
    }
    cells = read.of("td")
    assert cells[:3] == ["decode", HOSTILE, "6"]
    assert cells[3:8] == [HOSTILE, "0", "27", "1.5 min", "1.98 h"]
    assert cells[-12:-4] == ["2", "2026-03-02 09:05:54Z", "1,002", "10", "5", "2", "2.000", "2 s"]
    assert cells[-4:] == ["27", "2026-03-02 09:05:51Z", "10", "1,500,000"]


def test_names_that_are_html_stay_text_and_nothing_comes_from_elsewhere() -> None:
    text = written(record(), State("failed", f"Failed: {HOSTILE}"))
    read = Read(text)
    assert not {"script", "img", "link", "iframe", "object"} & read.elements
    assert not [name for name, _ in read.attributes if name in ("src", "href") or name[:2] == "on"]
    assert f"Failed: {HOSTILE}" in "".join(read.of("p"))
    assert "http" not in re.sub(r'http-equiv="[^"]*"', "", text)
    assert not [name for name, _ in read.attributes if name == "style"]


def test_the_page_of_a_long_run_stays_small() -> None:
    assert len(written(record(30_000))) < 1_000_000


def test_a_page_says_how_the_run_ended_and_one_of_a_killed_run_that_it_went_on(
    tmp_path: Path,
) -> None:
    place = tmp_path / "new" / "run.html"
    with Report(record(), str(place), lambda: False):
        going_on = place.read_text()
    assert "Going on when this page was written" in going_on
    assert 'http-equiv="refresh"' in going_on
    assert "Ended." in place.read_text()
    assert 'http-equiv="refresh"' not in place.read_text()
    kept = record()
    late = Counted(number=3, rows_in=7, rows_out=0, dead=0, late=0, reached={}, outcome="written")
    kept.add(late)
    with pytest.raises(ValueError, match="broken"), Report(kept, str(place), lambda: False):
        raise ValueError("broken <b>")
    failed = Read(place.read_text())
    assert "Failed: ValueError: broken <b>" in failed.of("p")
    assert failed.tiles["rows read"] == "3,010"
    assert failed.of("td")[-12] == "3"
    assert list(place.parent.iterdir()) == [place]


def test_a_page_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(SetupError, match="the report cannot be written"),
        Report(record(), str(tmp_path / "file" / "run.html"), lambda: False),
    ):
        pass


def test_a_run_without_a_batch_has_a_page() -> None:
    empty = Record(Summary(job="j"), clock=lambda: BEGUN)
    assert Read(written(empty)).tiles["rows read"] == "0"


def test_charts_break_where_a_value_is_not_known_and_stay_in_their_frame() -> None:
    drawn = chart("t", [Line("a", [(0, 1), (1, None), (2, 5), (3, 1e12)])], short)
    assert drawn.count("<polyline") == 2
    heights = [
        float(y)
        for y in re.findall(r"[\d.]+,([\d.]+)", " ".join(re.findall(r'points="([^"]*)"', drawn)))
    ]
    assert 12 <= min(heights) <= max(heights) <= 190
    assert "not known" in chart("t", [Line("a", [(0, None)])], short)


@pytest.mark.parametrize("most", [1e-9, 0.3, 1, 7, 99.9, 1_000, 123_456_789, 0])
def test_axes_have_few_round_marks_up_to_the_greatest_value(most: float) -> None:
    marks = ticks(most)
    assert marks[0] == 0
    assert marks[-1] >= most * 0.999
    assert 2 <= len(marks) <= 6


def test_numbers_are_told_in_units() -> None:
    assert [duration(s) for s in (None, 0.25, 60, 5_400, 1e9)] == [
        "-",
        "0.25 s",
        "1 min",
        "1.5 h",
        "11,574 d",
    ]
    assert [octets(n) for n in (None, 12, 2_500_000)] == ["-", "12 B", "2.5 MB"]


@pytest.mark.broker
def test_the_page_of_a_real_run_has_the_numbers_of_its_summary(watched: Watched) -> None:
    read, done = Read(watched.page), watched.done
    assert "Ended." in read.of("p")
    told = ("batches", "rows read", "rows written", "late rows", "dead letters")
    counts = (done.batches, done.rows_in, done.rows_out, done.late, done.dead)
    assert [read.tiles[name] for name in told] == [f"{count:,}" for count in counts]
    assert done.dead == 2
    cells = read.of("td")
    assert sum(cells[at + 1] == watched.topic for at in range(len(cells) - 1)) == 2
    assert read.tiles["lag, records"] == "0"


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
def test_a_browser_shows_the_page_and_runs_nothing_of_it(tmp_path: Path) -> None:
    place = tmp_path / "run.html"
    place.write_text(written(record()))
    shown = subprocess.run(
        [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--enable-logging=stderr",
            "--dump-dom",
            place.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert Read(shown.stdout).tiles == Read(place.read_text()).tiles
    assert "Content Security Policy" not in shown.stderr
