"""The comparison harness: adapters against closed forms, every status of the runner, the command line's sentences."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import dp_accounting as dpa
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

pytest.importorskip("rich")
pytest.importorskip("prv_accountant")

from rich.console import Console

from comparisons import (
    cases,
    cli,
    everything,
    gaussian_limit,
    methods,
    ordinary,
    peers,
    report,
    runner,
    table,
    timing,
    truth,
    truth_judge,
    truth_oracle,
    workers,
    workloads,
)
from comparisons import run as run_command
from comparisons.brackets import pld_bracket
from comparisons.runner import Limits, Outcome, judge
from comparisons.truth_cases import TruthCase, truth_case, truth_cases
from comparisons.workers import limited

AR, RO = dpa.NeighboringRelation.ADD_OR_REMOVE_ONE, dpa.NeighboringRelation.REPLACE_ONE
GAUSSIANS = dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(80.0), 1500)
TRUTH = 1.9225918024608042  # closed form: one Gaussian of noise 80 / sqrt(1500) at delta 1e-5
OWN = ["run", "--sampling-probability"]
QUICK = Limits(seconds=20.0, gigabytes=2.0)


def closed_form(noise: float, delta: float) -> float:
    return dpa.get_epsilon_gaussian(noise, delta)


# Adapters, each against the composition of Gaussians in closed form.


@pytest.mark.parametrize(
    ("name", "tolerance"), [("GDP", 1e-9), ("GDP-E", 1e-5), ("PLD_1e-4", 1e-4), ("PLD_1e-3", 1e-3), ("FFT", 1e-3)]
)
@pytest.mark.parametrize(("relation", "factor"), [(AR, 1.0), (RO, 2.0)])
def test_adapter_against_gaussian_composition(
    name: str, tolerance: float, relation: dpa.NeighboringRelation, factor: float
) -> None:
    truth = closed_form(80.0 / math.sqrt(1500) / factor, 1e-5)
    assert factor == 2.0 or truth == pytest.approx(TRUTH, abs=1e-9)
    lower, estimate, upper = methods.METHODS[name].ends(GAUSSIANS, 1e-5, relation)
    value = upper if estimate is None else estimate
    assert value == pytest.approx(truth, abs=tolerance)
    if name == "FFT":
        assert lower is not None and upper is not None and lower < truth < upper
        assert upper - lower == pytest.approx(0.2, abs=0.01)


def test_afa_against_gaussian_composition() -> None:
    pytest.importorskip("autodp")
    _, estimate, _ = methods.METHODS["AFA"].ends(GAUSSIANS, 1e-5, AR)
    assert estimate == pytest.approx(TRUTH, abs=1e-6)


def test_rdp_is_above_the_closed_form_and_lacks_the_factor_two() -> None:
    assert methods.METHODS["RDP"].ends(GAUSSIANS, 1e-5, AR)[2] >= TRUTH  # type: ignore[operator]
    replace = RdpAccountant(neighboring_relation=RO).compose(dpa.GaussianDpEvent(1.0)).get_epsilon(1e-5)
    assert replace < closed_form(0.5, 1e-5)


def test_prv_laplace_takes_the_inverse_scale() -> None:
    """One Laplace mechanism: delta(eps) = 1 - e^{(eps - 1/b) / 2}."""
    scale, delta = 5.0, 0.01
    truth = 1.0 / scale + 2.0 * math.log1p(-delta)
    lower, estimate, upper = (
        peers.PrvAccountant(eps_error=0.01).compose(dpa.LaplaceDpEvent(scale)).get_epsilon_interval(delta)
    )
    assert lower <= truth <= upper
    assert estimate == pytest.approx(truth, abs=0.01)


def test_pld_unrolls_randomized_response() -> None:
    event = dpa.SelfComposedDpEvent(dpa.RandomizedResponseDpEvent(0.5, 2), 10)
    unrolled = peers.UnrolledPldAccountant(RO).compose(event).get_epsilon(1e-6)
    assert unrolled == pytest.approx(10.0 * math.log(3.0), abs=0.01)
    assert PLDAccountant(RO).compose(event).get_epsilon(1e-6) < 1.2  # the bug that makes it necessary
    assert peers.UnrolledPldAccountant(RO).supports(event)


def test_gdp_of_sampled_gaussians_is_the_published_mu() -> None:
    noises = [gaussian_limit.Noise("gaussian", 0.8, 0.01, 10_000)]
    assert gaussian_limit.gaussian_mu(noises) == pytest.approx(0.01 * math.sqrt(1e4 * math.expm1(0.8**-2)))


def test_gdp_e_reproduces_the_known_value() -> None:
    noises = [gaussian_limit.Noise("gaussian", 0.8, 0.01, 10_000)]
    assert gaussian_limit.gdp_e_epsilon(1e-5, noises) == pytest.approx(11.02, abs=0.005)


def test_loss_cumulants_against_monte_carlo_free_identities() -> None:
    """Plain Gaussian: mean +-mu^2/2, variance mu^2, nothing above; Laplace: mean = 1/b - 1 + e^{-1/b}."""
    under_p, under_q = gaussian_limit.loss_cumulants(gaussian_limit.Noise("gaussian", 2.0, 1.0, 1))
    np.testing.assert_allclose(under_p, [0.125, 0.25, 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(under_q, [-0.125, 0.25, 0.0, 0.0], atol=1e-12)
    laplace, _ = gaussian_limit.loss_cumulants(gaussian_limit.Noise("laplace", 2.0, 1.0, 1))
    assert laplace[0] == pytest.approx(0.5 - 1.0 + math.exp(-0.5), abs=1e-12)


def test_adapters_name_the_event_they_do_not_support() -> None:
    accountant = peers.GdpAccountant()
    event = dpa.ComposedDpEvent([dpa.GaussianDpEvent(1.0), dpa.ZCDpEvent(1.0)])
    assert not accountant.supports(event)
    with pytest.raises(dpa.UnsupportedEventError, match="ZCDpEvent"):
        accountant.compose(event)
    assert not peers.PrvAccountant(RO).supports(cases.dp_sgd(0.1, 1.0, 2))


# The runner: every way to end.


def sleeper(seconds: float) -> None:
    time.sleep(seconds)


def glutton(gigabytes: float) -> int:
    return int(np.ones(int(gigabytes * 125e6)).sum())


def suicide() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def quitter() -> None:
    os._exit(3)


def failure(error: type[Exception]) -> None:
    raise error("because")


def test_a_child_that_answers() -> None:
    outcome = limited(max, (3, 4), QUICK)
    assert (outcome.status, outcome.value) == ("ok", 4)
    assert outcome.peak_mb >= 0.0


def test_a_child_that_is_killed() -> None:
    outcome = limited(suicide, (), QUICK)
    assert outcome.status == "error" and "SIGKILL" in outcome.note


def test_a_child_that_exits_without_an_answer() -> None:
    outcome = limited(quitter, (), QUICK)
    assert outcome.status == "error" and "exit code 3" in outcome.note


def test_a_child_that_takes_too_much_memory() -> None:
    outcome = limited(glutton, (4.0,), Limits(seconds=20.0, gigabytes=0.5))
    assert outcome.status == "out of memory" and "0.5 GB" in outcome.note


def test_a_child_that_takes_too_long() -> None:
    outcome = limited(sleeper, (600.0,), Limits(seconds=0.3))
    assert outcome.status == "timeout" and "0.3 s" in outcome.note


@pytest.mark.parametrize(
    ("error", "status"),
    [(ImportError, "unsupported"), (dpa.UnsupportedEventError, "unsupported"), (ValueError, "error")],
)
def test_exceptions_are_statuses(error: type[Exception], status: str) -> None:
    outcome = limited(failure, (error,), QUICK)
    assert outcome.status == status and "because" in outcome.note


@pytest.mark.parametrize(
    ("ends", "guarantee", "status"),
    [
        ((0.9, 1.0, 1.1), "interval", "ok"),
        ((-0.1, 0.0, 1.1), "interval", "ok"),  # an empty lower end is not a wrong one
        ((None, None, math.inf), "upper bound", "ok"),
        ((None, 7.0, None), "estimate", "ok"),  # estimates promise nothing
        ((None, math.nan, None), "estimate", "implausible"),
        ((0.0, 1.0, math.nan), "interval", "implausible"),
        ((-12.0, -11.5, -11.0), "interval", "implausible"),
        ((None, None, -1.0), "upper bound", "implausible"),
        ((1.1, 1.0, 0.9), "interval", "implausible"),
        ((None, None, None), "estimate", "implausible"),
        ((None, None, 0.99), "upper bound", "false"),
        ((1.05, 1.06, 1.1), "interval", "false"),
        ((0.8, 0.9, 0.95), "interval", "false"),
    ],
)
def test_judgement(ends: methods.Ends, guarantee: str, status: str) -> None:
    assert judge(ends, guarantee, (1.0 - 1e-9, 1.0, 1.0 + 1e-9))[0] == status


# Cases, rows and the command line.


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


def test_a_nudged_event_is_another_event_with_the_same_answer() -> None:
    for name in ("mixed-tree", "federated-analytics", "dp-sgd-base"):
        event = cases.CASES[name].build(10)
        other = cases.nudged(event, 1)
        assert other != event and cases.nudged(event, 0) == event
        answers = [peers.GdpAccountant().compose(each).get_epsilon(1e-5) for each in (event, other)]
        assert answers[0] == pytest.approx(answers[1], rel=1e-6)


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
    case = cases.Case("test", "a test", lambda m: cases.dp_sgd(0.1, 1.0, m), (10, 20), (10.0**-3, 10.0**-14))
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


def test_speed_targets_are_read_in_both_directions() -> None:
    assert timing.Result("a", value=120.0, target="at least 100").met == "yes"
    assert timing.Result("a", value=120.0, target="at most 1e-6").met == "no"
    assert timing.Result("a", target="at least 1").met == "no"
    assert timing.Result("a").met == ""
    assert timing.clock(0.0123) == "12.3 ms" and timing.clock(2.0) == "2 s"


def test_speed_measures_what_is_wanted_and_remembers_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["speed", "single", "ordinary", "--no-peers", "--only", "1500 x", "Gaussian(1), REPLACE", "--out", str(tmp_path)]
    assert cli.main(words) == 0
    shown = capsys.readouterr().out
    lines = report.read_table(tmp_path / "speed.csv")
    assert [line["measured"] for line in lines] == ["epsilon: 1500 x Gaussian(80)", "ordinary: Gaussian(1), REPLACE_ONE"]
    assert all(line["measured"] in shown and float(line["ours"]) > 0.0 and not line["peer"] for line in lines)
    asked: list[dpa.DpEvent] = []
    timing.median(asked.append, dpa.GaussianDpEvent(1.0), budget=1e9)
    timing.median(asked.append, dpa.GaussianDpEvent(1.0), budget=1e9)
    assert len(asked) > 20 and len(set(asked)) == len(asked)


def test_the_ordinary_inputs_are_sixty_and_all_are_answered() -> None:
    assert sum(len(relations) for _, relations in ordinary.INPUTS.values()) == 60
    for name, (event, relations) in ordinary.INPUTS.items():
        for relation in relations:
            assert timing.certified(relation).supports(event), (name, relation)
        assert cases.nudged(event, 1) != event, name


def test_every_command_of_the_table_has_its_module() -> None:
    for name in cli.COMMANDS:
        cli.build_parser(name)


# Workers, and the truth campaign on top of them.


def whatever(what: str) -> str:
    if what == "die":
        suicide()
    if what == "sleep":
        sleeper(60.0)
    if what == "eat":
        glutton(4.0)
    if what == "fail":
        failure(ValueError)
    return what


def test_a_worker_that_ends_is_replaced_and_every_task_has_its_outcome() -> None:
    tasks = [(what,) for what in ("a", "die", "b", "sleep", "c", "fail", "d", "eat", "e")]
    found = {task[0]: outcome for task, outcome in workers.outcomes(whatever, tasks, Limits(1.5, 0.5), jobs=2)}
    assert {what: outcome.status for what, outcome in found.items()} == {
        "die": "error", "sleep": "timeout", "fail": "error", "eat": "out of memory", **dict.fromkeys("abcde", "ok")
    }  # fmt: skip
    assert all(found[what].value == what for what in "abcde")
    assert "SIGKILL" in found["die"].note and "1.5 s" in found["sleep"].note and "because" in found["fail"].note


def test_a_worker_that_cannot_start_is_no_row() -> None:
    worker = workers._Worker.new(whatever, QUICK)
    worker.child.kill()
    worker.child.join()
    try:
        with pytest.raises(OSError, match="must be able to start"):
            for _ in range(3):  # it may have said that it started, and died then
                worker.outcome()
                worker.started = False
    finally:
        worker.end()


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


@pytest.mark.parametrize(
    ("event", "relation", "truth_"),
    [(dpa.GaussianDpEvent(1.0), AR, closed_form(1.0, 1e-5)), (dpa.GaussianDpEvent(1.0), RO, closed_form(0.5, 1e-5)),
     (dpa.SelfComposedDpEvent(dpa.LaplaceDpEvent(0.01), 3), AR, 300.0 + math.log1p(-8e-5)),
     (dpa.GaussianDpEvent(1e3), AR, closed_form(1e3, 1e-5))],
)  # fmt: skip
def test_brackets_of_pld_contain_the_truth(event: dpa.DpEvent, relation: dpa.NeighboringRelation, truth_: float) -> None:
    low, high = pld_bracket(event, 1e-5, relation)  # type: ignore[misc]
    assert low <= truth_ <= high + 1e-9 and high - low <= 2e-3 * truth_


def test_brackets_are_not_given_where_pld_is_not_to_be_trusted() -> None:
    assert pld_bracket(dpa.GaussianDpEvent(1.0), 1e-9, AR) is None
    assert pld_bracket(dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(1.0), 1001), 1e-5, AR) is None
    assert pld_bracket(dpa.LaplaceDpEvent(1.0), 1e-5, RO) is None
    coins = dpa.SelfComposedDpEvent(dpa.RandomizedResponseDpEvent(0.0381077086859431, 5), 509)
    assert pld_bracket(coins, 6.785811313457853e-07, RO) is None  # 2461.675 from below, where 2461.301 is exact


def test_the_committed_exact_values_are_of_these_cases() -> None:
    """A changed generator, or another stream of numpy's, would leave them without a question."""
    for path in truth_oracle.RESULTS.glob("truth-oracle-*.csv"):
        chosen = truth_cases(int(path.stem.rpartition("-")[2]), 200)
        assert len(truth_oracle.stored_values(path, chosen)) > 0
