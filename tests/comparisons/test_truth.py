"""The truth campaign: stored exact values, verdicts, what is used again."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("rich")
pytest.importorskip("prv_accountant")

from comparisons import cli, truth, truth_judge, truth_oracle, workers
from comparisons.runner import Outcome
from comparisons.truth_cases import TruthCase, truth_case, truth_cases

RESPONSES = ["truth", "--seed", "11", "--cases", "25", "--regime", "randomized response"]  # cases 6 and 24


@pytest.fixture
def campaign(tmp_path: Path) -> list[str]:
    """A command whose files are in a directory of their own; its exact values are computed."""
    words = [*RESPONSES, "--oracle", str(tmp_path / "oracle.csv"), "--out", str(tmp_path / "rows.csv")]
    assert cli.main([*words, "--oracle-only"]) == 0
    return words


def test_a_campaign_is_judged_and_its_page_has_no_date(campaign: list[str], tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    assert cli.main([*campaign, "--stored-only", "--markdown", str(page)]) == 0
    assert [(row.index, row.status) for row in truth.read_rows(tmp_path / "rows.csv")] == [(6, "ok"), (24, "ok")]
    text = page.read_text()
    for part in ("2 cases: 0 violations, 2 judged by exact values", "| randomized response | 2 | 0 |", "--cases 25 --seed 11", "numpy"):
        assert part in text
    first = text
    assert cli.main([*campaign, "--stored-only", "--markdown", str(page)]) == 0
    assert page.read_text() == first


def test_a_wrong_stored_value_is_a_violation(campaign: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Although the case was judged before: exact values that changed are judged anew."""
    assert cli.main(campaign) == 0
    path = tmp_path / "oracle.csv"
    row = truth_oracle.stored_values(path, truth_cases(11, 7))[6]
    path.write_text(path.read_text().replace(repr(row.epsilon), repr(1.01 * row.epsilon)))  # type: ignore[operator]
    assert cli.main([*campaign, "--markdown", str(tmp_path / "page.md")]) == 1
    assert "VIOLATION" == truth.read_rows(tmp_path / "rows.csv")[-1].status
    assert "< exact" in capsys.readouterr().out and "## Violations" in (tmp_path / "page.md").read_text()


def test_values_of_another_question_are_refused(campaign: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "oracle.csv"
    path.write_text(path.read_text().replace(truth_case(11, 24).event_hash, "0" * 12))
    assert cli.main(campaign) == 2
    error = capsys.readouterr().err
    assert "Found case 24 of" in error and "of another seed" in error and "Traceback" not in error
    path.write_text("a,b\n1,2\n")
    assert cli.main(campaign) == 2
    assert "must have the columns index,event_hash" in capsys.readouterr().err


def test_exact_values_are_continued_after_a_row_cut_short(campaign: list[str], tmp_path: Path) -> None:
    path = tmp_path / "oracle.csv"
    whole = path.read_text()
    chosen = truth_cases(11, 25, ("randomized response",))
    first = truth_oracle.stored_values(path, chosen)
    path.write_text(whole[:-40])
    assert list(truth_oracle.stored_values(path, chosen)) == [6]
    assert cli.main([*campaign, "--oracle-only"]) == 0
    again = truth_oracle.stored_values(path, chosen)
    assert {i: row.delta for i, row in again.items()} == {i: row.delta for i, row in first.items()}
    assert len(path.read_text().splitlines()) == len(whole.splitlines()) == 3


def test_the_oracle_is_asked_again_only_where_time_was_short(campaign: list[str], tmp_path: Path) -> None:
    path = tmp_path / "oracle.csv"
    notes = {6: "InaccurateError: no", 24: "no answer within 1 s"}
    rows = [f"{i},{truth_case(11, i).event_hash},,,,,,0.1,{note}" for i, note in notes.items()]
    path.write_text("\n".join([path.read_text().splitlines()[0], *rows, ""]))
    assert cli.main([*campaign, "--oracle-only", "--retry"]) == 0
    found = truth_oracle.stored_values(path, truth_cases(11, 25))
    assert found[6].epsilon is None and found[24].epsilon is not None and found[24].note == ""


def test_the_oracle_keeps_what_it_knows_when_time_is_up() -> None:
    case = truth_case(11, 4)  # seconds of work
    row = truth_oracle.exact_values(case, 0.05)
    assert row.note.endswith("no answer within 0.05 s") and row.delta is None and row.event_hash == case.event_hash


def test_judged_rows_are_used_again(campaign: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli.main(campaign) == 0
    path, asked = tmp_path / "rows.csv", []
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]) + "24,randomized")
    original = workers.outcomes

    def counted(function: object, tasks: list, *rest: object) -> object:
        asked.extend(task[0].index for task in tasks)
        return original(function, tasks, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(truth, "outcomes", counted)
    assert cli.main(campaign) == 0
    assert asked == [24]
    path.write_text(path.read_text().replace("sources ", "sources of old "))  # other code: everything anew
    assert cli.main(campaign) == 0
    assert asked == [24, 6, 24]


def answered(case: TruthCase, epsilon: tuple[float, ...], stored: truth_oracle.Stored, bracket: truth_judge.Bracket = None) -> str:
    answer = truth_judge.Answer(epsilon, 1.0, (0.1, 0.2, 0.3), 0.01)
    return truth_judge.judge(case, Outcome("ok", answer), stored, bracket).status


def test_verdicts() -> None:
    case = truth_case(11, 6)
    known = truth_oracle.Stored(6, case.event_hash, 1.0, 1e-12, 1.0, 0.2, 1e-12)
    unknown = truth_oracle.Stored(6, case.event_hash, note="no answer within 15 s")
    half = truth_oracle.Stored(6, case.event_hash, 1.0, 1e-12, 1.0, note="no answer within 15 s")
    ours = (0.9, 1.0, 1.1)
    assert answered(case, ours, known) == answered(case, ours, half) == "ok"
    assert answered(case, ours, unknown) == "no oracle"
    assert answered(case, ours, unknown, (1.05, 2.0)) == "bracket"
    nan = float("nan")
    wrong = [((1.1, 1.2, 1.3), known, None), (ours, unknown, (1.2, 2.0)), (ours, unknown, (0.1, 0.8)), ((nan,) * 3, unknown, None),
             ((nan,) * 3, unknown, (1.0, 2.0)), ((1.1, 1.0, 0.9), unknown, None)]  # fmt: skip
    assert {answered(case, *each) for each in wrong} == {"VIOLATION"}
    late = truth_judge.judge(case, Outcome("timeout", note="late"), known)
    assert (late.status, late.note, late.epsilon_exact) == ("timeout", "late", 1.0)


def test_the_committed_exact_values_are_of_these_cases() -> None:
    """A changed generator, or another stream of numpy's, would leave them without a question."""
    for path in truth_oracle.RESULTS.glob("truth-oracle-*.csv"):
        chosen = truth_cases(int(path.stem.rpartition("-")[2]), 200)
        assert len(truth_oracle.stored_values(path, chosen)) > 0
