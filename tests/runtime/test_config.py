from __future__ import annotations

import re
from pathlib import Path

import pytest

from jobs.page_views import PageViews
from tidegate.errors import ConfigError
from tidegate.runtime.config.load import Loaded, load

MINIMAL = """
[kafka]
topics = ["clicks"]
[input]
schema = "event_id string, event_time timestamp"
lateness = "10 seconds"
[window]
size = "1 minute"
[output]
root = "/data/page_views"
"""


def loaded(
    tmp_path: Path, *overrides: str, file: str = MINIMAL, **environment: str
) -> Loaded[PageViews]:
    path = tmp_path / "job.toml"
    path.write_text(file, encoding="utf-8")
    return load(PageViews, path, overrides, environment)


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("window.szie=5 minutes", "did you mean window.size?"),
        ("windows.size=5 minutes", "windows is no key of this job"),
        ("window.size=5", "window.size is 5 (command line)"),
        ("window.size=3 parsecs", "window.size is '3 parsecs' (command line)"),
        ("window.size=0 seconds", "window.size is '0 seconds'"),
        ("window.size=1 month", "window.size is '1 month'"),
        ("window.hop=10 seconds", "window.kind is 'tumbling', with hop and size"),
        ("window.kind=tumblin", "window.kind is 'tumblin' (command line)"),
        ("window.kind=session", "--set window.gap="),
        ("input.lateness=-1 second", "input.lateness is '-1 second'"),
        ("kafka.topics=[]", "exactly one of topics, pattern, partitions"),
        ("kafka.pattern=c.*", "[kafka] names topics and pattern"),
        ("kafka.start=yesterday", "a time with its zone"),
        ("kafka.start=2026-03-02T09:00:00", "a time with its zone"),
        ("kafka.start=17", "kafka.start is 17"),
        ("kafka.max_rows=0", "kafka.max_rows is 0 (command line)"),
        ("limits.dead_ratio=1.5", "limits.dead_ratio is 1.5 (command line)"),
        ("job.name=a/b", "job.name is 'a/b' (command line)"),
        ("output.table=../elsewhere", "a path under output.root"),
        ("output.table=/elsewhere", "a path under output.root"),
        ("output.late=page_views", "folders that do not hold one another"),
        ("output.late=page_views/late", "folders that do not hold one another"),
        ("output.checkpoint=page_views", "a folder of the checkpoint's own"),
        ("output.checkpoint=.", "a folder of the checkpoint's own"),
        ("output.checkpoint=page_views/checkpoint", "where VACUUM would delete it"),
        ("output.checkpoint=page_views/_delta_log", "where VACUUM would delete it"),
        ("window.size", "section.key=value"),
        ("size=5", "section.key=value"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(
    tmp_path: Path, override: str, says: str
) -> None:
    with pytest.raises(ConfigError) as told:
        loaded(tmp_path, override)
    assert says in str(told.value)


@pytest.mark.parametrize(
    "override",
    [
        "kafka.start=2026-03-02T09:00:00Z",
        "kafka.start={ clicks = { 0 = 17 } }",
        "kafka.topics=clicks,views",
        "output.checkpoint=page_views/_checkpoint",
        "output.checkpoint=/elsewhere/checkpoint",
        "window.size=1 hour 30 minutes",
        "input.lateness=0 seconds",
    ],
)
def test_a_right_value_is_taken(tmp_path: Path, override: str) -> None:
    assert loaded(tmp_path, override).config.output.table == "page_views"


def test_upserts_of_sliding_windows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="events at one instant"):
        loaded(tmp_path, "window.kind=sliding", "output.sink=upsert")


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"input.lateness is missing"):
        loaded(tmp_path, file=MINIMAL.replace('lateness = "10 seconds"', ""))


def test_all_wrong_keys_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as told:
        loaded(tmp_path, "kafka.max_rows=0", "limits.dead_ratio=7")
    assert "kafka.max_rows is 0" in str(told.value)
    assert "limits.dead_ratio is 7" in str(told.value)


@pytest.mark.parametrize(
    ("text", "says"), [("[kafka", "is no TOML"), ("kafka = 3", "kafka is 3 (file job.toml)")]
)
def test_a_broken_file_is_a_configuration_error(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as told:
        loaded(tmp_path, file=text)
    assert says in str(told.value)


def test_a_missing_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(PageViews, tmp_path / "none.toml")


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    given = loaded(
        tmp_path,
        "window.size=2 minutes",
        TIDEGATE_WINDOW__SIZE="3 minutes",
        TIDEGATE_INPUT__LATENESS="4 minutes",
        TIDEGATE_JARS="/no/section",
    )
    assert given.config.window.size == "2 minutes"
    assert given.config.input.lateness == "4 minutes"
    assert given.sources["window", "size"] == "command line"
    assert given.sources["input", "lateness"] == "environment"
    assert given.sources["kafka", "topics"] == "file job.toml"
    assert ("kafka", "servers") not in given.sources


def test_kafka_options_keep_their_dots(tmp_path: Path) -> None:
    options = '[kafka.options]\nsecurity.protocol = "SSL"\n"sasl.mechanism" = "PLAIN"\n'
    given = loaded(
        tmp_path,
        "kafka.options.client.id=me",
        file=MINIMAL + options,
        TIDEGATE_KAFKA__OPTIONS__FETCH_MAX_BYTES='"17"',
    )
    assert given.config.kafka.options == {
        "security.protocol": "SSL",
        "sasl.mechanism": "PLAIN",
        "client.id": "me",
        "fetch.max.bytes": "17",
    }


def test_the_file_in_conf_is_valid_and_its_comments_show_the_defaults(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "conf" / "jobs" / "page_views.toml").read_text(
        encoding="utf-8"
    )
    bare = [line[2:] if re.match(r"# \w+ = ", line) else line for line in text.splitlines()]
    assert bare != text.splitlines()
    assert loaded(tmp_path, file="\n".join(bare)).config == loaded(tmp_path, file=text).config
