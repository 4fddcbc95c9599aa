"""Lines of the log, as text and as JSON."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.runtime.process.logs import NAME, log_to, spark_log


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """Leave the logger as other tests know it."""
    logger = logging.getLogger(NAME)
    before = (list(logger.handlers), logger.level, logger.propagate)
    yield
    logger.handlers[:], logger.level, logger.propagate = before


def test_a_line_has_a_time_in_utc_a_level_and_its_text() -> None:
    out = io.StringIO()
    log_to(out)
    logging.getLogger(f"{NAME}.runtime.query.run").warning("only %s MiB are free", 17)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING only 17 MiB are free\n", out.getvalue()
    )


def test_as_json_each_line_is_an_object() -> None:
    out = io.StringIO()
    logger = log_to(out, as_json=True)
    logger.info("page_views: 4 batches\nin two lines")
    logger.debug("below the level")
    (line,) = out.getvalue().splitlines()
    said = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", said.pop("time"))
    assert said == {
        "level": "INFO",
        "logger": NAME,
        "message": "page_views: 4 batches\nin two lines",
    }


def test_a_second_set_up_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    log_to(first)
    log_to(second).info("once")
    assert first.getvalue() == ""
    assert len(second.getvalue().splitlines()) == 1


def test_spark_logs_by_the_library_s_settings_unless_its_installation_has_some(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert re.fullmatch(r"-Dlog4j2.configurationFile=file:///.*/log4j2.properties", spark_log())
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "log4j2.properties").touch()
    assert spark_log() == ""
    monkeypatch.delenv("SPARK_HOME")
    assert spark_log()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert spark_log() == ""
