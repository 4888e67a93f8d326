"""Finite sums for `exact_balls`.

* Shifts of so many standard deviations that the output tells which component was drawn (`FarSum`).
* At most 100 uses of plain Laplace noise (`LaplaceSum`).

Of far components the loss is, up to `Far.error`, a constant (not sampled), a constant plus Gaussian, or a constant minus twice
an exponential variable; of m uses only how often each was drawn counts, and delta(eps) is a multinomial sum of closed forms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from flint import acb, arb
from scipy.optimize import brentq
from scipy.special import log_ndtr

from comparisons.exact import Composition, Exact, GaussianPair, InaccurateError, LaplacePair, Law
from comparisons.exact_paths import ball

MAX_TERMS = 200_000
_CERTAIN = 18.0  # standard deviations: what is further out has e^-160


class Component(NamedTuple):
    """With this probability L = constant + N(s^2/2, s^2) - 2 Gamma(decays)."""

    probability: arb
    constant: arb
    square: arb
    decays: int


@dataclass(frozen=True)
class Far:
    """The components of a leaf; L differs by more than `error` with probability `error` at most."""

    components: list[Component]
    error: float


def far_law(law: Law) -> Far:
    """InaccurateError unless the components are far apart."""
    if isinstance(law, GaussianPair) and law.p_means == (0.0,):
        far = _gaussian_remove(law)
    elif isinstance(law, GaussianPair) and law.q_means == (0.0,):
        far = _gaussian_add(law)
    elif isinstance(law, LaplacePair):
        far = _laplace(law)
    else:
        raise InaccurateError(f"No far components of `{type(law).__name__}`.")
    if far.error > 1e-14:
        raise InaccurateError(f"The components are not far apart: {far.error:.1e}.")
    return far


def _least_error(log_chances: list[tuple[float, float, float]]) -> float:
    """min over log eta of eta + sum of Phi(-(square + log eta - log ratio) / gap)."""
    candidates = []
    for log_eta in np.arange(-200.0, -20.0):
        chances = [math.exp(log_ndtr(-(square + log_eta - ratio) / gap)) for square, gap, ratio in log_chances]
        candidates.append(math.exp(log_eta) * len(log_chances) + math.fsum(chances))
    return min(candidates, default=0.0)


def _gaussian_remove(law: GaussianPair) -> Far:
    """Q = sum q_i N(m_i, 1) against N(0, 1): L = log q_i + m_i x - m_i^2/2 under the i-th."""
    parts = list(zip(law.q_weights, law.q_means, strict=True))
    chances = [
        ((b - a) ** 2 / 2, abs(b - a), float(np.log(v) - np.log(w)))
        for w, a in parts for v, b in parts if a != b
    ]  # fmt: skip
    components = [Component(ball(w), ball(w).log(), ball(m) ** 2, 0) for w, m in parts]
    return Far(components, _least_error(chances))


def _gaussian_add(law: GaussianPair) -> Far:
    """N(0, 1) against sum p_i N(m_i, 1): the least mean decides, L = -log p_1 - m_1 x + m_1^2/2."""
    parts = sorted(zip(law.p_means, law.p_weights, strict=True))
    first, weight = parts[0]
    chances = [((m * m - first**2) / 2, m - first, float(np.log(w) - np.log(weight))) for m, w in parts[1:]]
    return Far([Component(arb(1), -ball(weight).log(), ball(first) ** 2, 0)], _least_error(chances))


def _laplace(law: LaplacePair) -> Far:
    """Not sampled: log(1 - p); sampled: log p + mu, half of the time minus twice an exponential variable."""
    p, mu = arb(law.probability), ball(law.shift)
    whole = law.probability == 1
    odds = 0.0 if whole else math.log(law.probability) - math.log1p(-law.probability)
    error = math.exp(-(law.shift + min(odds, -odds)) / 3 if not whole else -law.shift)  # eta = e^{-(mu - |odds|)/3}, chances eta each
    hits = [Component(p / 2, p.log() + mu, arb(0), decays) for decays in (0, 1)]
    idle = Component(1 - p, (1 - p).log(), arb(0), 0)
    if whole:
        return Far(hits, error)
    return Far([Component(arb(1), -(1 - p).log(), arb(0), 0)] if law.reversed else [idle, *hits], 3 * error)


# --------------------------------------------------------------------------- the sum


@dataclass
class FarSum:
    """Terms of the multinomial sum, and a bound on what they leave out."""

    terms: list[Component]
    error: float

    def __post_init__(self) -> None:
        self.constants = np.array([float(t.constant) for t in self.terms])
        self.sigmas = np.sqrt(np.array([float(t.square) for t in self.terms]))
        self.decays = np.array([t.decays for t in self.terms])

    def delta(self, epsilon: float) -> arb:
        """Terms that are certainly above count fully, those certainly below not at all."""
        gap = self.constants - epsilon
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.where(self.sigmas > 0, gap / self.sigmas + self.sigmas / 2, np.inf)
        below = np.where(self.sigmas > 0, score < -_CERTAIN, gap <= -1e-9 * abs(epsilon))
        between = (self.sigmas > 0) & (score > _CERTAIN) & (score - self.sigmas < -_CERTAIN)
        total = sum((self.terms[i].probability for i in np.flatnonzero(between)), arb(0))
        for i in np.flatnonzero(~below & ~between):
            total += self.terms[i].probability * _hockey_stick(self.terms[i], arb(epsilon))
        return total


def _hockey_stick(term: Component, epsilon: arb) -> arb:
    """E[(1 - e^{eps - L})_+] of one term."""
    gap = term.constant - epsilon
    if term.square > 0:
        s = term.square.sqrt()
        root = arb(2).sqrt()
        return ((-(gap / s + s / 2) / root).erfc() - (-gap).exp() * (-(gap / s - s / 2) / root).erfc()) / 2
    if not gap > 0:
        return arb(0)
    if term.decays == 0:
        return 1 - (-gap).exp()
    t, j = gap / 2, arb(term.decays)
    if float(t) > 2 * term.decays + 300:
        return arb(1)
    inverse = t**term.decays / (j + 1).gamma()
    return inverse * ((-t).hypgeom_1f1(j, j + 1) - (-gap).exp() * t.hypgeom_1f1(j, j + 1))


def far_sum(comp: Composition) -> FarSum | LaplaceSum:
    """All ways to draw the components of the only leaf."""
    if comp.square or len(comp.laws) != 1:
        raise InaccurateError("More than one leaf.")
    law, count = comp.laws[0]
    if isinstance(law, LaplacePair) and law.probability == 1 and law.shift * count < 150 and count <= 100:
        return LaplaceSum(ball(law.shift), count)
    far = far_law(law)
    if math.comb(count + len(far.components) - 1, len(far.components) - 1) > MAX_TERMS:
        raise InaccurateError(f"Too many ways to draw {count} times from {len(far.components)} components.")
    terms = [(Component(arb.fac_ui(count), arb(0), arb(0), 0), count)]
    for k, part in enumerate(far.components):
        last = k == len(far.components) - 1
        terms = [(_plus(term, part, n), left - n) for term, left in terms for n in ((left,) if last else range(left + 1))]
    return FarSum([term for term, _ in terms], 3 * count * far.error)


def _plus(term: Component, part: Component, n: int) -> Component:
    if n == 0:
        return term
    chance = term.probability * part.probability**n / arb.fac_ui(n)
    return Component(chance, term.constant + n * part.constant, term.square + n * part.square, term.decays + n * part.decays)


@dataclass(frozen=True)
class LaplaceSum:
    """m uses of plain Laplace noise: residues, m + 1 integrals along a circle around the poles 0, -1/2 and -1.

    E_Q[e^{zL}] = e^{z mu} (z+1) / (2z+1) + e^{-(z+1) mu} z / (2z+1); of the binomial sum of its m-th power, times
    e^{-z eps} / (z (z+1)), a term is analytic to the right and counts nothing unless its exponent of z is positive.
    """

    shift: arb
    count: int
    error: float = 0.0

    def delta(self, epsilon: float) -> arb:
        m, mu = self.count, self.shift
        n = 60 + 2 * m + math.ceil(8 * max(0.0, m * float(mu) - epsilon))
        total = arb(0)
        for i in range(n // 2 + 1):
            turn = acb(0, 2 * arb.pi() * i / n).exp() * 1.5
            z = turn - 0.5
            up, down = (z * mu).exp() * (z + 1) / (2 * z + 1), (-(z + 1) * mu).exp() * z / (2 * z + 1)
            part = sum((math.comb(m, k) * up**k * down ** (m - k) for k in self._above(epsilon)), acb(0))
            value = (part * (-z * epsilon).exp() / (z * (z + 1)) * turn).real / n
            total += value if i in (0, n / 2) else 2 * value
        return total + arb(0, 3.0**-50)

    def _above(self, epsilon: float) -> range:
        """The k with (2k - m) mu > eps; delta is continuous where they change."""
        least = ((arb(epsilon) / self.shift + self.count) / 2).mid().floor()
        return range(max(0, int(float(least)) + 1), self.count + 1)


def far_delta(comp: Composition, epsilon: float) -> Exact:
    """delta(eps), or InaccurateError."""
    total = far_sum(comp)
    value = total.delta(epsilon)
    delta = float(value.mid())
    if delta == 0.0 and total.error == 0.0:
        return Exact(0.0, 0.0)
    return _judged(delta, (total.error + float(value.rad())) / max(delta, 1e-320))


def far_epsilon(comp: Composition, delta: float) -> Exact:
    """epsilon(delta), or InaccurateError."""
    total = far_sum(comp)

    def excess(epsilon: float) -> float:
        value = float(total.delta(epsilon).mid())
        return math.log(value) - math.log(delta) if value > 0 else -1e4

    if excess(0.0) <= 0:
        if float(total.delta(0.0).upper()) + total.error < delta:
            return Exact(0.0, 0.0)
        raise InaccurateError("delta(0) is too close to delta.")
    high = 1.0
    while excess(high) > 0:
        high *= 2
    epsilon = float(brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-15, maxiter=300))
    for accuracy in (1e-15, 1e-13, 1e-11, 1e-9):
        low, up = (total.delta(epsilon * (1 + sign * accuracy)) for sign in (-1, 1))
        if float(low.lower()) - total.error > delta > float(up.upper()) + total.error:
            return Exact(epsilon, accuracy)
    raise InaccurateError(f"delta is too flat at epsilon {epsilon:g}.")


def _judged(value: float, accuracy: float) -> Exact:
    if not accuracy < 1e-8:
        raise InaccurateError(f"Only known to {accuracy:.1e}.")
    return Exact(value, max(accuracy, 1e-15))
