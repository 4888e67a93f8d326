"""What an attacker can do, from the same certified curve as epsilon: rates, Gaussian mu, and the error of a Bayesian.

An attacker who believes in the record with probability pi errs, at best, with probability

    R(pi) = inf over tests of (1 - pi) alpha + pi beta = min(pi, 1 - pi) (1 - delta(|log((1 - pi) / pi)|)),

because for t = (1 - pi) / pi >= 1 the infimum over rejection regions S of (1 - pi) P(S) + pi (1 - Q(S)) is
pi (1 - sup_S (Q(S) - t P(S))), and the supremum is the hockey-stick divergence of order t; for t < 1 the roles of P and Q are
exchanged. delta is that of the worse direction, so this is the error for the worse order of the neighbours. With an upper bound of
delta it is a lower bound of the error.

>>> import dp_accounting as dpa
>>> from dp_edgeworth import EdgeworthIntervalAccountant
>>> accountant = EdgeworthIntervalAccountant().compose(dpa.GaussianDpEvent(1.0))
>>> round(bayes_risk(accountant, 0.5), 9)   # Phi(-1/2)
0.308537539
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dp_edgeworth import validation
from dp_edgeworth.accountants.accountant import EdgeworthIntervalAccountant
from dp_edgeworth.intervals import Interval

_ROUNDING = 2.0**-50  # of a logarithm, a difference and a product, relative, with room to spare
LEAST_ALPHA = 1e-10  # the error rates from which on the Gaussian mu is a bound, by default


def bayes_risk_interval(accountant: EdgeworthIntervalAccountant, prior: float) -> Interval:
    """Certified bounds of R(prior)."""
    pi = validation.probability("prior", prior)
    smaller = min(pi, 1.0 - pi)
    if smaller == 0.0:
        return Interval(0.0, 0.0, 0.0)
    # log((1 - pi) / pi) without cancellation near pi = 1/2, where it is -2 artanh(2 pi - 1).
    exact = abs(2.0 * math.atanh(2.0 * pi - 1.0)) if 0.25 <= pi <= 0.75 else abs(math.log1p(-pi) - math.log(pi))
    deltas = accountant.get_delta_interval(np.array([exact * (1.0 - _ROUNDING), exact * (1.0 + _ROUNDING)]))
    upper, lower = float(np.asarray(deltas.upper)[0]), float(np.asarray(deltas.lower)[1])
    estimate = smaller * (1.0 - float(np.asarray(deltas.estimate)[0]))
    ends = (max(smaller * (1.0 - upper) * (1.0 - _ROUNDING), 0.0), min(smaller * (1.0 - lower) * (1.0 + _ROUNDING), smaller))
    return Interval(ends[0], min(max(estimate, ends[0]), ends[1]), ends[1])


def bayes_risk(accountant: EdgeworthIntervalAccountant, prior: float = 0.5) -> float:
    """A proved lower bound of the error probability of any attacker with this prior belief in the record."""
    return bayes_risk_interval(accountant, prior).lower


def true_positive_rates(accountant: EdgeworthIntervalAccountant, false_positive_rates: Any) -> Any:
    """A proved upper bound of the true positive rate at these false positive rates: 1 - f(alpha); an array for an array."""
    rates = validation.array_in("false_positive_rates", false_positive_rates, 0.0, 1.0)
    beta = np.asarray(accountant.get_tradeoff(rates).lower)
    # Exact from 1/2 on (Sterbenz); below, a bound near 1 is rounded up by one float.
    found = np.where(beta < 0.5, np.minimum(np.nextafter(1.0 - beta, 2.0), 1.0), 1.0 - beta)
    return float(found) if found.ndim == 0 else found


def gdp_parameter(accountant: EdgeworthIntervalAccountant, false_positive_rates: Any = None) -> float:
    """`get_gdp_mu` from the smallest of these false positive rates on, 1e-10 by default."""
    if false_positive_rates is None:
        return accountant.get_gdp_mu(LEAST_ALPHA)
    rates = validation.array_in("false_positive_rates", false_positive_rates, 0.0, 1.0)
    positive = rates[(rates > 0.0) & (rates < 0.5)]
    if not positive.size:
        raise ValueError(f"`false_positive_rates` must have an entry in (0, 0.5). Found {validation.shown(false_positive_rates)}.")
    return accountant.get_gdp_mu(float(positive.min()))
