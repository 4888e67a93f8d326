"""The cases of a truth campaign: random events of every regime, and what is asked of them.

Case i of a seed is the same whatever N is. Both questions are asked: epsilon at a delta, and delta at an epsilon near it.
One case in four asks for a tolerance of 1e-11, where a bound that forgot a rounding error has no slack to hide it in.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from dp_accounting import NeighboringRelation as Relation
from dp_accounting import dp_event as de

from comparisons.random_events import EVERY, LEAVES, RandomCase, random_event

TOLERANCE, TIGHT = 1e-6, 1e-11
Generator = np.random.Generator


@dataclass(frozen=True)
class TruthCase:
    """A random event with what is asked of it. `factor`: the epsilon asked for, in units of epsilon(delta)."""

    index: int
    regime: str
    event: de.DpEvent
    relation: Relation
    delta: float
    tolerance: float
    factor: float

    @property
    def event_hash(self) -> str:
        """Twelve digits of the question: another generator, or another stream of numpy's, gives others."""
        question = repr(self.event) + self.relation.name + repr(self.delta)
        return hashlib.sha256(question.encode()).hexdigest()[:12]

    def at_epsilon(self, epsilon: float) -> float:
        """Where to ask for delta, given epsilon(delta)."""
        at = self.factor * epsilon
        return float(at if 0 < at < 1e300 else self.factor)


def _between(rng: Generator, low: float, high: float) -> float:
    """Log-uniform."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def _times(event: de.DpEvent, count: float) -> de.DpEvent:
    return de.SelfComposedDpEvent(event, max(1, round(count)))


def _leaf(rng: Generator, names: tuple[str, ...] = tuple(LEAVES)) -> tuple[de.DpEvent, Relation]:
    make, relations = LEAVES[names[int(rng.integers(len(names)))]]
    return make(rng), relations[int(rng.integers(len(relations)))]


def _of(most: float, *names: str) -> Callable[[Generator], RandomCase]:
    """A leaf of one of these kinds, composed 1..most times."""

    def case(rng: Generator) -> RandomCase:
        event, relation = _leaf(rng, names or tuple(LEAVES))
        return RandomCase(_times(event, _between(rng, 1, most)), relation, _between(rng, 1e-14, 0.3))

    return case


def _dp_sgd(rng: Generator) -> RandomCase:
    sampled = de.PoissonSampledDpEvent(_between(rng, 1e-4, 0.1), de.GaussianDpEvent(_between(rng, 0.5, 5)))
    return RandomCase(_times(sampled, _between(rng, 50, 1e6)), Relation.ADD_OR_REMOVE_ONE, _between(rng, 1e-10, 1e-2))


def _small_delta(rng: Generator) -> RandomCase:
    event, relation, _ = random_event(rng, "any")
    return RandomCase(event, relation, 10 ** -rng.uniform(14, 300))


def _large_delta(rng: Generator) -> RandomCase:
    event, relation, _ = random_event(rng, "any")
    return RandomCase(event, relation, float(rng.uniform(0.3, 0.999)))


def _huge(rng: Generator) -> RandomCase:
    """1e6..1e12 steps, sampled so that epsilon stays between about 0.01 and 1000."""
    count = _between(rng, 1e6, 1e12)
    noise = _between(rng, 0.5, 20)
    p = min(0.5, _between(rng, 0.02, 20) * noise / math.sqrt(count))
    relation = EVERY[int(rng.integers(len(EVERY)))]
    return RandomCase(
        _times(de.PoissonSampledDpEvent(p, de.GaussianDpEvent(noise)), count), relation, _between(rng, 1e-12, 1e-2)
    )


def _huge_atoms(rng: Generator) -> RandomCase:
    """The same with weak mechanisms instead of sampling: losses of about 1 / sqrt(count)."""
    count = _between(rng, 1e6, 1e12)
    loss = _between(rng, 0.05, 10) / math.sqrt(count)
    kind = int(rng.integers(4))
    if kind == 0:
        return RandomCase(_times(de.RandomizedResponseDpEvent(1 - loss, 2), count), Relation.REPLACE_ONE, 1e-6)
    event = (de.DiscreteLaplaceDpEvent(loss, 1), de.LaplaceDpEvent(1 / loss), de.GaussianDpEvent(1 / loss))[kind - 1]
    return RandomCase(_times(event, count), Relation.ADD_OR_REMOVE_ONE, _between(rng, 1e-12, 1e-2))


def _rare(rng: Generator) -> RandomCase:
    """Sampling probabilities from 1e-9, noise small enough for a hit to matter."""
    p = _between(rng, 1e-9, 1e-5)
    inner = (
        de.GaussianDpEvent(_between(rng, 0.3, 2)) if rng.random() < 0.7 else de.LaplaceDpEvent(_between(rng, 0.2, 2))
    )
    count = _between(rng, 1, 1e3 / p)
    return RandomCase(
        _times(de.PoissonSampledDpEvent(p, inner), count),
        Relation.ADD_OR_REMOVE_ONE,
        _between(rng, 1e-12, 1) * min(0.3, p * count),
    )


def _replace_one(rng: Generator) -> RandomCase:
    names = tuple(name for name, (_, relations) in LEAVES.items() if Relation.REPLACE_ONE in relations)
    event, _ = _leaf(rng, names)
    return RandomCase(_times(event, _between(rng, 1, 1e5)), Relation.REPLACE_ONE, _between(rng, 1e-14, 0.3))


def _extreme(rng: Generator) -> RandomCase:
    """Noise 1e-4..1e4: shifts so large that densities underflow, and losses so small that they are rounding."""
    noise, p = _between(rng, 1e-4, 1e4), 1.0 if rng.random() < 0.3 else _between(rng, 1e-4, 1)
    inner: de.DpEvent = (
        de.GaussianDpEvent(noise),
        de.LaplaceDpEvent(noise),
        de.DiscreteLaplaceDpEvent(1 / noise, 1),
        de.MixtureOfGaussiansDpEvent(noise, [0.2, 0.5, 1.0], [0.5, 0.25, 0.25]),
    )[int(rng.integers(4))]
    return RandomCase(
        _times(de.PoissonSampledDpEvent(p, inner), _between(rng, 1, 100)),
        Relation.ADD_OR_REMOVE_ONE,
        _between(rng, 1e-14, 0.3),
    )


REGIMES: dict[str, Callable[[Generator], RandomCase]] = {
    "dp-sgd": _dp_sgd,
    "hard": lambda rng: random_event(rng, "hard"),
    "small m": _of(50),
    "m = 1": _of(1),
    "laplace": _of(1e5, "laplace", "subsampled_laplace"),
    "discrete": _of(1e5, "discrete_laplace", "subsampled_discrete_laplace"),
    "randomized response": _of(1e6, "randomized_response"),
    "mixed": lambda rng: random_event(rng, "mixed"),
    "tiny delta": _small_delta,
    "large delta": _large_delta,
    "huge m": _huge,
    "huge m, weak": _huge_atoms,
    "tiny p": _rare,
    "replace one": _replace_one,
    "without replacement": _of(1e5, "without_replacement"),
    "truncated": _of(1e5, "truncated"),
    "gaussian mixture": _of(1e5, "mixture", "subsampled_mixture"),
    "extreme noise": _extreme,
}


def truth_case(seed: int, index: int) -> TruthCase:
    """Case `index` of a seed; the regimes take turns.

    >>> truth_case(0, 1).regime
    'hard'
    """
    rng = np.random.default_rng([seed, index])
    regime = list(REGIMES)[index % len(REGIMES)]
    event, relation, delta = REGIMES[regime](rng)
    tolerance = TIGHT if rng.random() < 0.25 else TOLERANCE
    return TruthCase(
        index, regime, event, relation, min(max(delta, 1e-300), 0.999), tolerance, float(rng.uniform(0.5, 1.1))
    )


def truth_cases(seed: int, count: int, regimes: tuple[str, ...] = ()) -> list[TruthCase]:
    """Cases 0..count - 1 of a seed, of these regimes if any are named."""
    names = list(REGIMES)
    return [truth_case(seed, i) for i in range(count) if not regimes or names[i % len(names)] in regimes]
