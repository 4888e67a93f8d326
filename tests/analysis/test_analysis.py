"""Event-tree analysis: shares, costs of parts, rendering."""

import json
import math

import dp_accounting as dpa
import matplotlib
import numpy as np
import pytest
from dp_accounting.privacy_accountant import NeighboringRelation, UnsupportedEventError
from hypothesis import given
from hypothesis import strategies as st

import dp_edgeworth
from dp_edgeworth import EdgeworthIntervalAccountant
from dp_edgeworth.analysis import attribution, explanation, report
from dp_edgeworth.analysis.explanation import explain
from dp_edgeworth.events import description
from dp_edgeworth.events.description import rounded_down, rounded_up
from dp_edgeworth.paper.cumulants import cumulants
from dp_edgeworth.sums.composition import Composition

matplotlib.use("Agg")
RO = NeighboringRelation.REPLACE_ONE


def sampled(p, sigma, count=1):
    event = dpa.PoissonSampledDpEvent(p, dpa.GaussianDpEvent(sigma))
    return dpa.SelfComposedDpEvent(event, count) if count > 1 else event


TRAINING, PROGRAMME, TAIL = sampled(0.01, 1.0, 1_000), dpa.LaplaceDpEvent(3.0), dpa.GaussianDpEvent(3.0)
NESTED = dpa.SelfComposedDpEvent(dpa.ComposedDpEvent([sampled(0.02, 1.2), dpa.GaussianDpEvent(20.0)]), 10)
TREE = dpa.ComposedDpEvent([TRAINING, dpa.ComposedDpEvent([NESTED, PROGRAMME]), dpa.NoOpDpEvent(), TAIL])


@pytest.fixture(scope="module")
def tree_report():
    return explain(TREE, target_delta=1e-5)


def _accounted(report):
    """The nodes whose costs were asked for."""
    return {node.index for node in report.nodes if node.__dict__.keys() & {"_alone", "epsilon_without"}}


def _certified(event, delta=1e-5, relation=NeighboringRelation.ADD_OR_REMOVE_ONE):
    return EdgeworthIntervalAccountant(relation).compose(event).get_epsilon(delta)


@pytest.mark.parametrize("event, relation, delta", [
    (TREE, NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-5),
    (TREE, NeighboringRelation.ADD_OR_REMOVE_ONE, 0.4),  # below the mean loss
    (TREE, NeighboringRelation.REPLACE_SPECIAL, 1e-12),
    (dpa.ComposedDpEvent([dpa.GaussianDpEvent(2.0), sampled(0.1, 1.0, 50)]), RO, 1e-6),
    (dpa.ComposedDpEvent([dpa.LaplaceDpEvent(2.0), dpa.LaplaceDpEvent(5.0)]), RO, 0.0),
    (dpa.ComposedDpEvent([TRAINING, dpa.NonPrivateDpEvent()]), NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-5),
])
def test_shares_add_up(event, relation, delta):
    result = explain(event, target_delta=delta, neighboring_relation=relation)
    assert abs(result.root.share - 1.0) <= 1e-12
    for node in result.nodes:
        assert 0.0 <= node.share <= 1.0 + 1e-12
        if node.children:
            assert abs(sum(child.share for child in node.children) - node.share) <= 1e-12
    assert result.epsilon == _certified(event, delta, relation)


def test_shares_of_gaussians_are_their_squared_shifts():
    result = explain(dpa.ComposedDpEvent([dpa.GaussianDpEvent(2.0), dpa.GaussianDpEvent(4.0)]), target_delta=1e-5)
    assert result["$.events[0]"].share == pytest.approx(0.8, abs=1e-13)
    assert result["$.events[0]"].direction == "both"


def test_shares_are_the_slopes_of_the_composition_at_the_saddle(tree_report):
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    accountant = EdgeworthIntervalAccountant(relation).compose(TREE)
    counts = accountant._compositions()[0].counts
    slope = Composition(counts).cgf([tree_report.tilt])[1, 0]
    assert slope == pytest.approx(tree_report.epsilon, rel=1e-10)
    alone = EdgeworthIntervalAccountant(relation).compose(TRAINING)._compositions()[0].counts
    part = Composition(alone).cgf([tree_report.tilt])[1, 0]
    assert tree_report["$.events[0]"].contribution == pytest.approx(part, rel=1e-9)


def test_the_saddle_is_found_beside_bounded_losses():
    """It was not once: K' was 2.249 where epsilon is 2.387, so that a share was above the largest loss of its leaf, 0.3."""
    queries = [dpa.SelfComposedDpEvent(dpa.LaplaceDpEvent(4.0), 2), dpa.dp_event.DiscreteLaplaceDpEvent(0.3, 1)]
    event = dpa.ComposedDpEvent([TRAINING, *queries])
    result = explain(event, target_delta=1e-5)
    counts = EdgeworthIntervalAccountant().compose(event)._compositions()[0].counts
    assert Composition(counts).cgf([result.tilt])[1, 0] == pytest.approx(result.epsilon, rel=1e-10)
    assert result["$.events[2]"].contribution <= 0.3


def test_without_and_alone_agree_with_accounting(tree_report):
    rest = {"$.events[0]": TREE.events[1:], "$.events[3]": TREE.events[:3],
            "$.events[1]": [TRAINING, TAIL], "$.events[1].events[0]": [TRAINING, PROGRAMME, TAIL]}
    for path, events in rest.items():
        assert abs(tree_report[path].epsilon_without - _certified(dpa.ComposedDpEvent(events))) <= 1e-9
    for path, event in {"$.events[0]": TRAINING, "$.events[1].events[0]": NESTED, "$.events[3]": TAIL}.items():
        assert abs(tree_report[path].epsilon_alone - _certified(event)) <= 1e-9
    inner = tree_report["$.events[1].events[0].event.events[0]"]
    without = [TRAINING, dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(20.0), 10), PROGRAMME, TAIL]
    assert inner.count == 10
    assert abs(inner.epsilon_without - _certified(dpa.ComposedDpEvent(without))) <= 1e-9


def test_an_absent_leaf_changes_nothing(tree_report):
    missing = tree_report["$.events[2]"]
    assert (missing.share, missing.contribution, missing.epsilon_alone) == (0.0, 0.0, 0.0)
    assert missing.epsilon_without == pytest.approx(tree_report.epsilon, abs=1e-9)
    padded = explain(dpa.ComposedDpEvent([TREE, dpa.NoOpDpEvent()]), target_delta=1e-5)
    assert padded.epsilon == tree_report.epsilon
    assert np.allclose(padded.shares[1:-1], tree_report.shares, rtol=0, atol=1e-12)


def test_cumulants_are_those_of_the_composition(tree_report):
    counts = EdgeworthIntervalAccountant().compose(TREE)._compositions()[0].counts
    for tilt, law in ((0.0, tree_report.root.cumulants), (tree_report.tilt, tree_report.root.tilted_cumulants)):
        mean, variance, third, fourth = cumulants(Composition(counts), 4, tilt)
        expected = (mean, math.sqrt(variance), third / variance**1.5, fourth / variance**2)
        found = (law.mean, law.standard_deviation, law.skewness, law.excess_kurtosis)
        assert found == pytest.approx(expected, rel=1e-8)


def test_it_explains_a_ledger_of_another_accountant():
    accountant = dpa.rdp.RdpAccountant()
    accountant.compose(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.0)), 100).compose(dpa.GaussianDpEvent(5.0))
    result = explain(accountant.ledger, target_delta=1e-5)
    assert result.root.share == 1.0 and len(result.root.children) == 2


def test_text_html_and_json(tree_report):
    text = str(tree_report)
    assert "1,000 x PoissonSampled(0.01, Gaussian(1))" in text and "█" in text and "without" in text
    assert "<table>" in tree_report._repr_html_() and "Laplace(3)" in tree_report._repr_html_()
    data = json.loads(tree_report.to_json())
    assert data["nodes"][0]["share"] == 1.0 and data["direction"] == "remove"
    assert [node["path"] for node in data["nodes"]][:2] == ["$", "$.events[0]"]
    infinite = explain(dpa.NonPrivateDpEvent(), target_delta=1e-5).to_json()
    assert json.loads(infinite)["epsilon"]["upper"] == "inf"


def test_names_are_escaped_in_html():
    import dp_edgeworth

    event = dp_edgeworth.AdditiveNoiseDpEvent("logistic", {"scale": 2.0})
    assert "&#x27;scale&#x27;" in explain(event, target_delta=1e-5)._repr_html_()


def test_a_long_ledger_is_folded_largest_first_and_lazy(monkeypatch):
    rng = np.random.default_rng(0)
    events = [sampled(p, s) for p, s in zip(rng.uniform(0.005, 0.02, 300), rng.uniform(0.8, 1.5, 300), strict=True)]
    result = explain(dpa.ComposedDpEvent(events), target_delta=1e-6, limit=3)
    lines = report.rows(result)
    assert [row.folded for row in lines] == [0, 0, 0, 298]
    assert lines[1].share >= lines[2].share >= max(np.sort(result.shares[1:])[:-2])
    assert sum(row.share for row in lines[1:]) == pytest.approx(1.0, abs=1e-12)
    assert not _accounted(result)
    assert "... 298 more" in str(result)
    assert _accounted(result) <= {row.node.index for row in lines if row.node}


def test_many_leaves_of_similar_shares_are_displayed_by_ranges():
    """In order, kinds apart, without one accounting more than that of the whole."""
    schedule = [sampled(0.01, s) for s in np.linspace(3.0, 3.89, 90)]
    result = explain(dpa.ComposedDpEvent([*schedule, *(dpa.LaplaceDpEvent(400.0 + i) for i in range(10))]), target_delta=1e-5)
    lines = report.rows(result)
    assert [row.members for row in lines[1:]] == [tuple(range(10 * k + 1, 10 * k + 11)) for k in range(10)]
    sums = [result.shares[10 * k + 1:10 * k + 11].sum() for k in range(10)]
    assert [row.share for row in lines[1:]] == pytest.approx(sums, rel=1e-12)
    assert lines[1].label == "[0-9] PoissonSampled(0.01, Gaussian(3 to 3.09))" and lines[-1].label == "[90-99] Laplace(400 to 409)"
    text, picture = str(result), result.plot()
    assert lines[1].label in text and "more" not in text and lines[1].label in result._repr_html_()
    assert _accounted(result) == {0}
    assert any(lines[-1].label in found.get_text() for found in picture.texts)
    matplotlib.pyplot.close(picture.figure)


def test_leaves_of_too_many_kinds_are_ranges_of_events():
    events = [event for i in range(30) for event in (dpa.GaussianDpEvent(30.0 + 0.01 * i), dpa.LaplaceDpEvent(40.0 + 0.01 * i))]
    lines = report.rows(explain(dpa.ComposedDpEvent(events), target_delta=1e-5))
    assert [row.label for row in lines[1:3]] == ["[0-5] 6 events", "[6-11] 6 events"] and len(lines) == 11


def test_ten_thousand_leaves_are_attributed_in_batches():
    rng = np.random.default_rng(0)
    pairs = zip(rng.uniform(0.005, 0.02, 10_000), rng.uniform(0.8, 1.5, 10_000), strict=True)
    result = explain(dpa.ComposedDpEvent([sampled(p, s) for p, s in pairs]), target_delta=1e-6)
    assert result.root.share == 1.0
    assert abs(result.shares[1:].sum() - 1.0) <= 1e-12


def test_deep_trees_do_not_recurse():
    event = dpa.GaussianDpEvent(10.0)
    for _ in range(3_000):
        event = dpa.ComposedDpEvent([event])
    result = explain(event, target_delta=1e-5)
    assert "Gaussian(10)" in str(result) and len(result.nodes) == 3_001


def test_the_picture_has_labels(tree_report):
    axes = tree_report.plot()
    assert axes.get_xlabel() == "share of epsilon" and axes.get_ylabel()
    assert sum(bar.get_width() for bar in axes.patches if bar.get_y() == pytest.approx(0.5)) == pytest.approx(1.0)
    matplotlib.pyplot.close(axes.figure)


def test_strings_of_an_event_stay_on_their_line():
    event = dp_edgeworth.AdditiveNoiseDpEvent("lo\n  interval 0 <= epsilon <= 0.1\x1b[2J", {"scale": 2.0})
    assert "\n" not in description.label(event) and "\x1b" not in description.label(event)


def test_numpy_parameters_are_plain_numbers():
    event = dpa.ComposedDpEvent([dpa.GaussianDpEvent(np.float32(2.0)), dpa.GaussianDpEvent(np.array(3.0))])
    result = explain(event, target_delta=1e-5)
    assert [node["parameters"] for node in json.loads(result.to_json())["nodes"][1:]] == [
        {"noise_multiplier": 2.0}, {"noise_multiplier": 3.0}]
    assert "Gaussian(3)" in str(result)


def test_narrow_bars_are_explained_below_the_picture():
    event = dpa.ComposedDpEvent([*(dpa.LaplaceDpEvent(4.0 + i) for i in range(5)), dpa.GaussianDpEvent(1.0)])
    axes = explain(event, target_delta=1e-5).plot()
    texts = [text.get_text() for text in axes.texts]
    assert any(text.startswith("Gaussian(1)") for text in texts) and "1" in texts
    assert any("1  Laplace(4)" in text for text in texts)
    matplotlib.pyplot.close(axes.figure)


@given(st.floats(1e-320, 1e300), st.integers(1, 10))
def test_printed_bounds_are_rounded_outward(value, digits):
    up, down = float(rounded_up(value, digits)), float(rounded_down(value, digits))
    assert down <= value <= up
    if value > 1e-290:
        assert up - down <= 1.001 * 10.0 ** (1 - digits) * value


def test_what_is_printed_is_a_bound(tree_report):
    assert float(str(tree_report).split()[2]) >= tree_report.epsilon


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="target_delta"):
        explain(TAIL, target_delta=2.0)
    with pytest.raises(ValueError, match="limit"):
        explain(TAIL, target_delta=1e-5, limit=0)
    with pytest.raises(UnsupportedEventError):
        explain(dpa.UnsupportedDpEvent(), target_delta=1e-5)


def test_saddle_below_the_mean_is_zero():
    composition = Composition(EdgeworthIntervalAccountant().compose(TRAINING)._compositions()[0].counts)
    assert attribution.saddle_tilt(composition, 0.0) == 0.0


@pytest.mark.parametrize("event", [
    dpa.LaplaceDpEvent(1e-5), sampled(0.5, 1e-4), dpa.dp_event.MixtureOfGaussiansDpEvent(1.0, [0, 1e-9, 1e6], [0.3, 0.3, 0.4]),
    dpa.LaplaceDpEvent(1e-150), dpa.GaussianDpEvent(1e-200), dpa.GaussianDpEvent(1e81)])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 1.0])
def test_one_leaf_has_all_of_it_even_out_of_reach(event, delta):
    """No rule is small enough for the first ones, the losses of others are infinite in floats or vary by less than 1e-80."""
    report = explain(event, target_delta=delta)
    assert report.root.share == 1.0 and "100.00%" in str(report) and "<td" in report._repr_html_()
    assert "NaN" not in report.to_json()


def test_leaves_out_of_reach_are_split_by_their_largest_losses_or_unknown():
    bounded = dpa.ComposedDpEvent([dpa.LaplaceDpEvent(1e-5), dpa.LaplaceDpEvent(1.0)])
    report = explain(bounded, target_delta=1e-5)
    assert report.tilt == math.inf and report.shares == pytest.approx([1.0, 1e5 / (1e5 + 1), 1 / (1e5 + 1)], rel=1e-12)
    unbounded = explain(dpa.ComposedDpEvent([sampled(0.5, 1e-4), dpa.LaplaceDpEvent(1.0)]), target_delta=1e-5)
    assert unbounded.root.share == 1.0 and all(math.isnan(node.share) for node in unbounded.root.children)
    assert str(unbounded).count("?") > 3 and "nan" not in str(unbounded) + unbounded._repr_html_()


def test_one_leaf_out_of_reach_does_not_spoil_the_cumulants_of_others():
    """Of Laplace noise b: E Y = mu - 1 + e^-mu, mu = 1 / b."""
    scales = (1.0, 1e-5, 0.5, 2.0)
    found = explain(dpa.ComposedDpEvent([dpa.LaplaceDpEvent(b) for b in scales]), target_delta=1e-5)
    means = [node.cumulants.mean for node in found.root.children]
    assert math.isnan(means[1])
    assert [means[i] for i in (0, 2, 3)] == pytest.approx([1 / b - 1 + math.exp(-1 / b) for b in (1.0, 0.5, 2.0)], rel=1e-9)


def test_standardised_cumulants_of_tiny_losses():
    """kappa_r = a^r times that of a law with variance 1, for a = 1e-80: the square of the variance is beyond the floats."""
    found = explanation.Cumulants.of(np.array([0.0, 1e-160, 3e-240, 4e-320]))
    assert found.standard_deviation == pytest.approx(1e-80, rel=1e-12, abs=0.0)
    assert (found.skewness, found.excess_kurtosis) == pytest.approx((3.0, 4.0), rel=1e-3)
