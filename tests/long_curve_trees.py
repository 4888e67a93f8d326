"""Random trees with leaves known by a curve, against mechanisms that the events allow, all outcomes enumerated.

Every random event comes with a finite mechanism of its class: two laws on a few outcomes.

    ZCDpEvent(rho)            randomised response with epsilon sqrt(2 rho) (Bun, Steinke 2016: epsilon-DP is epsilon^2/2-zCDP)
    RenyiDpEvent              random laws, with their exact divergences
    ProfileDpEvent            random laws, with their exact profile at random epsilons
    ExponentialMechanism      two losses t and t - epsilon
    PermuteAndFlip            two candidates
    EpsilonDelta              its own pair
    RepeatAndSelect           of randomised response, the larger outcome wins: by direct summation
    PoissonSampled            of a composition of these: one sample, mixed with the law without the record

The upper end must not be below the delta of the composition of these mechanisms, in either direction, and the lower end not above the
upper one. Run as a script for 500 trees: `python tests/long_curve_trees.py 500`.
"""

from __future__ import annotations

import math
import sys

import dp_accounting as dpa
import numpy as np
from dp_accounting import dp_event
from main_branch import EpsilonDelta, Exponential, PermuteAndFlip
from scipy import special, stats

from dp_edgeworth import EdgeworthIntervalAccountant, ProfileDpEvent, RenyiDpEvent

AR = dpa.NeighboringRelation.ADD_OR_REMOVE_ONE
Laws = tuple[np.ndarray, np.ndarray]
_SLACK = 1e-11


def deltas(p: np.ndarray, q: np.ndarray, eps: float) -> tuple[float, float]:
    """Both directions."""
    x = math.exp(eps)
    return float(np.maximum(q - x * p, 0.0).sum()), float(np.maximum(p - x * q, 0.0).sum())


def product(one: Laws, other: Laws) -> Laws:
    return np.multiply.outer(one[0], other[0]).ravel(), np.multiply.outer(one[1], other[1]).ravel()


def response(eps: float) -> Laws:
    high = special.expit(eps)
    return np.array([1 - high, high]), np.array([high, 1 - high])


def random_laws(rng: np.random.Generator) -> Laws:
    size = int(rng.integers(2, 4))
    return rng.dirichlet(np.full(size, 3.0)), rng.dirichlet(np.full(size, 3.0))


def zcdp(rng: np.random.Generator) -> tuple[dp_event.DpEvent, Laws]:
    rho = 10.0 ** rng.uniform(-3, -0.5)
    return dpa.ZCDpEvent(rho), response(math.sqrt(2 * rho))


def renyi(rng: np.random.Generator) -> tuple[dp_event.DpEvent, Laws]:
    p, q = random_laws(rng)
    orders = 1.0 + np.geomspace(0.1, 100.0, 25)
    values = [max(math.log(float((a**o * b ** (1 - o)).sum())) / (o - 1) for a, b in ((q, p), (p, q))) for o in orders]
    return RenyiDpEvent(orders, np.array(values) * (1 + _SLACK)), (p, q)


def profile(rng: np.random.Generator) -> tuple[dp_event.DpEvent, Laws]:
    p, q = random_laws(rng)
    epsilons = np.sort(rng.uniform(-0.5, 2.0, 6))
    return ProfileDpEvent(epsilons, [min(max(deltas(p, q, e)) * (1 + _SLACK), 1.0) for e in epsilons]), (p, q)


def exponential(rng: np.random.Generator) -> tuple[dp_event.DpEvent, Laws]:
    eps = 10.0 ** rng.uniform(-1.5, 0.3)
    t = rng.uniform(0.3, 0.9) * eps
    a = -math.expm1(t - eps) / -math.expm1(-eps) * math.exp(-t)
    return Exponential(eps), (np.array([a, 1 - a]), np.array([a * math.exp(t), (1 - a) * math.exp(t - eps)]))


def flip(rng: np.random.Generator) -> tuple[dp_event.DpEvent, Laws]:
    eps = 10.0 ** rng.uniform(-1.5, 0.3)
    gap = rng.uniform(-2.0, 1.0) * eps
    few, many = (0.5 * math.exp(x) if x < 0 else 1.0 - 0.5 * math.exp(-x) for x in (gap, gap + eps))
    return PermuteAndFlip(eps), (np.array([few, 1 - few]), np.array([many, 1 - many]))


def approximate(rng: np.random.Generator) -> tuple[dp_event.DpEvent, Laws]:
    eps, delta = 10.0 ** rng.uniform(-1.5, 0.3), 10.0 ** rng.uniform(-6, -2)
    p, q = response(eps)
    return EpsilonDelta(eps, delta), (np.array([0.0, *((1 - delta) * p), delta]), np.array([delta, *((1 - delta) * q), 0.0]))


def select(rng: np.random.Generator) -> tuple[dp_event.DpEvent, Laws]:
    eps, mean = 10.0 ** rng.uniform(-1.0, 0.0), 10.0 ** rng.uniform(0.1, 1.3)
    poisson, runs = bool(rng.random() < 0.5), np.arange(4000)
    law = stats.poisson.pmf(runs, mean) if poisson else np.append(0.0, stats.geom.pmf(runs[1:], 1.0 / mean))
    laws = []
    for worse in response(eps):
        none, all_worse = law[0], float((law[1:] * worse[0] ** runs[1:]).sum())
        laws.append(np.array([none, all_worse, 1.0 - none - all_worse]))
    return dp_event.RepeatAndSelectDpEvent(EpsilonDelta(eps, 0.0), mean, math.inf if poisson else 1.0), (laws[0], laws[1])


LEAVES = (zcdp, renyi, profile, exponential, flip, approximate, select)


def composition(rng: np.random.Generator, most: int) -> tuple[dp_event.DpEvent, Laws]:
    events, laws = [], (np.ones(1), np.ones(1))
    for _ in range(int(rng.integers(1, most + 1))):
        event, one = LEAVES[rng.integers(len(LEAVES))](rng)
        count = int(rng.integers(1, 4))
        events.append(dpa.SelfComposedDpEvent(event, count) if count > 1 else event)
        for _ in range(count):
            laws = product(laws, one)
    return dpa.ComposedDpEvent(events), laws


def sampled(rng: np.random.Generator) -> tuple[dp_event.DpEvent, Laws]:
    event, (p, q) = composition(rng, 2)
    share = 10.0 ** rng.uniform(-2, -0.1)
    return dpa.PoissonSampledDpEvent(share, event), (p, (1 - share) * p + share * q)


def random_tree(seed: int) -> tuple[dp_event.DpEvent, Laws]:
    rng = np.random.default_rng(seed)
    event, laws = sampled(rng) if rng.random() < 0.3 else composition(rng, 3)
    if len(laws[0]) < 200 and rng.random() < 0.5:
        other, more = composition(rng, 1)
        event, laws = dpa.ComposedDpEvent([event, other]), product(laws, more)
    return event, laws


def failures(seed: int) -> list[str]:
    """What is wrong with one tree."""
    event, (p, q) = random_tree(seed)
    accountant, found = EdgeworthIntervalAccountant().compose(event), []
    for eps in (0.0, 0.25, 0.9, 2.0, -0.4):
        interval, exact = accountant.get_delta_interval(eps), max(deltas(p, q, eps))
        if not interval.lower <= interval.upper:
            found.append(f"seed {seed}, epsilon {eps}: lower end {interval.lower!r} above upper end {interval.upper!r}")
        if interval.upper < exact * (1 - 1e-9) - 1e-14:
            found.append(f"seed {seed}, epsilon {eps}: upper end {interval.upper!r} below {exact!r} of {event}")
    delta = 1e-3
    least = accountant.get_epsilon_interval(delta)
    if math.isfinite(least.upper) and max(deltas(p, q, least.upper)) > delta * (1 + 1e-9):
        found.append(f"seed {seed}: delta at epsilon {least.upper!r} is {max(deltas(p, q, least.upper))!r}, more than {delta}")
    return found


if __name__ == "__main__":
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    wrong = [line for seed in range(total) for line in failures(seed)]
    print(f"{total} trees, {len(wrong)} violations", *wrong, sep="\n")
    sys.exit(bool(wrong))
