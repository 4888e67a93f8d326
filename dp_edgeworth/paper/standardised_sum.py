"""The characteristic function f_S of a standardised sum of losses on a grid, and bounds of it beyond."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dp_edgeworth.losses.rules import EPSILON, RuleTooLargeError
from dp_edgeworth.paper.prawitz_kernel import Envelope
from dp_edgeworth.sums import characteristic, envelope
from dp_edgeworth.sums.blocks import Block, Transform
from dp_edgeworth.sums.composition import Composition

END = 10.0  # of the grid
_GRID_COST = 3e-9  # of `prawitz`, over E S^4, at 1,000 nodes

_Parts = tuple[tuple[Block, Transform], ...]


class StandardCharacteristic(NamedTuple):
    """f_S(u) = e^{-i u mean / B} prod_i phi_i(u / B)^{m_i}, B the deviation.

    Attributes:
      values: f_S at the nodes of [0, END] and one step beyond. error: a bound of all their errors. nodes: how many steps.
      envelope: upper bounds of |f_S| over cells. dies_out: whether it is below 1e-9 everywhere from END to 100 END.
    """

    values: np.ndarray
    error: float
    nodes: int
    envelope: Envelope
    dies_out: bool


def standard_characteristic(composition: Composition, tilt: float, mean: float, deviation: float, fourth: float, accuracy: float,
                            by_moments: Envelope) -> StandardCharacteristic | None:
    """f_S for distances that are needed to `accuracy`, with another envelope `by_moments`; None if the rules would be too large.

    `fourth` bounds E S^4.
    """
    try:
        blocks = composition.blocks(composition.demand(tilt - 1.0, tilt + 1.0, 1.01 * END / deviation))
        parts = tuple((block, block.transform(tilt)) for block in blocks)
    except RuleTooLargeError:
        return None
    gaussian, nodes = composition.gaussian_variance, _node_count(fourth, accuracy)
    decay = envelope.Envelope.of(parts, tilt, gaussian)

    def bound(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """By uniform laws below the densities of the leaves."""
        return np.exp(-decay.exponent(np.asarray(a) / deviation))

    far = np.geomspace(END, 100.0 * END, 100)  # on a lattice it comes back
    dies_out = bool(bound(far[:-1], far[1:]).max() < 1e-9)
    values, error = _sample(parts, gaussian, gaussian * (tilt + 0.5) - mean, deviation, nodes)
    return StandardCharacteristic(values, error, nodes, lambda a, b: np.minimum(bound(a, b), by_moments(a, b)), dies_out)


def _sample(parts: _Parts, gaussian: float, drift: float, deviation: float, nodes: int) -> tuple[np.ndarray, float]:
    """f_S on the grid; `gaussian`: variance of the unsampled Gaussian leaves, `drift`: their mean less that of the sum."""
    step = END / nodes / deviation
    y = step * np.arange(nodes + 2)
    log_f = -0.5 * gaussian * y * y + 1j * y * drift
    # Rounding of the terms of the exponent; the last 8 cover the rules, which are accurate to e^-40.
    relative = EPSILON * (8.0 * y * (abs(drift) + gaussian) + 4.0 * gaussian * y * y + 8.0)
    for block, transform in parts:
        part, error = characteristic.log_characteristic(block, transform, step, nodes + 1)
        log_f, relative = log_f + part, relative + error
    values = np.exp(log_f)
    errors = np.abs(values) * np.expm1(np.minimum(relative, 50.0)) + 4.0 * EPSILON * END  # u = y deviation; |f'| <= 1
    return values, float(np.max(np.minimum(errors, 2.0)))


def _node_count(fourth: float, accuracy: float) -> int:
    """So many nodes that the grid of `prawitz`, 3e-9 E S^4 (1000/nodes)^4, costs less than `accuracy`.

    At most what costs 1e-8, and 6,000; at least 200, of which 40 lie where a normal cf is not small.
    """
    need, most = 1e3 * (_GRID_COST * fourth / np.array([max(accuracy, 1e-300), 1e-8])) ** 0.25
    return math.ceil(min(max(need, 200.0), max(most, 1e3), 6e3))
