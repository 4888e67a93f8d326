"""The command line: statements, exit codes, no traceback."""

import io
import json
import subprocess
import sys

import dp_accounting as dpa
import matplotlib
import pytest

from dp_edgeworth import EdgeworthIntervalAccountant, cli, to_json

matplotlib.use("Agg")
RECIPE = ["--sampling_probability", "0.01", "--noise_multiplier", "0.8", "--steps", "10000"]


def run(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, captured.out, captured.err


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "ledger.json"
    training = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.0)), 1_000)
    path.write_text(to_json(dpa.ComposedDpEvent([training, dpa.LaplaceDpEvent(3.0)])))
    return path


def test_epsilon_is_a_statement(capsys):
    code, out, _ = run(capsys, "epsilon", *RECIPE, "--target_delta", "1e-5")
    assert code == 0
    for words in ("epsilon = 10.0537", "certified", "Poisson", "one record added or removed", "shuffled",
                  "not covered"):
        assert words in out


def test_json_has_the_interval_and_the_assumptions(capsys):
    code, out, _ = run(capsys, "epsilon", *RECIPE, "--target-delta", "1e-5", "--json")
    data = json.loads(out)
    assert code == 0 and data["certified"] and data["neighboring_relation"] == "ADD_OR_REMOVE_ONE"
    assert data["interval"]["lower"] <= 10.053634770654 <= data["interval"]["upper"] == data["epsilon"]
    assert data["sampling"] and data["not_covered"]


def test_delta_of_a_file_and_of_standard_input(capsys, ledger, monkeypatch):
    code, out, _ = run(capsys, "delta", "--event", ledger, "--target_epsilon", "2", "--json")
    assert code == 0 and 0 < json.loads(out)["delta"] < 1e-3
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": io.BytesIO(ledger.read_bytes())}))
    assert run(capsys, "delta", "--event", "-", "--target_epsilon", "2", "--json")[1] == out


@pytest.mark.parametrize("given, solved", [
    (["--batch_size", "600", "--dataset_size", "60000", "--epochs", "10"], "noise_multiplier"),
    (["--sampling_probability", "0.05", "--noise_multiplier", "2"], "steps"),
    (["--steps", "2000", "--noise_multiplier", "1.5"], "sampling_probability")])
def test_calibrate_solves_for_what_is_left_out(capsys, given, solved):
    code, out, _ = run(capsys, "calibrate", *given, "--target_epsilon", 2, "--target_delta", 1e-6, "--json")
    data = json.loads(out)
    assert code == 0 and data["solved_for"] == solved and data[solved] > 0
    assert data["statement"]["epsilon"] <= 2


def test_sweep_writes_table_and_picture(capsys, tmp_path):
    table, picture = tmp_path / "s.csv", tmp_path / "s.png"
    code, out, err = run(capsys, "sweep", "--sampling_probability", "0.01:0.1:4:log", "--noise_multiplier", "0.8,1,2",
                         "--steps", "5000", "--target_delta", "1e-5", "--csv", table, "--png", picture)
    assert code == 0 and "12 points" in out and not err
    assert len(table.read_text().splitlines()) == 13 and picture.read_bytes().startswith(b"\x89PNG")
    code, out, _ = run(capsys, "sweep", "--sampling_probability", "0.1", "--noise_multiplier", "1,2", "--steps", "100",
                       "--target_delta", "1e-5", "--certified", "--json")
    assert code == 0 and json.loads(out)["certified"] and len(json.loads(out)["upper"][0]) == 2
    code, out, err = run(capsys, "sweep", "--sampling_probability", "0.1", "--noise_multiplier", "1", "--steps", "100",
                         "--target_delta", "1e-5", "--estimates")
    assert code == 0 and out.startswith("sampling_probability,noise_multiplier,steps,epsilon_estimate\n") and "not guarantees" in err


def test_explain(capsys, ledger, tmp_path):
    code, out, _ = run(capsys, "explain", "--event", ledger, "--target_delta", "1e-5", "--png", tmp_path / "e.png")
    assert code == 0 and "1,000 x PoissonSampled" in out and "Laplace(3)" in out
    assert (tmp_path / "e.png").read_bytes().startswith(b"\x89PNG")
    data = json.loads(run(capsys, "explain", "--event", ledger, "--target_delta", "1e-5", "--json")[1])
    assert data["nodes"][0]["share"] == 1.0


def test_curve(capsys, tmp_path):
    code, out, _ = run(capsys, "curve", "--noise_multiplier", "1", "--png", tmp_path / "c.png", "--points", 21)
    assert code == 0 and "advantage" in out and (tmp_path / "c.png").exists()
    data = json.loads(run(capsys, "curve", "--noise_multiplier", "1", "--points", 5, "--json")[1])
    assert data["delta"]["lower"][0] <= 0.38292492254802624 <= data["delta"]["upper"][0]
    assert data["beta"]["upper"][-1] == 0


@pytest.mark.parametrize("arguments, words", [
    (["epsilon", "--noise_multiplier", "-1", "--target_delta", "1e-5"], "noise_multiplier"),
    (["epsilon", "--noise_multiplier", "1", "--target_delta", "2"], "target_delta"),
    (["epsilon", "--noise_multiplier", "nan", "--target_delta", "1e-5"], "noise_multiplier"),
    (["epsilon", "--target_delta", "1e-5"], "--event"),
    (["epsilon", "--event", "/no/such/file", "--target_delta", "1e-5"], "No such file"),
    (["epsilon", "--event", "/", "--target_delta", "1e-5"], "directory"),
    (["epsilon", "--event", "x", "--steps", "3", "--target_delta", "1e-5"], "--steps"),
    (["epsilon", "--noise_multiplier", "x", "--target_delta", "1e-5"], "must be a number. Found 'x'"),
    (["calibrate", "--noise_multiplier", "1", "--steps", "1", "--sampling_probability", "1", "--target_epsilon", "1",
      "--target_delta", "1e-5"], "left out"),
    (["sweep", "--sampling_probability", "1:2", "--noise_multiplier", "1", "--steps", "1", "--target_delta", "0.1"],
     "low:high:points"),
    (["sweep", "--sampling_probability", "x", "--noise_multiplier", "1", "--steps", "1", "--target_delta", "0.1"],
     "Found 'x'"),
    (["sweep", "--sampling_probability", "1", "--noise_multiplier", "1", "--steps", "1.5", "--target_delta", "0.1"],
     "integers"),
    (["sweep", "--sampling_probability", "1", "--noise_multiplier", "1", "--steps", "nan", "--target_delta", "0.1"],
     "integers"),
    *((["sweep", "--sampling_probability", "1", "--noise_multiplier", axis, "--steps", "1", "--target_delta", "0.1"], f"Found '{axis}'")
      for axis in ("1:inf:3", "nan:1:3", "1:nan:3", "0:1:3:log", "1:-1:3:log", "1:inf:3:log", "0:1e308:3")),
    (["sweep", *RECIPE, "--certified", "--target_delta", "0.1", "--tolerance", "nan"], "tolerance"),
    (["sweep", *RECIPE, "--target_delta", "0.1", "--tolerance", "0"], "tolerance"),
    (["calibrate", "--noise_multiplier", "1", "--steps", "1", "--dataset_size", "10", "--target_epsilon", "1",
      "--target_delta", "1e-5"], "left out"),
    (["explain", "--noise_multiplier", "1", "--target_delta", "1e-5", "--limit", "0"], "limit"),
    (["curve", "--noise_multiplier", "1", "--points", "1"], "points"),
    (["nonsense"], "invalid choice"), (["epsilom"], "Did you mean epsilon?"),
    (["epsilon", "--samling", "0.1", *RECIPE, "--target_delta", "1e-5"], "Did you mean --sampling-probability?"),
    (["epsilon", "--noise", "1", "--delta", "1e-5"], "--delta. Did you mean --target-delta? See dp-edgeworth epsilon --help."),
    (["delta", "--noise", "1", "--epsilon", "2"], "Did you mean --target-epsilon?"),
    (["epsilon", "--noise", "1", "--relation", "replace_one", "--target-delta", "1e-5"], "Did you mean --neighboring-relation?"),
    (["calibrate", "--sampling", "0.1", "--steps", "10", "--target-advantage", "0.1", "--verify"], "others have no certificate"),
    (["epsilon", "--event", "no.json", "--target_delta", "1e-5"], "no.json: No such file"), ([], "required")])
def test_bad_input_is_one_sentence_and_code_2(capsys, arguments, words):
    code, out, err = run(capsys, *arguments)
    assert code == 2 and words in err and not out and err.startswith("dp-edgeworth: ") and err.count("\n") == 1
    if arguments:
        code, out, _ = run(capsys, *arguments, "--json")
        assert code == 2 and words in json.loads(out)["error"]


@pytest.mark.parametrize("document, words", [
    ('{"format": "dp-edgeworth-event", "version": 1, "event": {"type": "os.system"}}', "$.event.type"),
    ('{"format": "dp-edgeworth-event", "version": 1, "event": {"type": "GaussianDpEvent", "noise_multiplier": -1}}',
     "$.event.noise_multiplier"),
    ("[" * 100_000, "$"), ("", "$")])
def test_hostile_files(capsys, tmp_path, document, words):
    path = tmp_path / "event.json"
    path.write_text(document)
    code, out, err = run(capsys, "epsilon", "--event", path, "--target_delta", "1e-5", "--json")
    assert code == 2 and words in err and json.loads(out)["exit_code"] == 2


def test_what_cannot_be_certified_is_code_1(capsys, tmp_path):
    path = tmp_path / "event.json"
    path.write_text(to_json(dpa.UnsupportedDpEvent()))
    code, _, err = run(capsys, "epsilon", "--event", path, "--target_delta", "1e-5")
    assert code == 1 and "UnsupportedDpEvent" in err
    code, _, err = run(capsys, "calibrate", "--sampling_probability", "1", "--noise_multiplier", "0.1",
                       "--target_epsilon", "1", "--target_delta", "1e-6")
    assert code == 1 and "steps" in err


def test_the_statement_lists_what_was_accounted(capsys, tmp_path):
    path = tmp_path / "event.json"
    events = [dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(40.0), 3), *map(dpa.LaplaceDpEvent, range(30, 50))]
    path.write_text(to_json(dpa.ComposedDpEvent(events)))
    arguments = ("epsilon", "--event", path, "--target_delta", "1e-5")
    lines = json.loads(run(capsys, *arguments, "--json")[1])["accounted"]
    assert lines[:2] == ["3 x Gaussian(40)", "Laplace(30)"] and lines[-1] == "... and 13 more"
    assert "  accounted      3 x Gaussian(40)\n                 Laplace(30)\n" in run(capsys, *arguments)[1]


def test_no_privacy_is_an_answer(capsys):
    code, out, _ = run(capsys, "epsilon", "--noise_multiplier", "0", "--target_delta", "1e-5")
    assert code == 0 and "not differentially private" in out


def test_it_runs_as_a_module():
    command = [sys.executable, "-m", "dp_edgeworth", "epsilon", "--noise_multiplier", "1", "--target_delta", "1e-5"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    expected = EdgeworthIntervalAccountant().compose(dpa.GaussianDpEvent(1.0)).get_epsilon(1e-5)
    assert json.loads(done.stdout)["epsilon"] == expected


def _shell(redirection, *arguments):
    """Exit code and what is said on standard error; through a shell, as Python itself cannot start without standard streams."""
    command = " ".join([sys.executable, "-m", "dp_edgeworth", *arguments])
    return subprocess.run(["bash", "-c", f"set -o pipefail; {command} {redirection}"], capture_output=True, text=True)


@pytest.mark.parametrize("redirection", ["| true", ">&-", ">&- 2>&-"])
@pytest.mark.parametrize(("noise", "code"), [("1", 0), ("-1", 2)])
def test_nobody_listens(redirection, noise, code):
    done = _shell(redirection, "epsilon", "--noise_multiplier", noise, "--target_delta", "1e-5", "--json")
    assert done.returncode == code and "Traceback" not in done.stderr and "Exception" not in done.stderr
    assert ("noise_multiplier" in done.stderr) == (code == 2 and "2>&-" not in redirection)


def test_nobody_speaks():
    done = _shell("<&-", "epsilon", "--event", "-", "--target_delta", "1e-5")
    assert done.returncode == 2 and done.stderr == "dp-edgeworth: `--event` must not be - where standard input is closed.\n"


def test_no_noise_is_enough_for_any_epsilon(capsys):
    recipe = ["--sampling_probability", "0.1", "--steps", "10"]
    code, out, _ = run(capsys, "calibrate", *recipe, "--target_epsilon", "inf", "--target_delta", "0.1")
    assert code == 0 and out.startswith("noise_multiplier = 0.0")
