"""The Edgeworth accountant interval with finite-sample bounds ([EA] Definitions 4.2, 4.7), for arrays of targets.

For each direction, with F_X, F_Y the distribution functions of the sums and F- <= F <= F+ from `expansion_distance.py`,

    delta+(eps) = 1 - F_Y^-(eps) - e^eps (1 - F_X^+(eps)),     delta-(eps) = 1 - F_Y^+(eps) - e^eps (1 - F_X^-(eps)),

    "uniform"    the first-order expansion and [EA] Lemma 4.3 (repaired): K3, K3~, K4, lambda3 of the losses only
    "adaptive"   at every eps the best of all orders up to `order` with their least distances, and of exponential tails

Infinite losses, of mass d under Q and d' under P, are left out of the expansions and added afterwards:
d + (1-d)(1 - F_Y) - e^eps (1-d')(1 - F_X).

Tails are Chernoff's, of X and of Y (`paper.exponential_tail`).

Inversion: delta(.) does not increase, so the smallest eps found with delta+(eps) <= delta is an upper bound of epsilon,
the largest with delta-(eps) >= delta a lower one, each an epsilon at which the inequality was evaluated; inf and 0
where none was found. For the same reason the bounds of delta at eps are the least delta+ up to eps and the largest
delta- from eps on.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dp_edgeworth.intervals import Bounds
from dp_edgeworth.losses.rules import EPSILON, RuleTooLargeError
from dp_edgeworth.paper import expansion_distance
from dp_edgeworth.paper.expansion_distance import UNKNOWN, Standardised
from dp_edgeworth.paper.exponential_tail import Tail
from dp_edgeworth.sums.composition import Composition

_GRID, _REFINE, _ROUNDS = 1_025, 33, 6
_SPAN = 12.0  # deviations beyond which every expansion is flat
_ROUND_UP = 1.0 + 1e-12


class Method(NamedTuple):
    """Which bound: "uniform", or "adaptive" with the expansions of orders 1 to `order`."""

    bound: str
    order: int = 1


# The curves of one direction


@dataclasses.dataclass(frozen=True)
class Curves:
    """delta+ and delta- of one direction."""

    composition: Composition
    x: Standardised
    y: Standardised
    tail: Tail | None

    @np.errstate(over="ignore", invalid="ignore")
    def __call__(self, epsilon: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(delta-, delta+), both in [0, 1]."""
        c, eps = self.composition, np.asarray(epsilon, float)
        infinite, finite, kept = c.infinite_mass, math.exp(c.log_finite), math.exp(c.log_kept)
        y_low, y_high = (finite * bound for bound in self.y.above(eps))
        x_low, x_high = (np.nan_to_num(np.exp(eps) * kept * bound, nan=0.0) for bound in self.x.above(eps))
        if self.tail is not None:
            chernoff = self.tail.bound(eps, 0.0, math.inf)
            other = self.tail.bound(eps, -1.0, 0.0)
            y_high = np.where(eps >= c.finite_supremum * _ROUND_UP, 0.0, np.minimum(y_high, chernoff))
            y_low = np.maximum(y_low, finite - other)
            x_high = np.minimum(x_high, np.minimum(chernoff, other))
        low = (infinite + y_low) / _ROUND_UP - x_high * _ROUND_UP
        high = np.clip((infinite + y_high) * _ROUND_UP - x_low / _ROUND_UP, 5e-324, 1.0)  # what underflows is not 0
        if self.tail is not None:
            high = np.where(eps >= c.supremum * _ROUND_UP, 0.0, high)
        return np.clip(low, 0.0, 1.0), high

    def middle(self, epsilon: np.ndarray) -> np.ndarray:
        """The expansions of the highest order without their distances ([EA] Definition 4.6): an estimate."""
        c = self.composition
        x, y = (law.middle(epsilon) for law in (self.x, self.y))
        x = np.where(epsilon < 700.0, np.exp(np.minimum(epsilon, 700.0) + c.log_kept) * x, 0.0)  # beyond, rounding only
        return np.clip(c.infinite_mass + math.exp(c.log_finite) * y - x, 0.0, 1.0)

    @functools.cached_property
    def grid(self) -> np.ndarray:
        """Epsilons from 0 to where every bound has become flat."""
        end = max(0.0, *(law.mean + _SPAN * law.deviation for law in (self.x, self.y)))
        if self.tail is not None:
            end = max(end, float(np.max(np.diff(self.tail.log_mgf) / np.diff(self.tail.tilts), initial=0.0)))
        most = [self.composition.finite_supremum, self.composition.supremum] if self.tail is not None else []
        ends = [bound * _ROUND_UP * (1.0 + 4.0 * EPSILON) for bound in most if 0.0 < bound < math.inf]
        grid = np.linspace(0.0, max(min([end, *ends]), 1e-300), _GRID)
        return np.unique(np.concatenate([grid, ends]))

    @functools.cached_property
    def on_grid(self) -> tuple[np.ndarray, np.ndarray]:
        return self(self.grid)


def curves(composition: Composition, method: Method, least_delta: float) -> Curves:
    """The curves of one direction, good down to `least_delta`."""
    nothing = composition.log_finite == -math.inf or composition.log_kept == -math.inf
    x, y = (UNKNOWN if nothing else _law(composition, tilt, method) for tilt in (-1.0, 0.0))
    if method.bound == "uniform":
        return Curves(composition, x, y, None)
    return Curves(composition, x, y, Tail(np.zeros(1), np.zeros(1)) if nothing else Tail.of(composition, least_delta))


def _law(composition: Composition, tilt: float, method: Method) -> Standardised:
    """X or Y; where rules would be too large (noise multipliers of 1e-5 or so) nothing is known, and that is no error."""
    try:
        if method.bound == "uniform":
            return expansion_distance.by_moments(composition, tilt)
        return expansion_distance.by_characteristic(composition, tilt, method.order)
    except RuleTooLargeError:
        return UNKNOWN


def _all_curves(directions: Sequence[Composition], method: Method, least_delta: float) -> list[tuple[Curves, Curves]]:
    """Curves of the upper and of the lower composition, per direction."""
    pairs = []
    for composition in directions:
        above = curves(composition, method, least_delta)
        pairs.append((above, above if composition.dominated is composition else curves(composition.dominated, method, least_delta)))
    return pairs


# Answers


def delta_bounds(directions: Sequence[Composition], epsilons: np.ndarray, method: Method) -> Bounds:
    """Intervals of delta(epsilon), the larger of all directions ([EA] Definition 4.7)."""
    pairs = _all_curves(directions, method, 1e-30)
    lower = np.max([_largest_from(below, epsilons) for _, below in pairs], axis=0)
    upper = np.maximum(lower, np.max([_least_until(above, epsilons) for above, _ in pairs], axis=0))
    middle = np.max([above.middle(epsilons) for above, _ in pairs], axis=0)
    return Bounds(lower, np.clip(middle, lower, upper), upper)


def _least_until(curve: Curves, epsilons: np.ndarray) -> np.ndarray:
    """min of delta+ over [0, eps], on the grid and at eps."""
    least = np.minimum.accumulate(curve.on_grid[1])
    before = np.searchsorted(curve.grid, epsilons, side="right") - 1
    return np.minimum(least[before], curve(epsilons)[1])


def _largest_from(curve: Curves, epsilons: np.ndarray) -> np.ndarray:
    """max of delta- over [eps, inf), on the grid and at eps."""
    largest = np.append(np.maximum.accumulate(curve.on_grid[0][::-1])[::-1], 0.0)
    after = np.searchsorted(curve.grid, epsilons, side="left")
    return np.maximum(largest[after], curve(epsilons)[0])


def epsilon_bounds(directions: Sequence[Composition], deltas: np.ndarray, method: Method) -> Bounds:
    """Intervals of the smallest epsilon >= 0 with delta(epsilon) <= delta, the larger of all directions."""
    positive = deltas[deltas > 0.0]
    pairs = _all_curves(directions, method, float(min(positive, default=1e-30)))
    upper = np.max([_smallest(above, deltas) for above, _ in pairs], axis=0)
    lower = np.minimum(upper, np.max([_largest(below, deltas) for _, below in pairs], axis=0))
    middle = np.max([first_below(c.grid, c.middle, c.middle(c.grid), deltas) for c, _ in pairs], axis=0)
    return Bounds(lower, np.clip(middle, lower, upper), upper)


def _smallest(curve: Curves, deltas: np.ndarray) -> np.ndarray:
    """The smallest epsilon found with delta+ <= delta; inf where there is none."""
    return first_below(curve.grid, lambda eps: curve(eps)[1], curve.on_grid[1], deltas)


def _largest(curve: Curves, deltas: np.ndarray) -> np.ndarray:
    """The largest epsilon found with delta- >= delta; 0 where there is none. The same search from the other end."""
    values = -curve.on_grid[0][::-1]
    found = first_below(-curve.grid[::-1], lambda eps: -curve(-eps)[0], values, -np.maximum(deltas, 5e-324))
    hopeless = deltas < curve.composition.infinite_mass / _ROUND_UP
    if curve.tail is not None:
        hopeless = hopeless & math.isinf(curve.composition.supremum)
    return np.where(hopeless, math.inf, np.where(np.isfinite(found), np.abs(found), 0.0))


def first_below(grid: np.ndarray, function: Callable[[np.ndarray], np.ndarray], values: np.ndarray,
                targets: np.ndarray) -> np.ndarray:
    """The first point with function <= target, per target: on the grid, then between two of its points; inf if none."""
    result = np.full(targets.shape, math.inf)
    below = np.minimum.accumulate(values)
    first = np.searchsorted(-below, -targets, side="left")
    result[first == 0] = grid[0]
    rows = np.flatnonzero((first > 0) & (first < len(grid)))
    low, high = grid[first[rows] - 1], grid[first[rows]]
    for _ in range(_ROUNDS if len(rows) else 0):
        points = np.linspace(low, high, _REFINE, axis=1)
        fine = function(points.ravel()).reshape(points.shape) <= targets[rows, None]
        fine[:, -1] = True
        index = np.maximum(np.argmax(fine, axis=1), 1)
        low, high = (np.take_along_axis(points, (index - shift)[:, None], axis=1)[:, 0] for shift in (1, 0))
    result[rows] = high
    return result


def delta_floor(directions: Sequence[Composition], method: Method) -> float:
    """The infimum of the delta for which `epsilon_bounds` has a finite upper end: below it the answer is inf.

    "adaptive" and "spectral": the mass of infinite losses, as Chernoff's bound falls to 0. "uniform": the least delta+.
    """
    floors = []
    for composition in directions:
        if method.bound != "uniform":
            floors.append(composition.infinite_mass if math.isinf(composition.supremum) else 0.0)
        else:
            floors.append(float(curves(composition, method, 1e-30).on_grid[1].min()))
    return max(floors)
