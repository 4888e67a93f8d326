"""The sum of all X or all Y of one direction: its Edgeworth expansions, each with a proved distance to the truth.

    F(t) = P(sum <= t) lies in E_k((t - mean) / deviation) +- distance_k      [EA] Lemma 4.3, (4.2)

`by_moments` uses K3, K3~, K4, lambda3 only ([EA] Lemma 4.3 repaired). `by_characteristic` takes the least of

    order 1      `lemma_4_3`, `prawitz`
    orders 2, 3  `prawitz`. Proved: for this very sum, Prawitz's inequality with the true characteristic function
                 f_S bounds sup |F - E_k| for any k (see its docstring); no rate in m is claimed. [EA] leaves these
                 orders to future work.

Beyond the grid of `prawitz` the characteristic function is bounded: by the uniform laws below the densities of the
leaves (`sums.envelope`) and by K3~ (`moment_envelope`).

Arithmetic. `mean`, `deviation` and the coefficients are floats, and what is proved is about these floats:

    error                                    bound
    moments of the leaves                    1e-10 relative (tests/paper/test_moments.py); raised by 1e-9 before use. Every bound
                                             by moments is a theorem for upper bounds of the moments.
    standardisation, in bounds by moments    the theorem is about the exact mean, deviation and rho_3. `_rounding` bounds
                                             how far the floats are off, and is added to the distance.
    standardisation, in `prawitz`            none: it bounds the distance of F to the very function that is evaluated,
                                             whatever its parameters; only E S^4 is raised.
    f_S                                      `StandardCharacteristic.error`, an argument of `prawitz`
    quadrature inside the bounds             `prawitz_kernel.SAFETY`, and 1e-6 relative in `prawitz`
    evaluation of E_k at a float t           1e-13 (1 + sum |c_s| sqrt(s!)): x = (t - mean)/deviation is off by 2 units in
                                             the last place, sup |x E_k'| is below the bracket, and He_{s-1} phi is off by
                                             20 units in the last place of at most sqrt(s!)
    products with e^eps and finite masses    1e-12 relative (`finite_sample.Curves`); exponents are below 745
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy import special

from dp_edgeworth.losses.rules import EPSILON
from dp_edgeworth.paper import moments
from dp_edgeworth.paper.cumulants import cumulants
from dp_edgeworth.paper.expansion import edgeworth_coefficients
from dp_edgeworth.paper.known_moments import standardised
from dp_edgeworth.paper.lemma_4_3 import Moments, lemma_4_3
from dp_edgeworth.paper.prawitz_bounds import moment_envelope, prawitz
from dp_edgeworth.paper.standardised_sum import END, StandardCharacteristic, standard_characteristic
from dp_edgeworth.sums.composition import Composition

_EVALUATION = 1e-13
_MOMENTS = 1.0 + 1e-9
_ROUNDING = 32_768.0 * EPSILON
# Truncations T of Prawitz's inequality: far if f_S dies out, nearer ones where it does not.
_FAR = (1e3, 1e10)
_NEARER = (10.0, 14.0, 20.0, 30.0, 50.0, 100.0, 300.0, 1e4, 1e6)
_SHARES = np.array([0.4, 0.6, 0.8, 1.0])


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

    @property
    def error(self) -> float:
        """The distance, and the rounding of `above`."""
        return self.distance + _EVALUATION * _size(self.coefficients)


def _size(coefficients: Mapping[int, float]) -> float:
    """Bounds |E_k|, |E_k'| and |x E_k'(x)|: |He_s| phi is at most 0.44 sqrt(s!) (Cramer)."""
    return 1.0 + sum(abs(c) * math.sqrt(math.factorial(s + 1)) for s, c in coefficients.items())


@dataclasses.dataclass(frozen=True)
class Standardised:
    """A sum with mean and deviation, and everything that was proved about its distribution function.

    A deviation of 0 is a constant sum, off by at most `slack`.
    """

    mean: float
    deviation: float
    expansions: tuple[Expansion, ...]
    slack: float = 0.0

    def above(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """1 - F+ and 1 - F- at t, with F+ = min(1, E + distance) and F- = max(0, E - distance)."""
        if self.deviation == 0.0:
            return (t < self.mean - self.slack).astype(float), (t < self.mean + self.slack).astype(float)
        with np.errstate(over="ignore"):
            x = np.clip((t - self.mean) / self.deviation, -1e150, 1e150)
        low, high = np.zeros(t.shape), np.ones(t.shape)
        for expansion in self.expansions:
            value = expansion.above(x)
            low, high = np.maximum(low, value - expansion.error), np.minimum(high, value + expansion.error)
        return low, np.maximum(high, low)

    def middle(self, t: np.ndarray) -> np.ndarray:
        """1 - E_k of the highest order; half where nothing is known."""
        if not self.expansions:
            return np.where(t < self.mean, 1.0, 0.0) if self.deviation == 0.0 else np.full(t.shape, 0.5)
        return self.expansions[-1].above(np.clip((t - self.mean) / self.deviation, -1e150, 1e150))


UNKNOWN = Standardised(0.0, 1.0, ())


# Standardisation and its rounding


def _standard(composition: Composition, tilt: float, order: int) -> tuple[float, float, list[float]]:
    """Mean, deviation and rho_3, ..., rho_{order+2} of the sum."""
    kappa = cumulants(composition, order + 2, tilt)
    deviation = math.sqrt(max(float(kappa[1]), 0.0))
    if deviation == 0.0:
        return float(kappa[0]), 0.0, [0.0] * order
    return float(kappa[0]), deviation, [standardised(float(kappa[r - 1]), deviation, r) for r in range(3, order + 3)]


def _scale(composition: Composition) -> float:
    """sum m_i (|E X_i| + |E Y_i|), from above.

    Where all losses are finite, -E X_i and E Y_i are Kullback-Leibler divergences and their sums are the means of the
    sums; otherwise E X_i and -E Y_i are at most |log finite P-mass| + |log finite Q-mass|.
    """
    means = sum(abs(float(cumulants(composition, 1, tilt)[0])) for tilt in (-1.0, 0.0))
    return means + 4.0 * (abs(composition.log_finite) + abs(composition.log_kept))


def _rounding(composition: Composition, deviation: float) -> float:
    """Bounds the rounding errors of mean/deviation, log deviation, rho_3/6 and E S^4, relative to max(1, E S^4).

    `Block.transform` forms E X = -E psi(L) and E Y = E L(e^L - 1) - E psi(L) from terms >= 0, so that they are off by at most
    v (|E X| + |E Y|), v = 64 + 4 * 745 units in the last place: sums in pairs, of weights whose exponents are below 745.
    In central moments the error v |L| of c = L - E L adds r v E|c|^(r-1) (|c| + 2 |E L|), r = 2, 3, 4. Summed over the
    leaves, over deviation^r, all of it is at most 9 v (1 + scale/deviation) times max(1, E S^4).
    """
    return _ROUNDING * (1.0 + _scale(composition) / deviation)


def _raised_moments(composition: Composition, tilt: float) -> Moments | None:
    """Upper bounds of K3, K3~, K4, |lambda3|."""
    known = moments.sum_moments(composition, tilt)
    if known is None:
        return None
    raised = {name: _MOMENTS * getattr(known, name) for name in ("k3", "k3_tilde", "k4")}
    # What cancels in the signed moment is accurate relative to the absolute one.
    return dataclasses.replace(known, lambda3=_MOMENTS * abs(known.lambda3) + 1e-13 * known.k3, **raised)


def _without_moments(composition: Composition, tilt: float, mean: float) -> Standardised:
    """A constant sum is known up to rounding; of one that varies beyond the floats nothing is said."""
    if not moments.is_constant(composition, tilt):
        return UNKNOWN
    return Standardised(mean, 0.0, (), _ROUNDING * (abs(mean) + _scale(composition)))


# Distances


def by_moments(composition: Composition, tilt: float) -> Standardised:
    """First order with [EA] Lemma 4.3, for independent summands of any kind."""
    mean, deviation, rho = _standard(composition, tilt, 1)
    known = _raised_moments(composition, tilt)
    if known is None or deviation == 0.0:
        return _without_moments(composition, tilt, mean)
    coefficients = _coefficients(rho)
    distance = lemma_4_3(known.m, **known.arguments()) + _rounding(composition, deviation) * _size(coefficients)
    return Standardised(mean, deviation, (Expansion(coefficients, distance),))


def by_characteristic(composition: Composition, tilt: float, order: int) -> Standardised:
    """Orders 1 to `order`, each with the least proved distance."""
    mean, deviation, rho = _standard(composition, tilt, max(order, 2))
    known = _raised_moments(composition, tilt)
    if known is None or deviation == 0.0:
        return _without_moments(composition, tilt, mean)
    rounding = _rounding(composition, deviation)
    if composition.is_gaussian:
        return Standardised(mean, deviation, (Expansion({}, rounding),))
    fourth = (3.0 + rho[1]) * (1.0 + 16.0 * rounding) + 16.0 * rounding  # S is off by a shift and a factor
    tilde = known.k3_tilde / math.sqrt(known.m)
    cf = standard_characteristic(composition, tilt, mean, deviation, fourth, _accuracy(rho, order), moment_envelope(tilde, rounding))
    expansions = []
    for k in range(1, order + 1):
        coefficients = _coefficients(rho[:k])
        distance = math.inf if cf is None else _prawitz(cf, coefficients, fourth, tilde)
        if k == 1:
            distance = min(distance, lemma_4_3(known.m, **known.arguments()) + rounding * _size(coefficients))
        expansions.append(Expansion(coefficients, distance))
    return Standardised(mean, deviation, tuple(expansions))


def _accuracy(rho: list[float], order: int) -> float:
    """A thousandth or so of the distance to expect, which is of the size of the first term left out."""
    return 3e-5 * max(abs(rho[0]), math.sqrt(abs(rho[1]))) ** (order + 1)


def _coefficients(rho: list[float]) -> dict[int, float]:
    """{s: c_s} of E_k for the k standardised cumulants rho_3, ..., rho_{k+2}.

    >>> _coefficients([0.75, 0.375])
    {3: 0.125, 4: 0.015625, 6: 0.0078125}
    """
    found = edgeworth_coefficients([0.0, 1.0, *rho], len(rho))
    return {n + 1: float(c) for n, c in enumerate(found) if n >= 2 and c != 0.0}


def _prawitz(cf: StandardCharacteristic, coefficients: Mapping[int, float], fourth: float, tilde: float) -> float:
    truncations = _FAR
    if not cf.dies_out:  # nearer ones, and shares of the range of `moment_envelope`
        truncations = (*_NEARER, *(T for T in _SHARES * (2.0 * math.pi / tilde) if T > END), *_FAR)
    return prawitz(lambda u: cf.values, cf.envelope, coefficients=coefficients, truncations=truncations,
                   fourth_moment=fourth, cf_error=cf.error, nodes=cf.nodes)
