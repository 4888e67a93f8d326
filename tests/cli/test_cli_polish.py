"""The command line as people type it: spellings, numbers, relations, help texts, formats, hints, files of accountants, reports."""

import json
import re
import subprocess
import sys

import dp_accounting as dpa
import pytest

import dp_edgeworth
from dp_edgeworth import EdgeworthIntervalAccountant, cli
from dp_edgeworth.cli import options

RECIPE = ["--sampling-probability", "0.01", "--noise-multiplier", "0.8", "--steps", "10000"]
COMMANDS = ("epsilon", "delta", "calibrate", "sweep", "explain", "curve", "report", "certify", "verify", "sampling")


def run(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def epsilon(capsys, *arguments):
    code, out, err = run(capsys, "epsilon", *arguments, "--target-delta", "1e-5", "--json")
    assert code == 0, err
    return json.loads(out)


def test_version(capsys):
    assert run(capsys, "--version") == (0, f"dp-edgeworth {dp_edgeworth.__version__}\n", "")
    done = subprocess.run([sys.executable, "-m", "dp_edgeworth", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"dp-edgeworth {dp_edgeworth.__version__}\n"


def test_spellings_and_abbreviations(capsys):
    reference = epsilon(capsys, *RECIPE)["epsilon"]
    assert reference == pytest.approx(10.053634770654, abs=1e-6)  # tests/golden/exact_epsilon.json
    for arguments in (["--sampling_probability=0.01", "--noise_multiplier", "0.8", "--steps=10000"],
                      ["--sampling", "0.01", "--noise", "0.8", "--steps", "1e4"], ["--sam=0.01", "--no=0.8", "--st=10_000"]):
        assert epsilon(capsys, *arguments)["epsilon"] == reference


@pytest.mark.parametrize("steps", ["1.5", "1e-1", "inf", "nan", "x", "1e999999999", ""])
def test_steps_must_be_integers(capsys, steps):
    code, _, err = run(capsys, "epsilon", "--noise", "1", "--steps", steps, "--target-delta", "1e-5")
    assert code == 2 and "must be an integer, as 10000 or 1e4" in err


@pytest.mark.parametrize("name", ["replace_one", "Replace-One", "REPLACE_ONE"])
def test_relations_in_any_case(capsys, name):
    data = epsilon(capsys, "--noise", "1", "--neighboring-relation", name)
    assert data["neighboring_relation"] == "REPLACE_ONE" and data["epsilon"] == pytest.approx(9.9972561464343, abs=1e-6)
    code, _, err = run(capsys, "epsilon", "--noise", "1", "--target-delta", "1e-5", "--neighboring-relation", "nobody")
    assert code == 2 and "must be one of ADD_OR_REMOVE_ONE, REPLACE_ONE, REPLACE_SPECIAL. Found 'nobody'" in err


def test_every_option_has_a_help_text_and_dashes():
    parser = options.parser()
    subparsers = next(action for action in parser._actions if action.dest == "command")
    assert set(subparsers.choices) == set(COMMANDS)
    for name, command in subparsers.choices.items():
        for action in command._actions:
            assert action.help, (name, action.dest)
            assert len([text for text in action.option_strings if text.startswith("--")]) == 1 or action.dest == "certificate"
        assert "_size" not in command.format_help()
        assert name == "verify" or re.search(r"--noise-multiplier", command.format_help())


@pytest.mark.parametrize("name, words", [("markdown", "| accounted |"), ("latex", r"\begin{description}"), ("json", '"provenance"')])
def test_formats(capsys, name, words):
    code, out, _ = run(capsys, "epsilon", "--noise", "1", "--target-delta", "1e-5", "--format", name)
    assert code == 0 and words in out
    assert run(capsys, "delta", "--noise", "1", "--target-epsilon", "1", "--format", name)[0] == 0


def test_errors_are_json_where_json_was_asked(capsys):
    code, out, _ = run(capsys, "epsilon", "--noise", "-1", "--target-delta", "1e-5", "--format", "json")
    assert code == 2 and json.loads(out)["exit_code"] == 2


def test_file_of_an_accountant_keeps_its_relation(capsys, tmp_path):
    accountant = EdgeworthIntervalAccountant(dpa.NeighboringRelation.REPLACE_ONE, tolerance=1e-4).compose(dpa.GaussianDpEvent(1.0))
    path = tmp_path / "accountant.json"
    path.write_text(accountant.to_json())
    data = epsilon(capsys, "--event", path)
    assert data["neighboring_relation"] == "REPLACE_ONE" and data["provenance"]["settings"]["tolerance"] == 1e-4
    assert data["epsilon"] == accountant.get_epsilon(1e-5)
    assert epsilon(capsys, "--event", path, "--neighboring-relation", "replace_one")["epsilon"] == data["epsilon"]
    code, _, err = run(capsys, "epsilon", "--event", path, "--target-delta", "1e-5", "--neighboring-relation", "replace_special")
    assert code == 2 and "must be the accountant's, REPLACE_ONE" in err
    assert "REPLACE_ONE" in run(capsys, "explain", "--event", path, "--target-delta", "1e-5")[1]
    code, out, _ = run(capsys, "curve", "--event", path, "--points", "5", "--json")
    assert code == 0 and json.loads(out)["advantage"] == pytest.approx(0.6826894921370859, abs=1e-5)  # 2 Phi(1) - 1


def test_curve_prints_a_table(capsys):
    code, out, _ = run(capsys, "curve", "--noise", "1", "--points", "21")
    assert code == 0 and out.splitlines()[0].split() == ["epsilon", "delta", "<=", "alpha", "beta", ">="]
    assert len(out.splitlines()) == 15 and out.splitlines()[1].split()[:2] == ["0", "0.382925"]  # 2 Phi(1/2) - 1 = 0.3829249


def test_sweep_over_batch_sizes_at_the_same_epochs(capsys):
    code, out, _ = run(capsys, "sweep", "--batch-size", "100,200", "--dataset-size", "1e4", "--epochs", "5,10", "--noise", "1",
                       "--target-delta", "1e-5")
    rows = [line.split(",") for line in out.splitlines()]
    assert code == 0 and rows[0] == ["sampling_probability", "noise_multiplier", "epochs", "steps",
                                     "epsilon_lower", "epsilon_estimate", "epsilon_upper"]
    assert [row[:4] for row in rows[1:]] == [["0.01", "1.0", "5.0", "500"], ["0.01", "1.0", "10.0", "1000"],
                                             ["0.02", "1.0", "5.0", "250"], ["0.02", "1.0", "10.0", "500"]]
    reference = dp_edgeworth.sweep(sampling_probability=0.02, noise_multiplier=1.0, steps=250, target_delta=1e-5).epsilon[0, 0, 0]
    assert float(rows[3][6]) == pytest.approx(reference, rel=1e-12)


@pytest.mark.parametrize("arguments, words", [
    (["--batch-size", "10", "--steps", "3"], "dataset_size"), (["--sampling-probability", "0.1"], "`steps` and `epochs`"),
    (["--sampling-probability", "0.1", "--batch-size", "3", "--dataset-size", "9", "--steps", "3"], "batch_size"),
    (["--steps", "3"], "sampling_probability")])
def test_bad_grids(capsys, arguments, words):
    code, _, err = run(capsys, "sweep", *arguments, "--noise", "1", "--target-delta", "1e-5")
    assert code == 2 and words in err


def test_hint_where_matplotlib_is_missing(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    code, _, err = run(capsys, "curve", "--noise", "1", "--points", "5", "--png", tmp_path / "c.png")
    assert code == 2 and "pip install 'dp-edgeworth[plot]'" in err


def test_budgets_of_risk(capsys):
    common = ["calibrate", "--sampling-probability", "1", "--steps", "1"]
    code, out, _ = run(capsys, *common, "--target-advantage", "0.2", "--json")
    assert code == 0 and json.loads(out)["noise_multiplier"] == pytest.approx(1.97357, abs=1e-4)  # 1 / (2 Phi^-1(0.6))
    code, out, _ = run(capsys, *common, "--target-true-positive-rate", "0.1", "--false-positive-rate", "0.01")
    assert code == 0 and out.startswith("noise_multiplier = ") and "`false_positive_rate` 0.01" in out
    assert run(capsys, *common, "--target-epsilon", "1")[0] == 2


def test_report(capsys, tmp_path):
    path = tmp_path / "r.html"
    code, out, _ = run(capsys, "report", *RECIPE, "--target-delta", "1e-5", "--out", path, "--title", "Ours")
    assert code == 0 and "epsilon = 10.0537" in out and "<title>Ours</title>" in path.read_text(encoding="utf-8")
