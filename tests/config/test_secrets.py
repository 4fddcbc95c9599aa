"""Secrets: masked in displays and errors, and rejected in plain text."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from tidegate.config.loading import config_table, load_config
from tidegate.errors import ConfigError
from tidegate.jobs.page_views import PageViews
from tidegate.secrets import is_secret, mask_secret, resolve_secrets
from tidegate.spark.session import BUILT_IN_SETTINGS

CANARY = "canary-7f3a"
JAAS = "kafka.options.kafka.sasl.jaas.config"
BASE = (
    "input.topics=clicks",
    "input.schema=page string, event_time timestamp",
    "aggregates.views=count",
    "input.watermark_delay=1 second",
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
    assert mask_secret(key, CANARY) == "****"
    assert mask_secret(key, "env:NAME") == "env:NAME"
    assert re.search(BUILT_IN_SETTINGS["spark.redaction.regex"], key), "Spark redacts the same keys"


@pytest.mark.parametrize(
    "key", ["kafka.security.protocol", "kafka.ssl.keystore.location", "window.size"]
)
def test_other_keys_are_shown(key: str) -> None:
    assert mask_secret(key, "value") == "value"


def test_a_secret_of_the_environment_is_masked_in_the_display() -> None:
    name = "TIDEGATE_KAFKA__OPTIONS__KAFKA_SASL_JAAS_CONFIG"
    loaded = load_config(PageViews, None, BASE, {name: CANARY})
    out = io.StringIO()
    Console(file=out, width=200).print(config_table(loaded))
    assert CANARY in loaded.config.kafka.options["kafka.sasl.jaas.config"]
    assert CANARY not in out.getvalue()
    assert "environment" in out.getvalue()


def test_an_error_about_a_secret_masks_it() -> None:
    name = "TIDEGATE_KAFKA__OPTIONS__KAFKA_SASL_JAAS_CONFIG"
    with pytest.raises(ConfigError) as error:
        load_config(PageViews, None, (*BASE, "window.size=wrong"), {name: f'["{CANARY}"]'})
    assert CANARY not in str(error.value)


def test_a_secret_in_plain_text_is_rejected_on_the_command_line_and_in_the_file(
    tmp_path: Path,
) -> None:
    inline = f'kafka.options={{ "kafka.sasl.jaas.config" = "{CANARY}" }}'
    for override in (f"{JAAS}={CANARY}", inline):
        with pytest.raises(ConfigError, match="plain text on the command line") as error:
            load_config(PageViews, None, (*BASE, override), {})
        assert CANARY not in str(error.value)
    file = tmp_path / "job.toml"
    file.write_text(f'[kafka.options]\n"kafka.sasl.jaas.config" = "{CANARY}"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="plain text in") as error:
        load_config(PageViews, file, BASE, {})
    assert CANARY not in str(error.value)


def test_an_error_masks_options_that_are_not_a_table() -> None:
    broken = f'kafka.options={{ "kafka.sasl.jaas.config" = {CANARY} }}'
    with pytest.raises(ConfigError, match=r"invalid kafka\.options: \*\*\*\*") as error:
        load_config(PageViews, None, (*BASE, broken), {})
    assert CANARY not in str(error.value)


def test_references_are_resolved_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{CANARY}\n", encoding="utf-8")
    monkeypatch.setenv("CANARY", CANARY)
    options = {"a.password": "env:CANARY", "b.password": f"file:{secret}", "client.id": "me"}
    assert resolve_secrets(options) == {
        "a.password": CANARY,
        "b.password": CANARY,
        "client.id": "me",
    }


@pytest.mark.parametrize("reference", ["env:NO_SUCH_NAME", "file:/no/such/file"])
def test_an_unresolvable_reference_is_an_error(reference: str) -> None:
    with pytest.raises(ConfigError, match=f"invalid kafka.options.a.password: '{reference}'"):
        resolve_secrets({"a.password": reference})
