"""Epsilons where a few rare samples carry the loss, by convolution on a grid: nothing here comes from dp_edgeworth, nor from Fourier.

The loss of one step is moved to a grid of spacing h, each cell's mass to its two ends such that its mass under P and under Q stay what
they are. That pair dominates the true one, so its epsilon is an upper bound, and it falls with h. Losses beyond the grid count with
their exact masses. m-fold convolution by squaring and multiplying; all numbers are positive, so relative accuracy is kept however small
delta is. Every halving of h brings less than half of what the one before brought (the file shows it), so the true epsilon lies between
the finest value and the finest value less the last gain. Run: python tests/golden/make_rare_values.py (about two minutes)
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
from scipy import signal, special

# name, [(probability of the coin, kind, mu, p)], m, delta, far: largest loss of the grid in units of the epsilon guessed, guess
CASES = [
    ("sampled, one large loss", [(1.0, "sampled", 1.7679, 3.65e-7)], 143, 5.2e-17, 5.0, 0.2573),
    ("sampled, delta 1e-128", [(1.0, "sampled", 0.496, 1.6e-5)], 1500, 3.8e-128, 1.6, 1.2),
    ("sampled, few steps", [(1.0, "sampled", 1.6577, 5.2e-8)], 5, 9e-17, 20.0, 0.00373),
    ("sampled, m p = 0.1", [(1.0, "sampled", 0.9, 3e-4)], 300, 1e-12, 6.0, 0.1313),
    ("replaced, delta 1e-185", [(1.0, "replaced", 0.2568, 2.96e-4)], 259, 3.4e-185, 1.5, 0.4),
    ("replaced, one large loss", [(1.0, "replaced", 1.9612, 1.16e-5)], 64, 4.5e-11, 5.0, 0.945),
    ("coin, delta 1e-249", [(3.66e-4, "replaced", 0.1688, 2.72e-3), (1 - 3.66e-4, "sampled", 0.0844, 2.77e-3)], 97, 3.2e-249, 1.6,
     0.567),
]


def tails(kind: str, mu: float, p: float, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P- and Q-mass above x, to relative accuracy."""
    def above(shift: float) -> np.ndarray:
        return (1 - p) * special.ndtr(-x) + p * special.ndtr(shift - x)

    return (special.ndtr(-x) if kind == "sampled" else above(-mu)), above(mu)


def bodies(kind: str, mu: float, p: float, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P- and Q-mass below x."""
    def below(shift: float) -> np.ndarray:
        return (1 - p) * special.ndtr(x) + p * special.ndtr(x - shift)

    return (special.ndtr(x) if kind == "sampled" else below(-mu)), below(mu)


def loss(kind: str, mu: float, p: float, x: np.ndarray) -> np.ndarray:
    up = np.log1p(p * np.expm1(mu * x - mu * mu / 2))
    return up if kind == "sampled" else up - np.log1p(p * np.expm1(-mu * x - mu * mu / 2))


def at(kind: str, mu: float, p: float, level: np.ndarray) -> np.ndarray:
    """x with this loss, by bisection; -inf below all losses."""
    low, high = np.full(level.shape, -60.0), np.full(level.shape, 60.0)
    for _ in range(200):
        middle = (low + high) / 2
        less = loss(kind, mu, p, middle) < level
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return np.where(loss(kind, mu, p, np.full(level.shape, -60.0)) > level, -np.inf, low)


def step_law(parts: list[tuple[float, str, float, float]], h: float, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """Q-masses on the grid h * (low..high), cells to both ends; P- and Q-mass beyond it."""
    grid = h * np.arange(low, high + 1)
    law, beyond = np.zeros(len(grid)), np.zeros(2)
    for weight, kind, mu, p in parts:
        x = at(kind, mu, p, grid)
        right = x > 0
        above, below = tails(kind, mu, p, x), bodies(kind, mu, p, x)
        cells = []
        for a, b in zip(above, below, strict=True):
            cells.append(np.where(right[:-1], a[:-1] - a[1:], np.where(right[1:], 1 - a[1:] - b[:-1], b[1:] - b[:-1])))
        p_cell, q_cell = cells
        share = np.clip((q_cell - p_cell * np.exp(grid[:-1])) / -math.expm1(-h), 0.0, q_cell)  # at the right end
        law[1:] += weight * share
        law[:-1] += weight * (q_cell - share)
        beyond += weight * np.array([above[0][-1], above[1][-1]])
        law[0] += weight * below[1][0]
    return law, beyond


def power(law: np.ndarray, m: int, low: int, high: int) -> np.ndarray:
    """m-fold convolution on the same grid; sums beyond its ends stay at the ends."""
    def times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        full = signal.convolve(a, b, method="direct")  # indices 2 low .. 2 high
        kept = full[-low:-low + high - low + 1].copy()
        kept[0] += full[:-low].sum()
        kept[-1] += full[-low + high - low + 1:].sum()
        return kept

    result = None
    while m:
        if m & 1:
            result = law if result is None else times(result, law)
        m >>= 1
        if m:
            law = times(law, law)
    assert result is not None
    return result


def epsilon(parts: list[tuple[float, str, float, float]], m: int, delta: float, far: float, guess: float, cells: int) -> float:
    h = guess / cells
    replaced = any(kind == "replaced" for _, kind, _, _ in parts)
    low, high = -cells if replaced else -max(8, cells // 8), math.ceil(far * cells)
    step, beyond = step_law(parts, h, low, high)
    law = power(step, m, low, high)
    p_far, q_far = -np.expm1(m * np.log1p(-beyond))  # some loss beyond the grid
    grid = h * np.arange(low, high + 1)

    def excess(eps: float) -> float:
        return float((law * np.maximum(-np.expm1(eps - grid), 0.0)).sum() + q_far - math.exp(eps) * p_far) / delta - 1

    a, b = 0.0, far * guess
    for _ in range(100):
        middle = (a + b) / 2
        a, b = (middle, b) if excess(middle) > 0 else (a, middle)
    return (a + b) / 2


def main() -> None:
    with (Path(__file__).parent / "rare_values.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["name", "parts", "m", "delta", "lower", "upper", "coarser"])
        for name, parts, m, delta, far, guess in CASES:
            cells = max(100, int(4000 / (far + 1)))
            values = [epsilon(parts, m, delta, far, guess, k * cells) for k in (1, 2, 4)]
            gains = -np.diff(values)
            assert 0 < gains[1] < 0.505 * gains[0], (name, values)
            row = [name, repr(parts), m, repr(delta), repr(float(values[2] - 1.02 * gains[1])), repr(values[2]), repr(values[:2])]
            writer.writerow(row)
            print(*row, flush=True)


if __name__ == "__main__":
    main()
