"""The manifest for Kubernetes: its parts name one another, and its job is one that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from tidegate.jobs.windows import Windows, job
from tidegate.runtime.config import load
from tidegate.runtime.process.installation import project_root
from tidegate.runtime.process.session import defaults, packages

Parts = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def parts() -> Parts:
    text = (project_root() / "deploy" / "kubernetes.yaml").read_text(encoding="utf-8")
    return {part["kind"]: part for part in yaml.safe_load_all(text)}


def submitted(parts: Parts) -> dict[str, Any]:
    (container,) = parts["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    return dict(container)


def settings(parts: Parts) -> dict[str, str]:
    given = [arg for arg in submitted(parts)["args"] if arg.startswith("--conf=")]
    return dict(arg.removeprefix("--conf=").split("=", 1) for arg in given)


def test_the_configuration_is_a_job_s(spark: SparkSession, parts: Parts, tmp_path: Path) -> None:
    (name, text), *others = parts["ConfigMap"]["data"].items()
    assert not others
    assert submitted(parts)["args"][-1] == f"--config=/etc/tidegate/{name}"
    (tmp_path / name).write_text(text, encoding="utf-8")
    made = job(load(Windows, tmp_path / name, [], {}).config)
    assert made.every is not None, "a job that ends would be started again for ever"


def test_the_parts_name_one_another(parts: Parts) -> None:
    pod = parts["StatefulSet"]["spec"]["template"]
    service, name = parts["Service"], parts["StatefulSet"]["metadata"]["name"]
    assert pod["spec"]["serviceAccountName"] == parts["ServiceAccount"]["metadata"]["name"]
    assert (
        parts["RoleBinding"]["subjects"][0]["name"] == parts["ServiceAccount"]["metadata"]["name"]
    )
    assert parts["RoleBinding"]["roleRef"]["name"] == parts["Role"]["metadata"]["name"]
    assert pod["spec"]["volumes"][0]["configMap"]["name"] == parts["ConfigMap"]["metadata"]["name"]
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    assert parts["StatefulSet"]["spec"]["serviceName"] == service["metadata"]["name"]
    found = settings(parts)
    assert found["spark.kubernetes.driver.pod.name"] == f"{name}-0"
    assert found["spark.driver.host"] == service["metadata"]["name"]
    ports = {str(port["port"]) for port in service["spec"]["ports"]}
    assert {found["spark.driver.port"], found["spark.blockManager.port"]} == ports
    assert found["spark.kubernetes.container.image"] == submitted(parts)["image"]


def test_jars_and_settings_are_those_of_the_library(parts: Parts) -> None:
    (given,) = [arg for arg in submitted(parts)["args"] if arg.startswith("--packages=")]
    assert set(packages()) <= set(given.removeprefix("--packages=").split(","))
    wanted, found = defaults(), settings(parts)
    for key in ("spark.sql.extensions", "spark.sql.catalog.spark_catalog"):
        assert found[key] == wanted[key]


def test_the_image_has_the_job_and_leaves_spark_its_entry_point(parts: Parts) -> None:
    (script,) = [Path(arg) for arg in submitted(parts)["args"] if arg.endswith(".py")]
    image = (project_root() / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    copied = [line.split()[1:] for line in image.splitlines() if line.startswith("COPY")]
    assert [f"jobs/{script.name}", f"{script.parent}/"] in [
        [*each[1:2], each[-1]] for each in copied
    ]
    assert (project_root() / "jobs" / script.name).exists()
    assert "ENTRYPOINT" not in image, "Spark's starts the executors"
