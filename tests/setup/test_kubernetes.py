"""The Kubernetes manifest: its parts refer to each other, and its job is valid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from tidegate.config import load_config
from tidegate.jobs.windows import Windows, job
from tidegate.spark.jars import project_root
from tidegate.spark.session import default_settings, spark_packages
from tidegate.versions import SUPPORTED_SPARK

Parts = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def parts() -> Parts:
    text = (project_root() / "deploy" / "kubernetes.yaml").read_text(encoding="utf-8")
    return {part["kind"]: part for part in yaml.safe_load_all(text)}


def submitted(parts: Parts) -> dict[str, Any]:
    (container,) = parts["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    return dict(container)


def settings(parts: Parts) -> dict[str, str]:
    options = [arg for arg in submitted(parts)["args"] if arg.startswith("--conf=")]
    return dict(arg.removeprefix("--conf=").split("=", 1) for arg in options)


def test_the_configuration_is_a_valid_job(
    spark: SparkSession, parts: Parts, tmp_path: Path
) -> None:
    (name, text), *others = parts["ConfigMap"]["data"].items()
    assert not others
    assert submitted(parts)["args"][-1] == f"--config=/etc/tidegate/{name}"
    (tmp_path / name).write_text(text, encoding="utf-8")
    submitted_job = job(load_config(Windows, tmp_path / name, [], {}).config)
    assert submitted_job.every is not None, "a job that ends would be started again for ever"


def test_the_parts_refer_to_each_other(parts: Parts) -> None:
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
    spark_settings = settings(parts)
    assert spark_settings["spark.kubernetes.driver.pod.name"] == f"{name}-0"
    assert spark_settings["spark.driver.host"] == service["metadata"]["name"]
    ports = {str(port["port"]) for port in service["spec"]["ports"]}
    assert {spark_settings["spark.driver.port"], spark_settings["spark.blockManager.port"]} == ports
    assert spark_settings["spark.kubernetes.container.image"] == submitted(parts)["image"]


def test_jars_and_settings_match_the_library(parts: Parts) -> None:
    (packages,) = [arg for arg in submitted(parts)["args"] if arg.startswith("--packages=")]
    assert set(spark_packages(SUPPORTED_SPARK[-1])) <= set(
        packages.removeprefix("--packages=").split(",")
    )
    expected, actual = default_settings(), settings(parts)
    for key in ("spark.sql.extensions", "spark.sql.catalog.spark_catalog"):
        assert actual[key] == expected[key]


def test_the_image_has_the_job_and_the_entry_point_of_spark(parts: Parts) -> None:
    (script,) = [Path(arg) for arg in submitted(parts)["args"] if arg.endswith(".py")]
    image = (project_root() / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    copied = [line.split()[1:] for line in image.splitlines() if line.startswith("COPY")]
    assert [f"jobs/{script.name}", f"{script.parent}/"] in [
        [*each[1:2], each[-1]] for each in copied
    ]
    assert (project_root() / "jobs" / script.name).exists()
    assert "ENTRYPOINT" not in image, "the entry point of Spark starts the executors"
