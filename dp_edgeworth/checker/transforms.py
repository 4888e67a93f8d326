"""M(s) = E_P[e^{s l}] of one leaf: on a line, at real points, and of its calm part; and the hints that say where.

Point masses and exponentials are closed forms, everything else is Gauss-Legendre panels, with the error proved by ball arithmetic on
boxes around the panels. A piece on an infinite interval is cut off first: the Q-mass outside is `missing`, and all else is exact for
the measure that is left. (A smaller measure has a smaller delta; a larger one at most by the mass that it has more.)
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from flint import acb, acb_mat, arb, ctx

from .balls import UndecidedError, around, ball, normal_tail, proved
from .laws import ZERO, Leaf, Piece, log_sum

MOST_WORK = 60_000_000_000  # nodes times frequencies times bits: a minute or two
MOST_PANELS, MOST_TERMS, MOST_ENTRIES = 4_000, 5_000_000, 500_000
RHO = 3  # of the Bernstein ellipses
FRESH = 32  # powers of a phase are started afresh after so many multiplications


LEAST, MOST = 1e-300, 1e15
HINTS: dict[str, tuple[type, float, float, Any]] = {  # kind, least, largest, default
    "c": (float, LEAST, MOST, None),  # the points are c + i j h, j = 0..J
    "step": (float, LEAST, MOST, 1.0),  # h; on a lattice pi / (J spacing) instead
    "last": (int, 0, 200_000, 0),  # J; with 0 there is Chernoff's bound at c alone
    "lattice": (bool, 0, 1, False),  # the losses are on one lattice
    "low": (float, 0, MOST, 0.0),  # low < c < high: tilts for the aliases on either side
    "high": (float, LEAST, MOST, None),
    "tau": (float, 0, MOST, 0.0),  # smoothing
    "reach": (float, LEAST, 200, 10.0),  # standard deviations kept beyond the components of Q
    "nodes": (int, 8, 512, 32),  # of a panel
    "digits": (float, 8, 2000, 64.0),  # binary, of the quadrature rules
    "split": (float, -MOST, MOST, None),  # losses above about this are the lively part of a leaf, the rest is calm; None: all are calm
    "below": (bool, 0, 1, False),  # those below it are lively
    "turn": (float, LEAST, 3, 1.0),  # angle of the shifted contour, < pi
    "blur": (float, 0.1, 10, 0.5),  # width of the window between the parts, in units of the contour's height
    "rare": (bool, 0, 1, False),  # leave out the outcomes in which all losses are calm
    "calm": (float, 0, MOST, 0.0),  # tilt that bounds them
    "cells": (int, 0, 200, 0),  # without a split, cells per piece of the other bound
}


def validated(hint: object) -> Any:
    """A line: the hints for one direction, which choose between theorems that are true for all of them, within what those ask for."""
    if not isinstance(hint, dict) or hint.keys() - HINTS.keys():
        raise UndecidedError(f"there is no hint of this checker for this direction: {str(hint)[:200]}")
    line = SimpleNamespace(**{name: hint.get(name, default) for name, (_, _, _, default) in HINTS.items()})
    good = all((type(getattr(line, name)) is kind and least <= getattr(line, name) <= most) or (name, line.split) == ("split", None)
               for name, (kind, least, most, _) in HINTS.items())
    if not good or not line.low < line.c < line.high or (line.split is not None and line.cells) or (line.split is None and line.rare):
        raise UndecidedError(f"the hints are not within the bounds of the theorems: {str(hint)[:300]}")
    return line


@dataclass(frozen=True, eq=False)
class Window:
    """Which part of a piece is lively, the rest being calm: above the centre (side 1) or below it (side -1), with a smooth weight

        w(x) = P(N(0, 1) < side (x - centre) / width),    |w(x + iv)| <= e^{v^2 / (2 width^2)} w(x),    and the same for 1 - w

    (w is entire; w(x + iv) is the integral of the normal density along the line Im = v / width up to x: compare the integrands)."""

    centre: arb
    width: arb
    side: int

    def weight(self, x: arb, lively: bool) -> arb:
        return normal_tail((self.centre - x if lively == (self.side > 0) else x - self.centre) / self.width)

    def largest(self, lively: bool, left: arb, right: arb, height: arb) -> arb:
        """Upper bound of |w|, or of |1 - w|, on the box between left and right with |Im x| <= height: w is monotone on the line."""
        x = right if lively == (self.side > 0) else left
        return (self.weight(x, lively) * ((height / self.width) ** 2 / 2).exp()).upper()


@dataclass(frozen=True, eq=False)
class Panel:
    """A panel with bounds on the box around its ellipse: log of radius * |b S_P|, real part of the loss, |imaginary part of the loss|,
    log of |1 - w|."""

    middle: arb
    radius: arb
    log_size: arb
    loss: arb
    turn: arb
    log_calm: arb

    def log_error(self, nodes: int, sigma: arb, frequency: arb, calm: bool) -> arb:
        """Theorem. If f is analytic within the Bernstein ellipse of [-1, 1] whose semi-axes add up to rho, and |f| <= m there, then the
        n-point Gauss-Legendre sum, n >= 2, is within (64/15) m rho^{-2n} / (1 - rho^-2) of the integral.

        Proof. f = sum_k a_k T_k, |a_k| <= 2 m rho^-k. The sum is exact for k < 2n and, like the integral, 0 for odd k; for even k >= 4
        the integral of T_k is at most 2/15, the sum at most 2, so the error is at most the sum over even k >= 2n of 2 m rho^-k (32/15).
        The ellipse lies in the box, on which log_sum has proved the loss analytic, and |e^{s l}| <= e^{sigma Re l + |Im s| |Im l|}.
        """
        constant = (arb(64) / 15 / (1 - arb(RHO) ** -2)).log() - 2 * nodes * arb(RHO).log()
        return (constant + self.log_size + (sigma * self.loss).upper() + frequency * self.turn + (self.log_calm if calm else 0)).upper()


def _panel(piece: Piece, window: Window | None, low: arb, high: arb) -> Panel:
    """Bounds on the box that contains the ellipse; UndecidedError where the loss is not proved analytic on it."""
    middle, radius = (low + high) / 2, (high - low) / 2
    long, short = radius * (RHO + arb(1) / RHO) / 2, radius * (RHO - arb(1) / RHO) / 2
    box = acb(middle + around(long), around(short))
    below = log_sum(piece.p, box)
    loss = log_sum(piece.q, box) - below
    log_size = (piece.log_base(box) + below).real.upper() + (piece.weight * radius).log().upper()
    log_calm = ZERO if window is None else window.largest(False, middle - long, middle + long, short).log()
    return Panel(middle, radius, log_size, loss.real, loss.imag.abs_upper(), log_calm)


class Rule:
    """Nodes (loss, P-weight) of one piece, and the bound of what they leave out. `tilts`: (sigma, largest |Im s|, of the calm part?)
    for which panels are made fine enough; any others are as right, with a larger error."""

    def __init__(self, piece: Piece, line: Any, tilts: list[tuple[float, float, bool]]):
        self.piece, self.nodes, (self.low, self.high) = piece, line.nodes, ends(piece, line)
        if not proved(self.low < self.high):
            raise UndecidedError("what is left of a piece after cutting it off is empty")
        gaps = [(None, self.low)] * (piece.low is None) + [(self.high, None)] * (piece.high is None)
        self.missing = sum((piece.mass(piece.q, *gap) for gap in gaps), ZERO)
        self.window = _window(piece, line, self.low, self.high)
        self.panels = self._refined(tilts, line.digits)
        if len(self.panels) * line.nodes * (len(piece.p) + len(piece.q)) > MOST_TERMS:
            raise UndecidedError(f"a quadrature rule would need more than {MOST_TERMS} exponentials")
        legendre = _legendre(line.nodes, ctx.prec)
        places = [(panel.middle + panel.radius * t, panel.radius * w) for panel in self.panels for t, w in legendre]
        below = [log_sum(piece.p, x) for x, _ in places]
        self.losses = [log_sum(piece.q, x) - log for (x, _), log in zip(places, below, strict=True)]
        self.weights = [piece.weight * w * (piece.log_base(x) + log).exp() for (x, w), log in zip(places, below, strict=True)]
        self.calm = self.weights if self.window is None else [
            weight * self.window.weight(x, False) for weight, (x, _) in zip(self.weights, places, strict=True)]

    def _refined(self, tilts: list[tuple[float, float, bool]], digits: float) -> list[Panel]:
        """Panels that are halved until they are fine enough (a guess in doubles; any panels that cover the interval are right)."""
        goals = [(arb(sigma), arb(frequency), calm, scale - digits * math.log(2.0))
                 for (sigma, frequency, calm), scale in zip(tilts, self._log_scales(tilts), strict=True)]
        waiting, done = _divided(self.low, self.high, 8), []
        while waiting:
            low, high = waiting.pop()
            try:
                panel = _panel(self.piece, self.window, low, high)
                fine = all(float(panel.log_error(self.nodes, sigma, y, calm)) <= goal for sigma, y, calm, goal in goals)
            except UndecidedError:
                fine = False
            if fine:
                done.append(panel)
            else:
                waiting += _divided(low, high, 2)
            if len(waiting) + len(done) > MOST_PANELS:
                raise UndecidedError(f"a quadrature rule would need more than {MOST_PANELS} panels of {self.nodes} nodes")
        return done

    def _log_scales(self, tilts: list[tuple[float, float, bool]]) -> list[float]:
        """About log M(sigma), from a few points: how large the integral is that a panel's error is compared with."""
        logs = []
        for k in range(64):
            x = self.low + (self.high - self.low) * (2 * k + 1) / 128
            below = log_sum(self.piece.p, x)
            calm = ZERO if self.window is None else self.window.weight(x, False).log()
            logs.append([float(part.mid()) for part in (self.piece.log_base(x) + below, log_sum(self.piece.q, x) - below, calm)])
        return [max(a + sigma * loss + part * calm for a, loss, part in logs) for sigma, _, calm in tilts]

    def error(self, sigma: arb, frequency: arb, calm: bool) -> arb:
        """The interval in which rule - M(s) lies for Re s = sigma, |Im s| <= frequency."""
        return around(sum((panel.log_error(self.nodes, sigma, frequency, calm).exp() for panel in self.panels), ZERO).upper())

    def real(self, sigma: arb, calm: bool = False) -> arb:
        """M(sigma)."""
        total = sum((w * (sigma * l).exp() for w, l in zip(self.calm if calm else self.weights, self.losses, strict=True)), ZERO)
        return total + self.error(sigma, ZERO, calm)

    def line(self, sigma: arb, step: arb, last: int, calm: bool = False) -> list[acb]:
        """M(sigma + i j step), j = 0..last."""
        tilted = [w * (sigma * l).exp() for w, l in zip(self.calm if calm else self.weights, self.losses, strict=True)]
        error = self.error(sigma, step * last, calm)
        return [value + acb(error, error) for value in _phase_sums(tilted, self.losses, step, last)]


@lru_cache(maxsize=64)
def _legendre(nodes: int, bits: int) -> list[tuple[arb, arb]]:
    return [arb.legendre_p_root(nodes, k, weight=True) for k in range(nodes)]


def _divided(low: arb, high: arb, parts: int) -> list[tuple[arb, arb]]:
    return list(itertools.pairwise([*(low + (high - low) * k / parts for k in range(parts)), high]))


def _phase_sums(weights: list[arb], losses: list[arb], step: arb, last: int) -> list[acb]:
    """sum_q w_q e^{i j step l_q} for j = 0..last, as products of two matrices: j = small + big * stride."""
    stride = math.isqrt(last) + 1
    rows, some = last // stride + 1, max(1, MOST_ENTRIES // stride)
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
    one, found = acb(0, angle).exp(), [acb(1)]
    for k in range(1, count):
        found.append(found[-1] * one if k % FRESH else acb(0, k * angle).exp())
    return found[:count]


def ends(piece: Piece, line: Any) -> tuple[arb, arb]:
    """The ends of a piece; where it has none, `reach` beyond the components of Q, less for those of small weight (any are right)."""
    places = [0.0, 0.0]
    for a, b in piece.q if not piece.lean else ():
        shift = float(b.mid())
        room = math.sqrt(max(line.reach**2 + 2 * min(float(a.mid()) + shift**2 / 2, 0.0), 1.0))
        places += [shift - room, shift + room]
    return (ball(min(places)) if piece.low is None else piece.low, ball(max(places)) if piece.high is None else piece.high)


def height_of(piece: Piece, turn: float) -> arb:
    """a, with |slope| a <= turn for every slope."""
    steepest = ZERO
    for _, b in piece.p + piece.q:
        steepest = steepest.max(abs(b).upper())
    return (ball(turn) / steepest).lower()


def _window(piece: Piece, line: Any, low: arb, high: arb) -> Window | None:
    """Centred where the loss is about `split` (bisection in doubles: any centre is right)."""
    if line.split is None or piece.lean:
        return None
    left, right = float(low), float(high)
    for _ in range(40):
        middle = (left + right) / 2
        left, right = (middle, right) if float(piece.loss(arb(middle)).mid()) < line.split else (left, middle)
    return Window(ball(left), height_of(piece, line.turn) * ball(line.blur), -1 if line.below else 1)


class Transform:
    """M(s) of one leaf and of its calm part, cut off as the line says; `step` is h."""

    def __init__(self, leaf: Leaf, line: Any, step: arb):
        self.leaf, self.line, self.step = leaf, line, step
        frequency = float(step.mid()) * line.last
        tilts = [(line.c + 1, frequency, False)]
        if line.last:
            tilts += [(line.high + 1, 0.0, False), (line.low + 1, 0.0, False)]
        if line.split is not None:
            tilts += [(line.c + 1, frequency * line.rare, True), (line.calm + 1, 0.0, line.rare)]
        self.closed = [piece for piece in leaf.pieces if piece.lean and len(piece.p) == len(piece.q) == 1]
        self.rules = [Rule(piece, line, tilts) for piece in leaf.pieces if piece not in self.closed]
        self.missing = sum((rule.missing for rule in self.rules), ZERO)

    def _rest(self, s: acb) -> acb:
        """Point masses and, with e^{u x} integrated from low to high as (e^{u high} - e^{u low}) / u, exponentials."""
        total = sum((p * (s * (q / p).log()).exp() for p, q in self.leaf.atoms), acb(0))
        for piece in self.closed:
            assert piece.low is not None and piece.high is not None
            (a, b), (above, slope) = piece.p[0], piece.q[0]
            u = piece.lean + b + s * (slope - b)
            total += piece.weight / 2 * (a + s * (above - a)).exp() * ((u * piece.high).exp() - (u * piece.low).exp()) / u
        return total

    def real(self, tilt: float, calm: bool = False) -> arb:
        """M(tilt + 1), or its calm part; a positive number. For Chernoff's bound alone a Renyi curve will do: M(c + 1) <= e^{k(c)}."""
        sigma, curve = ball(tilt) + 1, self.leaf.curve if not self.line.last else None
        value = sum((rule.real(sigma, calm) for rule in self.rules), self._rest(acb(sigma)).real)
        if curve is not None:
            bound = curve(ball(tilt)).exp()
            value = value.min(bound) if self.leaf.atoms or self.leaf.pieces else bound
        if not proved(value > 0):
            raise UndecidedError("a transform is not known to any accuracy: more bits or a finer rule are needed")
        return value

    def values(self, calm: bool = False) -> list[acb]:
        """M(c + 1 + i j h), j = 0..J, or its calm part."""
        sigma, last = ball(self.line.c) + 1, self.line.last
        if max([100 * len(self.leaf.atoms), *(len(rule.losses) for rule in self.rules)]) * last * ctx.prec > MOST_WORK:
            raise UndecidedError(f"{sum(len(rule.losses) for rule in self.rules)} nodes times {last} frequencies are too many")
        found = [self._rest(acb(sigma, j * self.step)) for j in range(last + 1)]
        for rule in self.rules:
            found = [value + more for value, more in zip(found, rule.line(sigma, self.step, last, calm), strict=True)]
        return found
