"""Lines of the log, as text and as JSON."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate import configure_logging
from tidegate.spark.spark_logging import LOGGER_NAME, spark_log_option


@pytest.fixture(autouse=True)
def restored_logger() -> Iterator[None]:
    """Restore the logger after the test."""
    logger = logging.getLogger(LOGGER_NAME)
    before = (list(logger.handlers), logger.level, logger.propagate)
    yield
    logger.handlers[:], logger.level, logger.propagate = before


def test_a_line_has_a_time_in_utc_a_level_and_its_text() -> None:
    out = io.StringIO()
    configure_logging(out)
    logging.getLogger(f"{LOGGER_NAME}.runtime.query.run").warning("only %s MiB are free", 17)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING only 17 MiB are free\n", out.getvalue()
    )


def test_as_json_each_line_is_an_object() -> None:
    out = io.StringIO()
    logger = configure_logging(out, as_json=True)
    logger.info("page_views: 4 batches\nin two lines")
    logger.debug("below the level")
    (line,) = out.getvalue().splitlines()
    record = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record.pop("time"))
    assert record == {
        "level": "INFO",
        "logger": LOGGER_NAME,
        "message": "page_views: 4 batches\nin two lines",
    }


def test_a_second_configuration_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure_logging(first)
    configure_logging(second).info("once")
    assert first.getvalue() == ""
    assert len(second.getvalue().splitlines()) == 1


def test_spark_logging_uses_the_library_s_settings_unless_the_installation_has_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert re.fullmatch(
        r"-Dlog4j2.configurationFile=file:///.*/log4j2.properties", spark_log_option()
    )
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "log4j2.properties").touch()
    assert spark_log_option() == ""
    monkeypatch.delenv("SPARK_HOME")
    assert spark_log_option()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert spark_log_option() == ""
