"""The dashboard and the alerts use metrics that a run exports; the files of deploy/ agree."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest

from tests.support.query_probe import ProbedRun, samples
from tests.telemetry.test_report import example_metrics
from tidegate.config import load_config
from tidegate.jobs.windows import Windows
from tidegate.spark.jars import project_root
from tidegate.telemetry.prometheus import PrometheusCollector

DEPLOY = project_root() / "deploy"
PROMETHEUS_LABELS = {"job", "instance"}
"""Labels that Prometheus adds to every scraped metric."""


def exported_labels(scrape: str) -> dict[str, set[str]]:
    """Return the labels of each metric."""
    exported: dict[str, set[str]] = {}
    for name, labels, _ in samples(scrape):
        exported.setdefault(name, set()).update(label for label, _ in labels)
    return exported


def expressions() -> Iterator[str]:
    board = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    for panel in board["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (each["query"]["query"] for each in board["templating"]["list"][1:])
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())
    for group in rules["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


def panel_expressions(title: str) -> list[str]:
    """Return the expressions of a panel of the dashboard."""
    board = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    (panel,) = (panel for panel in board["panels"] if panel["title"] == title)
    return [target["expr"] for target in panel["targets"]]


def metrics_and_labels(expression: str) -> tuple[set[str], set[str]]:
    """Return the metrics and the labels in an expression."""
    label_values = re.findall(r"label_values\(.*,\s*(\w+)\)", expression)
    grouped = re.findall(r"\b(?:by|on|group_left) \(([^)]*)\)", expression)
    labels = {label for each in grouped for label in re.findall(r"\w+", each)}
    labels |= set(label_values)
    for matchers in re.findall(r"\{([^}]*)\}", expression):
        labels |= set(re.findall(r"(\w+)\s*[=!]", matchers))
    without_matchers = re.sub(r'"[^"]*"|\{[^}]*\}', "", expression)
    metrics = set(re.findall(r"\btidegate_\w+", without_matchers)) - set(label_values)
    return metrics, labels - PROMETHEUS_LABELS


def example_scrape() -> str:
    return generate_latest(PrometheusCollector(example_metrics())).decode()


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_each_expression_uses_exported_metrics_and_labels(expression: str) -> None:
    exported = exported_labels(example_scrape())
    metrics, labels = metrics_and_labels(expression)
    assert metrics <= exported.keys()
    assert metrics or expression.startswith("up{")
    assert labels <= set().union(*(exported[name] for name in metrics))
    assert expression.count("(") == expression.count(")")


@pytest.mark.broker
def test_a_real_run_exports_the_same_metrics(probed_run: ProbedRun) -> None:
    # The scrape precedes the second batch, and the first batch of a run has no watermark.
    exported = exported_labels(probed_run.scrape)
    exported |= {"tidegate_watermark_timestamp_seconds": set()}
    # RocksDB does not count the rows of its state by default.
    exported |= {"tidegate_state_rows": set()}
    assert exported == exported_labels(example_scrape())


def test_metrics_and_labels_are_parsed_from_an_expression() -> None:
    assert metrics_and_labels('rate(tidegate_rows{kind="in"}[5m])') == (
        {"tidegate_rows"},
        {"kind"},
    )
    assert metrics_and_labels("sum by (topic, le) (tidegate_x)") == (
        {"tidegate_x"},
        {"topic", "le"},
    )


def test_panels_do_not_overlap_and_have_units_and_titles() -> None:
    board = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    occupied: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        grid = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & occupied
        occupied |= cells


def test_the_parts_of_the_composition_refer_to_one_another() -> None:
    composition: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = composition["services"]
    for service in services.values():
        for other in service.get("depends_on", {}):
            assert other in services
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (
                (DEPLOY / source).exists() if source[0] == "." else source in composition["volumes"]
            )
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    overrides = [
        arg.removeprefix("--set=") for arg in services["job"]["command"] if "--set=" in arg
    ]
    config = load_config(Windows, DEPLOY / "page_views.toml", overrides).config
    scrape_config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text())
    (target,) = scrape_config["scrape_configs"][0]["static_configs"][0]["targets"]
    assert target == f"job:{config.metrics.port}"
    assert config.metrics.address == "0.0.0.0"
    assert config.kafka.bootstrap_servers == "kafka:9092"
    assert (DEPLOY / services["job"]["build"]["dockerfile"].removeprefix("deploy/")).exists()
