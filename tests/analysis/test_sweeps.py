"""Sweeps agree with the accountants, point by point."""

import csv
import io
import warnings

import dp_accounting as dpa
import matplotlib
import numpy as np
import pytest
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import ApproximateEdgeworthAccountant, EdgeworthIntervalAccountant, NotAGuaranteeWarning
from dp_edgeworth.analysis.sweeps import sweep

matplotlib.use("Agg")
AXES = {"sampling_probability": [0.01, 0.05, 0.3], "noise_multiplier": [0.7, 1.0, 4.0], "steps": [1_000, 20_000]}


def _event(p, sigma, steps):
    return dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(p, dpa.GaussianDpEvent(sigma)), steps)


def _points(result):
    return [(index, _event(*(float(axis[i]) if name != "steps" else int(axis[i])
                             for i, (name, axis) in zip(index, result.axes.items(), strict=True))))
            for index in np.ndindex(result.epsilon.shape)]


@pytest.mark.parametrize("relation", list(NeighboringRelation))
def test_estimates_are_those_of_the_tilted_accountant(relation):
    result = sweep(**AXES, target_delta=1e-5, neighboring_relation=relation, certified=False)
    assert result.epsilon.shape == (3, 3, 2) and not result.certified
    assert result.lower is None and result.upper is None and result.to_dict().keys().isdisjoint({"lower", "upper"})
    for index, event in _points(result):
        accountant = ApproximateEdgeworthAccountant(relation, tilted=True, order=2).compose(event)
        assert result.epsilon[index] == accountant.get_epsilon(1e-5)


def test_an_estimate_does_not_depend_on_its_neighbours():
    """It did once: 0.5633 in a grid, 0.6124 alone, where the truth is 0.6597."""
    point = {"sampling_probability": 0.00545559478116852, "noise_multiplier": 1.2105263157894737, "steps": 1_000}
    grid = {name: [value, 2 * value, 3 * value] for name, value in point.items()}
    alone = sweep(**point, target_delta=1e-5, certified=False)
    assert alone.epsilon.item() == sweep(**grid, target_delta=1e-5, certified=False).epsilon[0, 0, 0]
    certified = sweep(**point, target_delta=1e-5)
    assert certified.lower.item() <= certified.upper.item() == pytest.approx(0.6597, abs=5e-5)


def test_only_estimates_warn():
    point = {"sampling_probability": 0.1, "noise_multiplier": 1.0, "steps": 3, "target_delta": 1e-5}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sweep(**point).certified
    with pytest.warns(NotAGuaranteeWarning, match="not privacy guarantees") as told:
        sweep(**point, certified=False)
    assert len(told) == 1 and told[0].filename == __file__


@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize("delta, tolerance", [(1e-5, 1e-6), (1e-10, 1e-4), (0.4, 1e-6)])
def test_certified_intervals_agree_with_the_accountant(relation, delta, tolerance):
    result = sweep(**AXES, target_delta=delta, neighboring_relation=relation, certified=True, tolerance=tolerance)
    assert np.all(result.lower <= result.estimate) and np.all(result.estimate <= result.upper)
    assert np.all(result.upper - result.lower <= tolerance * np.maximum(1.0, result.lower))
    for index, event in _points(result):
        expected = EdgeworthIntervalAccountant(relation).compose(event).get_epsilon_interval(delta)
        assert result.lower[index] <= expected.upper and expected.lower <= result.upper[index]


@pytest.mark.parametrize("p, sigma, steps, exact", [
    # 80-bit arithmetic, an implementation of its own
    (0.01, 0.8, 10_000, 10.053634770654), (0.05, 1.0, 200, 4.765919348435)])
def test_certified_intervals_contain_the_exact_value(p, sigma, steps, exact):
    result = sweep(sampling_probability=p, noise_multiplier=sigma, steps=steps, target_delta=1e-5, certified=True)
    assert result.lower.item() <= exact <= result.upper.item() <= exact + 2e-5


def test_estimates_are_near_where_many_samples_share_the_loss():
    """1e-5 where steps x probability >= 50. At 10 (p 0.01, 1,000 steps, noise 1) the expansion is off by 0.7 %:
    docs/event-tree-analysis.md shows where it is far worse."""
    estimate, exact = (sweep(**AXES, target_delta=1e-5, certified=certified) for certified in (False, True))
    error = np.abs(estimate.epsilon / exact.epsilon - 1.0)
    many = np.multiply.outer(exact.sampling_probability, exact.steps)[:, None, :] >= 50.0
    assert np.all(error[np.broadcast_to(many, error.shape)] < 1e-5)


def test_edges_of_the_grid():
    edges = {"sampling_probability": [0.0, 1e-9, 0.5, 1.0], "noise_multiplier": [0.0, 1.0, 1e3, np.inf],
             "steps": [1, 10**12], "target_delta": 1e-6}
    result, estimates = sweep(**edges), sweep(**edges, certified=False)
    assert not np.isnan(result.epsilon).any() and not np.isnan(estimates.epsilon).any()
    assert np.all(result.epsilon[0] == 0) and np.all(estimates.epsilon[:, 3] == 0)
    assert np.all(result.lower[1:, 0] == np.inf) and np.all(estimates.epsilon[1:, 0] == np.inf)
    exact = EdgeworthIntervalAccountant().compose(dpa.GaussianDpEvent(1.0)).get_epsilon(1e-6)
    assert result.epsilon[3, 1, 0] == exact and estimates.epsilon[3, 1, 0] == pytest.approx(exact, rel=1e-6)
    for delta in (0.0, 1.0):
        result = sweep(sampling_probability=0.1, noise_multiplier=1.0, steps=10, target_delta=delta)
        assert result.epsilon.item() == (np.inf if delta == 0.0 else 0.0)


def test_csv_and_picture(tmp_path):
    result = sweep(**AXES, target_delta=1e-5)
    rows = list(csv.DictReader(io.StringIO(result.to_csv(tmp_path / "sweep.csv"))))
    assert (tmp_path / "sweep.csv").read_text() == result.to_csv() and len(rows) == 18
    assert float(rows[1]["epsilon_upper"]) == result.epsilon[0, 0, 1] and rows[1]["steps"] == "20000"
    axes = result.plot(at=1)
    assert axes.get_xlabel() == "sampling probability" and axes.get_ylabel() == "noise multiplier"
    assert "20,000" in axes.get_title()
    numbers = [float(text.get_text()) for text in axes.texts]  # in the cells, rounded up
    assert len(numbers) == 9 and min(numbers) >= result.epsilon[:, :, 1].min()
    matplotlib.pyplot.close(axes.figure)


def test_a_large_grid_has_lines_of_equal_epsilon():
    axes = sweep(sampling_probability=np.geomspace(0.01, 0.2, 10), noise_multiplier=np.linspace(1, 3, 9), steps=1_000,
                 target_delta=1e-5).plot()
    assert axes.get_xscale() == "log" and axes.get_yscale() == "linear"
    assert {"2", "4", "8"} <= {text.get_text() for text in axes.texts}
    matplotlib.pyplot.close(axes.figure)


def test_one_row_and_one_column_are_lines():
    long, one = np.linspace(0.7, 3.0, 12), [0.01]
    for axes in ({"sampling_probability": one, "noise_multiplier": long},
                 {"sampling_probability": 0.01 * long, "noise_multiplier": [1.0]}):
        result = sweep(**axes, steps=100, target_delta=1e-5)
        picture = result.plot()
        (line,) = picture.get_lines()
        name = "noise multiplier" if axes["sampling_probability"] is one else "sampling probability"
        assert picture.get_xlabel() == name and picture.get_ylabel() == "epsilon"
        assert np.array_equal(line.get_ydata(), result.epsilon.ravel()) and "steps = 100" in picture.get_title()
        other = "sampling probability = 0.01" if axes["sampling_probability"] is one else "noise multiplier = 1"
        assert other in picture.get_title()
        matplotlib.pyplot.close(picture.figure)


def test_a_picture_says_what_it_leaves_out():
    result = sweep(**AXES, target_delta=1e-5)
    picture = result.plot()
    assert "steps = 1,000 (one of 2 values; the others are not shown)" in picture.get_title()
    assert "steps = 1,000 (one of 2 values; the others are not shown)" in result._repr_html_()
    matplotlib.pyplot.close(picture.figure)


def test_epsilon_falls_with_the_noise_and_grows_with_the_sampling_probability():
    result = sweep(sampling_probability=np.geomspace(0.01, 0.2, 6), noise_multiplier=np.linspace(0.6, 3, 6),
                   steps=5_000, target_delta=1e-5)
    epsilon = result.epsilon[:, :, 0]
    assert np.all(np.diff(epsilon, axis=0) > 0) and np.all(np.diff(epsilon, axis=1) < 0)


@pytest.mark.parametrize("changes, name", [
    ({"sampling_probability": 1.5}, "sampling_probability"), ({"noise_multiplier": [-1.0]}, "noise_multiplier"),
    ({"steps": 1.5}, "steps"), ({"steps": []}, "steps"), ({"target_delta": -1}, "target_delta"),
    ({"tolerance": 0}, "tolerance"), ({"tolerance": "x"}, "tolerance"), ({"tolerance": np.nan}, "tolerance"),
    ({"noise_multiplier": [1.0, True]}, "noise_multiplier"), ({"noise_multiplier": [1 + 5j]}, "noise_multiplier"),
    ({"sampling_probability": [[0.1], [0.2]]}, "sampling_probability"), ({"steps": np.array([1], "m8[s]")}, "steps"),
    ({"sampling_probability": [0.1] * 4_001, "noise_multiplier": [1.0] * 2_500}, "at most 10,000,000 points. Found 10,002,500")])
@pytest.mark.parametrize("certified", [False, True])
def test_bad_input_is_refused(changes, name, certified):
    with pytest.raises(ValueError, match=name):
        sweep(**{**AXES, "steps": 1, "target_delta": 1e-5, "certified": certified, **changes})
