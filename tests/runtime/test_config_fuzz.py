"""Configurations drawn at random: each is taken, or refused by a ConfigError that hides secrets."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from jobs.deduplicated import Deduplicated
from tidegate.errors import ConfigError
from tidegate.runtime.config.load import load
from tidegate.runtime.config.shown import rows

SECRET = "canary-55aa"
SECRET_KEYS = ("kafka.options.kafka.sasl.jaas.config", "kafka.options.kafka.ssl.key.password")
BASE = (
    "events.topics=clicks",
    "events.schema=event_time timestamp, a string",
    "events.lateness=1 second",
    "deduplicate.key=a",
    "deduplicate.horizon=1 hour",
    "deduplicate.hold=1 minute",
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
        for path, _ in rows(load(Deduplicated, None, [*BASE, "output.root=/d"], {}).config)
    }
    | {"kafka.options.client.id", "kafka.options", "nothing.here", "events", "output.x", "a.b.c.d"}
)


def drawn(chance: random.Random) -> str:
    """Return a value: a text of the list, a piece of one, several, or noise."""
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
) -> Deduplicated | ConfigError:
    """Return the configuration, or how it was refused."""
    try:
        return load(Deduplicated, file, overrides, environment).config
    except ConfigError as error:
        return error


def loaded(folder: Path, seed: int, count: int) -> Counter[str]:
    """Draw configurations; return how many were taken and refused."""
    chance = random.Random(seed)
    seen: Counter[str] = Counter()
    for _ in range(count):
        given = [f"{chance.choice(KEYS)}={drawn(chance)}" for _ in range(chance.randint(1, 2))]
        if chance.random() < 0.3:
            given.append(f"{chance.choice(SECRET_KEYS)}={SECRET}{drawn(chance)}")
        file, environment = None, {}
        if chance.random() < 0.1:
            file = folder / "job.toml"
            file.write_bytes(drawn(chance).encode("utf-8", "surrogatepass"))
        if chance.random() < 0.2:
            environment["TIDEGATE_KAFKA__OPTIONS__KAFKA_SASL_JAAS_CONFIG"] = SECRET + drawn(chance)
        found = attempt([*BASE, "output.root=/d", *given], environment, file)
        if isinstance(found, ConfigError):
            assert SECRET not in str(found)
            assert found.given
            seen["refused"] += 1
        else:
            seen["taken"] += 1
            root = found.output.root.rstrip("/") + "/"
            assert all(place.startswith(root) for place in found.output.tables().values()), given
    return seen


@pytest.mark.draws("count", short=[1_500], long=[100_000])
def test_any_value_of_any_key_is_taken_or_refused_in_the_library_s_own_words(
    tmp_path: Path, count: int
) -> None:
    assert 0.05 * count < loaded(tmp_path, 7, count)["taken"] < 0.7 * count
