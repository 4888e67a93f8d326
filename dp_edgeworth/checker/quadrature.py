"""M(s) = E_P[e^{s l}] of a piece by Gauss-Legendre panels, with the error proved by ball arithmetic on boxes around the panels.

A piece on an infinite interval is cut off first: the Q-mass outside is `missing`, and everything else here is exact for the measure
that is left. (A smaller measure has a smaller delta; a larger one at most by the mass that it has more.)
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

from flint import acb, acb_mat, arb, ctx

from .balls import UndecidedError, box, normal_tail, proved
from .laws import Piece, log_sum

RHO = 3  # of the Bernstein ellipses
MOST_PANELS, MOST_TERMS = 4_000, 5_000_000
_MOST_ENTRIES = 500_000  # of a matrix
_FRESH = 32  # powers of a phase are started afresh after so many multiplications


@dataclass(frozen=True, eq=False)
class Window:
    """Which part of a piece is lively, the rest being calm: above the centre (side 1) or below it (side -1), with a smooth weight

        w(x) = P(N(0, 1) < side (x - centre) / width),    |w(x + iv)| <= e^{v^2 / (2 width^2)} w(x),    and the same for 1 - w

    (w is entire; w(x + iv) is the integral of the normal density along the line Im = v / width up to x: compare the integrands)."""

    centre: arb
    width: arb
    side: int = 1

    def lively(self, x: arb) -> arb:
        return normal_tail(self.side * (self.centre - x) / self.width)

    def calm(self, x: arb) -> arb:
        return normal_tail(self.side * (x - self.centre) / self.width)

    def largest(self, lively: bool, left: arb, right: arb, height: arb) -> arb:
        """Upper bound of |w|, or of |1 - w|, on the box between left and right with |Im x| <= height: w is monotone on the line."""
        x = right if (self.side > 0) == lively else left
        value = self.lively(x) if lively else self.calm(x)
        return (value * ((height / self.width) ** 2 / 2).exp()).upper()


@dataclass(frozen=True, eq=False)
class _Panel:
    """A panel with bounds on the box around its ellipse: log of r |b S_P|, real part of the loss, |imaginary part of the loss|."""

    middle: arb
    radius: arb
    log_size: arb
    loss: arb
    turn: arb

    @property
    def axes(self) -> tuple[arb, arb]:
        """Half the sides of the box."""
        return self.radius * (RHO + arb(1) / RHO) / 2, self.radius * (RHO - arb(1) / RHO) / 2

    def log_error(self, nodes: int, sigma: arb, frequency: arb) -> arb:
        """Theorem (Trefethen, Approximation Theory and Practice, 2013, Theorem 19.3). If f is analytic within the Bernstein ellipse of
        [-1, 1] whose semi-axes add up to rho, and |f| <= m there, then the n-point Gauss-Legendre sum is within
        (64/15) m rho^{-2n} / (1 - rho^-2) of the integral. (Its rule of n + 1 points has rho^{-2n}: n points, rho^{-2(n-1)}.) The
        ellipse lies in the box, on which log_sum has proved the loss analytic, and |e^{s l}| <= e^{sigma Re l + |Im s| |Im l|}.
        """
        constant = (arb(64) / 15 / (1 - arb(RHO) ** -2)).log() - 2 * (nodes - 1) * arb(RHO).log()
        return constant + self.log_size + (sigma * self.loss).upper() + frequency * self.turn


def _panel(piece: Piece, low: arb, high: arb) -> _Panel:
    """Bounds on the box that contains the ellipse; UndecidedError where the loss is not proved analytic on it."""
    middle, radius = (low + high) / 2, (high - low) / 2
    long, short = radius * (RHO + arb(1) / RHO) / 2, radius * (RHO - arb(1) / RHO) / 2
    around = box(middle - long, middle + long, short)
    base, below = piece.log_base(around), log_sum(piece.p, around)
    loss = log_sum(piece.q, around) - below
    log_size = (base + below).real.upper() + (piece.weight * radius).log().upper()
    return _Panel(middle, radius, log_size, loss.real, loss.imag.abs_upper())


@lru_cache(maxsize=64)
def _legendre(nodes: int, bits: int) -> list[tuple[arb, arb]]:
    return [arb.legendre_p_root(nodes, k, weight=True) for k in range(nodes)]


class Rule:
    """Nodes (loss, P-weight) of one piece, and the bound of what they leave out.

    Args:
      ends: those of the piece; where it has none, where it is cut off.
      tilts: (sigma, largest |Im s|, of the calm part?) for which panels are made fine enough; any others are as right, with a
        larger error. nodes, digits: per panel; relative accuracy 2^-digits aimed at.
      window: makes the weights of the calm part (times 1 - w), too.
    """

    def __init__(self, piece: Piece, ends: tuple[arb, arb], tilts: list[tuple[float, float, bool]], nodes: int, digits: float,
                 window: Window | None = None):
        self.piece, self.count, self.window = piece, nodes, window
        self.low, self.high = ends
        if not proved(self.low < self.high):
            raise UndecidedError("what is left of a piece after cutting it off is empty")
        gaps = [(None, self.low)] * (piece.low is None) + [(self.high, None)] * (piece.high is None)
        self.missing = sum((piece.mass(piece.q, *gap) for gap in gaps), arb(0))
        self.panels = self._refined(tilts, digits)
        if len(self.panels) * nodes * (len(piece.p) + len(piece.q)) > MOST_TERMS:
            raise UndecidedError(f"a quadrature rule would need more than {MOST_TERMS} exponentials")
        self.losses: list[arb] = []
        self.weights: list[arb] = []
        self.calm: list[arb] = []
        for panel in self.panels:
            for t, w in _legendre(nodes, ctx.prec):
                self._add(panel.middle + panel.radius * t, panel.radius * w)

    def _add(self, x: arb, length: arb) -> None:
        below = log_sum(self.piece.p, x)
        weight = self.piece.weight * length * (self.piece.log_base(x) + below).exp()
        self.losses.append(log_sum(self.piece.q, x) - below)
        self.weights.append(weight)
        if self.window is not None:
            self.calm.append(weight * self.window.calm(x))

    def _refined(self, tilts: list[tuple[float, float, bool]], digits: float) -> list[_Panel]:
        """Panels that are halved until they are fine enough (a guess in doubles; any panels that cover the interval are right)."""
        goals = [goal - digits * math.log(2.0) for goal in self._log_scales(tilts)]
        open_panels, done = _divided(self.low, self.high, 8), []
        while open_panels:
            low, high = open_panels.pop()
            try:
                panel = _panel(self.piece, low, high)
                fine = all(float(self._log_error(panel, arb(sigma), arb(frequency), calm)) <= goal
                           for (sigma, frequency, calm), goal in zip(tilts, goals, strict=True))
            except UndecidedError:
                fine = False
            if fine:
                done.append(panel)
            else:
                open_panels += _divided(low, high, 2)
            if len(open_panels) + len(done) > MOST_PANELS:
                raise UndecidedError(f"a quadrature rule would need more than {MOST_PANELS} panels of {self.count} nodes")
        return done

    def _log_scales(self, tilts: list[tuple[float, float, bool]]) -> list[float]:
        """About log M(sigma), from a few points: how large the integral is that a panel's error is compared with."""
        logs = []
        for k in range(64):
            x = self.low + (self.high - self.low) * (2 * k + 1) / 128
            below = log_sum(self.piece.p, x)
            calm = arb(0) if self.window is None else self.window.calm(x).log()
            logs.append([float(part.mid()) for part in (self.piece.log_base(x) + below, log_sum(self.piece.q, x) - below, calm)])
        return [max(a + sigma * loss + part * calm for a, loss, part in logs) for sigma, _, calm in tilts]

    def _log_error(self, panel: _Panel, sigma: arb, frequency: arb, calm: bool) -> arb:
        """Of one panel; on its box |1 - w| is bounded, too, if the weights are those of the calm part."""
        log_error = panel.log_error(self.count, sigma, frequency)
        if calm and self.window is not None:
            long, short = panel.axes
            log_error += self.window.largest(False, panel.middle - long, panel.middle + long, short).log()
        return log_error.upper()

    def error(self, sigma: arb, frequency: arb, calm: bool = False) -> arb:
        """Bound of |rule - M(s)| for Re s = sigma, |Im s| <= frequency."""
        return sum((self._log_error(panel, sigma, frequency, calm).exp().upper() for panel in self.panels), arb(0)).upper()

    def real(self, sigma: arb, calm: bool = False) -> arb:
        """M(sigma)."""
        weights = self.calm if calm and self.window is not None else self.weights
        total = sum((w * (sigma * l).exp() for w, l in zip(weights, self.losses, strict=True)), arb(0))
        error = self.error(sigma, arb(0), calm)
        return total + (-error).union(error)

    def line(self, sigma: arb, step: arb, last: int, calm: bool = False) -> list[acb]:
        """M(sigma + i j step), j = 0..last."""
        weights = self.calm if calm and self.window is not None else self.weights
        tilted = [w * (sigma * l).exp() for w, l in zip(weights, self.losses, strict=True)]
        error = self.error(sigma, step * last, calm)
        spread = (-error).union(error)
        return [value + acb(spread, spread) for value in phase_sums(tilted, self.losses, step, last)]


def _divided(low: arb, high: arb, parts: int) -> list[tuple[arb, arb]]:
    edges = [low + (high - low) * k / parts for k in range(parts)] + [high]
    return list(itertools.pairwise(edges))


def phase_sums(weights: list[arb], losses: list[arb], step: arb, last: int) -> list[acb]:
    """sum_q w_q e^{i j step l_q} for j = 0..last, as products of two matrices: j = small + big * stride."""
    stride = math.isqrt(last) + 1
    rows, some = last // stride + 1, max(1, _MOST_ENTRIES // stride)
    total = acb_mat(rows, stride)
    for start in range(0, len(losses), some):
        part = range(start, min(start + some, len(losses)))
        big = [_powers(step * losses[q] * stride, rows) for q in part]
        left = acb_mat(rows, len(part), [weights[q] * row[k] for k in range(rows) for q, row in zip(part, big, strict=True)])
        right = acb_mat(len(part), stride, [phase for q in part for phase in _powers(step * losses[q], stride)])
        total += left * right
    return total.entries()[: last + 1]


def _powers(angle: arb, count: int) -> list[acb]:
    """e^{i k angle}, k = 0..count - 1; the error of repeated multiplication is cut short by fresh exponentials."""
    one = acb(0, angle).exp()
    found: list[acb] = []
    for k in range(count):
        found.append(acb(0, k * angle).exp() if k % _FRESH == 0 else found[-1] * one)
    return found
