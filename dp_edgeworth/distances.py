"""The sum of all X or all Y of one direction: its Edgeworth expansions, each with a proved distance to the truth.

    F(t) = P(sum <= t) lies in E_k((t - mean) / deviation) +- distance_k      [EA] Lemma 4.3, (4.2)

`by_moments` uses K3, K3~, K4, lambda3 only ([EA] Lemma 4.3 repaired). `by_characteristic` takes the least of

    order 1      `bounds.sharp`, `bounds.sharp_smooth`, `bounds.prawitz`
    orders 2, 3  `bounds.prawitz`. Proved: for this very sum, Prawitz's inequality with the true characteristic function
                 f_S bounds sup |F - E_k| for any k (see its docstring); no rate in m is claimed. [EA] leaves these
                 orders to future work.

Beyond the grid of `prawitz` the characteristic function is bounded: by the uniform laws below the densities of the
leaves (`envelope.py`) and, for a few leaves, by `bounds.leaf_envelope`.

Safety margins, for what is not exact arithmetic: rules are accurate to e^-40, f_S carries the rounding bound of
`characteristic.py`, moments are good to 1e-10. Distances are raised by the factor 1 + 1e-8 and by 1e-13 plus 0.8 times
the rounding error of the standardised argument, taken as 256 units in the last place of |mean| + variance + |t|, in
deviations. These margins are generous estimates, not an interval arithmetic.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy import special

from dp_edgeworth import bounds, moments
from dp_edgeworth.composition import EPSILON, Composition
from dp_edgeworth.standard_characteristic import StandardCharacteristic, standard_characteristic

_FACTOR, _ADDED = 1.0 + 1e-8, 1e-13
_ROUNDING = 256.0 * EPSILON
# Truncations T of Prawitz's inequality: far if f_S dies out, nearer ones where it does not, short ones for lattices.
_FAR = (1e3, 1e10)
_NEARER = (10.0, 14.0, 20.0, 30.0, 50.0, 100.0, 300.0, 1e4, 1e6)
_SHORT = (2.5, 4.0, 6.0)


class Expansion(NamedTuple):
    """E_k = Phi - phi sum_s c_s He_{s-1}, and a bound of sup |F - E_k|."""

    coefficients: Mapping[int, float]
    distance: float

    def above(self, x: np.ndarray) -> np.ndarray:
        """1 - E_k(x)."""
        density = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
        inner = np.clip(x, -40.0, 40.0)
        return special.ndtr(-x) + density * sum(
            (c * special.eval_hermitenorm(s - 1, inner) for s, c in self.coefficients.items()), np.zeros(x.shape))


@dataclasses.dataclass(frozen=True)
class Standardised:
    """A sum with mean and deviation, and everything that was proved about its distribution function."""

    mean: float
    deviation: float
    expansions: tuple[Expansion, ...]

    def above(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """1 - F+ and 1 - F- at t, with F+ = min(1, E + distance) and F- = max(0, E - distance)."""
        slack = _ROUNDING * (abs(self.mean) + self.deviation**2 + np.abs(t))
        if self.deviation == 0.0:
            return (t < self.mean - slack).astype(float), (t < self.mean + slack).astype(float)
        with np.errstate(over="ignore"):
            x = np.clip((t - self.mean) / self.deviation, -1e150, 1e150)
        low, high = np.zeros(t.shape), np.ones(t.shape)
        for expansion in self.expansions:
            value = expansion.above(x)
            size = 1.0 + sum(abs(c) * math.sqrt(math.factorial(s)) for s, c in expansion.coefficients.items())
            error = expansion.distance * _FACTOR + size * (_ADDED + 0.8 * slack / self.deviation)
            low, high = np.maximum(low, value - error), np.minimum(high, value + error)
        return low, np.maximum(high, low)

    def middle(self, t: np.ndarray) -> np.ndarray:
        """1 - E_k of the highest order; half where nothing is known."""
        if not self.expansions:
            return np.where(t < self.mean, 1.0, 0.0) if self.deviation == 0.0 else np.full(t.shape, 0.5)
        return self.expansions[-1].above(np.clip((t - self.mean) / self.deviation, -1e150, 1e150))

    def mirrored(self) -> Standardised:
        """The law of the negative sum. sup |F - E_k| is that of the sum, because E_k is continuous."""
        turned = (Expansion({s: (-1.0) ** s * c for s, c in e.coefficients.items()}, e.distance)
                  for e in self.expansions)
        return Standardised(-self.mean, self.deviation, tuple(turned))


def _standard(composition: Composition, tilt: float, order: int) -> tuple[float, float, list[float]]:
    """Mean, deviation and rho_3, ..., rho_{order+2} of the sum."""
    kappa = composition.cumulants(order + 2, tilt)
    deviation = math.sqrt(max(float(kappa[1]), 0.0))
    if deviation == 0.0:
        return float(kappa[0]), 0.0, [0.0] * order
    return float(kappa[0]), deviation, [float(kappa[r - 1]) / deviation**r for r in range(3, order + 3)]


def _without_moments(composition: Composition, tilt: float, mean: float) -> Standardised:
    """A constant sum is known exactly; of one that varies beyond the floats nothing is said."""
    return Standardised(mean, 0.0 if moments.is_constant(composition, tilt) else 1.0, ())


def by_moments(composition: Composition, tilt: float) -> Standardised:
    """First order with [EA] Lemma 4.3, for independent summands of any kind."""
    mean, deviation, rho = _standard(composition, tilt, 1)
    known = moments.sum_moments(composition, tilt)
    if known is None:
        return _without_moments(composition, tilt, mean)
    distance = bounds.lemma_4_3(known.m, **known.arguments())
    return Standardised(mean, deviation, (Expansion(bounds.expansion_coefficients(1, *rho), distance),))


def by_characteristic(composition: Composition, tilt: float, order: int) -> Standardised:
    """Orders 1 to `order`, each with the least proved distance."""
    mean, deviation, rho = _standard(composition, tilt, max(order, 2))
    known = moments.sum_moments(composition, tilt)
    if known is None:
        return _without_moments(composition, tilt, mean)
    if composition.is_gaussian:
        return Standardised(mean, deviation, (Expansion({}, 0.0),))
    cf = standard_characteristic(composition, tilt, mean, deviation, 3.0 + rho[1])
    expansions = []
    for k in range(1, order + 1):
        coefficients = bounds.expansion_coefficients(k, *rho[:k])
        distance = math.inf if cf is None else _prawitz(cf, coefficients)
        if k == 1:
            distance = _least_first_order(distance, cf, known)
        expansions.append(Expansion(coefficients, distance))
    return Standardised(mean, deviation, tuple(expansions))


def _prawitz(cf: StandardCharacteristic, coefficients: Mapping[int, float]) -> float:
    """Small truncations only where large ones say little (lattices, few summands)."""
    def value(truncations: tuple[float, ...]) -> float:
        values, error = cf.main_sample if truncations[0] >= 10.0 else cf.sample(truncations[0])
        return bounds.prawitz(lambda u: values, cf.envelope, coefficients=coefficients, truncations=truncations,
                              fourth_moment=cf.fourth * _FACTOR, cf_error=error, nodes=cf.nodes)

    best = value(_FAR if cf.dies_out else (*_NEARER, *_FAR))
    return min([best, *(value((T,)) for T in _SHORT)]) if best > 0.1 else best


def _least_first_order(distance: float, cf: StandardCharacteristic | None, known: bounds.Moments) -> float:
    """The least of Prawitz's and the bounds by moments, where these can be smaller.

    `sharp` is at least 1.2533/T = 0.1994 K3~/sqrt m. `sharp_smooth` bounds the integrand that `prawitz` computes, so it
    can be smaller only by what `prawitz` adds for its grid and for the error of f_S.
    """
    if distance > 0.1994 * known.k3_tilde / math.sqrt(known.m):
        distance = min(distance, bounds.sharp(known.m, iid=known.iid, **known.arguments()))
    if cf is not None and distance < 100.0 * (cf.main_sample[1] + 1e-9 * cf.fourth):
        distance = min(distance, _smooth(cf, known))
    return distance


def _smooth(cf: StandardCharacteristic, known: bounds.Moments) -> float:
    """`bounds.sharp_smooth` at the paper's own truncation and two more."""
    integral = functools.partial(bounds.envelope_integral, cf.envelope)
    own = (2.0 * math.pi * math.sqrt(known.m) / known.k3_tilde) ** 4
    return bounds.sharp_smooth(known.m, iid=known.iid, cf_integral=integral, truncations=(own, min(own, 1e3), 1e6),
                               **known.arguments())
