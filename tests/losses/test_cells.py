"""Masses of cells (`cells.py`) are off by no more than they say: against 40 digits, also between neighbouring numbers."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest

from dp_edgeworth.losses.cells import Cells, normal_cells
from dp_edgeworth.losses.normal_mixtures import Normals

SEEN: list[np.ndarray] = []


class Seen(Normals):
    """Remembers where the loss was asked for: last of all at the edges of the cells."""

    def loss(self, x: np.ndarray) -> np.ndarray:
        SEEN.append(x)
        return super().loss(x)


MIXTURES = {
    "sampled": Seen(np.array([0.0, 0.8]), np.array([0.95, 0.05])),
    "mirrored": Seen(np.array([0.0, 0.8]), np.array([0.95, 0.05]), mirrored=True),
    "mixture": Seen(np.array([0.0, 0.4, 2.0]), np.array([0.9, 0.07, 0.03])),
}


def exact_masses(normals: Normals, x: np.ndarray) -> tuple[list[mpmath.mpf], list[mpmath.mpf]]:
    """P- and Q-masses between neighbours."""
    def tail(point: float, sign: int) -> mpmath.mpf:
        terms = zip(normals.weights.tolist(), normals.shifts.tolist(), strict=True)
        return mpmath.fsum(w * mpmath.ncdf(sign * mpmath.mpf(c) - mpmath.mpf(point)) for w, c in terms)

    def p_tail(point: float) -> mpmath.mpf:
        return tail(point, -1) if normals.mirrored else mpmath.ncdf(-mpmath.mpf(point))

    p, q = [p_tail(float(point)) for point in x], [tail(float(point), 1) for point in x]
    return [a - b for a, b in itertools.pairwise(p)], [a - b for a, b in itertools.pairwise(q)]


def narrow_cells(normals: Normals, x: float) -> tuple[Cells, np.ndarray]:
    """Between the losses at x and a few units further, and a wide one; their edges."""
    low = normals.loss(np.array([x]))[0]
    cells = normal_cells(normals, np.append(low * (1.0 + 2.3e-16 * np.arange(4.0)), low + 0.1), -400.0, 0.5)
    assert cells is not None
    return cells, np.append(SEEN[-1], np.inf)


@pytest.mark.parametrize("name", MIXTURES)
def test_cells_of_neighbouring_numbers(name: str) -> None:
    """Cells so narrow that all of their mass, or what is left of it, is rounding."""
    normals, lost = MIXTURES[name], 0
    with mpmath.workdps(40):
        for x in np.linspace(0.6, 9.0, 60):
            cells, edges = narrow_cells(normals, float(x))
            p, q = exact_masses(normals, edges)
            for found, errors, exact in ((cells.p, cells.p_error, p), (cells.q, cells.q_error, q)):
                assert all(abs(mpmath.mpf(float(mass)) - true) <= error for mass, error, true in zip(found, errors, exact, strict=True))
                assert errors[-2] <= 1e-12 * found[-2:].sum()  # of what is wide they are nothing
                lost += sum(abs(mpmath.mpf(float(mass)) - true) > 0.5 * true for mass, true in zip(found, exact, strict=True))
    assert lost > 20


@pytest.mark.parametrize("probability", [1e-9, 0.3])
def test_errors_of_what_is_made_of_cells(probability: float) -> None:
    """Of reversed, subsampled and mixed ones."""
    with mpmath.workdps(40):
        for x in np.linspace(0.6, 9.0, 30):
            cells, edges = narrow_cells(MIXTURES["sampled"], float(x))
            p, q = exact_masses(MIXTURES["sampled"], edges)
            rate = mpmath.mpf(probability)
            for made, masses in (
                (cells.reversed(), (q, p)),
                (cells.subsampled(probability), (p, [(1 - rate) * a + rate * b for a, b in zip(p, q, strict=True)])),
                (Cells.mixed([(0.3, cells), (0.7, cells.reversed())]),
                 ([0.3 * a for a in p] + [0.7 * a for a in q], [0.3 * a for a in q] + [0.7 * a for a in p])),
            ):  # fmt: skip
                for found, errors, exact in ((made.p, made.p_error, masses[0]), (made.q, made.q_error, masses[1])):
                    pairs = zip(found, errors, exact, strict=True)
                    assert all(abs(mpmath.mpf(float(mass)) - true) <= error for mass, error, true in pairs)
