"""Secrets: masked wherever settings are shown, and refused in plain text."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from jobs.page_views import PageViews
from tidegate.errors import ConfigError
from tidegate.runtime.config.load import load
from tidegate.runtime.config.secrets import is_secret, masked, resolved
from tidegate.runtime.config.shown import table
from tidegate.runtime.process.session import BUILT_IN

CANARY = "canary-7f3a"
JAAS = "kafka.options.kafka.sasl.jaas.config"
BASE = (
    "input.topics=clicks",
    "input.schema=a string",
    "aggregates.views=count",
    "input.lateness=1 second",
    "window.size=1 minute",
    "window.by=page",
)


@pytest.mark.parametrize(
    "key",
    [
        "kafka.sasl.jaas.config",
        "kafka.ssl.key.password",
        "kafka.ssl.keystore.key",
        "kafka.sasl.oauthbearer.client.secret",
        "api_key",
        "access.key",
        "token",
        "kafka.ssl.engine.factory.pw",
        "kafka.ssl.truststore.certificates",
        "db.passwd",
        "private_key",
    ],
)
def test_a_key_that_names_a_secret_is_masked(key: str) -> None:
    assert is_secret(key)
    assert masked(key, CANARY) == "****"
    assert masked(key, "env:NAME") == "env:NAME"
    assert re.search(BUILT_IN["spark.redaction.regex"], key), "Spark masks what we mask"


@pytest.mark.parametrize(
    "key", ["kafka.security.protocol", "kafka.ssl.keystore.location", "window.size"]
)
def test_other_keys_are_shown(key: str) -> None:
    assert masked(key, "value") == "value"


def test_a_secret_from_the_environment_is_in_no_output() -> None:
    name = "TIDEGATE_KAFKA__OPTIONS__KAFKA_SASL_JAAS_CONFIG"
    loaded = load(PageViews, None, BASE, {name: CANARY})
    out = io.StringIO()
    Console(file=out, width=200).print(table(loaded))
    assert CANARY in loaded.config.kafka.options["kafka.sasl.jaas.config"]
    assert CANARY not in out.getvalue()
    assert "environment" in out.getvalue()


def test_an_error_about_a_secret_does_not_tell_it() -> None:
    name = "TIDEGATE_KAFKA__OPTIONS__KAFKA_SASL_JAAS_CONFIG"
    with pytest.raises(ConfigError) as told:
        load(PageViews, None, (*BASE, "window.size=wrong"), {name: f'["{CANARY}"]'})
    assert CANARY not in str(told.value)


def test_a_secret_in_plain_text_is_refused_on_the_command_line_and_in_the_file(
    tmp_path: Path,
) -> None:
    inline = f'kafka.options={{ "kafka.sasl.jaas.config" = "{CANARY}" }}'
    for override in (f"{JAAS}={CANARY}", inline):
        with pytest.raises(ConfigError, match="plain text on the command line") as told:
            load(PageViews, None, (*BASE, override), {})
        assert CANARY not in str(told.value)
    file = tmp_path / "job.toml"
    file.write_text(f'[kafka.options]\n"kafka.sasl.jaas.config" = "{CANARY}"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="plain text in") as told:
        load(PageViews, file, BASE, {})
    assert CANARY not in str(told.value)


def test_options_that_are_no_table_are_not_shown_in_the_error() -> None:
    broken = f'kafka.options={{ "kafka.sasl.jaas.config" = {CANARY} }}'
    with pytest.raises(ConfigError, match=r"kafka\.options is") as told:
        load(PageViews, None, (*BASE, broken), {})
    assert CANARY not in str(told.value)


def test_references_are_resolved_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{CANARY}\n", encoding="utf-8")
    monkeypatch.setenv("CANARY", CANARY)
    options = {"a.password": "env:CANARY", "b.password": f"file:{secret}", "client.id": "me"}
    assert resolved(options) == {"a.password": CANARY, "b.password": CANARY, "client.id": "me"}


@pytest.mark.parametrize("reference", ["env:NO_SUCH_NAME", "file:/no/such/file"])
def test_a_reference_to_nothing_is_named(reference: str) -> None:
    with pytest.raises(ConfigError, match=f"kafka.options.a.password is '{reference}'"):
        resolved({"a.password": reference})
