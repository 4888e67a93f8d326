"""Where the pair of an additive noise and its shift is cut into pieces (`noise_shift.py`): any knots are valid, good ones are few."""

from __future__ import annotations

import numpy as np

from dp_edgeworth.losses.additive_noise import Tail

_FEWEST, _MOST = 4_000, 60_000  # knots
_ROUNDING = 2.5e-7  # what they should at most add to the relative width of epsilon
# The laws tilted by these, from P (-1) and Q (0) to all that a composition may ask for, have enough knots each.
_TILTS = np.concatenate([[-1.0, -0.5, 0.0], np.geomspace(1e-3, 1e4, 29)])
LARGEST_LOSS = 1e8  # beyond, a loss is taken for infinite


@np.errstate(all="ignore")
def knots(tail: Tail, shift: float) -> np.ndarray:
    """From x_0, where the loss is 0, to the end of the tail.

    An error sum g w^2 over cells of width w in the loss, g its density, is least where 1/w is proportional to g^{1/3}; the
    knots follow the largest of these over all tilted laws, and some are spread over the whole tail. Any knots are valid.
    """
    first, last = tail.crossing(shift), min(tail.reach + shift, tail.end)
    share = np.unique(np.concatenate([np.linspace(0.0, 1.0, 1_501), np.geomspace(1e-9, 1.0, 400),
                                      1.0 - np.geomspace(1e-12, 1.0, 400)]))
    x = first + share * (last - first)
    log_q = tail.log_density(x - shift)
    loss = np.maximum.accumulate(np.nan_to_num(log_q - tail.log_density(x), nan=0.0, posinf=LARGEST_LOSS, neginf=0.0))
    loss, log_mass = np.minimum(loss, LARGEST_LOSS), 0.5 * (log_q[1:] + log_q[:-1])
    density = _knot_density(loss, log_mass, np.diff(x))
    if not density.any():  # the loss is constant
        return x[[0, -1]]
    floor = np.abs(np.diff(np.nan_to_num(np.clip(log_q, -1e3, 1e3))))
    density = density + 0.1 * density.sum() * (floor / max(floor.sum(), 1e-300) + np.diff(share))
    rounding = _rounding_at_one_knot(loss, log_mass, np.diff(x), density / density.sum())
    count = min(max(rounding / _ROUNDING, _FEWEST**2), _MOST**2) ** 0.5
    alone = _knots_for_one_use(loss, log_q, log_mass)
    density = np.maximum(density * (count / density.sum()), alone * min(1.0, _MOST / max(alone.sum(), 1e-300)))
    area = np.append(0.0, np.cumsum(density))
    return np.unique(np.concatenate([[first], np.interp(np.linspace(0.0, area[-1], int(area[-1]) + 2), area, x), [last]]))


def _knots_for_one_use(loss: np.ndarray, log_q: np.ndarray, log_mass: np.ndarray) -> np.ndarray:
    """Knots between neighbouring points that round epsilon by `_ROUNDING` where a single use decides, down to delta of about e^{-40}.

    There H falls like u^{-c}, and a chord over a width w of the loss shifts it by (c+1) w^2 / 8.
    """
    width, middle = np.diff(loss), 0.5 * (loss[1:] + loss[:-1])
    fall = np.maximum(np.nan_to_num(-np.diff(log_q) / width, nan=0.0, posinf=0.0, neginf=0.0), 0.0)
    number = width * np.sqrt((fall + 1.0) / (8.0 * _ROUNDING * np.maximum(1.0, middle)))
    return np.nan_to_num(number / (1.0 + _rarity(log_mass) ** 4), posinf=0.0)


def _knot_density(loss: np.ndarray, log_mass: np.ndarray, width: np.ndarray) -> np.ndarray:
    """The largest of g^{1/3} dL between neighbouring points, over all tilts, less of it in tails that are seldom asked for."""
    joint = _TILTS[:, None] * 0.5 * (loss[1:] + loss[:-1]) + log_mass + 2.0 * np.log(np.diff(loss) / width)
    joint = np.where(np.isfinite(joint) & (loss[1:] < LARGEST_LOSS), joint, -np.inf) / 3.0
    weight = np.exp(joint - np.maximum(joint.max(axis=1, keepdims=True), -1e300)) * width
    weight = weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)
    return np.nan_to_num(weight.max(axis=0) / (1.0 + _rarity(log_mass) ** 2))


def _rarity(log_mass: np.ndarray) -> np.ndarray:
    """1 where the density is e^{-40} of its maximum."""
    return (log_mass.max() - log_mass) / 40.0


def _rounding_at_one_knot(loss: np.ndarray, log_mass: np.ndarray, width: np.ndarray, density: np.ndarray) -> float:
    """Estimate of the relative width of epsilon times the number of knots squared: (c+1) E_c[w^2] / (8 E_c[L]), over the tilts c."""
    middle = 0.5 * (loss[1:] + loss[:-1])
    c = _TILTS[2:, None]
    joint = c * middle + log_mass + np.log(width)
    joint = np.where(np.isfinite(joint) & (loss[1:] < LARGEST_LOSS), joint, -np.inf)
    law = np.exp(joint - joint.max(axis=1, keepdims=True))
    law = law / law.sum(axis=1, keepdims=True)
    mean = (law * middle * -np.expm1(-(2.0 * c + 1.0) * middle)).sum(axis=1) / 2.0
    square = (law * (np.diff(loss) / density) ** 2).sum(axis=1)
    common = np.where((law * _rarity(log_mass)).sum(axis=1) < 1.0, (c[:, 0] + 1.0) * square / (8.0 * mean), 0.0)
    return float(np.nan_to_num(common).max())


def thinned(losses: np.ndarray) -> np.ndarray:
    """The union of the knots of both orders, without those that nearly coincide with another one."""
    losses = np.unique(losses)
    gaps = np.diff(losses)
    around = np.maximum(np.append(gaps[1:], 0.0), np.append(0.0, gaps[:-1]))
    return losses[np.append(True, gaps > 0.05 * around)] if len(losses) > 2 else losses
