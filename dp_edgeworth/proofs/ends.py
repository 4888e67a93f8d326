"""Theorem: from a curve to proved ends of epsilon and of delta. The one place where bounds of G become answers.

delta(eps) = infinite mass + G(eps) does not rise with eps. So for a delta

    any eps >= 0 with (upper bound of delta)(eps) <= delta  is an upper end of epsilon(delta),
    any eps >= 0 with (lower bound of delta)(eps) >  delta  is a lower end,

whoever proposes the eps; where the inequality is not met, nothing follows: infinity and 0. With a curve of 1 - delta the two change
places. What G is compared with, log(delta - infinite mass) or log(1 - delta), is rounded: by 4 ulp of the logarithm, and by the
error of the infinite mass (`Composition.infinite_mass_margin`); both are charged (`slack`). A delta is moved outwards by 2e-15 of
itself, by one float where floats are sparse, and by the error of the infinite mass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dp_edgeworth.losses.rules import EPSILON
from dp_edgeworth.proofs.curve import Curve
from dp_edgeworth.proofs.proved import Proved
from dp_edgeworth.sums.composition import Composition

_TINY = 5e-324
_MASS_ERROR = 1e-14


class LogTargets(NamedTuple):
    """What G is compared with, and how far that is rounded."""

    logs: np.ndarray
    slack: np.ndarray


def log_targets(composition: Composition, deltas: np.ndarray, *, complement: bool, whole: bool = False) -> LogTargets:
    """log(delta - infinite mass), or log(1 - delta); -inf where nothing is left. `whole`: log delta."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if complement or whole or not composition.infinite_mass:
            logs = np.log1p(-deltas) if complement else np.log(deltas)
            return LogTargets(logs, 4.0 * EPSILON * np.abs(logs))
        finite = deltas - composition.infinite_mass
        logs = np.log(np.maximum(finite, 0.0))
        share = np.minimum(composition.infinite_mass_margin / np.maximum(finite, _TINY), 1.0)
        return LogTargets(logs, 4.0 * EPSILON * np.abs(logs) - np.log1p(-share))


def proved_epsilons(curve: Curve, composition: Composition, deltas: np.ndarray, low: np.ndarray, estimate: np.ndarray,
                    high: np.ndarray) -> Proved:
    """Which of the proposed ends are ends of epsilon(delta): one lower and one upper candidate per delta."""
    targets, slack = log_targets(composition, deltas, complement=curve.complement, whole=curve.whole)
    low, high, count = np.maximum(low, 0.0), np.maximum(high, 0.0), len(deltas)
    b = curve.bounds(np.concatenate([low, high]))
    with np.errstate(invalid="ignore"):
        if curve.complement:
            above, below = b.lower[count:] >= targets + slack, b.upper[:count] < targets - slack
        else:
            above, below = b.upper[count:] <= targets - slack, b.lower[:count] > targets + slack
    return Proved.of(np.where(below & np.isfinite(targets), low, 0.0), estimate, np.where(above & np.isfinite(targets), high, np.inf),
                     curve.theorem)


def proved_deltas(curve: Curve, composition: Composition, epsilons: np.ndarray) -> Proved:
    """delta at every epsilon."""
    b = curve.bounds(epsilons)
    if curve.complement:
        low, middle, high = (-np.expm1(np.minimum(part, 0.0)) for part in (b.upper, b.estimate, b.lower))
        return Proved.of(low * (1.0 - 2.0 * EPSILON), middle, np.minimum(high * (1.0 + 2.0 * EPSILON), 1.0), curve.theorem)
    with np.errstate(under="ignore"):
        middle, high = (np.exp(np.minimum(part, 0.0)) for part in (b.estimate, b.upper))
    infinite = 0.0 if curve.whole else composition.infinite_mass
    _, most = around(infinite)
    return Proved.of(least_deltas(b.lower, composition, whole=curve.whole), infinite + middle,
                     np.minimum(most + (high * (1.0 + 2e-15) + _TINY), 1.0), curve.theorem)


def least_deltas(logs: np.ndarray, composition: Composition, *, whole: bool = False) -> np.ndarray:
    """Lower bounds of delta from those of log G."""
    least, _ = around(0.0 if whole else composition.infinite_mass)
    with np.errstate(under="ignore"):
        return np.asarray(np.maximum(least + (np.exp(np.minimum(logs, 0.0)) * (1.0 - 2e-15) - _TINY), 0.0))


def around(mass: float) -> tuple[float, float]:
    """Bounds of an infinite mass that is known to 1e-14."""
    return max(mass * (1.0 - _MASS_ERROR) - _TINY, 0.0), min(mass * (1.0 + _MASS_ERROR) + _TINY, 1.0) if mass else 0.0
