"""Shifts so large that the output all but tells which component of a mixture it came from: sums over hidden coins.

Let Q = sum_j w_j Q_j with log dQ_j/dP = l_j, and let J be the coin that chose the component. Under Q

    L = log sum_j w_j e^{l_j} = log w_J + l_J + excess,    0 <= excess <= sum_{i != J} (w_i / w_J) e^{l_i - l_J}.

For normal components at distance g and noise of at most r in the direction of i, l_i - l_J <= g r - g^2/2, so that outside an event
of probability w_J Phi(-r) the share of i in the excess is at most (w_i / w_J) e^{g r - g^2/2}: nothing, where g is above 2 r. What
is left, Y' = log w_J + l_J, is N(v/2, v) plus a constant given J, v = c_J^2. Over a composition the counts k of the coins are
multinomial, and given them Y' is again such a law:

    delta'(eps) = sum_k Pr[k] D_{M_k}(eps - S_k),     M_k^2 = sum k_j c_j^2 + all unsampled Gaussians,   S_k = sum k_j log w_j,

D_M the curve of one Gaussian mechanism (for M = 0: (1 - e^eps)_+). Let H be the sum of all excesses and b the probability of all
exceptions. As the payoff (1 - e^{eps - y})_+ increases in y and lies in [0, 1],

    delta'(eps)  <=  delta(eps)  <=  delta'(eps - H) + b.

For reversed pairs Y is at most Y' instead, and for replacement it may be on either side: then H and b count on the other side or on
both (`humps`).

Other leaves R. In t = Y_R, h(t) = D_M(eps - t) has h' = phi(a) R(b) with a = (eps - t)/M - M/2, b = a + M and Mills' ratio R, and
(log h')' = 1/(M R(b)) - 1 lies between a/M and a/M + 1/(M b). So while |a| <= A it is at most lambda = (A + 1)/M in modulus, that
is, h is concave in e^{lambda t} and convex in -e^{-lambda t}, and by Jensen's inequality

    h(-K_R(-lambda) / lambda)  <=  E[h(Y_R)]  <=  h(K_R(lambda) / lambda):

all other leaves together are one constant, up to lambda Var(Y_R) / 2 on either side. Beyond A, h' is replaced by exponentials of
rate lambda, which changes h by 2 phi(A) + 2 Phi(-A) at most. Terms whose M is too small for this (no sample drawn) have quantiles of
Y_R instead, and the tails beyond these are part of b.

Laplace noise: L = mu - D with a deficit D that is 0 or Exp(1/2) with probability 1/2 each (up to the end 2 mu, an exception of
probability e^{-mu}/2), and the payoff of a sum of them is that of `deficits.py`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from dp_edgeworth.losses import gaussian_curve
from dp_edgeworth.losses.gaussian_noise import GaussianShift, NormalMixture
from dp_edgeworth.losses.laplace_noise import LaplaceShift
from dp_edgeworth.losses.operations import Mixed, Reversed, RoundedUp, Subsampled
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import EPSILON, RuleTooLargeError
from dp_edgeworth.losses.sampled_gaussian import SampledReplacement, SampledWithoutReplacement
from dp_edgeworth.proofs import spectral
from dp_edgeworth.proofs.deficits import divergence, payoff, stirling_error
from dp_edgeworth.sums.composition import Composition

_NEGLIGIBLE = 9.0  # exceptions are at most e^-9 of the delta that is asked for, all leaves together
_REST = 21.0  # the other leaves' tails, e^-21 of it
_CLOSE, _DEVIATIONS = 1e-3, 40.0
_MOST_TERMS = 400_000
_LOG_UNDERFLOW = -700.0


class Humps(NamedTuple):
    """Components of Y' of one leaf, and what bounds its distance from the true loss.

    Attributes:
      log_weights: of the components.
      variances, shifts, deficits: given the component, Y' is shift + N(v/2, v) - (deficits of Laplace noise).
      log_odds, gaps, log_chances: of pairs of components (i, J): the share of i in the excess under J is at most
        e^{log_odds + gap r - gap^2/2} outside an event of probability e^{log_chance} Phi(-r), r <= gap / 2.
      log_excesses, log_exceptions: further excesses, and the probabilities of further exceptions.
      below, above: whether the loss may be below or above Y'.
    """

    log_weights: np.ndarray
    variances: np.ndarray
    shifts: np.ndarray
    deficits: np.ndarray
    log_odds: np.ndarray
    gaps: np.ndarray
    log_chances: np.ndarray
    log_excesses: np.ndarray
    log_exceptions: np.ndarray
    below: bool = False
    above: bool = True

    @classmethod
    def normal(cls, components: Sequence[tuple[float, float, float]], pairs: Sequence[tuple[float, float, float]]) -> Humps:
        """From (log-weight, variance, shift) and (log-odds, gap, log-chance)."""
        none, (weights, variances, shifts) = np.zeros(0), np.array(components, float).T
        odds, gaps, chances = np.array(pairs, float).reshape(-1, 3).T
        return cls(weights, variances, shifts, np.zeros(len(components)), odds, gaps, chances, none, none)

    @classmethod
    def laplace(cls, components: Sequence[tuple[float, float, float]], mu: float, log_odds: float) -> Humps:
        """From (log-weight, shift, deficits): within mu/4 of its centre (all but e^{-mu/4}) the noise keeps |l| above mu/2."""
        weights, shifts, deficits = np.array(components, float).T
        none = np.zeros(0)
        return cls(weights, np.zeros(len(weights)), shifts, deficits, none, none, none, np.array([log_odds - 0.5 * mu]),
                   np.array([-0.25 * mu]))

    def _moved(self, logs: list[float]) -> Humps:
        """With losses that are off by e^logs in either direction, but for noise beyond 40 deviations."""
        if not logs:
            return self
        return self._replace(log_excesses=np.array(logs), log_exceptions=np.full(len(logs), float(special.log_ndtr(-_DEVIATIONS))),
                             below=True)

    def log_exception(self, log_excess: float) -> float:
        """log of the probability of all exceptions, if the excess is to be below e^{log_excess}; 0 where it is not."""
        share = log_excess - math.log(max(len(self.gaps) + len(self.log_excesses), 1))
        if np.any(self.log_excesses > share) or np.any(self.gaps == 0.0):
            return 0.0
        reach = 0.5 * self.gaps + np.minimum(share - self.log_odds, 0.0) / self.gaps
        each = np.concatenate([self.log_chances + special.log_ndtr(-reach), self.log_exceptions])
        return min(float(np.logaddexp.reduce(each, initial=-math.inf)), 0.0)


@functools.singledispatch
def humps(pllr: Pllr) -> Humps | None:
    """The components of a leaf that are told apart by its output, or None."""
    return None


@humps.register
def _(pllr: GaussianShift) -> Humps:
    return Humps.normal([(0.0, pllr.mu**2, 0.0)], [])


def _clusters(mixture: NormalMixture) -> tuple[list[tuple[float, float]], list[float]]:
    """(Shift, log-weight) of components that are nearly the same taken for one, and the logs of what that moves the loss by.

    Within a cluster from c to c + d, log-ratios against its lowest component and its own loss differ by at most d (|n| + c + d) for
    noise n of at most 40 deviations.
    """
    found: list[tuple[float, float]] = []
    moved = []
    for shift, weight in sorted(zip(mixture.shifts, mixture.weights, strict=True)):
        if found and shift - found[-1][0] <= _CLOSE:
            base, log = found[-1]
            found[-1] = base, float(np.logaddexp(log, math.log(weight)))
            moved.append(math.log(2.0 * (shift - base) * (_DEVIATIONS + shift)))
        else:
            found.append((shift, math.log(weight)))
    return found, moved


@humps.register
def _(pllr: NormalMixture) -> Humps:
    parts, moved = _clusters(pllr)
    near = _CLOSE if moved else 0.0  # members of a cluster may be that much nearer to another one than its lowest is
    known = Humps.normal([(log, c * c, log) for c, log in parts],
                         [(a - b, abs(c - d) - near, b) for (c, a), (d, b) in itertools.permutations(parts, 2)])
    return known._moved(moved)


@humps.register
def _(pllr: SampledReplacement) -> Humps:
    """Under Q: at 0 the loss is 0 up to the excesses of both laws; at mu it is log(p / (1-p)) + mu x - mu^2 / 2, also up to both.

    At mu the excess of P, p/(1-p) e^{-mu n - 3 mu^2/2} with noise n, is below p/(1-p) e^{mu r - mu^2/2} for n >= -r.
    """
    there, rest, mu = math.log(pllr.probability), math.log1p(-pllr.probability), pllr.mu
    return Humps.normal([(rest, 0.0, 0.0), (there, mu * mu, there - rest)],
                        [(there - rest, mu, 0.0), (there - rest, mu, 0.0), (rest - there, mu, there)])._replace(below=True)


@humps.register
def _(pllr: SampledWithoutReplacement) -> Humps:
    """Above 0 the loss of Poisson sampling for x > mu/2; the rest is at 0, but for a mirror image of mass Phi(-mu/2) at most.

    Exceptions: x < mu/2 where the record was sampled, x > mu/2 where it was not, and the mirror image, each Phi(-mu/2) at most.
    """
    there, rest, mu = math.log(pllr.probability), math.log1p(-pllr.probability), pllr.mu
    return Humps.normal([(rest, 0.0, 0.0), (there, mu * mu, there)],
                        [(there - rest, mu, math.log(3.0)), (rest - there, mu, there)])._replace(below=True)


@humps.register
def _(pllr: LaplaceShift) -> Humps:
    return Humps.laplace([(0.0, pllr.mu, 1.0)], pllr.mu, -math.inf)


@humps.register
def _(pllr: Subsampled) -> Humps | None:
    there, rest = math.log(pllr.probability), math.log1p(-pllr.probability)
    match pllr.inner:
        case GaussianShift(mu):
            return Humps.normal([(rest, 0.0, rest), (there, mu * mu, there)], [(there - rest, mu, rest), (rest - there, mu, there)])
        case LaplaceShift(mu):
            return Humps.laplace([(rest, rest, 0.0), (there, there + mu, 1.0)], mu, abs(there - rest))
    return None


@humps.register
def _(pllr: Reversed) -> Humps | None:
    """Under P only the nearest component counts, with the loss of its reversed pair: for normal noise -log w + N(c^2/2, c^2)."""
    match pllr.inner:
        case Subsampled(GaussianShift(mu), p):
            found = Humps.normal([(0.0, 0.0, -math.log1p(-p))], [(math.log(p) - math.log1p(-p), mu, 0.0)])
        case Subsampled(LaplaceShift(mu), p):
            found = Humps.laplace([(0.0, -math.log1p(-p), 0.0)], mu, math.log(p) - math.log1p(-p))
        case NormalMixture() as mixture:
            ((nearest, log), *others), moved = _clusters(mixture)
            found = Humps.normal([(0.0, nearest**2, -log)], [(a - log, c - nearest, 0.0) for c, a in others])._moved(moved)
            return found if moved else found._replace(below=True, above=False)
        case _:
            return None
    return found._replace(below=True, above=False)


@humps.register
def _(pllr: Mixed) -> Humps | None:
    """A public coin: the components of all parts."""
    parts = [(math.log(weight), humps(part)) for weight, part in zip(pllr.weights, pllr.parts, strict=True) if weight > 0]
    known = [part._replace(log_weights=part.log_weights + log, log_chances=part.log_chances + log)
             for log, part in parts if part is not None]
    if isinstance(pllr, RoundedUp) or len(known) < len(parts):
        return None
    columns = [np.concatenate(column) for column in zip(*(part[:-2] for part in known), strict=True)]
    return Humps(*columns, below=any(part.below for part in known), above=any(part.above for part in known))  # type: ignore[arg-type, misc]


class FarForm(NamedTuple):
    """delta'(eps) as a sum of terms over the counts of the hidden coins, and how far it is from delta.

    Attributes:
      probabilities, variances, shifts, deficits: of the terms. low, middle, high: shifts by the other leaves and excesses, so that
      delta' with low is at most delta + dropped[0], and with high at
        least delta - dropped[1].
      error: relative error of the probabilities and of the terms.
      scale: size of what is added up to the shifts and, where it may be near epsilon, the variances.
      digits: -log of what a term may be off.
    """

    probabilities: np.ndarray
    variances: np.ndarray
    shifts: np.ndarray
    deficits: np.ndarray
    low: np.ndarray
    middle: np.ndarray
    high: np.ndarray
    dropped: tuple[float, float]
    error: float
    scale: float
    digits: float

    def log_delta(self, more: np.ndarray, side: str, epsilon: np.ndarray) -> np.ndarray:
        """log delta' with these further shifts, as a lower bound, an estimate or an upper bound (`side`).

        Only terms near epsilon are evaluated; the others are 0 or 1 up to e^-digits.
        """
        eps, shifts = np.asarray(epsilon, float).ravel(), self.shifts + more
        spread = np.sqrt(self.variances)
        reach = math.sqrt(2.0 * self.digits) * spread
        gap = shifts + 0.5 * self.variances - eps[:, None]
        # A sum of n deficits exceeds 1.63 n + 4 t with probability at most e^-t, as E[e^{D/4}] = 3/2. A gap of t pays 1 - e^-t.
        sure = gap > reach + 2.0 * self.digits + np.where(self.deficits > 0, 1.63 * self.deficits + 4.0 * self.digits, 0.0)
        total = sure @ self.probabilities
        row, term = np.nonzero(~sure & (gap > -reach))
        if len(row):
            value = _payoff(eps[row] - shifts[term], spread[term], self.deficits[term], self.digits, side)
            total = total + np.bincount(row, self.probabilities[term] * value, minlength=len(eps))
        with np.errstate(divide="ignore"):
            return np.log(np.minimum(total, 1.0)).reshape(np.shape(epsilon))


def _payoff(epsilon: np.ndarray, spread: np.ndarray, deficits: np.ndarray, digits: float, side: str) -> np.ndarray:
    """E[(1 - e^{eps - Z})_+] of Z ~ N(spread^2/2, spread^2), or of minus a sum of deficits where the spread is 0."""
    value = np.empty(len(epsilon))
    for mu in np.unique(spread[spread < 1.0]):
        here = spread == mu
        at = epsilon[here]
        value[here] = np.exp(gaussian_curve.log_delta(at, float(mu))) if mu > 0.0 else -np.expm1(np.minimum(at, 0.0))
    wide = spread >= 1.0
    value[wide] = np.exp(gaussian_curve.log_delta_of_large(epsilon[wide], spread[wide]))
    for i in np.flatnonzero((spread == 0.0) & (deficits > 0)):
        value[i] = getattr(payoff(-float(epsilon[i]), float(deficits[i]), digits), side)
    return value


def _multinomial(weights: np.ndarray, count: float, digits: float) -> tuple[np.ndarray, np.ndarray, float] | None:
    """(log-probabilities, counts of the components, number of exceptions of probability e^-digits), or None where they are too many.

    Each count is binomial, and beyond the ends of its window its tail is below e^-digits (Chernoff: divergences of both sides). The
    probabilities are Stirling's formula with its error (Loader, "Fast and accurate computation of binomial probabilities", 2000).
    """
    columns = len(weights)
    if columns == 1:
        return np.zeros(1), np.full((1, 1), count), 0.0
    order = np.argsort(weights)
    windows = [_window(float(weights[j]), count, digits) for j in order[:-1]]
    if math.prod(len(window) for window in windows) > _MOST_TERMS:
        return None
    drawn = np.stack([axis.ravel() for axis in np.meshgrid(*windows, indexing="ij")], axis=1)
    drawn = drawn[drawn.sum(axis=1) <= count]
    counts = np.empty((len(drawn), columns))
    counts[:, order[:-1]], counts[:, order[-1]] = drawn, count - drawn.sum(axis=1)
    logs = stirling_error(np.array(count)) + 0.5 * math.log(2.0 * math.pi * count) - (
        divergence(counts, count * weights) + stirling_error(counts)
        + np.where(counts > 0, 0.5 * np.log(2.0 * math.pi * np.maximum(counts, 1.0)), 0.0)).sum(axis=1)
    kept = logs > -digits
    return logs[kept], counts[kept], 2.0 * columns + float((~kept).sum())


def _window(weight: float, count: float, digits: float) -> np.ndarray:
    """The counts of a component whose tails under Binomial(count, weight) are not below e^-digits."""
    mean = count * weight
    high = min(count, math.ceil(mean + math.sqrt(2.0 * digits * mean) + 2.0 * digits))
    low = max(0.0, math.floor(mean - math.sqrt(2.0 * digits * mean)))
    if high - low > _MOST_TERMS:
        return np.zeros(_MOST_TERMS + 1)
    k = np.arange(low, high + 1.0)
    tail = divergence(k, mean) + divergence(count - k, count - mean)
    return k[(tail <= digits) | (np.abs(k - mean) <= 1.0)]


def far_form(composition: Composition, log_delta: float, excess: float) -> FarForm | None:
    """The sum over hidden coins for targets of delta and of 1 - delta not below e^{log_delta}, or None where it would not be accurate.

    `excess` is what all excesses together may be.

    Leaves that are not far apart are the rest: known by two quantiles only, if they are not unsampled Gaussians.
    """
    if composition.log_finite < 0.0 or log_delta < _LOG_UNDERFLOW:
        return None
    far, rest, exceptions = [], {}, [0.0, 0.0]
    share = math.log(len(composition.counts))
    for pllr, count in composition.counts.items():
        if pllr.gaussian_variance is not None:
            continue
        found = humps(pllr)
        exception = found.log_exception(math.log(excess) - share - math.log(count)) + math.log(count) if found is not None else 0.0
        if found is not None and exception < log_delta - _NEGLIGIBLE - share:
            far.append((found, float(count)))
            exceptions = [exceptions[0] + found.below * math.exp(exception), exceptions[1] + found.above * math.exp(exception)]
        else:
            rest[pllr] = count
    terms = _terms(far, composition.gaussian_variance, 30.0 - log_delta) if far else None
    if terms is None or not np.all(np.isfinite(terms.variances)) or not np.all(np.isfinite(terms.shifts)):
        return None
    tails = math.exp(log_delta - _REST) if rest else 0.0
    dropped = (terms.dropped[0] + exceptions[0] + tails, terms.dropped[1] + exceptions[1] + tails)
    low, middle, high, deficits = _others(terms, Composition(rest) if rest else None, log_delta - _REST)
    if not any(len(leaf.gaps) or np.any(leaf.log_excesses > -math.inf) for leaf, _ in far):
        excess = 0.0
    below, above = (any(getattr(leaf, side) for leaf, _ in far) for side in ("below", "above"))
    return terms._replace(low=low - below * excess, middle=middle, high=high + above * excess, deficits=deficits, dropped=dropped)


def _others(terms: FarForm, rest: Composition | None, log_tail: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What the rest adds to the loss of every term, at least, about and at most; and the deficits that are not part of it.

    Deficits of terms with a variance are treated as other leaves: E[e^{-+lambda D}] = 1/2 + 1/4 / (1/2 +- lambda).
    """
    furthest = math.sqrt(2.0 * terms.digits) + 1.0
    smooth = terms.variances > (3.0 * furthest) ** 2
    own = np.where(terms.variances > 0.0, terms.deficits, 0.0)
    if rest is None and not own.any():
        none = np.zeros(len(terms.shifts))
        return none, none, none, terms.deficits
    rate = furthest / math.sqrt(float(np.min(terms.variances[smooth], initial=math.inf)))
    down, up = _quantiles(rest, log_tail) if rest is not None else (0.0, 0.0)
    least, mean, most = _constants(rest, rate) if rest is not None and smooth.any() else (0.0, 0.0, 0.0)
    rate = max(rate, 1e-9)
    low = np.where(smooth, least - own * math.log1p(0.5 * rate / (0.5 - rate)) / rate,
                   -down - 1.63 * own - 4.0 * terms.digits * (own > 0))
    high = np.where(smooth, most + own * math.log1p(-0.5 * rate / (0.5 + rate)) / rate, up)
    return low, np.clip(mean - own, low, high), high, terms.deficits - own


def _constants(rest: Composition, rate: float) -> tuple[float, float, float]:
    """-K(-rate) / rate, K'(0) and K(rate) / rate, rounded outwards; a tiny rate is raised, which is allowed."""
    rate = max(rate, 1e-4 / max(math.sqrt(rest.total), 1.0))
    try:
        k = rest.cgf([-rate, 0.0, rate])
    except RuleTooLargeError:
        return -math.inf, 0.0, math.inf
    error = (k[3] + 4.0 * EPSILON * np.abs(k[0])) / rate
    return float(-k[0, 0] / rate - error[0]), float(k[1, 1]), float(k[0, 2] / rate + error[2])


def _terms(far: list[tuple[Humps, float]], variance: float, digits: float) -> FarForm | None:
    """All combinations of counts of all leaves."""
    logs, sums, sizes, error, exceptions = np.zeros(1), np.array([[variance, 0.0, 0.0]]), np.zeros(1), 1e-12, 3.0
    for leaf, count in far:
        weights = np.exp(leaf.log_weights)
        found = _multinomial(weights, count, digits)
        if found is None or len(found[0]) * len(logs) > _MOST_TERMS:
            return None
        columns = np.stack([leaf.variances, leaf.shifts, leaf.deficits], axis=1)
        logs = (logs[:, None] + found[0]).ravel()
        sums = (sums[:, None] + found[1] @ columns).reshape(-1, 3)
        sizes = (sizes[:, None] + found[1] @ np.abs(leaf.shifts)).ravel()
        spread = float(np.abs(found[1] - count * weights).sum(axis=1).max())
        error += EPSILON * (64.0 * spread + (4.0 * count if len(weights) > 2 else 0.0))
        exceptions += found[2]
    none, tail = np.zeros(len(logs)), math.exp(-digits)
    return FarForm(np.exp(logs), sums[:, 0], sums[:, 1], sums[:, 2], none, none, none, (10.0 * tail, (exceptions + 10.0) * tail), error,
                   float(sizes.max()) + variance, digits)


def _quantiles(rest: Composition, log_tail: float) -> tuple[float, float]:
    """How far below and above 0 the sum of the other leaves is with probability 1 - e^{log_tail} on either side.

    E_Q[e^{-Y}] <= 1, so Y < -t with probability at most e^{-t}; above by the Chernoff bound, or the largest possible loss.
    """
    try:
        tilt = spectral.positive_tilt(rest, log_tail)
        k = rest.cgf([tilt])[:, 0]
        up = (float(k[0] + k[3]) - log_tail) / tilt
    except RuleTooLargeError:
        up = math.inf
    return -log_tail, max(min(up, rest.supremum), 0.0)
