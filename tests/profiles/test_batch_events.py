"""Random allocation and shuffled batches as events, and the table of sampling schemes."""

from __future__ import annotations

import copy
import itertools
import json
import math
import pickle
from typing import Any

import dp_accounting as dpa
import mpmath
import numpy as np
import pytest
from dp_accounting.privacy_accountant import NeighboringRelation, UnsupportedEventError
from scipy import integrate, special, stats

import dp_edgeworth
from dp_edgeworth import EdgeworthIntervalAccountant, RandomAllocationDpEvent, ShuffledBatchesDpEvent, cli
from dp_edgeworth.losses import shuffled_batches
from dp_edgeworth.losses.bracket import above, below
from dp_edgeworth.losses.node_pair import NodePair
from dp_edgeworth.losses.operations import reverse
from dp_edgeworth.losses.random_allocation import RandomAllocationLoss
from dp_edgeworth.losses.rules import RuleTooLargeError
from dp_edgeworth.profiles.random_allocation import among_others, composable
from dp_edgeworth.search.random_allocation import RandomAllocationCurve
from dp_edgeworth.sums.composition import Composition

AR, RO, RS = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE, NeighboringRelation.REPLACE_SPECIAL
GAUSSIAN = dpa.GaussianDpEvent


def interval(event: dpa.DpEvent, delta: float, relation: NeighboringRelation = AR, count: int = 1) -> Any:
    return EdgeworthIntervalAccountant(relation).compose(event, count).get_epsilon_interval(delta)


def allocation(noise: float, steps: int, selected: int = 1) -> dpa.DpEvent:
    return RandomAllocationDpEvent(GAUSSIAN(noise), selected, steps)


# several epochs --------------------------------------------------------------------------------------------------------


def _law_of_mean(noise: float, steps: int, step: float) -> tuple[np.ndarray, np.ndarray]:
    """P-masses of log((A_1 + ... + A_t)/t) on a fine grid, by direct convolution: one A after the other, over its share of the sum."""
    v = 1.0 / noise
    y, s = np.arange(-14.0 * v, 14.0 * v, step), np.arange(-26.0 * v - 4.0, 26.0 * v + 4.0, 0.02 * min(v, 1.0))

    def one(x: np.ndarray) -> np.ndarray:
        return -0.5 * ((x + 0.5 * v * v) / v) ** 2 - math.log(v * math.sqrt(2.0 * math.pi))

    logs = one(y)
    for number in range(1, steps):
        def several(x: np.ndarray) -> np.ndarray:
            return one(x) if number == 1 else np.interp(x, y, logs, left=-745.0, right=-745.0)  # noqa: B023

        density = np.zeros(len(y))
        for start in range(0, len(y), 200):
            some = y[start:start + 200, None]
            density[start:start + 200] = np.exp(several(some - np.logaddexp(0.0, -s)) + one(some - np.logaddexp(0.0, s))).sum(
                axis=1) * (s[1] - s[0])
        logs = np.log(np.maximum(density, 1e-300))
    return y - math.log(steps), np.exp(logs) * step


@pytest.mark.parametrize(("noise", "steps", "epochs", "delta"), [
    (1.0, 2, 2, 1e-5), (1.0, 2, 5, 1e-6), (2.0, 2, 20, 1e-5), (1.5, 3, 4, 1e-6), (1.5, 5, 10, 1e-5), (3.0, 5, 100, 1e-8)])
def test_epochs_of_few_batches_against_convolution(noise: float, steps: int, epochs: int, delta: float) -> None:
    """L = log S is a smooth law: its density on a grid, multiplied in Fourier space, is exact far beyond the width of the interval."""
    step = 2.0 ** -9
    losses, masses = _law_of_mean(noise, steps, step)
    size = 1 << math.ceil(math.log2(epochs * len(losses) + 1))
    under_p, under_q = (np.maximum(np.fft.irfft(np.fft.rfft(law, size) ** epochs, size), 0.0)
                        for law in (masses, masses * np.exp(losses)))
    sums = epochs * losses[0] + step * np.arange(size)

    def sticks(eps: float) -> float:
        return max(float((under_q * -np.expm1(np.minimum(eps - sums, 0.0))).sum()),
                   float((under_p * -np.expm1(np.minimum(eps + sums, 0.0))).sum()))

    low, high = 0.0, 60.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if sticks(middle) > delta else (low, middle)
    found = interval(allocation(noise, steps), delta, count=epochs)
    assert found.lower - 1e-4 * found.estimate <= low <= found.upper + 1e-4 * found.estimate  # the grid's own error
    assert found.upper - found.lower <= 1e-4 * found.lower


def _clopper_pearson(payoff: np.ndarray, generator: np.random.Generator, failure: float) -> tuple[float, float]:
    """Bounds of the mean of values in [0, 1] that fail with this probability: each is the chance of heads of a coin thrown once."""
    heads, size = int((generator.random(len(payoff)) < payoff).sum()), len(payoff)
    return (float(stats.beta.ppf(0.5 * failure, heads, size - heads + 1)) if heads else 0.0,
            float(stats.beta.isf(0.5 * failure, heads + 1, size - heads)))


@pytest.mark.parametrize(("noise", "epochs", "eps"), [(0.7, 1, 0.2), (0.5, 1, 2.0), (0.7, 10, 0.6), (0.5, 10, 2.0)])
def test_epochs_of_many_batches_against_monte_carlo(noise: float, epochs: int, eps: float) -> None:
    """Unbiased estimates of both directions, t = 1,000, between bounds that fail with probability 1e-10."""
    steps, samples = 1000, 20_000 if epochs == 1 else 5_000
    generator = np.random.default_rng(18)
    under_p, under_q = np.zeros((2, samples))
    for _ in range(epochs):
        for part in np.split(np.arange(samples), samples // 1000):
            a = np.exp(generator.normal(-0.5 / noise ** 2, 1.0 / noise, (1000, steps)))
            others, first = a[:, 1:].sum(axis=1), a[:, 0]
            under_p[part] += np.log((others + first) / steps)
            # without loss of generality the record is in the first batch
            under_q[part] += np.log((others + first * math.exp(1.0 / noise ** 2)) / steps)
    remove, add = (_clopper_pearson(np.maximum(-np.expm1(eps - losses), 0.0), generator, 1e-10) for losses in (under_q, -under_p))
    found = EdgeworthIntervalAccountant().compose(allocation(noise, steps), epochs).get_delta_interval(eps)
    assert found.lower <= max(remove[1], add[1]) and found.upper >= max(remove[0], add[0])
    assert found.upper - found.lower <= 1e-3 * found.lower
    assert 0.0 < max(remove[0], add[0]) and max(remove[1], add[1]) < 0.5  # and the bounds say something


@pytest.mark.parametrize("epochs", [2, 30, 1000])
@pytest.mark.parametrize(("noise", "steps"), [(0.13, 100), (0.15, 10**4), (0.6, 50), (0.7, 10**6), (1.1, 234), (2.0, 10_000)])
def test_width_for_any_number_of_epochs(noise: float, steps: int, epochs: int) -> None:
    found = interval(allocation(noise, steps), 1e-5, count=epochs)
    assert 0.0 < found.upper - found.lower <= 1e-3 * found.lower


@pytest.mark.parametrize(("shift", "end"), [(1.0, 1.5), (6.0, 30.0), (8.0, 40.0), (10.0, 80.0)])
def test_pairs_surround_the_curve(shift: float, end: float) -> None:
    """The last two are those of so little noise that the pair below is that of the largest output."""
    for direction in ("remove", "add"):
        leaf = among_others(RandomAllocationLoss(shift, 100, direction))
        eps = np.linspace(0.0, end, 40)
        exact = RandomAllocationCurve(shift, 100, direction).bounds(eps)
        upper, lower = above(leaf).log_hockey_stick(eps), below(leaf).log_hockey_stick(eps)
        assert upper is not None and np.all(upper >= exact.lower - 1e-12)
        assert lower is not None and np.all(lower <= exact.upper + 1e-12)


def test_one_epoch_is_answered_by_its_curve_and_several_by_pairs() -> None:
    """However the epoch came to be alone: composed, reversed, or with other losses that are none."""
    one = EdgeworthIntervalAccountant().compose(allocation(1.0, 100))
    assert one.diagnose(1e-6).upper_by == one.diagnose(1e-6).lower_by == "random allocation"
    assert one.compose(dpa.NoOpDpEvent()).diagnose(1e-6).upper_by == "random allocation"
    loss = RandomAllocationLoss(1.0, 100, "remove")
    assert composable({reverse(loss): 1}) == {RandomAllocationLoss(1.0, 100, "add"): 1}
    assert all(isinstance(above(leaf), NodePair) for leaf in composable({loss: 2}))
    assert one.compose(allocation(1.0, 100)).diagnose(1e-6).upper_by != "random allocation"


def test_a_loss_that_is_known_by_its_curve_has_no_rule() -> None:
    """A contour of a pair that is only a bound would prove false lower ends."""
    with pytest.raises(RuleTooLargeError):
        Composition({RandomAllocationLoss(1.0, 100, "remove"): 2}).rungs(np.zeros(1))


@pytest.mark.parametrize(("noise", "steps", "epochs", "delta"), [(1.0, 100, 10, 1e-50), (1.0, 100, 10, 1e-300), (0.5, 10, 2, 1e-200)])
def test_tiny_deltas_are_bounded_without_amplification(noise: float, steps: int, epochs: int, delta: float) -> None:
    found, plain = interval(allocation(noise, steps), delta, count=epochs), interval(GAUSSIAN(noise), delta, count=epochs)
    assert 0.0 < found.lower < found.upper <= plain.upper < math.inf
    assert interval(allocation(noise, steps), 0.0, count=epochs).upper == math.inf  # as of the Gaussian


def test_beside_other_leaves() -> None:
    """With a Gaussian beside it the interval is between those of either alone and narrow."""
    epochs = dpa.SelfComposedDpEvent(allocation(1.1, 234), 15)
    both = interval(dpa.ComposedDpEvent([epochs, GAUSSIAN(5.0), dpa.LaplaceDpEvent(20.0)]), 1e-5)
    assert interval(epochs, 1e-5).upper < both.lower < both.upper <= both.lower * (1.0 + 1e-3)


def test_epsilon_is_monotone_in_epochs() -> None:
    values = [interval(allocation(1.0, 100), 1e-6, count=count) for count in (1, 2, 3, 10)]
    assert all(a.upper < b.lower for a, b in itertools.pairwise(values))


def test_limits() -> None:
    """One batch is no sampling; all batches are that many Gaussians; no batch is nothing."""
    assert interval(allocation(1.3, 1), 1e-5) == interval(GAUSSIAN(1.3), 1e-5)
    assert interval(ShuffledBatchesDpEvent(GAUSSIAN(1.3), 1), 1e-5, RS) == interval(GAUSSIAN(1.3), 1e-5, RS)
    ten = interval(GAUSSIAN(1.3), 1e-5, count=10)
    assert interval(allocation(1.3, 10, 10), 1e-5).upper == pytest.approx(ten.upper, rel=1e-12)
    assert interval(allocation(1.3, 10, 0), 1e-5) == (0.0, 0.0, 0.0)
    assert math.isinf(interval(allocation(0.0, 10), 1e-5).lower)


def test_several_of_many() -> None:
    """3 of 9: above 3 of 30, below the rounds it is made of, above the sum of all outputs; monotone in the number selected."""
    found = interval(allocation(1.0, 9, 3), 1e-5)
    assert found.upper == pytest.approx(interval(allocation(1.0, 3), 1e-5, count=3).upper, rel=1e-3)
    assert found.lower == pytest.approx(interval(GAUSSIAN(1.0), 1e-5).lower, rel=1e-9)  # 3 / sqrt 9
    assert interval(allocation(1.0, 9, 1), 1e-5).upper < found.upper < interval(allocation(1.0, 9, 9), 1e-5).upper


@pytest.mark.parametrize("noise", [1e-12, 1e-3, 0.1, 0.19, 0.25, 1e2, 1e4, 1e12])
@pytest.mark.parametrize("count", [1, 3])
def test_extreme_noise(noise: float, count: int) -> None:
    for event, relation in ((allocation(noise, 100), AR), (ShuffledBatchesDpEvent(GAUSSIAN(noise), 100), RS)):
        found = interval(event, 1e-6, relation, count)
        assert 0.0 <= found.lower <= found.estimate <= found.upper
        assert found.upper <= interval(GAUSSIAN(noise), 1e-6, relation, count).upper * (1.0 + 1e-9)


def test_trivial_targets() -> None:
    accountant = EdgeworthIntervalAccountant().compose(allocation(1.0, 50))
    assert accountant.get_epsilon(1.0) == 0.0 and accountant.get_epsilon(0.0) == math.inf
    assert accountant.get_delta(math.inf) <= 5e-324  # as of all losses without a largest one
    np.testing.assert_array_equal(np.diff(accountant.get_epsilon(np.array([1e-8, 1e-6, 1e-4]))) < 0.0, [True, True])
    for twin in (copy.deepcopy(accountant), pickle.loads(pickle.dumps(accountant)), type(accountant).from_json(accountant.to_json())):
        assert twin.get_epsilon(1e-6) == accountant.get_epsilon(1e-6)


@pytest.mark.parametrize(("event", "words"), [
    (allocation(1.0, 3, 4), "num_selected"), (allocation(-1.0, 3), "noise_multiplier"), (allocation(1.0, 0), "num_steps"),
    (allocation(1.0, 2.5), "num_steps")])  # type: ignore[arg-type]
def test_bad_parameters(event: dpa.DpEvent, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        EdgeworthIntervalAccountant().compose(event)
    with pytest.raises(ValueError, match="num_batches"):
        EdgeworthIntervalAccountant(RS).compose(ShuffledBatchesDpEvent(GAUSSIAN(1.0), 0))


def test_relations() -> None:
    for relation in (AR, RO):
        with pytest.raises(UnsupportedEventError, match="differ in number or size"):
            EdgeworthIntervalAccountant(relation).compose(ShuffledBatchesDpEvent(GAUSSIAN(1.0), 3))
    assert not EdgeworthIntervalAccountant(RO).supports(allocation(1.0, 3))
    assert interval(allocation(1.0, 30), 1e-6, RS) == interval(allocation(1.0, 30), 1e-6, AR)
    assert not EdgeworthIntervalAccountant().supports(RandomAllocationDpEvent(dpa.LaplaceDpEvent(1.0), 1, 3))


def test_json() -> None:
    for event in (allocation(1.1, 234), ShuffledBatchesDpEvent(GAUSSIAN(1.1), 234)):
        tree = dpa.SelfComposedDpEvent(event, 3)
        assert dp_edgeworth.from_json(dp_edgeworth.to_json(tree)) == tree


# shuffled batches ------------------------------------------------------------------------------------------------------


def _largest_coordinate_stick(noise: float, batches: int, eps: float, with_record: float, without: float) -> float:
    """int (f_with - e^eps f_without)_+ dc of the largest coordinate, in closed form but for one integral."""
    def density(c: float, mean: float) -> float:
        tail = special.log_ndtr(c / noise)
        one = math.exp(-0.5 * ((c - mean) / noise) ** 2 + (batches - 1) * tail)
        other = (batches - 1) * math.exp(-0.5 * (c / noise) ** 2 + special.log_ndtr((c - mean) / noise) + (batches - 2) * tail)
        return (one + other) / (noise * math.sqrt(2.0 * math.pi))

    points = np.linspace(-8.0 * noise, 2.0 + 12.0 * noise, 60)
    return math.fsum(integrate.quad(lambda c: max(density(c, with_record) - math.exp(eps) * density(c, without), 0.0), a, b,
                                    epsabs=1e-14, epsrel=1e-10, limit=200)[0] for a, b in itertools.pairwise(points))


@pytest.mark.parametrize(("noise", "batches"), [(0.5, 100), (1.0, 10), (1.1, 234), (3.0, 1000)])
def test_shuffled_lower_pair(noise: float, batches: int) -> None:
    """Never above the exact hockey-stick of the largest coordinate, and close to it."""
    for is_reversed in (False, True):
        pair = shuffled_batches.largest_coordinate_pair(1.0 / noise, batches, is_reversed)
        for eps in (0.0, 0.05, 0.4, 1.5):
            means = (1.0, 2.0) if is_reversed else (2.0, 1.0)
            exact = _largest_coordinate_stick(noise, batches, eps, *means)
            found = math.exp(float(pair.log_hockey_stick(np.array([eps]))[0]))
            assert found <= exact * (1.0 + 1e-8) + 1e-12
            assert found >= 0.98 * exact - 1e-5


@pytest.mark.parametrize(("noise", "batches"), [(0.15, 2), (0.1, 1000)])
def test_largest_output_of_an_allocation(noise: float, batches: int) -> None:
    """The same pair without a shift of all outputs: the record's is 1 or 0."""
    for is_reversed in (False, True):
        pair = shuffled_batches.largest_coordinate_pair(1.0 / noise, batches, is_reversed, without=0.0)
        for eps in (0.0, 1.0, 8.0):
            exact = _largest_coordinate_stick(noise, batches, eps, *((0.0, 1.0) if is_reversed else (1.0, 0.0)))
            found = math.exp(float(pair.log_hockey_stick(np.array([eps]))[0]))
            assert 0.98 * exact - 1e-5 <= found <= exact * (1.0 + 1e-8) + 1e-12


@pytest.mark.parametrize("epochs", [2, 100])
@pytest.mark.parametrize(("noise", "steps"), [(0.05, 100), (0.1, 10_000), (0.15, 2)])
def test_width_with_little_noise(noise: float, steps: int, epochs: int) -> None:
    found = interval(allocation(noise, steps), 1e-8, count=epochs)
    assert 0.0 < found.upper - found.lower <= 1e-3 * found.lower


@pytest.mark.parametrize(("noise", "steps"), [(0.5, 10_000), (0.7, 10**6), (1.0, 10**6)])
def test_the_end_of_the_pair_is_where_the_upper_curve_is_negligible(noise: float, steps: int) -> None:
    """Not where the lower one is: what is beyond the end has an infinite loss."""
    found = interval(allocation(noise, steps), 1e-12, count=10)
    assert 0.0 < found.upper - found.lower <= 2e-3 * found.lower


@pytest.mark.parametrize("count", [1, 15])
def test_shuffled_interval(count: int) -> None:
    found = interval(ShuffledBatchesDpEvent(GAUSSIAN(1.1), 234), 1e-5, RS, count)
    assert 0.0 < found.lower < found.upper
    assert found.upper == pytest.approx(interval(GAUSSIAN(1.1), 1e-5, RS, count).upper, rel=1e-9)


# the table -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table() -> dp_edgeworth.SamplingComparison:
    return dp_edgeworth.compare_sampling(batch_size=256, dataset_size=60_000, epochs=15, noise_multiplier=1.1, target_delta=1e-5)


def test_table_of_the_mnist_recipe(table: dp_edgeworth.SamplingComparison) -> None:
    """Row by row against other computations: dp-accounting's PLD, closed forms, and the bounds between which shuffling is."""
    rows = {row.scheme: row for row in table.rows}
    sampled = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(256 / 60_000, GAUSSIAN(1.1)), 3516)
    for name, event, relation in (
            ("Poisson", sampled, AR), ("Poisson, record replaced", sampled, RO),
            ("truncated Poisson", dpa.SelfComposedDpEvent(dpa.dp_event.TruncatedSubsampledGaussianDpEvent(
                60_000, 256 / 60_000, table.recipe.truncated_batch_size, 1.1), 3516), AR)):
        peer = dpa.pld.PLDAccountant(relation, value_discretization_interval=1e-4).compose(event).get_epsilon(1e-5)
        assert rows[name].interval.lower <= peer * (1.0 + 1e-9)
        assert rows[name].interval.upper == pytest.approx(peer, rel=2e-3)
    mu = math.sqrt(3516) / 1.1
    upper = rows["every record, every step"].interval.upper
    assert special.ndtr(mu / 2 - upper / mu) - math.exp(upper + special.log_ndtr(-mu / 2 - upper / mu)) == pytest.approx(1e-5, rel=1e-6)
    # PLD-accounting 2.0: gaussian_allocation_epsilon_range(delta=1e-5, sigma=1.1, num_steps=234, num_epochs=15)
    allocated = rows["random allocation"].interval
    assert 1.0728982862522658 < allocated.lower < allocated.upper < 1.1192377201707677
    shuffled = rows["shuffled batches"].interval
    mu = math.sqrt(15) / 1.1
    assert special.ndtr(mu / 2 - shuffled.upper / mu) - math.exp(shuffled.upper + special.log_ndtr(-mu / 2 - shuffled.upper / mu)
                                                                 ) == pytest.approx(1e-5, rel=1e-6)
    assert 0.0 < shuffled.lower < shuffled.upper
    # the oracle of the comparisons, 80-bit floats without code of this package
    exact = pytest.importorskip("comparisons.exact").exact_epsilon(dpa.SelfComposedDpEvent(
        dpa.SampledWithoutReplacementDpEvent(60_000, 256, GAUSSIAN(1.1)), 3516), 1e-5, RO).value
    assert rows["fixed size"].interval.lower <= exact <= rows["fixed size"].interval.upper


def test_table_as_text_data_and_picture(table: dp_edgeworth.SamplingComparison, tmp_path: Any) -> None:
    text = str(table)
    assert "not comparable" in text and text.index("ADD_OR_REMOVE_ONE") < text.index("REPLACE_SPECIAL") < text.index("REPLACE_ONE")
    data = json.loads(table.to_json())
    assert [row["scheme"] for row in data["rows"]] == [row.scheme for row in table.rows]
    lines = table.to_csv(tmp_path / "table.csv").splitlines()
    assert len(lines) == 1 + len(table.rows) and (tmp_path / "table.csv").read_text().splitlines() == lines
    page = table._repr_html_()
    assert page.count("<tr>") >= len(table.rows) and "<script" not in page
    pytest.importorskip("matplotlib")
    assert len(table.plot().patches) >= len(table.rows)


def test_noise_for_a_target() -> None:
    found = dp_edgeworth.compare_sampling(batch_size=100, dataset_size=10_000, epochs=1, target_epsilon=1.0, target_delta=1e-5)
    for row in found.rows:
        assert 0.999 < row.interval.upper <= 1.0
    again = dp_edgeworth.compare_sampling(batch_size=100, dataset_size=10_000, epochs=1, target_delta=1e-5,
                                          noise_multiplier=0.999 * found.rows[2].noise_multiplier)
    assert again.rows[2].interval.upper > 1.0


def test_bad_recipes() -> None:
    good: dict[str, Any] = {"batch_size": 10, "dataset_size": 100, "epochs": 1, "target_delta": 1e-5}
    for wrong, words in (({"batch_size": 101}, "batch_size"), ({"epochs": 0}, "epochs"), ({"target_delta": 2.0}, "target_delta"),
                         ({"noise_multiplier": -1.0}, "noise_multiplier"), ({"target_epsilon": 1.0}, "Exactly one"),
                         ({"noise_multiplier": None}, "Exactly one")):
        with pytest.raises(ValueError, match=words):
            dp_edgeworth.compare_sampling(**{**good, "noise_multiplier": 1.0, **wrong})


def test_command(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    recipe = ["sampling", "--batch_size", "10", "--dataset_size", "100", "--epochs", "1", "--target_delta", "1e-5"]
    assert cli.main([*recipe, "--noise_multiplier", "1", "--json", "--csv", str(tmp_path / "t.csv")]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == len((tmp_path / "t.csv").read_text().splitlines()) - 1
    assert cli.main(recipe) == 2
    assert "Exactly one" in capsys.readouterr().err


def test_statements_name_the_scheme() -> None:
    assert "dp-edgeworth sampling" in str(dp_edgeworth.epsilon_statement(dpa.PoissonSampledDpEvent(0.1, GAUSSIAN(1.0)), 1e-5))
    assert "deals each record" in str(dp_edgeworth.epsilon_statement(allocation(1.0, 10), 1e-5))
    shuffled = dp_edgeworth.epsilon_statement(ShuffledBatchesDpEvent(GAUSSIAN(1.0), 10), 1e-5, RS).to_json()
    assert "no tight analysis is known" in shuffled and "as most data loaders do" not in shuffled


def test_explained() -> None:
    report = dp_edgeworth.explain(dpa.ComposedDpEvent([allocation(1.0, 10), GAUSSIAN(4.0)]), target_delta=1e-5)
    assert "RandomAllocation(Gaussian(1), 1, 10)" in str(report)
    assert dp_edgeworth.explain(allocation(1.1, 234), target_delta=1e-5).direction == "remove"


@pytest.mark.parametrize("shift, batches, mean", [(12.0, 2, 0.0), (30.0, 1000, 1.0), (25.0, 10**9, 2.0)])
def test_masses_of_the_largest_output_in_360_digits(shift: float, batches: int, mean: float) -> None:
    """Far tails, too: an error of x or of its square counts x^2 times there."""
    c, (lower, upper) = shuffled_batches.thresholds(shift, batches), shuffled_batches.interval_masses(shift, batches, mean)
    with mpmath.workdps(360):

        def log_below(at: float) -> mpmath.mpf:
            return mpmath.log(mpmath.ncdf(mpmath.mpf(at) - mean * mpmath.mpf(shift))) + (batches - 1) * mpmath.log(mpmath.ncdf(at))

        for i in range(7, len(c), 13):
            mass = mpmath.exp(log_below(c[i])) - mpmath.exp(log_below(c[i - 1]))
            assert mass < 1e-290 or lower[i] <= mass <= upper[i]
