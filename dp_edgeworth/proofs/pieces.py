"""Parts of a leaf by the size of its loss: what `strata.py` composes.

A leaf on Gaussian noise is a pair of normal mixtures whose loss L increases in x, so the losses between two bounds are an interval of
x, and the rule of such a part is that of `panels.cut_panels` on the interval. A part is a positive measure, not a law: `Small` is the
leaf without its largest losses, `Large` a range of large losses divided by (about) its own mass.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy import special

from dp_edgeworth.losses.gaussian_curve import LOG_SQRT_2PI
from dp_edgeworth.losses.gaussian_noise import GaussianShift, NormalMixture
from dp_edgeworth.losses.operations import Mixed, Reversed, Subsampled
from dp_edgeworth.losses.panels import cut_panels
from dp_edgeworth.losses.pllr import OnlyRules, Pllr
from dp_edgeworth.losses.rules import Demand, Rule, RuleTooLargeError, subsampled_loss
from dp_edgeworth.losses.sampled_gaussian import SampledReplacement
from dp_edgeworth.losses.trapezoid import log_normal_floor, posterior

MASS_ERROR = 1e-6  # by which the mass of a part may be off at most: log_ndtr is far better
_FLATTEST, _STEEPEST = 1e-4, 30.0  # smaller shifts lose digits in `strata`, larger ones have rules of their own
_MOST_NODES = 300_000
Function = Callable[[np.ndarray], np.ndarray]


class Line(NamedTuple):
    """A pair of mixtures of N(c, 1) with increasing loss.

    Attributes:
      p, q: shifts and weights of the two mixtures.
      losses: log dQ/dN(0,1) and log dP/dN(0,1).
      slope: the increasing bound of |L'| that `cut_panels` asks for.
      floor: lower bound of the log P-density of L between neighbouring x, one row.
    """

    p: tuple[np.ndarray, np.ndarray]
    q: tuple[np.ndarray, np.ndarray]
    losses: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    slope: Function
    floor: Function

    @property
    def turn(self) -> float:
        return float(self.q[0].max())

    def log_tails(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log of the masses beyond x, of P and of Q."""
        p, q = (np.logaddexp.reduce(np.log(weights) + special.log_ndtr(shifts - np.asarray(x, float)[..., None]), axis=-1)
                for shifts, weights in (self.p, self.q))
        return p, q


def line(pllr: Pllr) -> Line | None:
    """The mixtures of a leaf with a heavy upper tail: sampled Gaussian noise in one of its forms, or None."""
    if isinstance(pllr, Subsampled) and isinstance(pllr.inner, GaussianShift):
        mu, p = pllr.inner.mu, pllr.probability
        if not _FLATTEST <= mu <= _STEEPEST or not p < 1.0:
            return None

        def slope(x: np.ndarray) -> np.ndarray:
            return mu * posterior(x, mu, p)

        return Line((np.zeros(1), np.ones(1)), (np.array([0.0, mu]), np.array([1.0 - p, p])),
                    lambda x: (subsampled_loss(mu * (x - 0.5 * mu), np.array(p)), np.zeros_like(x)), slope,
                    lambda x: log_normal_floor(x) - np.log(slope(x[:, 1:]) + 5e-324))
    if isinstance(pllr, NormalMixture) and 0.0 in pllr.shifts and _FLATTEST <= max(pllr.shifts) <= _STEEPEST:
        mixture = pllr
        return Line((np.zeros(1), np.ones(1)), (np.array(pllr.shifts), np.array(pllr.weights)),
                    lambda x: (mixture._loss(x)[0], np.zeros_like(x)), lambda x: np.exp(mixture._loss(x)[1]),
                    lambda x: log_normal_floor(x) - mixture._loss(x)[1][:, 1:])
    if isinstance(pllr, SampledReplacement) and _FLATTEST <= pllr.mu <= _STEEPEST:
        pair, m, r = pllr, pllr.mu, pllr.probability
        weights = np.array([1.0 - r, r])
        if not r < 1.0:
            return None
        return Line((np.array([0.0, -m]), weights), (np.array([0.0, m]), weights), pair._losses,
                    lambda x: m * (posterior(x, m, r) + posterior(2.5 - x, m, r)), pair._density_floor)  # for x >= 0
    return None


def parts_of(pllr: Pllr) -> list[tuple[float, Pllr]]:
    """The pairs among which a public coin chooses, with their probabilities."""
    if type(pllr) is Mixed:
        return [(w, part) for w, part in zip(pllr.weights, pllr.parts, strict=True) if w > 0]
    return [(1.0, pllr)]


def is_heavy(pllr: Pllr) -> bool:
    """Whether the leaf has unbounded losses and can be split."""
    lines = [line(part) for _, part in parts_of(pllr)]
    return math.isinf(pllr.supremum) and not pllr.infinite_mass and not pllr.lost_mass and all(
        found is not None or math.isfinite(part.supremum) for found, (_, part) in zip(lines, parts_of(pllr), strict=True)
    ) and any(found is not None for found in lines)


@dataclasses.dataclass(frozen=True)
class Small(OnlyRules):
    """A leaf without its largest losses: part i of it only up to x = ends[i] (infinity: a part that is no line, whole).

    Its rules hold for tilts of at least `least` only. Most negative losses do not count there: what lies below starts[i] carries less
    than e^{-digits} of E_Q[e^{cL}], and is left out of the rule. The control variate is told so (`Rule.missing`).
    """

    leaf: Pllr
    ends: tuple[float, ...]
    starts: tuple[float, ...]
    least: float

    @property
    def supremum(self) -> float:
        found = (line(part) for _, part in parts_of(self.leaf))
        return max(part.supremum if one is None else _loss(one, end)
                   for one, end, (_, part) in zip(found, self.ends, parts_of(self.leaf), strict=True))

    @functools.cached_property
    def log_cut(self) -> float:
        """log of the Q-mass of the losses that are too large."""
        return log_masses(self.leaf, [(end, math.inf) for end in self.ends])[1]

    @functools.cached_property
    def missing(self) -> np.ndarray:
        """P-mass and Q-mass of all that is left out of the rule."""
        total = np.exp(log_masses(self.leaf, [(end, math.inf) for end in self.ends]))
        for (weight, part), start in zip(parts_of(self.leaf), self.starts, strict=True):
            one = line(part)
            if one is not None:
                total = total + weight * np.array([weights @ special.ndtr(start - shifts) for shifts, weights in (one.p, one.q)])
        return total

    def rule(self, demand: Demand) -> Rule:
        """By Jensen's inequality E_P[e^{sL}] of what is kept is at least (1 - missing Q-mass)^s, s >= 1: paid for in digits."""
        finer = dataclasses.replace(demand, log_count=demand.log_count + jensen(self.log_cut, demand.high))
        values, log_weights, edges, density, heaviest = [], [], None, None, 0.0
        for (weight, part), start, end in zip(parts_of(self.leaf), self.starts, self.ends, strict=True):
            one = line(part)
            if one is None:
                rule = part.rule(finer)
                values.append(rule.values[0])
                log_weights.append(rule.log_weights[0] + math.log(weight))
                found = None if rule.edges is None or rule.cell_log_density is None else (rule.edges, rule.cell_log_density)
            else:
                x, logs = _nodes(one, start, end, finer)
                values.append(x)
                log_weights.append(logs + math.log(weight))
                grid = np.linspace(start, end, 257)[None]
                up, down = one.losses(grid)
                found = up - down, one.floor(grid)
            if weight > heaviest:
                heaviest = weight
                edges, density = (None, None) if found is None else (found[0], found[1] + math.log(weight))
        none = np.zeros(1)
        return Rule(np.concatenate(values)[None], np.concatenate(log_weights)[None], none, none, edges, density,
                    self.missing[:, None])


@dataclasses.dataclass(frozen=True)
class Large(OnlyRules):
    """The losses of a leaf with x in ranges[i] of its part i, divided by e^{log_size}."""

    leaf: Pllr
    ranges: tuple[tuple[float, float], ...]
    log_size: float

    @property
    def supremum(self) -> float:
        found = (line(part) for _, part in parts_of(self.leaf))
        return max(_loss(one, end) for one, (_, end) in zip(found, self.ranges, strict=True) if one is not None)

    def rule(self, demand: Demand) -> Rule:
        """`cut_panels` compares with the integral over an interval that is not short; a short one is paid for in digits."""
        values, log_weights = [], []
        for (weight, part), (low, high) in zip(parts_of(self.leaf), self.ranges, strict=True):
            one = line(part)
            if one is None or not low < high:
                continue
            # relative to this part's own integral, which may be smaller than another's: each is accurate by itself
            finer = dataclasses.replace(demand, log_count=demand.log_count + 4.0 + max(0.0, -math.log(high - low)))
            x, logs = _nodes(one, low, high, finer)
            values.append(x)
            log_weights.append(logs + math.log(weight) - self.log_size)
        loss, logs, none = np.concatenate(values)[None], np.concatenate(log_weights)[None], np.zeros(1)
        missing = np.array([[1.0 - float(np.exp(logs).sum())], [1.0 - float(np.exp(logs + loss).sum())]])
        return Rule(loss, logs, none, none, None, None, missing)


@dataclasses.dataclass(frozen=True)
class Trimmed(OnlyRules):
    """A reversed sampled Gaussian, P = (1-p) N(0,1) + p N(mu,1) against Q = N(0,1), for tilts of at least `least`.

    Its loss falls in x. Beyond some x the most negative losses carry less than e^{-digits} of E_Q[e^{cL}], which is at least 1 (Jensen,
    E_Q[L] >= 0): they are left out of the rule, which steep tilts would make huge. The control variate is told so (`Rule.missing`).
    """

    leaf: Reversed
    least: float

    @property
    def supremum(self) -> float:
        return self.leaf.supremum

    @property
    def _pair(self) -> tuple[float, float]:
        assert isinstance(self.leaf.inner, Subsampled) and isinstance(self.leaf.inner.inner, GaussianShift)
        return self.leaf.inner.inner.mu, self.leaf.inner.probability

    def end(self, digits: float) -> float:
        """The x beyond which -c L(x) + log Q(beyond x) is below -digits: both decrease."""
        mu, p = self._pair
        x = np.linspace(0.0, math.sqrt(2.0 * (digits + 1.0)) + 0.5, 600)
        loss = np.maximum(subsampled_loss(mu * (x - 0.5 * mu), np.array(p)), 0.0)
        return float(x[min(int(np.argmax(-self.least * loss + special.log_ndtr(-x) <= -digits - 1.0)) + 1, len(x) - 1)])

    def missing(self, digits: float) -> np.ndarray:
        """P-mass and Q-mass of what is left out."""
        (mu, p), x = self._pair, self.end(digits)
        return np.array([(1.0 - p) * special.ndtr(-x) + p * special.ndtr(mu - x), special.ndtr(-x)])

    def rule(self, demand: Demand) -> Rule:
        """Below 0 the loss is at most -log(1 - p), which adds s |log(1 - p)| to the normal log-density."""
        mu, p = self._pair
        low = -math.sqrt(2.0 * (demand.digits + 1.0 + max(demand.high, 0.0) * -math.log1p(-p))) - 0.5
        high = self.end(demand.digits)
        x, w = cut_panels(low, high, dataclasses.replace(demand.reversed(), log_count=demand.log_count + 3.0), mu,
                          lambda x: mu * posterior(x, mu, p))
        _check(x)
        loss = subsampled_loss(mu * (x - 0.5 * mu), np.array(p))
        grid = np.linspace(low, high, 257)[None]
        edges = subsampled_loss(mu * (grid - 0.5 * mu), np.array(p))
        density = log_normal_floor(grid) - np.log(mu * posterior(grid[:, 1:], mu, p)) + edges[:, :-1]
        none = np.zeros(1)
        return Rule(-loss[None], (np.log(w) - 0.5 * x * x - LOG_SQRT_2PI + loss)[None], none, none, -edges, density,
                    self.missing(demand.digits)[:, None])


def is_reversed(pllr: Pllr) -> bool:
    """Whether `Trimmed` is for this leaf."""
    return (isinstance(pllr, Reversed) and isinstance(pllr.inner, Subsampled) and isinstance(pllr.inner.inner, GaussianShift)
            and pllr.inner.inner.mu <= _STEEPEST and pllr.inner.probability < 1.0)


def jensen(log_cut: float, high: float) -> float:
    """Digits for -log E_P[e^{sL}; kept] <= -s log(1 - Q-mass left out), 1 <= s <= high, and three more."""
    if log_cut > math.log(0.9):
        raise RuleTooLargeError("most losses would be left out")
    return 3.0 - max(high, 1.0) * math.log1p(-math.exp(log_cut))


def start_of(one: Line, least: float, digits: float) -> float:
    """The x below which E_Q[e^{cL}] has at most e^{-digits}, for c >= least: L and the mass below x increase, so where
    c L(x) + log Q(below x) is that small."""
    x = np.linspace(float(one.p[0].min()) - math.sqrt(2.0 * (digits + 1.0)) - 0.5, 0.0, 600)
    up, down = one.losses(x)
    below = np.logaddexp.reduce(np.log(one.q[1]) + special.log_ndtr(x[:, None] - one.q[0]), axis=1)
    small = least * np.minimum(up - down, 0.0) + below <= -digits - 1.0
    return float(x[max(int(np.argmin(small)) - 1, 0)])


def log_mass(leaf: Pllr, ranges: list[tuple[float, float]]) -> float:
    """log of the Q-mass of such a range, not rounded outwards (`MASS_ERROR`)."""
    return log_masses(leaf, ranges)[1]


def log_masses(leaf: Pllr, ranges: list[tuple[float, float]]) -> tuple[float, float]:
    """The same of P and of Q."""
    logs = [(-math.inf, -math.inf)]
    for (weight, part), (low, high) in zip(parts_of(leaf), ranges, strict=True):
        one = line(part)
        if one is None or not low < high:
            continue
        here, there = (np.array(one.log_tails(np.array(x))) if x < math.inf else np.full(2, -math.inf) for x in (low, high))
        with np.errstate(divide="ignore"):
            p, q = here + np.log1p(-np.exp(np.minimum(there - here, 0.0))) + math.log(weight)
        logs.append((float(p), float(q)))
    p, q = (float(np.logaddexp.reduce(column)) for column in zip(*logs, strict=True))
    return p, q


def log_mass_below(leaf: Pllr, lows: list[float]) -> float:
    """log of the P-mass below these x, not rounded outwards."""
    logs = [-math.inf]
    for (weight, one), low in zip(lines_of(leaf), lows, strict=True):
        if one is not None:
            logs.append(math.log(weight) + float(np.logaddexp.reduce(np.log(one.p[1]) + special.log_ndtr(low - one.p[0]))))
    return float(np.logaddexp.reduce(logs))


def lines_of(pllr: Pllr) -> Iterator[tuple[float, Line | None]]:
    for weight, part in parts_of(pllr):
        yield weight, line(part)


def _nodes(one: Line, low: float, high: float, demand: Demand) -> tuple[np.ndarray, np.ndarray]:
    """Losses and log P-weights of the rule between two x. A loss that turns on both sides is taken apart at 0, so that the panels of
    either side can become shorter outwards; the exponents there are s and 1 - s, hence the wider range."""
    if one.p[0].min() < 0.0:
        demand = dataclasses.replace(demand, low=min(demand.low, -demand.high), high=max(demand.high, -demand.low) + 1.0)
    x, w = [], []
    for sign in ((1.0, -1.0) if one.p[0].min() < 0.0 and low < 0.0 else (1.0,)):
        ends = (low, high) if sign > 0 else (-high, -low)
        if one.p[0].min() < 0.0:
            ends = max(ends[0], 0.0), ends[1]
        if ends[0] < ends[1]:
            nodes, weights = cut_panels(*ends, demand, one.turn, one.slope)
            x.append(sign * nodes)
            w.append(weights)
    nodes, weights = np.concatenate(x), np.concatenate(w)
    _check(nodes)
    up, down = one.losses(nodes)
    return up - down, np.log(weights) - 0.5 * nodes * nodes - LOG_SQRT_2PI + down


def late_log_mgf(leaf: Pllr, slope: float, lows: list[float], digits: float) -> float:
    """Upper bound of log E_P[e^{-l L}] of a leaf without what lies below x = lows[i] of its part i, rounded up by 1e-12."""
    logs = []
    for (weight, part), low in zip(parts_of(leaf), lows, strict=True):
        one, demand = line(part), Demand(-slope, 0.0, 0.0, 10.0)
        if one is None:
            rule = part.rule(demand)
            logs.append(math.log(weight) + float(np.logaddexp.reduce(rule.log_weights[0] - slope * rule.values[0])))
            continue
        # Beyond the end, e^{-l L} is at most e^{-l L(end)}.
        x = np.linspace(0.0, float(one.p[0].max()) + one.turn + math.sqrt(2.0 * (digits + 1.0)) + 0.5, 400)
        up, down = one.losses(x)
        tail = one.log_tails(x)[0] - slope * np.maximum(up - down, 0.0)
        last = int(np.argmax(tail <= -digits)) or len(x) - 1
        if not low < x[last]:
            return math.inf
        loss, weights = _nodes(one, low, float(x[last]), demand)
        logs.append(math.log(weight) + float(np.logaddexp.reduce(np.append(weights - slope * loss, tail[last] + 1e-6))))
    return float(np.logaddexp.reduce(logs)) + 1e-12


def _check(nodes: np.ndarray) -> None:
    """Strata are many and each wants K at many tilts: rules that would take seconds are refused."""
    if len(nodes) > _MOST_NODES:
        raise RuleTooLargeError(f"a part with {len(nodes)} nodes")


def _loss(one: Line, x: float) -> float:
    up, down = one.losses(np.array([x]))
    return float(up[0] - down[0])
