"""The harness of `speed`: targets, what is wanted, questions that nobody was asked before; fitted exponents."""

from __future__ import annotations

from pathlib import Path

import dp_accounting as dpa
import pytest

pytest.importorskip("rich")
pytest.importorskip("prv_accountant")

from comparisons import cases, cli, ordinary, peers, report, timing

AR, RO = dpa.NeighboringRelation.ADD_OR_REMOVE_ONE, dpa.NeighboringRelation.REPLACE_ONE


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


def test_a_nudged_event_is_another_event_with_the_same_answer() -> None:
    for name in ("mixed-tree", "federated-analytics", "dp-sgd-base"):
        event = cases.CASES[name].build(10)
        other = cases.nudged(event, 1)
        assert other != event and cases.nudged(event, 0) == event
        answers = [peers.GdpAccountant().compose(each).get_epsilon(1e-5) for each in (event, other)]
        assert answers[0] == pytest.approx(answers[1], rel=1e-6)
