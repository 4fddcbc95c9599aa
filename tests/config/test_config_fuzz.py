"""Random configurations: each is valid, or raises a ConfigError that masks secrets."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from tidegate.config.loading import config_rows, load_config
from tidegate.errors import ConfigError
from tidegate.jobs.deduplicated import EventDeduplication

SECRET = "canary-55aa"
SECRET_KEYS = ("kafka.options.kafka.sasl.jaas.config", "kafka.options.kafka.ssl.key.password")
BASE = (
    "events.topics=clicks",
    "events.schema=event_time timestamp, a string",
    "events.watermark_delay=1 second",
    "deduplicate.key=a",
    "deduplicate.within=1 hour",
    "deduplicate.max_delay=1 minute",
)
TEXTS = (
    *(
        "",
        " ",
        "a",
        "é",
        "\x00",
        "\n",
        "'",
        '"',
        "[",
        "{}",
        "[]",
        "{a=1}",
        "[1, 'x']",
        "nan",
        "inf",
    ),
    *("-1", "0", "1", "1e400", "9" * 40, "true", "1 second", "0 seconds", "1 month", "5 parsecs"),
    *("2026-03-02T09:00:00Z", "2026-03-02", "earliest", "partition", "record", "../..", "/etc/x"),
    *("hdfs:/x", "S3A://b/x", "file:///", "dbfs:/a/../../b", "a:b", "//", "~", "%00", "$(id)"),
    *("localhost:9092", "host", "::1:9", "env:NO_SUCH", "file:/no/such", "{ clicks = { 0 = -3 } }"),
)
KEYS = sorted(
    {
        ".".join(path)
        for path, _ in config_rows(
            load_config(EventDeduplication, None, [*BASE, "output.root=/d"], {}).config
        )
    }
    | {"kafka.options.client.id", "kafka.options", "nothing.here", "events", "output.x", "a.b.c.d"}
)


def random_text(chance: random.Random) -> str:
    """Return one of the texts, two concatenated, or random characters."""
    kind = chance.random()
    if kind < 0.6:
        return chance.choice(TEXTS)
    if kind < 0.8:
        return "".join(chance.choices(TEXTS, k=2))
    return "".join(
        chr(chance.choice([chance.randrange(128), chance.randrange(0xD7FF)])) for _ in "abc"
    )


def attempt(
    overrides: list[str], environment: dict[str, str], file: Path | None
) -> EventDeduplication | ConfigError:
    """Return the configuration, or its error."""
    try:
        return load_config(EventDeduplication, file, overrides, environment).config
    except ConfigError as error:
        return error


def load_random_configs(folder: Path, seed: int, count: int) -> Counter[str]:
    """Load random configurations; return how many are valid and invalid."""
    chance = random.Random(seed)
    results: Counter[str] = Counter()
    for _ in range(count):
        overrides = [
            f"{chance.choice(KEYS)}={random_text(chance)}" for _ in range(chance.randint(1, 2))
        ]
        if chance.random() < 0.3:
            overrides.append(f"{chance.choice(SECRET_KEYS)}={SECRET}{random_text(chance)}")
        file, environment = None, {}
        if chance.random() < 0.1:
            file = folder / "job.toml"
            file.write_bytes(random_text(chance).encode("utf-8", "surrogatepass"))
        if chance.random() < 0.2:
            name = "TIDEGATE_KAFKA__OPTIONS__KAFKA_SASL_JAAS_CONFIG"
            environment[name] = SECRET + random_text(chance)
        result = attempt([*BASE, "output.root=/d", *overrides], environment, file)
        if isinstance(result, ConfigError):
            assert SECRET not in str(result)
            assert result.problem
            results["invalid"] += 1
        else:
            results["valid"] += 1
            root = result.output.root.rstrip("/") + "/"
            paths = result.output.tables().values()
            assert all(path.startswith(root) for path in paths), overrides
    return results


@pytest.mark.draws("count", short=[1_500], long=[100_000])
def test_any_value_of_any_key_is_valid_or_raises_config_error(tmp_path: Path, count: int) -> None:
    assert 0.05 * count < load_random_configs(tmp_path, 7, count)["valid"] < 0.7 * count
