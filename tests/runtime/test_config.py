"""Configurations: files, overrides, and what is said of a wrong value."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from jobs.page_views import PageViews
from tidegate.errors import ConfigError
from tidegate.runtime.config.input_sections import InputSection
from tidegate.runtime.config.job_config import Config
from tidegate.runtime.config.load import Loaded, load
from tidegate.runtime.config.shown import rows

CONF = Path(__file__).parents[2] / "conf" / "jobs"

MINIMAL = """
[input]
topics = ["clicks"]
schema = "event_id string, event_time timestamp"
lateness = "10 seconds"
[window]
size = "1 minute"
by = ["page"]
[aggregates]
views = "count"
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
        ("window.hop=10 seconds", "window.hop (command line) is no key of window.kind 'tumbling'"),
        ("window.kind=tumblin", "window.kind is 'tumblin' (command line)"),
        ("window.kind=tumblin", "allowed: 'tumbling', 'hopping', 'sliding', 'session'"),
        ("window.by=page views", "window.by names the column 'page views'"),
        ("window.size='1 hour, 5'", "above zero, text such as '10 seconds'"),
        ("window.kind=session", "window.gap is missing, with window.kind 'session'"),
        ("window.kind=session", "--set window.gap="),
        ("input.lateness=-1 second", "input.lateness is '-1 second'"),
        ("input.topics=[]", "exactly one of topics, pattern, partitions"),
        ("input.pattern=c.*", "[input] names topics and pattern"),
        ("kafka.options.failOnDataLoss=false", "use on_data_loss, 'stop' or 'record'"),
        ("kafka.options.security.protocol=SSL", "kafka.options holds 'security.protocol'"),
        ("kafka.servers=localhost", "kafka.servers is 'localhost'"),
        ("input.start=yesterday", "a time with its zone"),
        ("input.start=2026-03-02T09:00:00", "a time with its zone"),
        ("input.start=17", "input.start is 17"),
        ("input.max_rows=0", "input.max_rows is 0 (command line)"),
        ("input.max_rows=0", "allowed: a number above 0."),
        ("input.max_rows=abc", "'abc' (command line).\n  allowed: a whole number."),
        ("input.watermarks=0", "input.watermarks is 0"),
        ("input.watermarks=many", "allowed: 'partition' or 'log', or a whole number."),
        ("input.future=ignore", "allowed: 'reject' or 'clamp'."),
        ("input.schema=''", "allowed: text that is not empty."),
        ("input.idle=1 minute", "input.idle is '1 minute', and trigger.kind is 'available-now'"),
        ("input.idle=1 minute", "instead: --set trigger.kind=continuous"),
        ("limits.dead_ratio=1.5", "limits.dead_ratio is 1.5 (command line)"),
        ("job.name=a/b", "job.name is 'a/b' (command line)"),
        ("job.name=a/b", "allowed: letters, digits, '_', '.' and '-'"),
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
        "input.start=2026-03-02T09:00:00Z",
        "input.start={ clicks = { 0 = 17 } }",
        "input.topics=clicks,views",
        "output.checkpoint=page_views/_checkpoint",
        "output.checkpoint=/elsewhere/checkpoint",
        "window.size=1 hour 30 minutes",
        "input.lateness=0 seconds",
        "input.lateness=5m",
        "window.size=1h30m",
        "input.watermarks=partition",
        "kafka.options.minPartitions=8",
        "input.on_data_loss=record",
    ],
)
def test_a_right_value_is_taken(tmp_path: Path, override: str) -> None:
    assert loaded(tmp_path, override).config.output.table == "/data/page_views/page_views"


def test_upserts_of_sliding_windows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="events at one instant"):
        loaded(tmp_path, "window.kind=sliding", "output.sink=upsert")


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"input.lateness is missing"):
        loaded(tmp_path, file=MINIMAL.replace('lateness = "10 seconds"', ""))


def test_all_wrong_keys_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as told:
        loaded(tmp_path, "input.max_rows=0", "limits.dead_ratio=7")
    assert str(told.value).splitlines() == [
        "limits.dead_ratio is 7 (command line).",
        "  allowed: 1 or less.",
        "input.max_rows is 0 (command line).",
        "  allowed: a number above 0.",
    ]


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
    assert given.config.window.model_dump()["size"] == "2 minutes"
    assert given.config.input.lateness == "4 minutes"
    assert given.sources["window", "size"] == "command line"
    assert given.sources["input", "lateness"] == "environment"
    assert given.sources["input", "topics"] == "file job.toml"
    assert ("kafka", "servers") not in given.sources


def test_kafka_options_keep_their_dots(tmp_path: Path) -> None:
    options = '[kafka.options]\nkafka.security.protocol = "SSL"\n"kafka.sasl.mechanism" = "PLAIN"\n'
    given = loaded(
        tmp_path,
        "kafka.options.kafka.client.id=me",
        file=MINIMAL + options,
        TIDEGATE_KAFKA__OPTIONS__KAFKA_FETCH_MAX_BYTES="17",
    )
    assert given.config.kafka.options == {
        "kafka.security.protocol": "SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.client.id": "me",
        "kafka.fetch.max.bytes": "17",
    }


def test_an_option_of_kafka_is_text_whatever_toml_takes_it_for(tmp_path: Path) -> None:
    given = loaded(
        tmp_path, "kafka.options.kafka.check.crcs=false", "kafka.options.kafka.fetch.max.bytes=17"
    )
    assert given.config.kafka.options == {
        "kafka.check.crcs": "false",
        "kafka.fetch.max.bytes": "17",
    }


@pytest.mark.parametrize("way", ["command line", "environment", "file"])
def test_an_inline_table_counts_key_by_key_with_its_source(tmp_path: Path, way: str) -> None:
    table = '{ "kafka.client.id" = "me", "kafka.security.protocol" = "SSL" }'
    if way == "command line":
        given = loaded(tmp_path, f"kafka.options={table}")
    elif way == "environment":
        given = loaded(tmp_path, TIDEGATE_KAFKA__OPTIONS=table)
    else:
        given = loaded(tmp_path, file=f"{MINIMAL}[kafka]\noptions = {table}\n")
    options = {"kafka.client.id": "me", "kafka.security.protocol": "SSL"}
    assert given.config.kafka.options == options
    for name in options:
        assert given.sources["kafka", "options", name].startswith(way)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("TIDEGATE_KAFKA_SERVERS", "TIDEGATE_KAFKA__SERVERS"),
        ("TIDEGATE_INPUT_MAX_ROWS", "TIDEGATE_INPUT__MAX_ROWS"),
        ("TIDEGATE_KAFKA", "TIDEGATE_KAFKA__<KEY>"),
    ],
)
def test_a_variable_with_one_underscore_is_refused(tmp_path: Path, name: str, instead: str) -> None:
    with pytest.raises(ConfigError) as told:
        loaded(tmp_path, **{name: "x"})
    assert name in told.value.given
    assert told.value.hint == instead


def test_a_misspelt_variable_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"did you mean window\.size"):
        loaded(tmp_path, TIDEGATE_WINDOW__SISE="1 minute")


def test_a_job_says_its_name_once(tmp_path: Path) -> None:
    config = loaded(tmp_path).config
    assert (PageViews.name, config.job.name) == ("page_views", "page_views")
    assert config.output.checkpoint == "/data/page_views/_checkpoints/page_views"
    other = loaded(tmp_path, "job.name=other").config
    assert other.job.name == "other"
    assert other.output.checkpoint == config.output.checkpoint


def test_a_job_without_a_name_has_none_of_another_job() -> None:
    class Nameless(Config):
        clicks: InputSection

    given = ["clicks.topics=c", "clicks.schema=a int", "clicks.lateness=1s", "output.table=t"]
    with pytest.raises(ConfigError, match=r"job\.name is ''"):
        load(Nameless, None, given, {})


def test_every_table_is_a_place_below_the_root(tmp_path: Path) -> None:
    output = loaded(tmp_path, "output.root=s3a://lake/views", "output.late=a/../b").config.output
    assert output.tables() == {
        "output.table": "s3a://lake/views/page_views",
        "output.dead_letters": "s3a://lake/views/dead_letters",
        "output.gaps": "s3a://lake/views/gaps",
        "output.late": "s3a://lake/views/b",
        "output.corrections": "s3a://lake/views/corrections",
        "output.mirrored": "s3a://lake/views/mirrored",
    }
    assert output.late == "s3a://lake/views/b"


def test_an_idle_time_out_goes_with_a_job_that_runs_on(tmp_path: Path) -> None:
    config = loaded(tmp_path, "input.idle=1m", "trigger.kind=continuous").config
    assert (config.input.idle, config.trigger.every) == ("1m", "10 seconds")


def test_the_configuration_is_shown_with_the_job_s_own_sections_before_those_of_all(
    tmp_path: Path,
) -> None:
    shown = list(rows(loaded(tmp_path, "kafka.options.kafka.client.id=me").config))
    sections = list(dict.fromkeys(path[0] for path, _ in shown))
    assert sections == [
        "job",
        "kafka",
        "registry",
        "input",
        "window",
        "aggregates",
        "mirror",
        "output",
        "limits",
        "upkeep",
        "trigger",
        "spark",
        "metrics",
    ]
    assert (("kafka", "options", "kafka.client.id"), "me") in shown


@pytest.mark.parametrize("job", sorted(path.stem for path in CONF.glob("*.toml")))
def test_a_file_in_conf_is_valid_and_its_comments_show_the_defaults(
    tmp_path: Path, job: str
) -> None:
    module = importlib.import_module(f"jobs.{job}")
    (model,) = (
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Config) and value.name == job
    )
    text = (CONF / f"{job}.toml").read_text(encoding="utf-8")
    bare = [line[2:] if re.match(r"# \w+ = ", line) else line for line in text.splitlines()]
    assert bare != text.splitlines()
    path = tmp_path / "bare.toml"
    path.write_text("\n".join(bare), encoding="utf-8")
    given = load(model, CONF / f"{job}.toml", [], {}).config
    assert load(model, path, [], {}).config == given
