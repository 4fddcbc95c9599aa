"""A Prometheus server scrapes a job and evaluates the alerts and the queries of the dashboard."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from tests.support.delta_tables import rows
from tests.support.kafka_topics import pages_input, send_records
from tests.telemetry.test_counts import run_and_scrape
from tests.telemetry.test_dashboards import DEPLOY, expressions, panel_expressions
from tests.telemetry.test_report import example_metrics
from tidegate import Job
from tidegate.aggregates import count
from tidegate.sinks import Append
from tidegate.telemetry.prometheus import LOOPBACK, PrometheusCollector, serve_metrics
from tidegate.testing import Broker
from tidegate.testing.child_process import GuardedProcess, free_port, wait_until
from tidegate.windows import Tumbling, WindowAggregation

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


def serve_text(scrape: str) -> tuple[ThreadingHTTPServer, str]:
    """Serve a scrape at any path; return the server and its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(scrape.encode())

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"{LOOPBACK}:{server.server_port}"


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.jobs
def test_the_panels_of_the_dashboard_select_the_numbers_of_the_tables(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    if shutil.which("prometheus") is None:
        pytest.skip("Prometheus is not installed")
    broker.create_topic(topic, partitions=2, retention_ms=-1)
    records: list[float | str] = [1, 4, "no record", 12, "{}", 31, 44, 57, 2, 71]
    send_records(broker.bootstrap_servers, topic, records)
    job = Job(
        name="shown",
        inputs={"pages": pages_input(broker.bootstrap_servers, topic, max_records=4)},
        transform=WindowAggregation(Tumbling("10 seconds"), aggs={"n": count()}),
        sink=Append(str(tmp_path / "views")),
        metrics_port=free_port(),
    )
    _, scrape = run_and_scrape(job, spark)
    http_server, target = serve_text(scrape)
    server = Prometheus(tmp_path, target)
    try:
        wait_until(server.has_scraped, timeout=60, event="a scrape", process=server.process)

        def shown(panel: str, target: int = 0) -> dict[str, float]:
            """Return the values of a panel by their labels; of a rate, its counter."""
            (expression,) = panel_expressions(panel)[target : target + 1]
            query = re.sub(r"(rate|increase)\((.*?)\[\w+\]\)", r"\2", expression)
            for name, value in VARIABLES.items():
                query = query.replace(name, value)
            result = server.request("query", query=query)["result"]
            names = {"topic", "partition", "stage"}
            return {
                "/".join(v for k, v in sorted(each["metric"].items()) if k in names): float(
                    each["value"][1]
                )
                for each in result
            }

        dead_letters = rows(tmp_path / "views.dead_letters")
        late_rows = rows(tmp_path / "views.late")
        assert (len(dead_letters), len(late_rows)) == (2, 1)
        assert shown("Lag (records)") == {"": 0}
        assert shown("Lag by partition") == {f"0/{topic}": 0, f"1/{topic}": 0}
        assert shown("Rows per second", 0) == {"": len(records)}
        assert shown("Rows per second", 1) == {"": len(rows(tmp_path / "views"))}
        assert shown("Late rows and dead letters per second", 0) == {"": len(late_rows)}
        assert shown("Late rows and dead letters per second", 1) == {"": 0}
        assert shown("Late rows and dead letters per second", 2) == {"": len(dead_letters)}
        by_stage = Counter(row["stage"] for row in dead_letters)
        assert shown("Dead letters by reason, last hour").keys() == by_stage.keys()
        watermark = datetime(2026, 3, 2, 9, 1, 11, tzinfo=UTC).timestamp()
        assert shown("Watermark lag")[""] == pytest.approx(time.time() - watermark, abs=60)
        assert shown("State memory")[""] > 0
    finally:
        server.process.kill()
        http_server.shutdown()
        http_server.server_close()
