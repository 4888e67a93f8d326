"""Pieces of losses in doubles, with a quadrature rule: what hints for the checker are guessed from. Believed by nobody."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # python-flint is an extra
    from dp_edgeworth.checker.laws import Piece


@dataclasses.dataclass(frozen=True)
class Density:
    """A piece in doubles, with a quadrature rule."""

    p: np.ndarray
    q: np.ndarray
    lean: int
    low: float
    high: float
    x: np.ndarray
    loss: np.ndarray
    log_weight: np.ndarray

    @classmethod
    def of(cls, piece: Piece, reach: float) -> Density:
        p, q = (np.array([[float(a.mid()), float(b.mid())] for a, b in terms]) for terms in (piece.p, piece.q))
        room = np.sqrt(np.maximum(reach**2 + 2.0 * np.minimum(q[:, 0] + 0.5 * q[:, 1] ** 2, 0.0), 1.0))
        low = (q[:, 1] - room).min() if piece.low is None else float(piece.low.mid())
        high = (q[:, 1] + room).max() if piece.high is None else float(piece.high.mid())
        steepest = max(np.abs(p[:, 1]).max(), np.abs(q[:, 1]).max(), 1e-9)
        panels = int(min(max(4.0, (high - low) * max(0.7, steepest / (1.5 if piece.lean else 0.4))), 1000.0))
        t, w = np.polynomial.legendre.leggauss(12)
        edges = np.linspace(low, high, panels + 1)
        half = 0.5 * np.diff(edges)[:, None]
        x = (edges[:-1, None] + half * (1.0 + t)).ravel()
        below = log_sum(p, x)
        log_weight = np.log((half * w).ravel()) + log_base(piece.lean, x).real + below.real
        return cls(p, q, piece.lean, low, high, x, (log_sum(q, x) - below).real, log_weight)


def log_base(lean: int, x: np.ndarray) -> np.ndarray:
    return lean * x - math.log(2.0) if lean else -0.5 * x * x - 0.5 * math.log(2.0 * math.pi)


def log_sum(terms: np.ndarray, x: np.ndarray) -> np.ndarray:
    exponents = terms[:, 0] + terms[:, 1] * x[..., None]
    top = exponents.real.max(axis=-1, keepdims=True)
    return np.log(np.exp(exponents - top).sum(axis=-1)) + top[..., 0]
