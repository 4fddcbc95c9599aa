"""Configurations: files, overrides, and validation errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidegate import Config
from tidegate.config.input_sections import InputSection
from tidegate.config.loading import LoadedConfig, config_rows, load_config
from tidegate.errors import ConfigError
from tidegate.jobs import BUILT_IN_JOBS
from tidegate.jobs.page_views import PageViews

CONF = Path(__file__).parents[2] / "conf" / "jobs"

MINIMAL = """
[input]
topics = ["clicks"]
schema = "event_id string, page string, event_time timestamp"
watermark_delay = "10 seconds"
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
) -> LoadedConfig[PageViews]:
    path = tmp_path / "job.toml"
    path.write_text(file, encoding="utf-8")
    return load_config(PageViews, path, overrides, environment)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("window.szie=5 minutes", "unknown key: window.szie (command line)"),
        ("window.szie=5 minutes", "try: window.size"),
        ("windows.size=5 minutes", "unknown section: windows"),
        ("window.size=5", "invalid window.size: 5 (command line)"),
        ("window.size=3 parsecs", "invalid window.size: '3 parsecs' (command line)"),
        ("window.size=0 seconds", "invalid window.size: '0 seconds'"),
        ("window.size=1 month", "invalid window.size: '1 month'"),
        ("window.hop=10 seconds", "key: window.hop (command line), for window.kind 'tumbling'"),
        ("window.kind=tumblin", "invalid window.kind: 'tumblin' (command line)"),
        ("window.kind=tumblin", "expected: 'tumbling', 'hopping', 'sliding', 'session'"),
        ("window.by=page views", "invalid window.by: 'page views' (command line); Delta"),
        ("window.size='1 hour, 5'", "positive: text such as '10 seconds'"),
        ("window.kind=session", "missing key: window.gap, for window.kind 'session'"),
        ("window.kind=session", "--set window.gap="),
        ("input.watermark_delay=-1 second", "invalid input.watermark_delay: '-1 second'"),
        ("input.topics=[]", "exactly one of topics, pattern, partitions"),
        ("input.pattern=c.*", "[input] invalid topic choice: topics and pattern"),
        ("kafka.options.failOnDataLoss=false", "on_data_loss"),
        ("kafka.options.security.protocol=SSL", "'security.protocol'"),
        ("kafka.bootstrap_servers=localhost", "'localhost'"),
        ("input.start=yesterday", "a time with its zone"),
        ("input.start=2026-03-02T09:00:00", "a time with its zone"),
        ("input.start=17", "invalid input.start: 17"),
        ("input.max_records_per_batch=0", "input.max_records_per_batch: 0 (command line)"),
        ("input.max_records_per_batch=0", "expected: a number above 0"),
        ("input.max_records_per_batch=abc", "'abc' (command line)\n  expected: an integer"),
        ("input.watermarks=0", "invalid input.watermarks: 0"),
        ("input.watermarks=many", "expected: 'global', 'partition' or 'log'"),
        ("input.on_future=ignore", "expected: 'reject' or 'clamp'"),
        ("input.schema=''", "expected: text that is not empty"),
        (
            "input.idle_timeout=1 minute",
            "invalid input.idle_timeout: '1 minute' with trigger.kind = 'available-now'",
        ),
        ("input.idle_timeout=1 minute", "try: --set trigger.kind=continuous"),
        ("limits.dead_ratio=1.5", "invalid limits.dead_ratio: 1.5 (command line)"),
        ("job.name=a/b", "invalid job.name: 'a/b' (command line)"),
        ("job.name=a/b", "expected: letters, digits, '_', '.' and '-'"),
        ("output.table=../elsewhere", "a path under output.root"),
        ("output.table=/elsewhere", "a path under output.root"),
        ("output.late_rows=page_views", "output.late_rows"),
        ("output.late_rows=page_views/late", "output.late_rows"),
        ("output.checkpoint=page_views", "checkpoint"),
        ("output.checkpoint=.", "checkpoint"),
        ("output.checkpoint=page_views/checkpoint", "VACUUM"),
        ("output.checkpoint=page_views/_delta_log", "VACUUM"),
        ("window.size", "section.key=value"),
        ("size=5", "section.key=value"),
    ],
)
def test_an_invalid_value_raises_an_error_with_key_and_expected_values(
    tmp_path: Path, override: str, message: str
) -> None:
    with pytest.raises(ConfigError) as error:
        loaded(tmp_path, override)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "override",
    [
        "input.start=2026-03-02T09:00:00Z",
        "input.start={ clicks = { 0 = 17 } }",
        "input.topics=clicks,views",
        "output.checkpoint=page_views/_checkpoint",
        "output.checkpoint=/elsewhere/checkpoint",
        "window.size=1 hour 30 minutes",
        "input.watermark_delay=0 seconds",
        "input.watermark_delay=5m",
        "window.size=1h30m",
        "input.watermarks=partition",
        "kafka.options.minPartitions=8",
        "input.on_data_loss=record",
    ],
)
def test_a_valid_value_is_accepted(tmp_path: Path, override: str) -> None:
    assert loaded(tmp_path, override).config.output.table == "/data/page_views/page_views"


def test_upserts_of_sliding_windows_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="events with the same time"):
        loaded(tmp_path, "window.kind=sliding", "output.sink=upsert")


def test_a_missing_key_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing key: input.watermark_delay"):
        loaded(tmp_path, file=MINIMAL.replace('watermark_delay = "10 seconds"', ""))


def test_one_error_lists_all_invalid_keys(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        loaded(tmp_path, "input.max_records_per_batch=0", "limits.dead_ratio=7")
    assert str(error.value).splitlines() == [
        "invalid limits.dead_ratio: 7 (command line)",
        "  expected: a ratio from 0 to 1, or None",
        "  try: dead_ratio=0.1",
        "invalid input.max_records_per_batch: 0 (command line)",
        "  expected: a number above 0",
    ]


@pytest.mark.parametrize(
    ("text", "message"), [("[kafka", "invalid TOML"), ("kafka = 3", "kafka: 3 (file job.toml)")]
)
def test_a_broken_file_is_a_configuration_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        loaded(tmp_path, file=text)
    assert message in str(error.value)


def test_a_missing_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*: No such file"):
        load_config(PageViews, tmp_path / "none.toml")


def test_the_command_line_precedes_the_environment_and_the_file(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        "window.size=2 minutes",
        TIDEGATE_WINDOW__SIZE="3 minutes",
        TIDEGATE_INPUT__WATERMARK_DELAY="4 minutes",
        TIDEGATE_JARS="/no/section",
    )
    assert config.config.window.model_dump()["size"] == "2 minutes"
    assert config.config.input.watermark_delay == "4 minutes"
    assert config.sources["window", "size"] == "command line"
    assert config.sources["input", "watermark_delay"] == "environment"
    assert config.sources["input", "topics"] == "file job.toml"
    assert ("kafka", "bootstrap_servers") not in config.sources


def test_names_of_kafka_options_contain_dots(tmp_path: Path) -> None:
    options = '[kafka.options]\nkafka.security.protocol = "SSL"\n"kafka.sasl.mechanism" = "PLAIN"\n'
    config = loaded(
        tmp_path,
        "kafka.options.kafka.client.id=me",
        file=MINIMAL + options,
        TIDEGATE_KAFKA__OPTIONS__KAFKA_FETCH_MAX_BYTES="17",
    )
    assert config.config.kafka.options == {
        "kafka.security.protocol": "SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.client.id": "me",
        "kafka.fetch.max.bytes": "17",
    }


def test_kafka_options_are_text(tmp_path: Path) -> None:
    config = loaded(
        tmp_path, "kafka.options.kafka.check.crcs=false", "kafka.options.kafka.fetch.max.bytes=17"
    )
    assert config.config.kafka.options == {
        "kafka.check.crcs": "false",
        "kafka.fetch.max.bytes": "17",
    }


@pytest.mark.parametrize("source", ["command line", "environment", "file"])
def test_an_inline_table_is_merged_key_by_key(tmp_path: Path, source: str) -> None:
    table = '{ "kafka.client.id" = "me", "kafka.security.protocol" = "SSL" }'
    if source == "command line":
        config = loaded(tmp_path, f"kafka.options={table}")
    elif source == "environment":
        config = loaded(tmp_path, TIDEGATE_KAFKA__OPTIONS=table)
    else:
        config = loaded(tmp_path, file=f"{MINIMAL}[kafka]\noptions = {table}\n")
    options = {"kafka.client.id": "me", "kafka.security.protocol": "SSL"}
    assert config.config.kafka.options == options
    for name in options:
        assert config.sources["kafka", "options", name].startswith(source)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", "TIDEGATE_KAFKA__BOOTSTRAP_SERVERS"),
        ("TIDEGATE_INPUT_MAX_RECORDS_PER_BATCH", "TIDEGATE_INPUT__MAX_RECORDS_PER_BATCH"),
        ("TIDEGATE_KAFKA", "TIDEGATE_KAFKA__<KEY>"),
    ],
)
def test_a_variable_with_one_underscore_is_rejected(tmp_path: Path, name: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as error:
        loaded(tmp_path, **{name: "x"})
    assert name in error.value.problem
    assert error.value.remedy == remedy


def test_a_misspelt_variable_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"try: window\.size"):
        loaded(tmp_path, TIDEGATE_WINDOW__SISE="1 minute")


def test_the_class_names_the_job_and_its_paths(tmp_path: Path) -> None:
    config = loaded(tmp_path).config
    assert (PageViews.name, config.job.name) == ("page_views", "page_views")
    assert config.output.checkpoint == "/data/page_views/_checkpoints/page_views"
    other = loaded(tmp_path, "job.name=other").config
    assert other.job.name == "other"
    assert other.output.checkpoint == config.output.checkpoint


def test_a_class_without_a_name_requires_job_name() -> None:
    class Nameless(Config):
        clicks: InputSection

    overrides = [
        "clicks.topics=c",
        "clicks.schema=a int",
        "clicks.watermark_delay=1s",
        "output.table=t",
    ]
    with pytest.raises(ConfigError, match=r"invalid job\.name: ''"):
        load_config(Nameless, None, overrides, {})


def test_every_table_is_a_path_below_the_root(tmp_path: Path) -> None:
    output = loaded(
        tmp_path, "output.root=s3a://lake/views", "output.late_rows=a/../b"
    ).config.output
    assert output.tables() == {
        "output.table": "s3a://lake/views/page_views",
        "output.dead_letters": "s3a://lake/views/dead_letters",
        "output.offset_gaps": "s3a://lake/views/offset_gaps",
        "output.late_rows": "s3a://lake/views/b",
        "output.corrections": "s3a://lake/views/corrections",
        "output.mirror_batches": "s3a://lake/views/mirrored",
    }
    assert output.late_rows == "s3a://lake/views/b"


def test_a_continuous_job_can_have_an_idle_timeout(tmp_path: Path) -> None:
    config = loaded(tmp_path, "input.idle_timeout=1m", "trigger.kind=continuous").config
    assert (config.input.idle_timeout, config.trigger.every) == ("1m", "10 seconds")


def test_the_display_lists_the_job_s_sections_first(
    tmp_path: Path,
) -> None:
    shown = list(config_rows(loaded(tmp_path, "kafka.options.kafka.client.id=me").config))
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
        "maintenance",
        "trigger",
        "spark",
        "metrics",
    ]
    assert (("kafka", "options", "kafka.client.id"), "me") in shown


@pytest.mark.parametrize("job", sorted(path.stem for path in CONF.glob("*.toml")))
def test_a_file_in_conf_is_valid_and_its_comments_show_the_defaults(
    tmp_path: Path, job: str
) -> None:
    model = BUILT_IN_JOBS[job].model
    text = (CONF / f"{job}.toml").read_text(encoding="utf-8")
    bare = [line[2:] if re.match(r"# \w+ = ", line) else line for line in text.splitlines()]
    assert bare != text.splitlines()
    path = tmp_path / "bare.toml"
    path.write_text("\n".join(bare), encoding="utf-8")
    config = load_config(model, CONF / f"{job}.toml", [], {}).config
    assert load_config(model, path, [], {}).config == config
