"""The certified interval contains the exact value: committed golden values, and a small live sample of the oracle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dp_accounting import NeighboringRelation, dp_event

from dp_edgeworth import EdgeworthIntervalAccountant, from_json

pytest.importorskip("mpmath")
pytest.importorskip("rich")
from comparisons import truth_judge as truth
from comparisons.truth_cases import truth_case
from comparisons.truth_oracle import exact_values

GOLDEN = Path(__file__).parent / "golden" / "exact_values.json"


def _golden_rows() -> list[dict]:
    if not GOLDEN.exists():
        return []
    content = json.loads(GOLDEN.read_text())
    return content["cases"] if isinstance(content, dict) else content


def _event(row: dict) -> dp_event.DpEvent:
    """JSON of our own format, or the expression that `repr` gave."""
    event = row["event"]
    if isinstance(event, str) and not event.lstrip().startswith("{"):
        return eval(event, {name: value for name, value in vars(dp_event).items() if name.endswith("DpEvent")})
    return from_json(event if isinstance(event, str) else json.dumps(event))


@pytest.mark.skipif(not GOLDEN.exists(), reason="no golden values")
@pytest.mark.parametrize("row", _golden_rows(), ids=lambda row: str(row.get("name", row.get("regime", "")))[:40])
def test_contains_golden_value(row: dict) -> None:
    relation = NeighboringRelation[row.get("relation", "ADD_OR_REMOVE_ONE")]
    accountant = EdgeworthIntervalAccountant(relation).compose(_event(row))
    if "delta_exact" in row:
        interval, exact = accountant.get_delta_interval(row["epsilon"]), row["delta_exact"]
    else:
        interval, exact = accountant.get_epsilon_interval(row["delta"]), row["epsilon"]
    assert truth.contains(tuple(interval), exact, row["accuracy"]) == ""


@pytest.mark.parametrize("index", range(20))
def test_contains_live_value(index: int) -> None:
    """Case by case without child processes; a case that the oracle cannot do in 1.5 s is skipped."""
    case = truth_case(2024, index)
    exact = exact_values(case, 1.5)
    epsilon, _, delta, _ = truth.ask(case, exact.at_epsilon)
    assert truth.disorder(epsilon) == truth.disorder(delta) == ""
    if exact.note:
        pytest.skip(f"the oracle: {exact.note}")
    assert truth.contains(epsilon, exact.epsilon, exact.epsilon_accuracy) == ""
    assert truth.contains(delta, exact.delta, exact.delta_accuracy) == ""


def test_contains() -> None:
    assert truth.contains((1.0, 1.0, 1.0), 1.0, 0.0) == ""
    assert truth.contains((1.0, 1.5, 2.0), 0.5, 1e-9) == "lower 1 > exact 0.5"
    assert truth.contains((0.0, 0.0, float("inf")), float("inf"), 0.0) == ""
    assert truth.contains((0.0, 0.0, 5.0), float("inf"), 0.0).startswith("upper")
    assert truth.contains((2.0, 1.0, 3.0), 2.0, 0.0).startswith("not an interval")
    assert truth.contains((float("nan"),) * 3, 2.0, 0.0).startswith("not an interval")
