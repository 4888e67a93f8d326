"""A few rare samples carry the loss: against convolutions on a grid, and against the oracle."""

import ast
import csv
import pathlib

import dp_accounting as dpa
import numpy as np
import pytest
from cases import gaussian, repeated, sampled
from dp_accounting import NeighboringRelation
from dp_accounting.dp_event import DiscreteLaplaceDpEvent

from dp_edgeworth import EdgeworthIntervalAccountant, GaussianShift, subsample
from dp_edgeworth.losses.operations import Mixed
from dp_edgeworth.losses.sampled_gaussian import SampledReplacement
from dp_edgeworth.search import answers
from dp_edgeworth.sums.composition import Composition

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "rare_values.csv"


def leaf_of(parts):
    leaves = [(w, subsample(GaussianShift(mu), p) if kind == "sampled" else SampledReplacement(mu, p)) for w, kind, mu, p in parts]
    return leaves[0][1] if len(leaves) == 1 else Mixed(tuple(w for w, _ in leaves), tuple(pllr for _, pllr in leaves))


def rows():
    with GOLDEN.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["name"])
def test_against_convolution_on_a_grid(row):
    composition, delta = Composition({leaf_of(ast.literal_eval(row["parts"])): int(row["m"])}), float(row["delta"])
    bounds = answers.epsilon_bounds([composition], np.array([delta]), 1e-6)
    lower, upper = float(bounds.lower[0]), float(bounds.upper[0])
    assert lower <= float(row["upper"]) and float(row["lower"]) <= upper
    assert upper - lower <= (2e-5 if delta < 1e-50 else 1e-4) * max(1.0, lower)


def deltas_at_the_ends(row):
    """delta at both ends of the true epsilon's bracket."""
    composition = Composition({leaf_of(ast.literal_eval(row["parts"])): int(row["m"])})
    return [answers.delta_bounds([composition], np.array([float(row[end])]), 1e-6) for end in ("lower", "upper")]


@pytest.mark.parametrize("row", rows()[:5:2], ids=lambda row: row["name"])
def test_delta_at_the_same_epsilon(row):
    """On the right side of the target."""
    below, above = deltas_at_the_ends(row)
    assert below.upper[0] >= float(row["delta"]) >= above.lower[0]


@pytest.mark.parametrize("row", rows()[:5:2], ids=lambda row: row["name"])
def test_delta_at_the_same_epsilon_is_narrow(row):
    for found in deltas_at_the_ends(row):
        assert found.upper[0] <= (1.001 if float(row["delta"]) < 1e-50 else 1.01) * found.lower[0]


# (event, relation, delta, exact epsilon by comparisons/exact, its accuracy): lattices so fine that the payoff of a step is tiny
FINE_LATTICES = [
    (repeated(sampled(3.6579701219995343e-06, DiscreteLaplaceDpEvent(1.3544972479736956, 1)), 92502),
     NeighboringRelation.REPLACE_SPECIAL, 1.2466648602973091e-11, 0.008734067873700265, 3e-14),
    (repeated(sampled(5.9698779789179676e-05, DiscreteLaplaceDpEvent(0.05492501787176092, 1)), 14585),
     NeighboringRelation.ADD_OR_REMOVE_ONE, 2.9196233129137026e-10, 0.0017778371780031788, 1e-14),
]


@pytest.mark.parametrize(("event", "relation", "delta", "exact", "accuracy"), FINE_LATTICES)
def test_fine_lattices(event, relation, delta, exact, accuracy):
    lower, _, upper = EdgeworthIntervalAccountant(relation).compose(event).get_epsilon_interval(delta)
    assert lower <= exact * (1 + accuracy) and exact * (1 - accuracy) <= upper
    assert upper - lower <= 1e-4 * upper


# (event, relation, delta): a few rare samples carry the loss; both directions count
WIDE = [
    (repeated(sampled(1.2e-9, gaussian(0.6529)), 4_282_810), NeighboringRelation.ADD_OR_REMOVE_ONE, 2.25e-13),
    (repeated(sampled(1.7e-5, gaussian(0.5)), 40), NeighboringRelation.REPLACE_ONE, 1e-9),
    (repeated(sampled(4.8e-7, gaussian(0.618)), 261_297_772), NeighboringRelation.ADD_OR_REMOVE_ONE, 4.3e-13),
]


@pytest.mark.parametrize(("event", "relation", "delta"), WIDE)
def test_narrow_where_rare_samples_carry_the_loss(event, relation, delta):
    accountant = EdgeworthIntervalAccountant(relation).compose(event)
    lower, _, upper = accountant.get_epsilon_interval(delta)
    assert 0.0 < lower <= upper <= lower + 1e-3
    assert accountant.get_delta_interval(lower).upper >= delta and accountant.get_delta_interval(upper).lower <= delta


# (event, relation, delta, exact epsilon by comparisons/exact, its accuracy, largest width relative to epsilon): a few rare samples
# carry the loss
RARE = [
    (repeated(sampled(3.3e-7, gaussian(1.75)), 682), NeighboringRelation.REPLACE_ONE, 1e-10, 3.9055351831769825e-05, 3e-13, 1e-4),
    (repeated(sampled(1e-6, gaussian(0.6)), 4520), NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-10, 0.023331305574546653, 2e-11, 1e-4),
    (repeated(sampled(2.5e-4, gaussian(0.83)), 16_416), NeighboringRelation.ADD_OR_REMOVE_ONE, 1.3e-13, 1.442231700104839, 4e-15, 1e-6),
    (repeated(dpa.SampledWithoutReplacementDpEvent(3306, 6, gaussian(32.4)), 11), NeighboringRelation.REPLACE_ONE, 1e-14,
     0.0024800579778106197, 7e-12, 1e-3),
]


@pytest.mark.parametrize(("event", "relation", "delta", "exact", "accuracy", "width"), RARE)
def test_rare_samples(event, relation, delta, exact, accuracy, width):
    lower, _, upper = EdgeworthIntervalAccountant(relation).compose(event).get_epsilon_interval(delta)
    assert lower <= exact * (1 + accuracy) and exact * (1 - accuracy) <= upper
    assert upper - lower <= width * upper


def test_delta_near_one():
    """Far below the mean loss (about 1,000) the lower end is not vacuous; exact sums for it are in test_lattice."""
    accountant = EdgeworthIntervalAccountant().compose(repeated(sampled(0.14, gaussian(0.5)), 3000))
    lower, _, upper = accountant.get_delta_interval(100.0)
    assert 1 - 1e-6 < lower <= upper <= 1.0
