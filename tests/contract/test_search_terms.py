"""Readers find the features of tidegate by the words of the field, in the search of the site."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tidegate

ROOT = Path(tidegate.__file__).parents[1]
TERMS = (
    "aggregate",
    "allowed lateness",
    "anomaly detection",
    "append mode",
    "as-of join",
    "at least once",
    "Avro",
    "backfill",
    "Bloom filter",
    "catch-up",
    "CDC",
    "CEP",
    "change data capture",
    "checkpoint",
    "compaction",
    "complex event processing",
    "cumulative window",
    "dead letter queue",
    "Debezium",
    "deduplication",
    "distinct count",
    "DLQ",
    "erasure",
    "event sourcing",
    "event time",
    "exactly once",
    "fencing",
    "GDPR",
    "grace period",
    "hopping window",
    "idempotent",
    "interval join",
    "Kubernetes",
    "lag",
    "late data",
    "limitations",
    "lookup join",
    "materialized view",
    "migration",
    "monitoring",
    "output mode",
    "pattern matching",
    "percolator",
    "processing time",
    "Prometheus",
    "Protobuf",
    "quantile",
    "recovery",
    "reprocess",
    "retention",
    "retraction",
    "SCD type 2",
    "schema evolution",
    "schema registry",
    "session window",
    "side output",
    "sliding window",
    "state store",
    "stream-static join",
    "temporal join",
    "throughput",
    "tombstone",
    "tumbling window",
    "update mode",
    "upsert",
    "watermark delay",
)


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the entries of the search index of the pages: titles and text, in lower case."""
    site = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert (site / "search" / "search_index.js").exists()  # for pages that are opened from disk
    texts = [f"{entry['title']} {entry['text']}" for entry in index["docs"]]
    return [" ".join(re.sub(r"<[^>]+>", " ", text).lower().split()) for text in texts]


@pytest.mark.pages
@pytest.mark.parametrize("term", TERMS)
def test_the_search_finds_a_standard_term(term: str, entries: list[str]) -> None:
    pattern = re.compile(rf"\b{re.escape(term.lower())}")
    assert any(pattern.search(entry) for entry in entries)


@pytest.mark.pages
def test_pages_that_are_opened_from_disk_ask_no_other_host(
    tmp_path_factory: pytest.TempPathFactory, entries: list[str]
) -> None:
    site = next(tmp_path_factory.getbasetemp().glob("site*"))
    page = (site / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?:[^\"]+)\"", page) == []
    assert "assets/iframe-worker.js" in page
