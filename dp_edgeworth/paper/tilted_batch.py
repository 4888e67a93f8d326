"""The tilted Edgeworth estimate of epsilon for many compositions at once, each of one leaf repeated.

Same equations as `estimate.py` with arrays over compositions instead of sums over leaves: composition i has

    K_i(c) = m_i log E_P[e^{(c+1) L_i}],        epsilon_i = K_i'(c_i) at the c_i where the expansion there is delta,

and every composition has its own tilt c_i. The tilts are bracketed by doubling (a rule is built for each range of
tilts and of shifts, so that its nodes fit all of its rows) and then found by the Illinois method in log(1 + c).

Where p is small and m p is about 10 or less, a few samples carry all the loss, the expansion is poor at any order (off
by half of epsilon at p = 0.0005, m = 20,000, delta = 1e-8), and neighbouring points of a grid may jump: the certified
accountant is the one to ask there.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dp_edgeworth.losses.gaussian_noise import GaussianShift
from dp_edgeworth.losses.operations import Reversed, Subsampled
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import Demand, Rule, RuleTooLargeError
from dp_edgeworth.losses.sampled_gaussian import SampledReplacement
from dp_edgeworth.paper import expansion
from dp_edgeworth.sums.composition import cumulants_from_central_moments

_MOST_NODES = 400_000
_LARGEST_REACH = 512.0  # of tilt times shift
_SCAN = 6
_ROUGH = 0.5  # standardised cumulants above this
MOST_COUNT = 1e9  # beyond, the sums here would need a control variate


def shift(pllr: Pllr) -> float | None:
    """The shift of the sampled Gaussian that a PLLR is, or None: only those are evaluated here."""
    if isinstance(pllr, Reversed):
        return shift(pllr.inner)
    if isinstance(pllr, SampledReplacement):
        return pllr.mu
    if isinstance(pllr, Subsampled) and isinstance(pllr.inner, GaussianShift):
        return pllr.inner.mu
    return None


@dataclasses.dataclass
class _Rows:
    """Some compositions with one rule, and the current evaluation."""

    rule: Rule
    counts: np.ndarray
    target: float
    order: int
    rough: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, bool))

    def at(self, tilts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """epsilon = K'(c), and log of the estimate of delta there minus its target.

        Also sets `rough`: where the corrections are so large that the estimate need not be monotone.
        """
        joint = (tilts[:, None] + 1.0) * self.rule.values + self.rule.log_weights
        peak = joint.max(axis=1, keepdims=True)
        weights = np.exp(joint - peak)
        total = weights.sum(axis=1)
        mean = np.einsum("ij,ij->i", weights, self.rule.values) / total
        centred = self.rule.values - mean[:, None]
        moments, powers = [np.ones(len(mean)), np.zeros(len(mean))], weights * centred / total[:, None]
        for _ in range(self.order + 1):
            powers *= centred
            moments.append(powers.sum(axis=1))
        kappa = cumulants_from_central_moments(np.array(moments)) * self.counts
        kappa[0] = mean * self.counts
        log_mgf = (np.log(total) + peak[:, 0]) * self.counts
        with np.errstate(all="ignore"):
            self.rough = (kappa[2:] ** 2 > _ROUGH**2 * kappa[1] ** np.arange(3, 1 + len(kappa))[:, None]).any(axis=0)
        log_delta = np.asarray(expansion.tilted_log_delta(kappa[0], tilts, log_mgf, kappa, self.order))
        return kappa[0], np.clip(log_delta, -1e6, 0.0) - self.target

    def restricted(self, keep: np.ndarray) -> _Rows:
        rule = Rule(self.rule.values[keep], self.rule.log_weights[keep], self.rule.lost[keep], self.rule.infinite[keep])
        return _Rows(rule, self.counts[keep], self.target, self.order)


def epsilons(pllrs: Sequence[Pllr], counts: np.ndarray, delta: float, order: int = 2,
             advance: Callable[[int], None] = lambda done: None) -> np.ndarray:
    """Estimates of epsilon at one delta in (0, 1); NaN where the tilt is out of reach.

    Args:
      pllrs: one direction of each leaf, all with a `shift`.
      counts: how often each is composed, at most `MOST_COUNT`.
      advance: called with the number of compositions that were just finished.
    """
    return saddles(pllrs, counts, delta, order, advance)[0]


def saddles(pllrs: Sequence[Pllr], counts: np.ndarray, delta: float, order: int = 2,
            advance: Callable[[int], None] = lambda done: None) -> np.ndarray:
    """The same estimates, and below them the tilts c with K'(c) = epsilon; a tilt of -1 where epsilon is 0."""
    result = np.full((2, len(pllrs)), math.nan)
    shifts = np.array([shift(pllr) for pllr in pllrs], float)
    for members in _groups(pllrs, shifts):
        largest, lows = float(shifts[members].max()), np.full(len(members), -1.0)
        low_values, open_, reach = np.full(len(members), math.inf), np.arange(len(members)), 2.0
        while len(open_) and reach <= _LARGEST_REACH:
            index = members[open_]
            found, at_end = _within([pllrs[i] for i in index], counts[index], reach / largest, lows[open_],
                                    low_values[open_], math.log(delta), order)
            result[:, index] = found
            lows[open_], low_values[open_] = reach / largest, at_end
            open_, reach = open_[np.isnan(found[0])], 2.0 * reach
        advance(len(members))
    result[0] = np.minimum(np.maximum(result[0], 0.0), counts * np.array([pllr.supremum for pllr in pllrs]))
    return result


def _groups(pllrs: Sequence[Pllr], shifts: np.ndarray) -> Iterator[np.ndarray]:
    """Indices of leaves of one kind whose shifts are within a factor of two, at most 2,048 at a time."""
    keys: dict[Any, list[int]] = {}
    for i in np.argsort(shifts, kind="stable").tolist():
        keys.setdefault((pllrs[i].kind, math.floor(math.log2(shifts[i]))), []).append(i)
    for members in keys.values():
        for start in range(0, len(members), 2_048):
            yield np.array(members[start:start + 2_048])


def _within(pllrs: list[Pllr], counts: np.ndarray, high: float, lows: np.ndarray, low_values: np.ndarray, target: float,
            order: int) -> tuple[np.ndarray, np.ndarray]:
    """Epsilons and tilts where the tilt is in (low, high], NaN where it is above; and the excess at `high`."""
    demand = Demand(-float(order + 2), high + 1.0 + order + 2, 0.0, math.log(float(counts.max())))
    try:
        size = max(1, _MOST_NODES // type(pllrs[0]).rules(pllrs[:1], demand).values.shape[1])
        parts = []
        for i in range(0, len(pllrs), size):
            some = slice(i, i + size)
            rows = _Rows(type(pllrs[0]).rules(pllrs[some], demand), counts[some], target, order)
            parts.append(_solved(rows, high, lows[some], low_values[some]))
    except RuleTooLargeError:
        return np.full((2, len(pllrs)), math.nan), np.full(len(pllrs), math.inf)
    return np.concatenate([part[0] for part in parts], axis=1), np.concatenate([part[1] for part in parts])


def _solved(rows: _Rows, high: float, lows: np.ndarray, low_values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    result, at_end = np.full((2, len(lows)), math.nan), rows.at(np.full(len(lows), high))[1]
    inside = np.flatnonzero(at_end <= 0.0)
    if not len(inside):
        return result, at_end
    rows, values = rows.restricted(inside), low_values[inside]
    unproved = ~((values > 0.0) & np.isfinite(values))
    lows = np.where(unproved, -1.0 + 1e-6, lows[inside])  # where K' < 0 and delta is largest
    if unproved.any():
        values = np.where(unproved, rows.at(lows)[1], values)
        result[:, inside[values <= 0.0]] = [[0.0], [-1.0]]
        keep = values > 0.0
        rows, inside, lows, values = rows.restricted(keep), inside[keep], lows[keep], values[keep]
    if len(inside):
        result[:, inside] = _largest_root(rows, np.log1p(lows), math.log1p(high), values, at_end[inside])
    return result, at_end


def _largest_root(rows: _Rows, low: np.ndarray, high: float, at_low: np.ndarray, at_high: np.ndarray) -> np.ndarray:
    """epsilon and tilt at the root; at the largest one that a scan finds where the estimate is rough: the safe side."""
    root = _illinois(rows, low, np.full(len(low), high), at_low, at_high)
    epsilon, _ = rows.at(np.expm1(root))
    rough = np.flatnonzero(rows.rough)
    if not len(rough):
        return np.array([epsilon, np.expm1(root)])
    some, a, at_a = rows.restricted(rough), root[rough], np.full(len(rough), math.nan)
    b, at_b = np.full(len(rough), high), at_high[rough]
    for fraction in np.linspace(0.0, 1.0, _SCAN + 2)[1:-1]:
        u = root[rough] + fraction * (high - root[rough])
        value = some.at(np.expm1(u))[1]
        above, first = value > 0, (value <= 0) & (b == high) & ~np.isnan(at_a)
        a, at_a = np.where(above, u, a), np.where(above, value, at_a)
        b = np.where(above, high, np.where(first, u, b))
        at_b = np.where(above, at_high[rough], np.where(first, value, at_b))
    again = np.flatnonzero(~np.isnan(at_a))
    if len(again):
        some = some.restricted(again)
        root[rough[again]] = _illinois(some, a[again], b[again], at_a[again], at_b[again])
        epsilon[rough[again]] = some.at(np.expm1(root[rough[again]]))[0]
    return np.array([epsilon, np.expm1(root)])


def _illinois(rows: _Rows, a: np.ndarray, b: np.ndarray, at_a: np.ndarray, at_b: np.ndarray) -> np.ndarray:
    """The root between a (excess > 0) and b (<= 0), in u = log(1 + c)."""
    result, active, before = np.zeros(len(a)), np.arange(len(a)), np.zeros(len(a))
    for _ in range(60):
        gap = at_a - at_b
        u = np.where(gap > 0, (b * at_a - a * at_b) / np.where(gap > 0, gap, 1.0), b)
        result[active], value = u, rows.at(np.expm1(u))[1]
        side = np.where(value > 0, 1.0, -1.0)
        halved = np.where(side == before, 0.5, 1.0)  # the end that stayed twice
        at_a, at_b = np.where(side > 0, value, at_a * halved), np.where(side > 0, at_b * halved, value)
        a, b = np.where(side > 0, u, a), np.where(side > 0, b, u)
        moving = (np.abs(value) > 1e-10) & (b - a > 1e-13)
        if not moving.any():
            break
        if moving.mean() < 0.7:  # copying the rows pays only when many are done
            rows, active = rows.restricted(moving), active[moving]
            a, b, at_a, at_b, side = a[moving], b[moving], at_a[moving], at_b[moving], side[moving]
        before = side
    return result
