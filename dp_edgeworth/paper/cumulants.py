"""Cumulants of sums of losses, under P, under Q and under any tilted law."""

from __future__ import annotations

import numpy as np
from scipy import special

from dp_edgeworth.losses.rules import Demand
from dp_edgeworth.paper.known_moments import PllrMoments
from dp_edgeworth.sums.blocks import Block, Transform
from dp_edgeworth.sums.composition import Composition


def cumulants(composition: Composition, order: int, tilt: float = 0.0) -> np.ndarray:
    """Cumulants 1..order of the sum under the law tilted by `tilt` (0: Y under Q, -1: X under P)."""
    result, rest = np.zeros(order), {}
    for pllr, count in composition.counts.items():
        if isinstance(pllr, PllrMoments):
            result += float(count) * pllr.cumulants(order, tilt)
        else:
            rest[pllr] = count
    if rest:
        # L^order grows like e^{order x} where the sampled loss bends, so the nodes must reach that far.
        known = composition if len(rest) == len(composition.counts) else Composition(rest)
        result += derivatives(known, order, tilt, known.demand(tilt - order, tilt + order))[1]
    return result


def derivatives(composition: Composition, order: int, tilt: float, demand: Demand) -> tuple[float, np.ndarray]:
    """K and its derivatives 1..order at one tilt, the cumulants of the tilted sum."""
    variance = composition.gaussian_variance
    log_mgf, result = 0.5 * variance * tilt * (tilt + 1.0), np.zeros(order)
    result[:2] = (variance * (tilt + 0.5), variance)[:order]
    for block in composition.blocks(demand):
        transform = block.transform(tilt)
        log_mgf += float(block.total(transform.log_mgf))
        result += tilted_cumulants(block, transform, order) @ block.counts
    return log_mgf, result


def tilted_cumulants(block: Block, transform: Transform, order: int) -> np.ndarray:
    """Cumulants 1..order of every leaf of a block under its tilted law, one column per leaf."""
    centred = block.rule.values - transform.mean[:, None]
    powers, moments = np.ones_like(centred), [np.ones(len(transform.mean))]
    for _ in range(order):
        powers = powers * centred
        moments.append((transform.weights * powers).sum(axis=1))
    moments[1] = np.zeros(len(transform.mean))
    kappa = _from_central_moments(np.array(moments))
    kappa[0] = transform.mean
    return kappa


def _from_central_moments(moments: np.ndarray) -> np.ndarray:
    """kappa_1..kappa_n from central moments mu_0..mu_n: kappa_n = mu_n - sum_k C(n-1, k-1) kappa_k mu_{n-k}."""
    order = len(moments) - 1
    kappa = np.zeros((order + 1, *moments.shape[1:]))
    for n in range(1, order + 1):
        kappa[n] = moments[n] - sum((special.comb(n - 1, k - 1) * kappa[k] * moments[n - k] for k in range(1, n)), 0.0)
    return kappa[1:]
