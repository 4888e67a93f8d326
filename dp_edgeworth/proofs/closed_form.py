"""Theorem: compositions whose delta is a known function of epsilon, at least from some epsilon on.

    Gaussians        all of them together are one
    a single leaf    where its hockey-stick is known
    atoms            whose sums are few: these are one leaf. Of m uses of atoms q_i > 0 with losses l_i the sum n_1 l_1 + n_2 l_2 + ...
                     has the mass m! / (n_1! n_2! ...) q_1^n_1 q_2^n_2 ..., and the hockey-stick adds up positive terms (`NodeProfile`)
    Laplace noise    near the largest loss: every L_i is mu_i less a deficit, which is 0 with probability 1/2 and has the density
                     e^{-x/2} / 4 up to 2 mu_i. As long as T = sum mu_i - eps <= 2 min mu_i the ends 2 mu_i do not matter, the sum of
                     k deficits that are not 0 is a Gamma variable, and over k ~ Binomial(m, 1/2)

                         delta = 2^-m (1 - e^-T) + int_0^T f(x) (1 - e^{x - T}) dx,    f(x) = 2^{-m-1} e^{-x/2} L_{m-1}^{(1)}(-x/2)

                     with a Laguerre polynomial whose terms are all positive there; the integrand is entire and grows at most like
                     e^{sqrt(2 m x)}, so that 96 Gauss-Legendre nodes are exact to rounding for T <= min(20, 2000 / m).

Charged: a relative error of 4e-12 of the closed form, of sums of atoms what logarithms are rounded by, too; 32 ulp of 1 where 1 - delta
is asked for; and what rounding does inside, a shift of epsilon by 32 ulp of epsilon and of the numbers that are subtracted from each
other (`scale`). Below the first epsilon for which the form holds delta is at least what it is there.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np
from scipy import special

from dp_edgeworth.losses import gaussian_curve
from dp_edgeworth.losses.finite_pair import NodeProfile
from dp_edgeworth.losses.gaussian_curve import legendre
from dp_edgeworth.losses.laplace_noise import LaplaceShift
from dp_edgeworth.losses.rules import EPSILON, Demand
from dp_edgeworth.proofs.curve import Curve, LogBounds
from dp_edgeworth.sums.composition import Composition

_MOST_USES, _MOST_SUMS = 1000, 8192  # 2^-1000 is a float
_LONG, _LEAST_LOG = np.finfo(np.longdouble), -1e6
_ERROR = 4e-12
_UNIT = 32.0 * EPSILON
_LOG_LEAST, _LOG_TINY = -746.0, math.log(5e-324)  # less is no float, and not told apart; what underflowed can be this much
_APART = 1e-7  # of epsilon: two points that a slope is read off
_LONGEST_TAIL, _LONGEST_DEFICIT = 2000.0, 20.0
LogFunction = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class ClosedForm(Curve):
    """log delta (or log(1 - delta): a negative tilt) as a function of epsilon >= start, and the size of the numbers that it
    subtracts.
    """

    log_function: LogFunction
    scale: float
    start: float = 0.0
    tilt: float = 1.0
    error: float = _ERROR  # relative
    unit: float = _UNIT  # of 1 - delta
    whole: bool = True
    inverse: LogFunction | None = None  # about where the function has a value
    kinks: np.ndarray | None = None  # between which G is linear in e^eps, from 0 on, but for the shift

    theorem = "closed form"

    @np.errstate(divide="ignore", invalid="ignore", over="ignore")
    def bounds(self, epsilons: np.ndarray) -> LogBounds:
        eps = np.atleast_1d(np.asarray(epsilons, float))
        inside, shift = np.maximum(eps, self.start), _UNIT * (np.abs(eps) + self.scale)
        off, apart = self.unit if self.complement else 0.0, self._apart(inside)
        points = np.stack([inside - shift, inside, inside + shift, np.maximum(inside - apart, self.start)])
        logs = self.log_function(points)
        low, middle, high = logs[:3] if self.complement else logs[2::-1]
        lower = low - self.error + np.log1p(-np.minimum(off * np.exp(-low), 1.0))
        upper = np.logaddexp(high + self.error, math.log(off) if off else -np.inf)
        if not self.complement:
            upper = np.maximum(upper, np.where(high > -np.inf, _LOG_LEAST, _LOG_TINY))
            lower = np.where(lower < _LOG_LEAST, -np.inf, lower)
        below = eps < self.start - 2.0 * shift
        lower = np.where(below & self.complement, -np.inf, np.nan_to_num(lower, nan=-np.inf, neginf=-np.inf))
        upper = np.where((below & (not self.complement)) | np.isnan(upper), 0.0, np.minimum(upper, 0.0))
        slope = (logs[1] - logs[3]) / apart
        return LogBounds(lower, np.clip(np.nan_to_num(middle, nan=0.0, neginf=-np.inf), lower, upper), upper, slope)

    def table(self, high: float) -> tuple[np.ndarray, np.ndarray]:
        """Epsilons from 0 to about `high` between which a bound from below is linear in e^eps; where to ask `bounds` for its values.

        That is the law moved down, Q-masses kept, so that its kinks are at these epsilons: by at most twice the shift.
        """
        assert self.kinks is not None
        kinks = np.append(self.kinks[self.kinks < high], self.kinks[self.kinks >= high][:1])
        down = 4.0 * _UNIT * (float(kinks[-1]) + self.scale)
        epsilons = np.unique(np.maximum(kinks - down, 0.0))
        return epsilons, epsilons + 2.0 * down

    @np.errstate(divide="ignore", invalid="ignore", over="ignore")
    def light(self, epsilon: float) -> tuple[float, float]:
        inside = max(epsilon, self.start)
        apart = float(self._apart(np.array(inside)))
        here, before = map(float, self.log_function(np.array([inside, max(inside - apart, self.start)])))
        return here, (here - before) / apart

    def _apart(self, inside: np.ndarray) -> np.ndarray:
        """How far apart two points are that a slope is read off, for those who search."""
        return np.asarray(_APART * np.maximum(inside, _APART * self.scale))


def closed_forms(composition: Composition) -> tuple[ClosedForm, ClosedForm] | None:
    """delta and 1 - delta of a composition where they are known, or None."""
    if composition.is_gaussian:
        mu = math.sqrt(composition.gaussian_variance)
        return (ClosedForm(lambda e: gaussian_curve.log_delta(e, mu), mu * mu),
                ClosedForm(lambda e: gaussian_curve.log_complement(e, mu), mu * mu, tilt=-0.5))
    single = composition.single
    if single is not None and single.log_hockey_stick(np.zeros(1)) is not None:
        return _with_complement(lambda e: np.asarray(single.log_hockey_stick(np.maximum(e, 0.0))), single.loss_scale, 0.0)
    if composition.atomic and composition.total <= _MOST_USES and _LONG.minexp < -10_000:
        return _sums_of_atoms(composition)
    if all(type(pllr) is LaplaceShift for pllr in composition.counts) and composition.total <= _MOST_USES:
        return _laplace_near_top(composition)
    return None


def _sums_of_atoms(composition: Composition) -> tuple[ClosedForm, ClosedForm] | None:
    """All sums of atoms, where they are few."""
    rules = [(pllr.rule(Demand()), count) for pllr, count in composition.counts.items()]
    atoms = [(rule.values[0], rule.log_weights[0], count) for rule, count in rules]
    if math.prod(math.comb(count + len(values) - 1, count) for values, _, count in atoms) > _MOST_SUMS:
        return None
    losses, logs, off = np.zeros(1), np.zeros(1, np.longdouble), 8.0
    for values, log_p, count in atoms:
        numbers, factorials = _numbers(count, len(values)), _log_factorials()[:count + 1]
        log_q = np.maximum(log_p + values, _LEAST_LOG)
        masses = factorials[count] - factorials[numbers].sum(axis=1) + numbers @ log_q
        losses, logs = (np.add.outer(*parts).ravel() for parts in ((losses, numbers @ values), (logs, masses)))
        off += count * (16.0 + 4.0 * float(np.abs(log_q).max() + np.abs(values).max()))
    scale = math.fsum(count * pllr.loss_scale for pllr, count in composition.counts.items())
    profile, infinite = NodeProfile.of(*_merged(losses, np.exp(logs), scale), 0.0), composition.infinite_mass
    error = _ERROR + EPSILON * off + float(_LONG.eps) * (4.0 * len(losses) + composition.total * float(_log_factorials()[-1]))

    def log_delta(epsilon: np.ndarray) -> np.ndarray:
        return np.log(np.minimum(profile.at(np.maximum(epsilon, 0.0)), 1.0)).astype(float)

    def log_complement(epsilon: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(1.0 - infinite - np.exp(log_delta(epsilon)), 0.0))

    return (ClosedForm(log_delta, scale, error=error, whole=False, kinks=profile.losses,
                       inverse=lambda logs: profile.crossing(np.exp(np.asarray(logs, np.longdouble)))),
            ClosedForm(log_complement, scale, tilt=-0.5, error=error, unit=_UNIT + 2.0 * error))


def _merged(losses: np.ndarray, masses: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Sums that rounding tells apart are one; none is moved by more than 4 ulp of the scale."""
    grid = 4.0 * EPSILON * max(scale, 1e-300)
    order = np.argsort(losses, kind="stable")
    first = np.flatnonzero(np.append(True, np.diff(np.rint(losses[order] / grid)) > 0.0))
    return losses[order][first], np.add.reduceat(masses[order], first)


def _numbers(total: int, kinds: int) -> np.ndarray:
    """All ways of writing `total` as a sum of so many numbers, one per row."""
    rest, columns = np.array([total]), list[np.ndarray]()
    for _ in range(kinds - 1):
        place = np.repeat(np.arange(len(rest)), rest + 1)
        first = np.cumsum(rest + 1) - rest - 1
        used = np.arange(len(place)) - first[place]
        columns, rest = [*(column[place] for column in columns), used], rest[place] - used
    return np.stack([*columns, rest], axis=1)


@functools.cache
def _log_factorials() -> np.ndarray:
    """log n! as long doubles."""
    return np.append(np.longdouble(0.0), np.cumsum(np.log(np.arange(1, _MOST_USES + 1, dtype=np.longdouble))))


def _with_complement(log_delta: LogFunction, scale: float, start: float) -> tuple[ClosedForm, ClosedForm]:
    def bounded(epsilon: np.ndarray) -> np.ndarray:
        return np.minimum(log_delta(epsilon), 0.0)

    def log_complement(epsilon: np.ndarray) -> np.ndarray:
        return np.log(-np.expm1(bounded(epsilon)))

    return ClosedForm(bounded, scale, start), ClosedForm(log_complement, scale, start, tilt=-0.5)


def _laplace_near_top(composition: Composition) -> tuple[ClosedForm, ClosedForm]:
    """The formula of the module's header."""
    m, top = int(composition.total), composition.supremum
    shortest = min(pllr.mu for pllr in composition.counts)  # type: ignore[attr-defined]
    reach = min(2.0 * shortest, top, _LONGEST_DEFICIT, _LONGEST_TAIL / m)
    x, w = legendre(96)

    def log_delta(epsilon: np.ndarray) -> np.ndarray:
        below = np.clip(top - np.asarray(epsilon, float), 0.0, reach)[..., None]
        nodes = 0.5 * below * (1.0 + x)
        density = 0.5 * np.exp(-0.5 * nodes) * special.eval_genlaguerre(m - 1, 1.0, -0.5 * nodes)
        rest = 0.5 * below * density * -np.expm1(nodes - below)
        return np.log((rest * w).sum(axis=-1) - np.expm1(-below[..., 0])) - m * math.log(2.0)

    return _with_complement(log_delta, top, top - reach)
