"""Hints for events that stand for classes of mechanisms: points of all Renyi curves together, and the members that are worst."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dp_edgeworth.analysis import certificate_hints

if TYPE_CHECKING:  # python-flint is an extra
    from dp_edgeworth.checker.laws import Leaf

    Leaves = list[tuple[Leaf, int]]

_CURVE_POINTS = 60  # the checker puts thirty between two of them
_SHARES = (0.0, 0.25, 0.5, 0.515, 0.53, 0.55, 0.57, 0.6, 0.63, 0.67, 0.72, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98)


def curve_points(leaves: Leaves, log_least: float) -> list[list[float]]:
    """epsilon_j from 0 to where U(eps) = inf_c kappa(c) e^{k(c) - c eps} is e^{log_least}, with the tilts c_j that are best there, for
    all leaves with a Renyi curve together."""
    known = [(leaf.curve, count) for leaf, count in leaves if leaf.curve]
    tilts = np.geomspace(1e-6, 1e8, 1500)
    logs = certificate_hints.log_kappa(tilts)
    for curve, count in known:
        logs = logs + float(count) * np.array([certificate_hints.curve_value(curve, c) for c in tilts])
    good = np.isfinite(logs)
    tilts, logs = tilts[good], logs[good]
    if len(tilts) < 3:
        return []
    last = float(np.min((logs - log_least) / tilts))
    epsilons = np.linspace(0.0, max(last, 0.0), _CURVE_POINTS)
    best = np.clip([int(np.argmin(logs - tilts * epsilon)) for epsilon in epsilons], 1, len(tilts) - 2)
    u, values = np.log(tilts), logs - epsilons[:, None] * tilts  # a parabola in log c through three values about the smallest
    low, middle, high = (values[np.arange(len(best)), best + k] for k in (-1, 0, 1))
    step = 0.5 * (low - high) / np.maximum(low - 2.0 * middle + high, 1e-300) * (u[1] - u[0])
    finer = np.exp(u[best] + np.clip(np.where(middle <= np.minimum(low, high), step, 0.0), u[0] - u[1], u[1] - u[0]))
    return [[float(f"{number:.7g}") for number in point] for point in zip(epsilons, finer, strict=True)]


def members(leaves: Leaves, share: float) -> Leaves:
    """Of every class the member at this share."""
    from dp_edgeworth.checker import balls

    return [(leaf.least(balls.ball(share)) if leaf.least else leaf, count) for leaf, count in leaves]


def share(leaves: Leaves, epsilon: float, delta: float) -> float:
    """Which members of classes are about the worst: for one use of a selection mechanism exactly (1 + eps / range) / 2."""
    tops = [(count, leaf.largest_loss()) for leaf, count in leaves if leaf.least and leaf.pieces]
    whole = math.fsum(count * float(top) for count, top in tops if top is not None)
    if not whole or delta <= 0.0:
        return 0.5
    first = min(0.5 + 0.5 * epsilon / whole, 1.0)
    if [count for _, count in leaves] == [1]:
        return first
    sizes: dict[float, float] = {}
    for one in (first, *_SHARES):
        try:
            sizes[one] = certificate_hints.log_delta(members(leaves, one), epsilon, delta)
        except (ArithmeticError, ValueError):  # a member without one of its atoms
            continue
    return max(sizes, key=lambda one: sizes[one], default=0.5)
