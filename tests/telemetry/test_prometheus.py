"""A Prometheus server scrapes a job and evaluates the alerts and the queries of the dashboard."""

from __future__ import annotations

import json
import re
import shutil
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.telemetry.test_dashboards import DEPLOY, expressions
from tests.telemetry.test_report import example_metrics
from tidegate.telemetry.prometheus import LOOPBACK, PrometheusCollector, serve_metrics
from tidegate.testing.child_process import GuardedProcess, free_port, wait_until

VARIABLES = {"$__rate_interval": "1m", "$__range": "1h", "$job": ".*", "$instance": ".*"}


class Prometheus:
    """A server with the configuration of deploy/, except for the target."""

    def __init__(self, folder: Path, target: str) -> None:
        config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text())
        config["global"]["scrape_interval"] = "1s"
        config["global"]["evaluation_interval"] = "1s"
        config["rule_files"] = [str(DEPLOY / "prometheus" / "alerts.yaml")]
        config["scrape_configs"][0]["static_configs"][0]["targets"] = [target]
        config_file = folder / "prometheus.yaml"
        config_file.write_text(yaml.safe_dump(config), encoding="utf-8")
        self.address = f"{LOOPBACK}:{free_port()}"
        command = [
            "prometheus",
            f"--config.file={config_file}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address={self.address}",
        ]
        self.process = GuardedProcess(command, folder / "log", name="prometheus")

    def request(self, endpoint: str, **parameters: str) -> Any:
        """Return the data of a response."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"http://{self.address}/api/v1/{endpoint}?{query}") as answer:
            response: dict[str, Any] = json.load(answer)
        assert response["status"] == "success"
        return response["data"]

    def has_scraped(self) -> bool:
        """Return whether the server has scraped the job."""
        try:
            targets = self.request("targets")["activeTargets"]
        except OSError:
            return False
        return [each["health"] for each in targets] == ["up"]


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Prometheus]:
    if shutil.which("prometheus") is None:
        pytest.skip("Prometheus is not installed")
    port = free_port()
    with serve_metrics(PrometheusCollector(example_metrics()), port, LOOPBACK):
        server = Prometheus(tmp_path, f"{LOOPBACK}:{port}")
        try:
            wait_until(server.has_scraped, timeout=60, event="a scrape", process=server.process)
            yield server
        finally:
            server.process.kill()


@pytest.mark.slow
def test_a_server_evaluates_the_alerts_and_the_queries_of_the_dashboard(
    prometheus: Prometheus,
) -> None:
    def rules() -> list[Any]:
        groups = prometheus.request("rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    wait_until(
        lambda: all(rule["health"] != "unknown" for rule in rules()),
        timeout=60,
        event="the alerts' evaluation",
        process=prometheus.process,
    )
    assert {rule["name"]: rule.get("lastError", "") for rule in rules()} == {
        rule["name"]: "" for rule in rules()
    }
    assert len(rules()) > 5
    for expression in expressions():
        query = re.sub(r"^label_values\((.*), *\w+\)$", r"\1", expression)
        for name, value in VARIABLES.items():
            query = query.replace(name, value)
        prometheus.request("query", query=query)


@pytest.mark.slow
def test_a_query_returns_the_value_of_the_job(prometheus: Prometheus) -> None:
    (series,) = prometheus.request("query", query="tidegate_dead_letters_total")["result"]
    assert series["metric"]["job"] == "tidegate"
    assert float(series["value"][1]) == example_metrics().summary.dead_letters
