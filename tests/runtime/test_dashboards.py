"""Dashboard and alerts ask for metrics that a run exports; the composition's parts fit together."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest

from tidegate.jobs.windows import Windows
from tidegate.runtime.config import load
from tidegate.runtime.process.installation import project_root
from tidegate.runtime.telemetry.metrics import Metrics

from .test_report import record
from .watched import Watched, samples

DEPLOY = project_root() / "deploy"
OF_PROMETHEUS = {"job", "instance"}
"""Labels that Prometheus itself gives to all that it scrapes."""
Exported = dict[str, set[str]]


def exported(scrape: str) -> Exported:
    """Return each metric's labels."""
    found: Exported = {}
    for name, labels, _ in samples(scrape):
        found.setdefault(name, set()).update(label for label, _ in labels)
    return found


def expressions() -> Iterator[str]:
    board = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    for panel in board["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (each["query"]["query"] for each in board["templating"]["list"][1:])
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())
    for group in rules["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


def asked(expression: str) -> tuple[set[str], set[str]]:
    """Return the metrics and the labels that an expression names."""
    named = re.findall(r"label_values\(.*,\s*(\w+)\)", expression)
    grouped = re.findall(r"\b(?:by|on|group_left) \(([^)]*)\)", expression)
    labels = {label for each in grouped for label in re.findall(r"\w+", each)} | set(named)
    for matchers in re.findall(r"\{([^}]*)\}", expression):
        labels |= set(re.findall(r"(\w+)\s*[=!]", matchers))
    bare = re.sub(r'"[^"]*"|\{[^}]*\}', "", expression)
    metrics = set(re.findall(r"\btidegate_\w+", bare)) - set(named)
    return metrics, labels - OF_PROMETHEUS


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_each_expression_names_metrics_and_labels_that_there_are(expression: str) -> None:
    there = exported(generate_latest(Metrics(record())).decode())
    metrics, labels = asked(expression)
    assert metrics <= there.keys()
    assert metrics or expression.startswith("up{")
    assert labels <= set().union(*(there[name] for name in metrics))
    assert expression.count("(") == expression.count(")")


@pytest.mark.broker
def test_a_real_run_exports_all_that_is_asked_for(watched: Watched) -> None:
    # No window has a watermark in a run's first batch, which is the last one here.
    there = exported(watched.scrape) | {"tidegate_watermark_timestamp_seconds": set()}
    assert there == exported(generate_latest(Metrics(record())).decode())


def test_an_expression_of_another_metric_or_label_is_found() -> None:
    assert asked('rate(tidegate_rows{kind="in"}[5m])') == ({"tidegate_rows"}, {"kind"})
    assert asked("sum by (topic, le) (tidegate_x)") == ({"tidegate_x"}, {"topic", "le"})


def test_panels_stand_beside_one_another_and_have_units_and_titles() -> None:
    board = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken
        taken |= cells


def test_the_composition_s_parts_name_one_another() -> None:
    made: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = made["services"]
    for service in services.values():
        for other in service.get("depends_on", {}):
            assert other in services
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source[0] == "." else source in made["volumes"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    overrides = [
        arg.removeprefix("--set=") for arg in services["job"]["command"] if "--set=" in arg
    ]
    config = load(Windows, DEPLOY / "page_views.toml", overrides).config
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text())
    (target,) = scraped["scrape_configs"][0]["static_configs"][0]["targets"]
    assert target == f"job:{config.metrics.port}"
    assert config.metrics.address == "0.0.0.0"
    assert config.kafka.servers == "kafka:9092"
    assert (DEPLOY / services["job"]["build"]["dockerfile"].removeprefix("deploy/")).exists()
