"""A real Prometheus scrapes a job's numbers, and takes the alerts and the dashboard's questions."""

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

from tidegate.runtime.telemetry.metrics import LOOPBACK, Metrics, served
from tidegate.testing.process import GuardedProcess, free_port, until

from .test_dashboards import DEPLOY, expressions
from .test_report import record

VARIABLES = {"$__rate_interval": "1m", "$__range": "1h", "$job": ".*", "$instance": ".*"}


class Prometheus:
    """A server with the configuration of deploy/, but for where the job is."""

    def __init__(self, folder: Path, target: str) -> None:
        made = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text())
        made["global"]["scrape_interval"] = "1s"
        made["global"]["evaluation_interval"] = "1s"
        made["rule_files"] = [str(DEPLOY / "prometheus" / "alerts.yaml")]
        made["scrape_configs"][0]["static_configs"][0]["targets"] = [target]
        config = folder / "prometheus.yaml"
        config.write_text(yaml.safe_dump(made), encoding="utf-8")
        self.address = f"{LOOPBACK}:{free_port()}"
        command = [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address={self.address}",
        ]
        self.process = GuardedProcess(command, folder / "log", name="prometheus")

    def asked(self, what: str, **question: str) -> Any:
        """Return what the server answers."""
        words = urllib.parse.urlencode(question)
        with urllib.request.urlopen(f"http://{self.address}/api/v1/{what}?{words}") as answer:
            told: dict[str, Any] = json.load(answer)
        assert told["status"] == "success"
        return told["data"]

    def scraped(self) -> bool:
        """Return whether it has looked at the job."""
        try:
            targets = self.asked("targets")["activeTargets"]
        except OSError:
            return False
        return [each["health"] for each in targets] == ["up"]


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Prometheus]:
    if shutil.which("prometheus") is None:
        pytest.skip("Prometheus is not installed")
    port = free_port()
    with served(Metrics(record()), port, LOOPBACK):
        server = Prometheus(tmp_path, f"{LOOPBACK}:{port}")
        try:
            until(server.scraped, within=60, what="a scrape", process=server.process)
            yield server
        finally:
            server.process.kill()


@pytest.mark.slow
def test_a_server_takes_the_alerts_and_all_that_the_dashboard_asks(prometheus: Prometheus) -> None:
    def evaluated() -> list[Any]:
        groups = prometheus.asked("rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    until(
        lambda: all(rule["health"] != "unknown" for rule in evaluated()),
        within=60,
        what="the alerts' evaluation",
        process=prometheus.process,
    )
    assert {rule["name"]: rule.get("lastError", "") for rule in evaluated()} == {
        rule["name"]: "" for rule in evaluated()
    }
    assert len(evaluated()) > 5
    for expression in expressions():
        found = re.sub(r"^label_values\((.*), *\w+\)$", r"\1", expression)
        for name, value in VARIABLES.items():
            found = found.replace(name, value)
        prometheus.asked("query", query=found)


@pytest.mark.slow
def test_a_number_is_what_the_job_said(prometheus: Prometheus) -> None:
    (found,) = prometheus.asked("query", query="tidegate_rows_dead_total")["result"]
    assert found["metric"]["job"] == "tidegate"
    assert float(found["value"][1]) == record().summary.dead
