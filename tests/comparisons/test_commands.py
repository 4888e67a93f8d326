"""The commands of the comparison harness: rows, files, sentences, tables and figures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import dp_accounting as dpa
import pytest

pytest.importorskip("rich")
pytest.importorskip("prv_accountant")

from rich.console import Console

from comparisons import cases, cli, everything, methods, report, runner, table, timing, workloads
from comparisons import run as run_command
from comparisons.runner import Limits, judge
from comparisons.workers import limited

AR, RO = dpa.NeighboringRelation.ADD_OR_REMOVE_ONE, dpa.NeighboringRelation.REPLACE_ONE
OWN = ["run", "--sampling-probability"]
QUICK = Limits(seconds=20.0, gigabytes=2.0)


def test_figure_3_left_gdp_and_rdp_miss_and_the_edgeworth_estimate_does_not() -> None:
    """m 2,000 at p 0.01, noise 0.8, delta 0.015, where the exact epsilon is 1.83."""
    case = cases.CASES["paper-figure-3-left"]
    assert case.deltas == (0.015,) and 2000 in case.sizes
    truth, estimate, gdp, rdp = _answers(case.build(2000), 0.015, ("EXACT", "EW_EST", "GDP", "RDP"))
    assert abs(estimate - truth) < 0.01
    assert gdp < truth - 0.05 and rdp > truth + 0.4


def test_figure_5_fft_goes_negative_and_the_certified_interval_stays() -> None:
    event, method = cases.CASES["paper-figure-5"].build(10**5), methods.METHODS
    exact = methods.EXACT.ends(event, 0.1, AR)
    assert judge(method["FFT"].ends(event, 0.1, AR), "interval", exact)[0] == "implausible"
    for ours in ("EW_CERTIFIED", "EW_ADAPTIVE"):
        ends = method[ours].ends(event, 0.1, AR)
        assert judge(ends, "interval", exact) == ("ok", "")
        assert ends[2] - ends[0] < 0.05  # type: ignore[operator]


def _answers(event: dpa.DpEvent, delta: float, names: tuple[str, ...]) -> list[float]:
    """Estimates, or upper ends where there is none."""
    ends = [methods.METHODS[name].ends(event, delta, AR) for name in names]
    return [float(upper if estimate is None else estimate) for _, estimate, upper in ends]  # type: ignore[arg-type]


def test_every_case_builds_and_names_known_methods() -> None:
    for case in cases.CASES.values():
        assert isinstance(case.build(min(case.sizes)), dpa.DpEvent)
        assert set(case.methods) <= set(methods.METHODS)
        assert list(case.sizes) == sorted(case.sizes)


def test_run_writes_rows_as_they_finish_and_skips_what_cannot_end(tmp_path: Path) -> None:
    case = cases.Case("test", "a test", lambda m: cases.dp_sgd(0.1, 1.0, m), (10, 20, 30), (1e-3,))
    path = tmp_path / "rows.csv"
    rows = run_command.run_cases([case], ["GDP", "RDP"], QUICK, path)
    kept = report.read_rows(path)
    assert [row.method for row in rows] == ["EXACT", "GDP", "RDP"] * 3 == [row.method for row in kept]
    assert kept[1].estimate == pytest.approx(rows[1].estimate, rel=1e-9)
    text = path.read_text()
    assert text.startswith("# date: ") and "dp-accounting 0" in text
    tight = Limits(seconds=1e-9)
    rows = list(run_command.case_rows(case, ["RDP"], tight, lambda text: None))
    assert {row.status for row in rows} == {"timeout"}
    assert "not tried" in rows[-1].note


def test_an_interrupted_run_keeps_what_was_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = run_command.limited, []

    def interrupted(*arguments: object) -> runner.Outcome:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(run_command, "limited", interrupted)
    code = cli.main(["run", "dp-sgd-base", "--methods", "GDP", "RDP", "--out", str(tmp_path)])
    assert code == 130
    assert [row.method for row in report.read_rows(tmp_path / "run.csv")] == ["EXACT", "GDP"]


def test_a_resumed_run_measures_only_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = cases.Case("test", "a test", lambda m: cases.dp_sgd(0.1, 1.0, m), (10,), (10.0**-3, 10.0**-14))
    path = tmp_path / "rows.csv"
    first = run_command.run_cases([case], ["GDP", "RDP"], QUICK, path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-3]) + lines[-3][:20])  # two rows lost, one cut short
    asked: list[object] = []

    def counted(function: object, arguments: tuple[object, ...], limits: Limits) -> runner.Outcome:
        asked.append(arguments[0])
        return limited(function, arguments, limits)  # type: ignore[arg-type]

    monkeypatch.setattr(run_command, "limited", counted)
    again = run_command.run_cases([case], ["GDP", "RDP"], QUICK, path, resume=True)
    assert asked == ["EXACT", "GDP", "RDP"]
    assert [row.value for row in again] == pytest.approx([row.value for row in first], rel=1e-11)
    assert len(report.read_rows(path)) == len(first)


def test_a_file_of_other_versions_is_not_continued(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    with report.table_file(path, ["a"]) as write:
        write({"a": 1})
    path.write_text(path.read_text().replace("sources ", "sources of old "))
    with pytest.raises(ValueError, match="delete it to measure anew"), report.table_file(path, ["a"], resume=True):
        pass
    assert report.read_table(path) == [{"a": "1"}]


def test_a_resumed_run_remembers_who_gave_up(tmp_path: Path) -> None:
    case = cases.Case("test", "a test", lambda m: cases.dp_sgd(0.1, 1.0, m), (10, 20), (1e-3,))
    path, tight = tmp_path / "rows.csv", Limits(seconds=1e-9)
    run_command.run_cases([case], ["RDP"], tight, path)
    longer = cases.Case("test", "a test", case.build, (10, 20, 30), (1e-3,))
    rows = run_command.run_cases([longer], ["RDP"], QUICK, path, resume=True)
    assert rows[-1].status == "timeout" and "not tried" in rows[-1].note


def test_an_earlier_file_is_kept(tmp_path: Path) -> None:
    for content in ("first", "second"):
        with report.table_file(tmp_path / "rows.csv", ["a"]) as write:
            write({"a": content})
    assert "first" in (tmp_path / "rows.previous.csv").read_text()
    assert "second" in (tmp_path / "rows.csv").read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run", "dp-sgd-minst"], "Did you mean `dp-sgd-mnist`?"),
        (["run", "--methods", "PLX"], "METHOD must be one of"),
        (["run", "--sampling-probability", "0.1"], "--noise-multiplier"),
        (["run", "--event", "{tmp}/none.json", "--delta", "1e-5"], "none.json`: No such file"),
        (["run", "--event", "{tmp}/file", "--delta", "1e-5"], "comparisons run: $: "),
        (["run", "--event", "{tmp}/file"], "--event takes --delta"),
        (["run", "dp-sgd-base", "--neighboring-relation", "REPLACE_ONE"], "a named case has its relation"),
        ([*OWN, "1.5", "--noise-multiplier", "1", "--steps", "9", "--delta", "0.1"], "must be above 0 and at most 1."),
        ([*OWN, "0.5", "--noise-multiplier", "nan", "--steps", "9", "--delta", "0.1"], "Found nan."),
        ([*OWN, "0.5", "--noise-multiplier", "1", "--steps", "0", "--delta", "0.1"], "at least 1. Found 0."),
        (["run", "dp-sgd-base", "--out", "{tmp}/file/below"], "directory must be writable. Found `"),
        (["figures", "--plot-only", "--out", "{tmp}"], "needs the CSV of an earlier run"),
        (["findings", "nothing"], "FINDING must be one of"),
        (["speed", "nothing"], "WORKLOAD must be one of"),
    ],
)
def test_what_the_user_can_mend_is_a_sentence(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert cli.main([word.replace("{tmp}", str(tmp_path)) for word in words]) == 2
    error = capsys.readouterr().err
    assert sentence in error and "Traceback" not in error


def test_unknown_command_and_bad_delta_exit_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["nonsense"], ["run", "--timeout", "-1"], ["run", "--delta", "2"]):
        with pytest.raises(SystemExit) as exit_info:
            cli.main(words)
        assert exit_info.value.code == 2
    assert "delta must be between 0 and 1" in capsys.readouterr().err


def test_notes_keep_their_brackets() -> None:
    row = report.Row("x", 1, 0.1, "AFA", "estimate", None, None, None, 1.0, None, None, "unsupported", "pip install '.[afa]'")
    screen = Console(width=80)
    with screen.capture() as capture:
        screen.print(*report.notes([row]))
    assert "'.[afa]'" in capture.get()


def test_tables_fit_a_narrow_screen() -> None:
    row = report.Row("x", 10, 1e-5, "EW_CERTIFIED", "interval", 10.05363, 10.05363, 10.05363, 10.05, 0.12345, 12.3, "out of memory", "")
    for several in (False, True):
        screen = Console(width=80)
        with screen.capture() as capture:
            screen.print(report.case_table("title", [row], several, columns=80))
        assert "EW_CERTIFIED" in capture.get() and "out of memory" in capture.get() and "…" not in capture.get()


def test_list_shows_every_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in (*cases.CASES, *methods.METHODS))


def test_run_of_your_own_and_aliases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--sampling-probability", "0.1", "--noise-multiplier", "1.5", "--steps", "20", "--delta", "1e-4"]
    assert cli.main([*words, "--methods", "MA", "GDP", "GDP", "--out", str(tmp_path)]) == 0
    assert [row.method for row in report.read_rows(tmp_path / "run.csv")] == ["EXACT", "RDP", "GDP"]
    assert "peak MB" in capsys.readouterr().out


def test_run_of_an_event_file(tmp_path: Path) -> None:
    import dp_edgeworth

    path = tmp_path / "coins.json"
    path.write_text(dp_edgeworth.to_json(dpa.SelfComposedDpEvent(dpa.RandomizedResponseDpEvent(0.5, 2), 10)))
    words = ["run", "--event", str(path), "--delta", "1e-6", "--neighboring-relation", "REPLACE_ONE"]
    assert cli.main([*words, "--methods", "PLD", "FFT", "--out", str(tmp_path)]) == 0
    exact, pld, fft = report.read_rows(tmp_path / "run.csv")
    assert (exact.case, exact.size) == ("coins", 10)
    assert exact.estimate == pytest.approx(10.0 * math.log(3.0), abs=1e-4)
    assert (pld.status, fft.status) == ("ok", "unsupported")


def test_summary_shows_every_csv_and_picture(tmp_path: Path) -> None:
    claims = {"finding": "rejected-event", "setting": "a|b", "peer": "1", "truth": "2", "verdict": "false"}
    with report.table_file(tmp_path / "findings.csv", list(claims)) as write:
        write(claims)
    speeds = {"workload": "size", **timing.Result("m", 0.5, 1.0, 2.0, "at least 1")._asdict(), "met": "yes"}
    with report.table_file(tmp_path / "speed.csv", list(speeds)) as write:
        write(speeds)
    with report.table_file(tmp_path / "table.csv", table.COLUMNS) as write:
        write(dict.fromkeys(table.COLUMNS, "x"))
    (tmp_path / "paper-figure-5.png").touch()
    assert cli.main(["summary", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "README.md").read_text()
    for part in ("| a\\|b | 1 | 2 | false |", "| m | 500 ms | 1 s | 2 | at least 1 | yes |", "paper-figure-5.png", "| x |"):
        assert part in page
    assert "paper-figure-4" not in page


def test_summary_refuses_to_mix_versions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("speed", "findings"):
        with report.table_file(tmp_path / f"{name}.csv", ["a"]):
            pass
    path = tmp_path / "speed.csv"
    path.write_text(path.read_text().replace("sources ", "sources of old "))
    assert cli.main(["summary", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "must be of the same versions" in error and "speed.csv" in error and not (tmp_path / "README.md").exists()


def test_all_measures_anew_what_is_of_other_versions_and_keeps_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(everything, "PARTS", (("speed", "tiny", "--resume"), ("summary",)))
    asked: list[timing.Wanted] = []

    def tiny(wanted: timing.Wanted) -> Iterator[timing.Result]:
        asked.append(wanted)
        yield timing.Result("tiny", 0.5, value=0.5)

    monkeypatch.setitem(workloads.WORKLOADS, "tiny", tiny)
    for times, old in ((1, ""), (1, ""), (2, "sources of old ")):
        path = tmp_path / "speed.csv"
        if old:
            path.write_text(path.read_text().replace("sources ", old))
        assert cli.main(["all", "--out", str(tmp_path)]) == 0
        assert len(asked) == times and report.of_this_version(path)
    assert "tiny" in (tmp_path / "README.md").read_text() and "commit" in path.read_text()


def test_figures_draw_from_the_csv_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    row = report.Row("x", 10, 0.1, "FFT", "interval", -0.2, 0.0, 0.3, 0.1, 0.5, 10.0, "ok", "")
    fake = [
        ("FFT", "interval", "false"),
        ("RDP", "upper bound", "ok"),
        ("EXACT", "interval", "ok"),
        ("GDP", "estimate", "error"),
    ]
    from dataclasses import replace

    with report.table_file(tmp_path / "figures.csv", report.row_columns()) as write:
        for name in (case for case in cases.CASES if case.startswith("paper-") or case == "tiny-delta"):
            for method, guarantee, status in fake:
                for size in (10, 100, 1000):
                    changed = replace(row, case=name, size=size, method=method, guarantee=guarantee, status=status)
                    write(report.row_cells(changed))
    assert cli.main(["figures", "--plot-only", "--out", str(tmp_path)]) == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert {"paper-figure-3.png", "paper-figure-5.svg", "epsilon-against-delta.png"} <= names


def test_table_fits_exponents_and_counts_false_answers() -> None:
    def row(case: str, size: int, seconds: float, status: str = "ok") -> report.Row:
        return report.Row(case, size, 1e-5, "RDP", "upper bound", None, None, 2.0, 1.5, seconds, 1.0, status, "")

    rows = [row("growth-identical", 10**k, 0.01) for k in range(2, 8)]
    rows += [row("growth-distinct", 10**k, 1e-3 * 10**k, "false") for k in range(1, 5)]
    rows += [row("dp-sgd-base", 100, 0.1)]
    line = dict(zip(table.COLUMNS, table.summary(rows)[0], strict=True))
    assert line["identical"] in ("0.00", "-0.00") and line["distinct"] == "1.00"
    assert line["distance"] == "5.0e-01" and line["not_ok"] == "4 false"


def test_every_command_of_the_table_has_its_module() -> None:
    for name in cli.COMMANDS:
        cli.build_parser(name)
