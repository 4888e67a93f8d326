"""Random events for truth campaigns: every leaf type, relation and regime, deterministic in the generator.

`random_event(rng, regime)` draws an event, a relation it is defined under, and a delta. Scales are
log-uniform: counts 1..1e6, sampling probabilities 1e-6..1, noise 0.3..50, delta 0.5..1e-14.

>>> case = random_event(np.random.default_rng(0), "subsampled_gaussian")
>>> case == random_event(np.random.default_rng(0), "subsampled_gaussian")
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from dp_accounting import NeighboringRelation as Relation
from dp_accounting import dp_event as de

ADD_REMOVE = (Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_SPECIAL)
EVERY = (*ADD_REMOVE, Relation.REPLACE_ONE)


class RandomCase(NamedTuple):
    """An event, the relation it is accounted under, and the target delta."""

    event: de.DpEvent
    relation: Relation
    delta: float


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def _count(rng: np.random.Generator, high: float = 1e6) -> int:
    return max(1, round(_log_uniform(rng, 1, high)))


def _noise(rng: np.random.Generator) -> float:
    return _log_uniform(rng, 0.3, 50)


def _probability(rng: np.random.Generator) -> float:
    return 1.0 if rng.random() < 0.05 else _log_uniform(rng, 1e-6, 1)


def _gaussian(rng: np.random.Generator) -> de.DpEvent:
    return de.GaussianDpEvent(_noise(rng))


def _laplace(rng: np.random.Generator) -> de.DpEvent:
    return de.LaplaceDpEvent(_noise(rng))


def _discrete_laplace(rng: np.random.Generator) -> de.DpEvent:
    sensitivity = int(rng.integers(1, 6))
    return de.DiscreteLaplaceDpEvent(1 / _noise(rng) / sensitivity, sensitivity)


def _mixture(rng: np.random.Generator) -> de.DpEvent:
    size = int(rng.integers(2, 5))
    weights = rng.dirichlet(np.full(size, 0.5)) + 1e-9
    sensitivities = [0.0, *(float(s) for s in np.sort(rng.uniform(0.05, 1, size - 1)))]
    return de.MixtureOfGaussiansDpEvent(
        _noise(rng), sensitivities, [float(w) for w in weights / weights.sum()]
    )


def _randomized_response(rng: np.random.Generator) -> de.DpEvent:
    return de.RandomizedResponseDpEvent(_log_uniform(rng, 0.02, 0.99), int(rng.integers(2, 20)))


def _truncated(rng: np.random.Generator) -> de.DpEvent:
    n, p = round(_log_uniform(rng, 100, 1e6)), _log_uniform(rng, 1e-3, 0.5)
    batch = max(1, round(n * p + rng.uniform(0, 5) * math.sqrt(n * p)))
    return de.TruncatedSubsampledGaussianDpEvent(n, p, batch, _noise(rng))


def _tree(rng: np.random.Generator) -> de.DpEvent:
    return de.SingleEpochTreeAggregationDpEvent(
        _noise(rng), [_count(rng, 1e4) for _ in range(rng.integers(1, 4))]
    )


def _without_replacement(rng: np.random.Generator) -> de.DpEvent:
    n = round(_log_uniform(rng, 100, 1e6))
    return de.SampledWithoutReplacementDpEvent(
        n, max(1, round(n * _log_uniform(rng, 1 / n, 1))), _gaussian(rng)
    )


def _poisson(
    inner: Callable[[np.random.Generator], de.DpEvent],
) -> Callable[[np.random.Generator], de.DpEvent]:
    return lambda rng: de.PoissonSampledDpEvent(_probability(rng), inner(rng))


def _poisson_of_composition(rng: np.random.Generator) -> de.DpEvent:
    parts = [de.SelfComposedDpEvent(_gaussian(rng), _count(rng, 5)), _gaussian(rng)]
    return de.PoissonSampledDpEvent(_probability(rng), de.ComposedDpEvent(parts))


LEAVES: dict[str, tuple[Callable[[np.random.Generator], de.DpEvent], tuple[Relation, ...]]] = {
    "gaussian": (_gaussian, EVERY),
    "subsampled_gaussian": (_poisson(_gaussian), EVERY),
    "laplace": (_laplace, EVERY),
    "subsampled_laplace": (_poisson(_laplace), ADD_REMOVE),
    "discrete_laplace": (_discrete_laplace, ADD_REMOVE),
    "subsampled_discrete_laplace": (_poisson(_discrete_laplace), ADD_REMOVE),
    "mixture": (_mixture, ADD_REMOVE),
    "subsampled_mixture": (_poisson(_mixture), ADD_REMOVE),
    "randomized_response": (_randomized_response, (Relation.REPLACE_SPECIAL, Relation.REPLACE_ONE)),
    "truncated": (_truncated, EVERY),
    "tree": (_tree, (Relation.REPLACE_SPECIAL,)),
    "without_replacement": (_without_replacement, (Relation.REPLACE_ONE,)),
    "subsampled_composition": (_poisson_of_composition, EVERY),
    "twice_subsampled": (_poisson(_poisson(_gaussian)), EVERY),
}
REGIMES = (*LEAVES, "hard", "few", "mixed", "any")


def _pick(rng: np.random.Generator, options: tuple) -> object:
    return options[int(rng.integers(len(options)))]


def _hard(rng: np.random.Generator) -> tuple[de.DpEvent, Relation]:
    """m p about 1: a few samples carry all the loss."""
    count = max(2, _count(rng))
    p = min(1.0, _log_uniform(rng, 0.2, 5) / count)
    sampled = de.PoissonSampledDpEvent(p, de.GaussianDpEvent(_log_uniform(rng, 0.3, 3)))
    return de.SelfComposedDpEvent(sampled, count), _pick(rng, EVERY)  # type: ignore[return-value]


def _one_leaf(rng: np.random.Generator, name: str, most: float) -> tuple[de.DpEvent, Relation]:
    make, relations = LEAVES[name]
    relation = _pick(rng, relations)
    return de.SelfComposedDpEvent(make(rng), _count(rng, most)), relation  # type: ignore[return-value]


def _mixed(rng: np.random.Generator) -> tuple[de.DpEvent, Relation]:
    """A tree with 2-4 distinct leaves."""
    relation = _pick(rng, EVERY)
    names = [name for name, (_, relations) in LEAVES.items() if relation in relations]
    chosen = rng.choice(names, size=int(rng.integers(2, min(4, len(names)) + 1)), replace=False)
    parts = [de.SelfComposedDpEvent(LEAVES[str(name)][0](rng), _count(rng, 1e4)) for name in chosen]
    tree = de.ComposedDpEvent([parts[0], de.ComposedDpEvent(parts[1:])])
    return de.SelfComposedDpEvent(tree, _count(rng, 20)), relation  # type: ignore[return-value]


def random_event(rng: np.random.Generator, regime: str = "any") -> RandomCase:
    """A random event of the regime: a leaf name, "hard", "few" (counts to 5), "mixed", or "any" of them."""
    if regime not in REGIMES:
        raise ValueError(f"regime must be one of {REGIMES}. Found {regime!r}.")
    if regime == "any":
        regime = str(rng.choice([r for r in REGIMES if r != "any"]))
    if regime == "hard":
        event, relation = _hard(rng)
    elif regime == "mixed":
        event, relation = _mixed(rng)
    elif regime == "few":
        event, relation = _one_leaf(rng, str(rng.choice(list(LEAVES))), 5)
    else:
        event, relation = _one_leaf(rng, regime, 1e6)
    return RandomCase(event, relation, _log_uniform(rng, 1e-14, 0.5))
