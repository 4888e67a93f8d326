"""M(s) = E_P[e^{s l}] of one leaf: on a line, at real points, and of its calm part; and the hints that say where.

Every leaf becomes nodes, (loss, P-weight): its point masses, and Gauss-Legendre nodes of its pieces, with the error proved by ball
arithmetic on boxes around the panels. Pieces that are one exponential are the difference of two nodes, over a number. A piece on an
infinite interval is cut off first: the Q-mass outside is `missing`, and all else is exact for the measure that is left. (A smaller
measure has a smaller delta; a larger one at most by the mass that it has more.)
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from flint import acb, acb_mat, arb, ctx

from .balls import UndecidedError, around, ball, normal_tail, proved
from .laws import ZERO, Leaf, Piece

MOST_WORK = 60_000_000_000  # nodes times frequencies times bits: a minute or two
MOST_NUMBERS = 500_000_000  # nodes times terms of their densities times bits
MOST_PANELS, MOST_ENTRIES = 4_000, 64_000_000  # entries of a matrix times bits
RHO = 3  # of the Bernstein ellipses
FRESH = 32  # powers of a phase are started afresh after so many multiplications
Progress = Callable[[str], None]
Tilt = tuple[float, float, bool]  # sigma, largest |Im s|, of the calm part?
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

    def largest(self, lively: bool, box: acb) -> arb:
        """Upper bound of |w|, or of |1 - w|, on a box: w is monotone on the line."""
        growth = ((box.imag.abs_upper() / self.width) ** 2 / 2).exp()
        return (self.weight(box.real.lower(), lively).max(self.weight(box.real.upper(), lively)) * growth).upper()


class Part:
    """A piece from `low` to `high`, and the Q-mass `missing` beyond. Where it has no end, it is cut off `reach` beyond the components
    of Q, less for those of small weight; the window's centre is where the loss is about `split`. (In doubles: any are right.)"""

    def __init__(self, piece: Piece, line: Any, progress: Progress):
        self.piece, self.progress, places = piece, progress, [0.0]
        for a, b in piece.q:
            room = math.sqrt(max(line.reach**2 + 2 * min(float(a.mid()) + float(b.mid()) ** 2 / 2, 0.0), 1.0))
            places += [float(b.mid()) - room, float(b.mid()) + room]
        self.low = ball(min(places)) if piece.low is None else piece.low
        self.high = ball(max(places)) if piece.high is None else piece.high
        if not proved(self.low < self.high):
            raise UndecidedError("what is left of a piece after cutting it off is empty")
        gaps = [(None, self.low)] * (piece.low is None) + [(self.high, None)] * (piece.high is None)
        self.missing = sum((piece.mass(piece.q, *gap) for gap in gaps), ZERO)
        self.one_exponential = piece.lean != 0 and len(piece.p) == len(piece.q) == 1
        steepest = functools.reduce(arb.max, [abs(b).upper() for _, b in piece.p + piece.q])
        self.height = (ball(line.turn) / steepest).lower()  # height * |slope| <= turn for every slope
        self.window = None if line.split is None or piece.lean else self._window(line)

    def _window(self, line: Any) -> Window:
        left, right = float(self.low), float(self.high)
        for _ in range(40):
            middle = (left + right) / 2
            left, right = (middle, right) if float(self.piece.loss(arb(middle)).mid()) < line.split else (left, middle)
        return Window(ball(left), self.height * ball(line.blur), -1 if line.below else 1)

    def log_calm(self, x: arb) -> arb:
        """log of the share of the calm part."""
        return ZERO if self.window is None else self.window.weight(x, False).log()

    def panels(self, line: Any, tilts: list[Tilt]) -> list[Panel]:
        """Panels that are halved until their errors are `digits` below the integral, which a few points tell. (Any panels that cover
        the part are right.)"""
        few = [(*self.piece.logs(x), self.log_calm(x)) for x in (left for left, _ in _divided(self.low, self.high, 64)[1:])]
        found = [[float(log.mid()) for log in logs] for logs in few]
        goals = [max(log + sigma * loss + calm * log_calm for log, loss, log_calm in found) - line.digits * math.log(2.0)
                 for sigma, _, calm in tilts]
        waiting, done = _divided(self.low, self.high, 8), []
        while waiting:
            self.progress("a quadrature rule")
            ends = waiting.pop()
            try:
                panel = Panel(self, *ends)
                errors = [panel.log_error(line.nodes, arb(sigma), arb(y), calm) for sigma, y, calm in tilts]
                fine = all(float(error) <= goal for error, goal in zip(errors, goals, strict=True))
            except UndecidedError:
                fine = False
            if fine:
                done.append(panel)
            else:
                waiting += _divided(*ends, 2)
            if len(waiting) + len(done) > MOST_PANELS:
                raise UndecidedError(f"a quadrature rule would need more than {MOST_PANELS} panels of {line.nodes} nodes")
        return done


class Panel:
    """A panel, with upper bounds on the box around its ellipse: log of radius * |b S_P|, the loss, |Im l|, log of |1 - w|."""

    def __init__(self, part: Part, low: arb, high: arb):
        """UndecidedError where the loss is not proved analytic on the box."""
        self.part, self.middle, self.radius = part, (low + high) / 2, (high - low) / 2
        long, short = (self.radius * (RHO + sign * arb(1) / RHO) / 2 for sign in (1, -1))
        box = acb(self.middle + around(long), around(short))
        log_size, loss = part.piece.logs(box)
        self.log_size, self.loss, self.turn = (log_size.real + self.radius.log()).upper(), loss.real, loss.imag.abs_upper()
        self.log_calm = ZERO if part.window is None else part.window.largest(False, box).log()

    def log_error(self, nodes: int, sigma: arb, frequency: arb, calm: bool) -> arb:
        """Theorem. If f is analytic within the Bernstein ellipse of [-1, 1] whose semi-axes add up to rho, and |f| <= m there, then the
        n-point Gauss-Legendre sum, n >= 2, is within (64/15) m rho^{-2n} / (1 - rho^-2) of the integral.

        Proof. f = sum_k a_k T_k, |a_k| <= 2 m rho^-k. The sum is exact for k < 2n and, like the integral, 0 for odd k; for even k >= 4
        the integral of T_k is at most 2/15, the sum at most 2, so the error is at most the sum over even k >= 2n of 2 m rho^-k (32/15).
        The ellipse lies in the box, on which log_sum has proved the loss analytic, and |e^{s l}| <= e^{sigma Re l + |Im s| |Im l|}.
        """
        constant = (arb(64) / 15 / (1 - arb(RHO) ** -2)).log() - 2 * nodes * arb(RHO).log()
        return (constant + self.log_size + (sigma * self.loss).upper() + frequency * self.turn + (self.log_calm if calm else 0)).upper()


@lru_cache(maxsize=64)
def _legendre(nodes: int, bits: int) -> list[tuple[arb, arb]]:
    return [arb.legendre_p_root(nodes, k, weight=True) for k in range(nodes)]


def _divided(low: arb, high: arb, parts: int) -> list[tuple[arb, arb]]:
    return list(itertools.pairwise([*(low + (high - low) * k / parts for k in range(parts)), high]))


def phase_sums(weights: list[arb], losses: list[arb], step: arb, last: int) -> list[acb]:
    """sum_q w_q e^{i j step l_q} for j = 0..last, as products of two matrices: j = small + big * stride."""
    stride = math.isqrt(last) + 1
    rows, some = last // stride + 1, max(1, MOST_ENTRIES // ctx.prec // stride)
    total = acb_mat(rows, stride)
    for start in range(0, len(losses), some):
        part = range(start, min(start + some, len(losses)))
        big = [powers(step * losses[q] * stride, rows) for q in part]
        left = acb_mat(rows, len(part), [weights[q] * row[k] for k in range(rows) for q, row in zip(part, big, strict=True)])
        right = acb_mat(len(part), stride, [phase for q in part for phase in powers(step * losses[q], stride)])
        total += left * right
    return total.entries()[: last + 1]


def powers(angle: arb, count: int) -> list[acb]:
    """e^{i k angle}, k = 0..count - 1; the error of repeated multiplication is cut short by fresh exponentials."""
    one, found = acb(0, angle).exp(), [acb(1)]
    for k in range(1, count):
        found.append(found[-1] * one if k % FRESH else acb(0, k * angle).exp())
    return found[:count]


class Transform:
    """M(s) of one leaf and of its calm part, cut off as the line says; `step` is h."""

    def __init__(self, leaf: Leaf, line: Any, step: arb, progress: Progress = lambda text: None):
        self.leaf, self.line, self.step = leaf, line, step
        frequency = float(step.mid()) * line.last
        tilts: list[Tilt] = [(line.c + 1, frequency, False)]
        if line.last:
            tilts += [(line.high + 1, 0.0, False), (line.low + 1, 0.0, False)]
        if line.split is not None:
            tilts += [(line.c + 1, frequency * line.rare, True), (line.calm + 1, 0.0, line.rare)]
        self.parts = [Part(piece, line, progress) for piece in leaf.pieces]
        self.missing = sum((part.missing for part in self.parts), ZERO)
        self.panels = [panel for part in self.parts if not part.one_exponential for panel in part.panels(line, tilts)]
        nodes = len(self.panels) * line.nodes + len(leaf.atoms)
        terms = sum(len(panel.part.piece.p + panel.part.piece.q) for panel in self.panels) * line.nodes
        if terms * ctx.prec > MOST_NUMBERS or nodes * line.last * ctx.prec > MOST_WORK:
            raise UndecidedError(f"{nodes} nodes times {line.last} frequencies are too many")
        self.weights, self.losses = [p for p, _ in leaf.atoms], [(q / p).log() for p, q in leaf.atoms]
        self.calm = list(self.weights)
        for panel in self.panels:
            progress("nodes of a quadrature rule")
            for place, weight in _legendre(line.nodes, ctx.prec):
                self._add_node(panel.part, panel.middle + panel.radius * place, panel.radius * weight)

    def _add_node(self, part: Part, x: arb, width: arb) -> None:
        log_p, loss = part.piece.logs(x)
        weight = width * log_p.exp()
        self.losses.append(loss)
        self.weights.append(weight)
        self.calm.append(weight if part.window is None else weight * part.window.weight(x, False))

    def error(self, sigma: arb, frequency: arb, calm: bool) -> arb:
        """The interval in which sum - M(s) lies for Re s = sigma, |Im s| <= frequency."""
        errors = (panel.log_error(self.line.nodes, sigma, frequency, calm).exp() for panel in self.panels)
        return around(sum(errors, ZERO).upper())

    def _ends(self) -> list[tuple[arb, arb, arb, arb]]:
        """Of parts that are one exponential, dP e^{s l} = e^{A + g x + s (B + d x)} dx has the integral e^{A + g x + s l} / (g + s d):
        (+-e^{A + g x}, l, g, d) at the ends."""
        found = []
        for part in self.parts:
            if part.one_exponential:
                below, rise = part.piece.p[0][1], part.piece.q[0][1] - part.piece.p[0][1]
                for sign, x in ((1, part.high), (-1, part.low)):
                    log_p, loss = part.piece.logs(x)
                    found.append((sign * log_p.exp(), loss, part.piece.lean + below, rise))
        return found

    def real(self, tilt: float, calm: bool = False) -> arb:
        """M(tilt + 1), or its calm part; a positive number. For Chernoff's bound alone a Renyi curve will do: M(c + 1) <= e^{k(c)}."""
        sigma, curve = ball(tilt) + 1, self.leaf.curve if not self.line.last else None
        nodes = zip(self.calm if calm else self.weights, self.losses, strict=True)
        value = sum((w * (sigma * l).exp() for w, l in nodes), ZERO) + self.error(sigma, ZERO, calm)
        value += sum((w * (sigma * l).exp() / (g + sigma * d) for w, l, g, d in self._ends()), ZERO)
        if curve is not None:
            bound = curve(ball(tilt)).exp()
            value = value.min(bound) if self.leaf.atoms or self.leaf.pieces else bound
        if not proved(value > 0):
            raise UndecidedError("a transform is not known to any accuracy: more bits or a finer rule are needed")
        return value

    def values(self, calm: bool = False) -> list[acb]:
        """M(c + 1 + i j h), j = 0..J, or its calm part."""
        sigma, last = ball(self.line.c) + 1, self.line.last
        tilted = [w * (sigma * l).exp() for w, l in zip(self.calm if calm else self.weights, self.losses, strict=True)]
        error = self.error(sigma, self.step * last, calm)
        found = [value + acb(error, error) for value in phase_sums(tilted, self.losses, self.step, last)]
        for w, l, g, d in self._ends():
            one = phase_sums([w * (sigma * l).exp()], [l], self.step, last)
            found = [value + more / (g + acb(sigma, j * self.step) * d) for j, (value, more) in enumerate(zip(found, one, strict=True))]
        return found
