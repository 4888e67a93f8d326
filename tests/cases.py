"""The one table of named problems: an event, where it is supported, what makes it hard, exact values with their source.

`relations` is the last column of the event table in the drop-in contract. An exact value is (relation, delta, epsilon,
relative accuracy, source). `losses/test_pllr.py` tests the table itself against closed forms. Nothing here comes from
the code under test.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib

import dp_accounting as dpa
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

import dp_edgeworth

AR = NeighboringRelation.ADD_OR_REMOVE_ONE
RS = NeighboringRelation.REPLACE_SPECIAL
RO = NeighboringRelation.REPLACE_ONE
RELATIONS = (AR, RS, RO)

GOLDEN = pathlib.Path(__file__).parent / "golden"


def gaussian(noise):
    return dpa.GaussianDpEvent(noise)


def laplace(scale):
    return dpa.LaplaceDpEvent(scale)


def sampled(p, event):
    return dpa.PoissonSampledDpEvent(p, event)


def repeated(event, count):
    return dpa.SelfComposedDpEvent(event, count)


def composed(*events):
    return dpa.ComposedDpEvent(list(events))


class MissingDpEvent(dpa.UnsupportedDpEvent):
    """Stands for an event whose class the installed dp-accounting (0.4.3) lacks; its rows are left out of the table."""


def event(name, *parameters):
    """An event of a class that not every dp-accounting has."""
    found = getattr(dp_event, name, None)
    return MissingDpEvent() if found is None else found(*parameters)


def is_missing(tree):
    return "MissingDpEvent" in repr(tree)


@dataclasses.dataclass(frozen=True)
class Exact:
    relation: NeighboringRelation
    delta: float
    epsilon: float
    accuracy: float
    source: str


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    event: dp_event.DpEvent
    relations: tuple[NeighboringRelation, ...]
    hard: str
    exact: tuple[Exact, ...] = ()

    def __str__(self):
        return self.name


BALLE_WANG = "analytic Gaussian mechanism, arXiv:1805.06530 Theorem 8, root in 40 digits"
CONTOUR = "contour integral of the characteristic function in 80-bit floats, cross-checked by FFT (golden/exact_epsilon.json)"

ALL_CASES = (
    Case(
        "gaussian",
        gaussian(1.0),
        RELATIONS,
        "closed form; twice the sensitivity under REPLACE_ONE",
        (
            Exact(AR, 1e-5, 4.377178095681225, 1e-11, BALLE_WANG),
            Exact(RO, 1e-5, 9.9972561464343, 1e-11, BALLE_WANG),
        ),
    ),
    Case("sampled gaussian", sampled(0.05, gaussian(1.0)), RELATIONS, "two directions that differ"),
    Case(
        "sampled gaussian, m 200",
        repeated(sampled(0.05, gaussian(1.0)), 200),
        RELATIONS,
        "delta below the FFT noise of PLD",
        (Exact(AR, 1e-5, 4.765919348435, 1e-11, CONTOUR), Exact(AR, 1e-14, 10.488614169356, 1e-11, CONTOUR)),
    ),
    Case(
        "sampled gaussian, m 1e4",
        repeated(sampled(0.01, gaussian(0.8)), 10_000),
        RELATIONS,
        "the README's example",
        (Exact(AR, 1e-5, 10.053634770654, 1e-11, CONTOUR),),
    ),
    Case(
        "rare samples",
        repeated(sampled(1e-3, gaussian(0.6)), 1_000),
        RELATIONS,
        "m p = 1: a few samples carry all the loss, the tilted law has two humps",
        (Exact(AR, 1e-6, 2.10666406704, 1e-10, CONTOUR),),
    ),
    Case(
        "laplace",
        laplace(1.0),
        RELATIONS,
        "atoms at both ends; pure",
        (Exact(AR, 0.0, 1.0, 1e-15, "1 / scale"), Exact(RO, 0.0, 2.0, 1e-15, "2 / scale")),
    ),
    Case(
        "sampled laplace",
        sampled(0.1, laplace(0.5)),
        (AR, RS),
        "atoms after sampling; pure",
        (Exact(AR, 0.0, math.log1p(0.1 * math.expm1(2.0)), 1e-14, "log(1 - p + p e^{1/scale})"),),
    ),
    Case(
        "discrete laplace",
        event("DiscreteLaplaceDpEvent", 0.7, 2),
        RELATIONS,
        "a lattice, no density",
        (Exact(AR, 0.0, 1.4, 1e-14, "noise_parameter * sensitivity"), Exact(RO, 0.0, 2.8, 1e-14, "twice the sensitivity")),
    ),
    Case(
        "mixture of gaussians",
        event("MixtureOfGaussiansDpEvent", 1.5, [0.0, 1.0, 2.0], [0.5, 0.3, 0.2]),
        (AR, RS),
        "three shifts",
    ),
    Case(
        "truncated",
        event("TruncatedSubsampledGaussianDpEvent", 1000, 0.01, 15, 1.0),
        RELATIONS,
        "a public coin decides between replacement and sampling",
    ),
    Case(
        "randomized response",
        event("RandomizedResponseDpEvent", 0.5, 2),
        (RS, RO),
        "atoms only; PLD forgets its count",
        (
            Exact(RO, 0.0, math.log(3.0), 1e-14, "own 0.75, other 0.25"),
            Exact(RS, 0.0, math.log(2.0), 1e-14, "against the uniform law: 1/2 against 3/4 and 1/4"),
        ),
    ),
    Case(
        "randomized response, m 10",
        repeated(event("RandomizedResponseDpEvent", 0.5, 2), 10),
        (RS, RO),
        "PLD answers 1.0987",
        (Exact(RO, 1e-6, 10.986105128796793, 1e-12, "a sum of eleven binomial terms, its root in 30 digits"),),
    ),
    Case(
        "sampled composition",
        sampled(0.05, composed(gaussian(2.0), repeated(gaussian(3.0), 2))),
        RELATIONS,
        "one Gaussian of combined noise (1/4 + 2/9)^-1/2",
    ),
    Case("sampled twice", sampled(0.2, sampled(0.25, gaussian(1.0))), RELATIONS, "probabilities multiply"),
    Case("laplace sampled twice", sampled(0.2, sampled(0.25, laplace(1.0))), (AR, RS), "probabilities multiply"),
    Case(
        "sampled discrete laplace",
        sampled(0.1, event("DiscreteLaplaceDpEvent", 0.7, 2)),
        (AR, RS),
        "a lattice, sampled",
    ),
    Case(
        "sampled mixture",
        sampled(0.1, event("MixtureOfGaussiansDpEvent", 1.5, [0.0, 1.0, 2.0], [0.5, 0.3, 0.2])),
        (AR, RS),
        "a mixture with one more shift, 0",
    ),
    Case(
        "additive logistic",
        dp_edgeworth.AdditiveNoiseDpEvent("logistic", {"scale": 1.0}),
        RELATIONS,
        "no closed form; pure, 1 / scale",
        (Exact(AR, 0.0, 1.0, 1e-6, "|log-density'| <= 1 / scale"),),
    ),
    Case(
        "sampled logistic",
        sampled(0.1, dp_edgeworth.AdditiveNoiseDpEvent("logistic", {"scale": 1.0})),
        (AR, RS),
        "general noise under sampling",
    ),
    Case(
        "tree aggregation",
        dpa.SingleEpochTreeAggregationDpEvent(4.0, [7, 8]),
        (RS,),
        "a Gaussian: a record is in ceil(log2(steps + 1)) = 4 nodes of the larger tree",
        (Exact(RS, 1e-5, 1.99309140441512, 1e-11, "noise 4 / sqrt(4) = 2; " + BALLE_WANG),),
    ),
    Case(
        "without replacement",
        dpa.SampledWithoutReplacementDpEvent(100, 10, gaussian(2.0)),
        (RO,),
        "only the symmetric curve composes; an atom at 0",
    ),
    Case(
        "without replacement, composition",
        dpa.SampledWithoutReplacementDpEvent(100, 10, composed(gaussian(4.0), repeated(gaussian(4.0), 3))),
        (RO,),
        "the same, noise 4 / sqrt(4)",
    ),
    Case(
        "mixed ledger",
        composed(repeated(sampled(0.01, gaussian(1.0)), 100), laplace(5.0), gaussian(8.0)),
        RELATIONS,
        "Gaussians, atoms and sampling in one sum",
    ),
)
CASES = tuple(case for case in ALL_CASES if not is_missing(case.event))
BY_NAME = {case.name: case for case in CASES}

# event, the relations in which it is refused, a word that the sentence must contain
ALL_REFUSED = (
    (sampled(0.1, laplace(1.0)), (RO,), "neighboring_relation"),
    (event("MixtureOfGaussiansDpEvent", 1.5, [0.0, 1.0], [0.5, 0.5]), (RO,), "neighboring_relation"),
    (event("RandomizedResponseDpEvent", 0.5, 2), (AR,), "neighboring_relation"),
    (dpa.SingleEpochTreeAggregationDpEvent(4.0, [7, 8]), (AR, RO), "neighboring_relation"),
    (dpa.SampledWithoutReplacementDpEvent(100, 10, gaussian(2.0)), (AR, RS), "neighboring_relation"),
    (dpa.SampledWithoutReplacementDpEvent(100, 10, laplace(2.0)), RELATIONS, "GaussianDpEvent"),
    (sampled(0.1, event("RandomizedResponseDpEvent", 0.5, 2)), RELATIONS, "additive noise"),
    (sampled(0.1, event("TruncatedSubsampledGaussianDpEvent", 1000, 0.01, 15, 1.0)), RELATIONS, "additive noise"),
    (sampled(0.1, composed(gaussian(1.0), laplace(1.0))), (RO,), "GaussianDpEvent"),
    (sampled(0.1, repeated(laplace(1.0), 2)), (RO,), "additive noise"),
    (sampled(0.1, composed(gaussian(1.0), event("RandomizedResponseDpEvent", 0.5, 2))), RELATIONS, "additive noise"),
    (dpa.SampledWithReplacementDpEvent(100, 10, gaussian(1.0)), RELATIONS, "no dominating pair"),
    (dpa.UnsupportedDpEvent(), RELATIONS, "UnsupportedDpEvent"),
)
REFUSED = tuple(row for row in ALL_REFUSED if not is_missing(row[0]))


def supported():
    """Every (case, relation) of the table."""
    return [(case, relation) for case in CASES for relation in case.relations]


def exact_values():
    return [(case, exact) for case in CASES for exact in case.exact]


def reference_event(spec):
    """The event of a row of exact_epsilon.json."""
    leaves = []
    for kind, *parameters in spec:
        if kind == "g":
            noise, count = parameters
            leaf = gaussian(noise)
        else:
            p, noise, count = parameters
            leaf = gaussian(noise) if kind == "sg" else laplace(noise)
            leaf = leaf if p == 1.0 else sampled(p, leaf)
        leaves.append(repeated(leaf, count))
    return composed(*leaves)


def reference_rows():
    """Rows of golden/exact_epsilon.json: reference values with their sources."""
    return json.loads((GOLDEN / "exact_epsilon.json").read_text())["cases"]
