"""Random trees with leaves known by a curve, against mechanisms that the events allow, all outcomes enumerated.

Every random event comes with a finite mechanism of its class: two laws on a few outcomes.

    ZCDpEvent(rho)            randomised response with epsilon sqrt(2 rho) (Bun, Steinke 2016: epsilon-DP is epsilon^2/2-zCDP)
    RenyiDpEvent              random laws, with their exact divergences
    ProfileDpEvent            random laws, with their exact profile at random epsilons
    ExponentialMechanism      two losses t and t - epsilon
    PermuteAndFlip            two candidates
    EpsilonDelta              its own pair
    RepeatAndSelect           of randomised response, the larger outcome wins: by direct summation
    DiscreteLaplace           its own pair
    PoissonSampled            of a composition of these: one sample, mixed with the law without the record

One tree in three has no leaves but EpsilonDelta and DiscreteLaplace, which are known exactly, sampled or not: there both ends are
held against the exact delta. Otherwise the upper end must not be below the delta of the composition of these mechanisms, in either
direction. The lower end must not be above what no mechanism of the classes can exceed: an upper bound of every leaf's profile, written
here once more, its chords on a lattice as a pair, and the pairs convolved directly (`Lattice`). Run as a script for 500 trees, with a
summary:
`python tests/long_curve_trees.py 500`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import NamedTuple

import dp_accounting as dpa
import numpy as np
from dp_accounting import dp_event
from main_branch import EpsilonDelta, Exponential, PermuteAndFlip
from scipy import special, stats

from dp_edgeworth import EdgeworthIntervalAccountant, ProfileDpEvent, RenyiDpEvent

AR = dpa.NeighboringRelation.ADD_OR_REMOVE_ONE
Laws = tuple[np.ndarray, np.ndarray]
Profile = Callable[[np.ndarray], np.ndarray]
_SLACK = 1e-11
_STEP, _REACH = 0.01, 700  # of the lattices of losses
_ORDERS = np.geomspace(1e-3, 3e3, 4000)
_KAPPA = _ORDERS * np.log(_ORDERS) - (1 + _ORDERS) * np.log1p(_ORDERS)


class Lattice(NamedTuple):
    """P-masses of the losses j * _STEP from `first` on, and the Q-mass of infinite losses: an upper bound in one direction."""

    first: int
    masses: np.ndarray
    infinite: float

    @classmethod
    def of(cls, profile: Profile) -> Lattice:
        """Connect-the-dots: changes of slope of the chords of delta as a function of e^eps, for epsilons of either sign."""
        x = np.exp(_STEP * np.arange(-_REACH, _REACH + 1))
        values = np.concatenate([[1.0], profile(np.log(x))])
        slopes = np.append(np.diff(values) / np.diff(np.append(0.0, x)), 0.0)
        return cls(-_REACH, np.maximum(np.diff(slopes), 0.0), float(values[-1]))

    def sticks(self, x: np.ndarray) -> np.ndarray:
        """sum (e^L - x)_+ P(L) + the infinite mass, for x of either sign."""
        losses, x = _STEP * (self.first + np.arange(len(self.masses))), np.minimum(x, 1e300)
        q = self.masses * np.exp(losses)
        above = np.searchsorted(losses, np.log(np.maximum(x, 1e-300)), side="right")
        tails = [np.append(np.cumsum(side[::-1])[::-1], 0.0)[above] for side in (q, self.masses)]
        lost = max(1.0 - self.masses.sum(), 0.0)  # P-mass of L = -inf, which counts where x < 0
        return tails[0] - x * tails[1] + self.infinite + np.maximum(-x, 0.0) * lost

    def with_(self, other: Lattice) -> Lattice:
        return Lattice(self.first + other.first, np.convolve(self.masses, other.masses),
                       1.0 - (1.0 - self.infinite) * (1.0 - other.infinite))


Bounds = tuple[Lattice, Lattice]  # of both directions
NOTHING = Lattice(0, np.ones(1), 0.0)


def symmetric(positive: Profile) -> Lattice:
    """The profile for eps >= 0 continued by 1 - x + x delta(1/x)."""
    def profile(eps: np.ndarray) -> np.ndarray:
        values = positive(np.abs(eps))
        return np.where(eps < 0, -np.expm1(eps) + np.exp(np.minimum(eps, 0.0)) * values, values)

    return Lattice.of(profile)


def of_orders(orders: np.ndarray, kappa: np.ndarray, values: np.ndarray) -> Profile:
    """The best single order, values = c times the divergence of order c + 1."""
    return lambda eps: np.minimum(np.exp((kappa + values - np.multiply.outer(eps, orders)).min(axis=1)), 1.0)


def sampled_bound(p: float, one: Lattice, other: Lattice) -> Bounds:
    """The laws (P, (1-p) P + p Q) and the other way round, `one` being (P, Q) and `other` (Q, P)."""
    with_record = Lattice.of(lambda eps: p * one.sticks((np.exp(eps) - 1.0 + p) / p))

    def without(eps: np.ndarray) -> np.ndarray:
        x = np.exp(eps)
        share = 1.0 - x * (1.0 - p)  # (P - x ((1-p) P + p Q))_+ = share (P - (x p / share) Q)_+
        return np.where(share > 0, share * other.sticks(np.minimum(x * p / np.where(share > 0, share, 1.0), 1e300)), 0.0)

    return with_record, Lattice.of(without)


def deltas(p: np.ndarray, q: np.ndarray, eps: float) -> tuple[float, float]:
    """Both directions."""
    x = math.exp(min(eps, 690.0))
    return float(np.maximum(q - x * p, 0.0).sum()), float(np.maximum(p - x * q, 0.0).sum())


def product(one: Laws, other: Laws) -> Laws:
    return np.multiply.outer(one[0], other[0]).ravel(), np.multiply.outer(one[1], other[1]).ravel()


def pure(eps: float, delta: float) -> Lattice:
    top = 1 / (1 + math.exp(-eps))
    return symmetric(lambda e: delta + (1 - delta) * np.maximum(top - np.exp(np.minimum(e, 50.0)) * (1 - top), 0.0))


def response(eps: float) -> Laws:
    high = special.expit(eps)
    return np.array([1 - high, high]), np.array([high, 1 - high])


def random_laws(rng: np.random.Generator) -> Laws:
    size = int(rng.integers(2, 4))
    return rng.dirichlet(np.full(size, 3.0)), rng.dirichlet(np.full(size, 3.0))


def zcdp(rng: np.random.Generator) -> tuple[dp_event.DpEvent, Laws, Lattice]:
    rho = 10.0 ** rng.uniform(-3, -0.5)
    bound = symmetric(of_orders(_ORDERS, _KAPPA, _ORDERS * rho * (_ORDERS + 1)))
    return dpa.ZCDpEvent(rho), response(math.sqrt(2 * rho)), bound


def renyi(rng: np.random.Generator) -> tuple[dp_event.DpEvent, Laws, Lattice]:
    p, q = random_laws(rng)
    orders = 1.0 + np.geomspace(0.1, 100.0, 25)
    values = [max(math.log(float((a**o * b ** (1 - o)).sum())) / (o - 1) for a, b in ((q, p), (p, q))) for o in orders]
    c = orders - 1
    kappa = c * np.log(c) - (1 + c) * np.log1p(c)
    return RenyiDpEvent(orders, np.array(values) * (1 + _SLACK)), (p, q), symmetric(of_orders(c, kappa, c * np.array(values)))


def profile(rng: np.random.Generator) -> tuple[dp_event.DpEvent, Laws, Lattice]:
    p, q = random_laws(rng)
    epsilons = np.sort(rng.uniform(-0.5, 2.0, 6))
    found = [min(max(deltas(p, q, e)) * (1 + _SLACK), 1.0) for e in epsilons]
    x, u = np.append(0.0, np.exp(epsilons)), np.append(1.0, found)
    # both directions: a point at x says 1 - 1/x + u/x at 1/x
    x, u = np.concatenate([x, 1 / x[1:]]), np.concatenate([u, 1 - 1 / x[1:] + u[1:] / x[1:]])
    order = np.argsort(x)

    def chords(eps: np.ndarray) -> np.ndarray:
        x, u = np.append(xs, max(xs[-1], np.exp(eps.max())) * 2), np.append(np.minimum.accumulate(us), us.min())
        return np.interp(np.exp(eps), x, u)

    xs, us = x[order], u[order]
    return ProfileDpEvent(epsilons, found), (p, q), symmetric(chords)


def exponential(rng: np.random.Generator) -> tuple[dp_event.DpEvent, Laws, Lattice]:
    eps = 10.0 ** rng.uniform(-1.5, 0.3)
    t = rng.uniform(0.3, 0.9) * eps
    a = -math.expm1(t - eps) / -math.expm1(-eps) * math.exp(-t)
    found = symmetric(lambda e: np.where(e < eps, np.expm1((np.minimum(e, eps) - eps) / 2) ** 2 / -math.expm1(-eps), 0.0))
    return Exponential(eps), (np.array([a, 1 - a]), np.array([a * math.exp(t), (1 - a) * math.exp(t - eps)])), found


def flip(rng: np.random.Generator) -> tuple[dp_event.DpEvent, Laws, Lattice]:
    eps = 10.0 ** rng.uniform(-1.5, 0.3)
    gap = rng.uniform(-2.0, 1.0) * eps
    few, many = (0.5 * math.exp(x) if x < 0 else 1.0 - 0.5 * math.exp(-x) for x in (gap, gap + eps))
    laplace = symmetric(lambda e: np.maximum(-np.expm1((e - eps) / 2), 0.0))
    return PermuteAndFlip(eps), (np.array([few, 1 - few]), np.array([many, 1 - many])), laplace


def approximate(rng: np.random.Generator) -> tuple[dp_event.DpEvent, Laws, Lattice]:
    eps, delta = 10.0 ** rng.uniform(-1.5, 0.3), 10.0 ** rng.uniform(-6, -2)
    p, q = response(eps)
    laws = np.array([0.0, *((1 - delta) * p), delta]), np.array([delta, *((1 - delta) * q), 0.0])
    return EpsilonDelta(eps, delta), laws, pure(eps, delta)


def discrete(rng: np.random.Generator) -> tuple[dp_event.DpEvent, Laws, Lattice]:
    """Losses a (2k - s), of which the ends have the masses of all that is beyond."""
    a, s = 10.0 ** rng.uniform(-1.5, 0.3), int(rng.integers(1, 4))
    x = np.arange(s + 1)
    p = math.tanh(a / 2) * np.exp(-a * x)
    p[0], p[-1] = special.expit(a), math.exp(-a * s) * special.expit(a)
    q = p[::-1]
    return dp_event.DiscreteLaplaceDpEvent(a, s), (p, q), symmetric(
        lambda eps: np.maximum(q - np.multiply.outer(np.exp(np.minimum(eps, 50.0)), p), 0.0).sum(axis=1))


def select(rng: np.random.Generator) -> tuple[dp_event.DpEvent, Laws, Lattice]:
    eps, mean = 10.0 ** rng.uniform(-1.0, 0.0), 10.0 ** rng.uniform(0.1, 1.3)
    poisson, runs = bool(rng.random() < 0.5), np.arange(4000)
    law = stats.poisson.pmf(runs, mean) if poisson else np.append(0.0, stats.geom.pmf(runs[1:], 1.0 / mean))
    laws = []
    for worse in response(eps):
        none, all_worse = law[0], float((law[1:] * worse[0] ** runs[1:]).sum())
        laws.append(np.array([none, all_worse, 1.0 - none - all_worse]))
    top, e = 1 / (1 + math.exp(-eps)), np.linspace(0.0, eps, 2000)
    opposite = np.maximum(top - np.exp(e) * (1 - top), 0.0)
    ratio = float((mean * (np.expm1(e) + opposite) if poisson else 2 * np.log(np.exp(e) + opposite * (mean - 1))).min())

    def curve(at: np.ndarray) -> np.ndarray:
        inside = at - ratio
        run = np.maximum(top - np.exp(np.minimum(inside, 50.0)) * (1 - top), np.maximum(-np.expm1(np.minimum(inside, 0.0)), 0.0))
        return np.minimum(mean * run, 1.0)

    event = dp_event.RepeatAndSelectDpEvent(EpsilonDelta(eps, 0.0), mean, math.inf if poisson else 1.0)
    return event, (laws[0], laws[1]), symmetric(curve)


EXACT = (approximate, discrete)
LEAVES = (zcdp, renyi, profile, exponential, flip, approximate, select, discrete)
Kinds = tuple[Callable[[np.random.Generator], tuple[dp_event.DpEvent, Laws, Lattice]], ...]


def composition(rng: np.random.Generator, most: int, kinds: Kinds) -> tuple[dp_event.DpEvent, Laws, Lattice]:
    events, laws, bound = [], (np.ones(1), np.ones(1)), NOTHING
    for _ in range(int(rng.integers(1, most + 1))):
        event, one, lattice = kinds[rng.integers(len(kinds))](rng)
        count = int(rng.integers(1, 4))
        events.append(dpa.SelfComposedDpEvent(event, count) if count > 1 else event)
        for _ in range(count):
            laws, bound = product(laws, one), bound.with_(lattice)
    return dpa.ComposedDpEvent(events), laws, bound


def sampled(rng: np.random.Generator, kinds: Kinds) -> tuple[dp_event.DpEvent, Laws, Bounds]:
    event, (p, q), bound = composition(rng, 2, kinds)
    share = 10.0 ** rng.uniform(-2, -0.1)
    return dpa.PoissonSampledDpEvent(share, event), (p, (1 - share) * p + share * q), sampled_bound(share, bound, bound)


def random_tree(seed: int) -> tuple[dp_event.DpEvent, Laws, Bounds, bool]:
    """The event, laws that it allows, upper bounds of all that it allows, and whether the laws are all of it."""
    rng = np.random.default_rng(seed)
    exact = bool(rng.random() < 1 / 3)
    kinds = EXACT if exact else LEAVES
    if rng.random() < 0.3:
        event, laws, bounds = sampled(rng, kinds)
    else:
        event, laws, both = composition(rng, 3, kinds)
        bounds = both, both
    if len(laws[0]) < 200 and rng.random() < 0.5:
        other, more, bound = composition(rng, 1, kinds)
        event, laws = dpa.ComposedDpEvent([event, other]), product(laws, more)
        bounds = bounds[0].with_(bound), bounds[1].with_(bound)
    return event, laws, bounds, exact


class Outcome(NamedTuple):
    """What is wrong with one tree, lower ends over what no mechanism of the classes exceeds, and whether that is the exact delta."""

    wrong: list[str]
    shares: list[float]
    exact: bool


def judged(seed: int) -> Outcome:
    event, (p, q), bounds, is_exact = random_tree(seed)
    accountant, wrong, shares = EdgeworthIntervalAccountant().compose(event), [], []
    for eps in (0.0, 0.25, 0.9, 2.0, -0.4):
        interval, exact = accountant.get_delta_interval(eps), max(deltas(p, q, eps))
        most = min(max(float(side.sticks(np.array([math.exp(eps)]))[0]) for side in bounds), 1.0)
        if not interval.lower <= interval.upper:
            wrong.append(f"seed {seed}, epsilon {eps}: lower end {interval.lower!r} above upper end {interval.upper!r}")
        if interval.upper < exact * (1 - 1e-9) - 1e-14:
            wrong.append(f"seed {seed}, epsilon {eps}: upper end {interval.upper!r} below {exact!r} of {event}")
        if exact > most * (1 + 1e-9) + 1e-12:
            wrong.append(f"seed {seed}, epsilon {eps}: the mechanism has {exact!r}, more than the lattices' {most!r} of {event}")
        most = exact if is_exact else most
        if interval.lower > most * (1 + 1e-9) + (1e-14 if is_exact else 1e-12):
            wrong.append(f"seed {seed}, epsilon {eps}: lower end {interval.lower!r} above {most!r} of {event}")
        if most > 1e-10:
            shares.append(interval.lower / most)
    delta = 1e-3
    least = accountant.get_epsilon_interval(delta)
    if math.isfinite(least.upper) and max(deltas(p, q, least.upper)) > delta * (1 + 1e-9):
        wrong.append(f"seed {seed}: delta at epsilon {least.upper!r} is {max(deltas(p, q, least.upper))!r}, more than {delta}")
    at_lower = max(deltas(p, q, least.lower)) if is_exact else max(
        float(side.sticks(np.array([math.exp(least.lower)]))[0]) for side in bounds)
    if least.lower and at_lower < delta * (1 - 1e-9):
        wrong.append(f"seed {seed}: lower end {least.lower!r} of epsilon at {delta} of {event}")
    return Outcome(wrong, shares, is_exact)


def failures(seed: int) -> list[str]:
    return judged(seed).wrong


if __name__ == "__main__":
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    outcomes = [judged(seed) for seed in range(total)]
    wrong = [line for one in outcomes for line in one.wrong]
    print(f"{total} trees, {len(wrong)} violations", *wrong, sep="\n")
    for exact, name in ((True, "the exact delta"), (False, "the bound of the classes")):
        shares = np.array([x for one in outcomes if one.exact is exact for x in one.shares])
        print(f"lower end over {name} at {len(shares)} epsilons of {sum(one.exact is exact for one in outcomes)} trees: "
              f"smallest {shares.min():.3f}, median {np.median(shares):.9f}, largest {shares.max():.12f}, "
              f"above 0.9 in {np.mean(shares > 0.9):.0%}")
    sys.exit(bool(wrong))
