"""The certified interval contains the exact value: committed golden values, and a small live sample of the oracle."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from dp_accounting import NeighboringRelation, dp_event

from dp_edgeworth import EdgeworthIntervalAccountant, from_json

pytest.importorskip("mpmath")
pytest.importorskip("rich")
from comparisons import truth
from comparisons.runner import OK, Limits

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


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Skips the test where the oracle takes longer: it is the accountant that is tested."""
    def stop(*_: object) -> None:
        pytest.skip(f"the oracle needs more than {seconds:g} s")
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("index", range(20))
def test_contains_live_value(index: int) -> None:
    """Case by case without child processes; a case that the oracle cannot do in 1.5 s is skipped."""
    case = truth.truth_case(2024, index)
    epsilon, at, delta, _ = truth.ask(case)
    assert truth.disorder(epsilon) == truth.disorder(delta) == ""
    with _at_most(1.5):
        try:
            exact, accuracy, _ = truth.truth_epsilon(case)
            exact_delta = truth.truth_delta(case, at)
        except ArithmeticError as error:
            pytest.skip(f"the oracle: {error}")
    assert truth.contains(epsilon, exact, accuracy) == ""
    assert truth.contains(delta, *exact_delta) == ""


def test_contains() -> None:
    assert truth.contains((1.0, 1.0, 1.0), 1.0, 0.0) == ""
    assert truth.contains((1.0, 1.5, 2.0), 0.5, 1e-9) == "lower 1 > exact 0.5"
    assert truth.contains((0.0, 0.0, float("inf")), float("inf"), 0.0) == ""
    assert truth.contains((0.0, 0.0, 5.0), float("inf"), 0.0).startswith("upper")
    assert truth.contains((2.0, 1.0, 3.0), 2.0, 0.0).startswith("not an interval")
    assert truth.contains((float("nan"),) * 3, 2.0, 0.0).startswith("not an interval")


def test_campaign_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished rows are not judged again, a line cut short is."""
    judged = []

    def judge(case: truth.TruthCase, limits: Limits) -> truth.TruthRow:
        judged.append(case.index)
        return truth.TruthRow(case.index, case.regime, repr(case.event), case.relation.name, case.delta, case.tolerance, OK,
                              1.0, 0.0, 0.9, 1.1, 1.0, None, None, 0.0, 0.1, "", 0.01, 0.1, "")

    monkeypatch.setattr(truth, "judge", judge)
    path = tmp_path / "truth.csv"
    truth.campaign(3, 5, path)
    path.write_text(path.read_text()[:-30])
    rows = truth.campaign(5, 5, path)
    assert judged == [0, 1, 2, 2, 3, 4]
    assert [row.index for row in rows] == [0, 1, 2, 3, 4]
    assert [row.index for row in truth.read_rows(path)] == [0, 1, 2, 3, 4]
    truth.summary(rows)
