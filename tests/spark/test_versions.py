"""A feature that the installed Spark lacks is refused, with the version that it requires."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tidegate import sketches, versions
from tidegate.errors import SetupError
from tidegate.operations.rescale import plan_rescale

REFUSED: dict[str, tuple[str, str, Callable[[], Any]]] = {
    "approx_quantile": ("4.0.2", "4.1", lambda: sketches.approx_quantile("ms", 0.5)),
    "quantile_bounds": ("4.0.2", "4.1", lambda: sketches.quantile_bounds("ms", 0.5)),
    "theta_sketch": ("4.0.2", "4.1", lambda: sketches.theta_sketch("user")),
    "theta_union": ("4.0.2", "4.1", lambda: sketches.theta_union("a", "b")),
    "theta_intersection": ("4.0.2", "4.1", lambda: sketches.theta_intersection("a", "b")),
    "theta_difference": ("4.0.2", "4.1", lambda: sketches.theta_difference("a", "b")),
    "theta_estimate": ("4.0.2", "4.1", lambda: sketches.theta_estimate("a")),
    "theta_bounds": ("4.0.2", "4.1", lambda: sketches.theta_bounds("a")),
    "rescale": ("4.1.1", "4.2", lambda: plan_rescale(None, "checkpoint", 4)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("feature", REFUSED)
def test_a_feature_that_the_version_lacks_is_refused(
    feature: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed, required, use = REFUSED[feature]
    monkeypatch.setattr(versions, "installed_pyspark", lambda: installed)
    message = f"unsupported with pyspark {installed}: {feature} requires Spark {required}"
    with pytest.raises(SetupError, match=f"^{re.escape(message)}\n"):
        use()


@pytest.mark.parametrize(
    ("installed", "minimum", "is_enough"),
    [
        ("4.0.2", "4.0", True),
        ("4.0.2", "4.1", False),
        ("4.1.1", "4.1", True),
        ("4.2.0", "4.1", True),
        ("4.10.0", "4.2", True),
    ],
)
def test_versions_are_compared_by_number(
    installed: str, minimum: str, is_enough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "installed_pyspark", lambda: installed)
    assert versions.is_spark_at_least(minimum) is is_enough
