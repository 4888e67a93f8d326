"""M(s) = E_P[e^{s l}] of one leaf, on a line and at real points; and the hints that say where.

Every leaf becomes nodes, (loss, P-weight): its point masses, and Gauss-Legendre nodes of its pieces, with the error proved by ball
arithmetic on boxes around the panels. A piece on an infinite interval is cut off first: the Q-mass outside is `missing`, and all else
is exact for the measure that is left. (A smaller measure has a smaller delta; a larger one at most by the mass that it has more.)
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from flint import acb, acb_mat, arb, ctx

from .balls import UndecidedError, around, ball, proved
from .laws import ZERO, Leaf, Piece

MOST_WORK = 60_000_000_000  # nodes times frequencies times bits: a minute or two
MOST_NUMBERS = 500_000_000  # nodes times terms of their densities times bits
MOST_PANELS, MOST_ENTRIES = 4_000, 8_000_000  # entries of a matrix times bits
RHO = 3  # of the Bernstein ellipses
FRESH = 32  # powers of a phase are started afresh after so many multiplications
Progress = Callable[[str], None]
Finite = Any  # a Piece with two ends
LEAST, MOST = 1e-300, 1e15
HINTS: dict[str, tuple[type, float, float, Any]] = {  # kind, least, largest, default
    "c": (float, LEAST, MOST, None),  # the points are c + i j h, j = 0..J
    "step": (float, LEAST, MOST, 1.0),  # h
    "last": (int, 0, 200_000, 0),  # J; with 0 there is Chernoff's bound at c alone
    "low": (float, 0, MOST, 0.0),  # low < c < high: tilts for the aliases on either side
    "high": (float, LEAST, MOST, None),
    "tau": (float, 0, MOST, 0.0),  # smoothing
    "reach": (float, LEAST, 200, 10.0),  # standard deviations kept beyond the components of Q
    "nodes": (int, 8, 512, 32),  # of a panel
    "digits": (float, 8, 2000, 64.0),  # binary, of the quadrature rules
    "cells": (int, 0, 200, 0),  # per piece, of the bound of all losses alike
    "split": (float, -MOST, MOST, None),  # or: losses above about this are the lively part of a leaf, the rest is calm
    "below": (bool, 0, 1, False),  # those below it are lively
    "turn": (float, LEAST, 3, 1.0),  # angle of the shifted contour, < pi
    "rare": (bool, 0, 1, False),  # leave out the outcomes in which all losses are calm
    "calm": (float, 0, MOST, 0.0),  # tilt that bounds them
}


def validated(hint: object, progress: Progress = lambda text: None) -> Any:
    """A line: the hints for one direction, which choose between theorems that are true for all of them, within what those ask for."""
    if hint is None:
        raise UndecidedError("there is no hint for this direction: whoever made the certificate found no line that is short enough")
    if not isinstance(hint, dict) or hint.keys() - HINTS.keys():
        raise UndecidedError(f"there is no hint of this checker for this direction: {str(hint)[:200]}")
    line = SimpleNamespace(**{name: hint.get(name, default) for name, (_, _, _, default) in HINTS.items()}, progress=progress)
    good = all((type(getattr(line, name)) is kind and least <= getattr(line, name) <= most) or (name, line.split) == ("split", None)
               for name, (kind, least, most, _) in HINTS.items())
    if not good or not line.low < line.c < line.high or (line.split is not None and line.cells) or (line.split is None and line.rare):
        raise UndecidedError(f"the hints are not within the bounds of the theorems: {str(hint)[:300]}")
    return line


def finite(leaf: Leaf, line: Any) -> tuple[Leaf, arb]:
    """The leaf without what lies more than `reach` beyond the components of Q, less for those of small weight; and the Q-mass that is
    left out. (In doubles: any ends are right.)"""
    pieces, missing = [], ZERO
    for piece in leaf.pieces:
        places = []
        for a, b in piece.q:
            room = math.sqrt(max(line.reach**2 + 2 * min(float(a.mid()) + float(b.mid()) ** 2 / 2, 0.0), 1.0))
            places += [float(b.mid()) - room, float(b.mid()) + room]
        low = ball(min(places)) if piece.low is None else piece.low
        high = ball(max(places)) if piece.high is None else piece.high
        if not proved(low < high):
            raise UndecidedError("what is left of a piece after cutting it off is empty")
        gaps = [(None, low)] * (piece.low is None) + [(high, None)] * (piece.high is None)
        missing += sum((piece.mass(piece.q, *gap) for gap in gaps), ZERO)
        pieces.append(replace(piece, low=low, high=high))
    return Leaf(leaf.atoms, tuple(pieces), curve=leaf.curve), missing


def calm_and_lively(leaf: Leaf, line: Any) -> tuple[Leaf, list[Finite]]:
    """The calm leaf and the lively pieces, which add up to a finite leaf: its normal pieces times a step down and a step up where the
    loss is about `split`; those that are on one side of it as they are. (In doubles: any way to share them is right.)"""
    side, calm, lively = -1 if line.below else 1, [], []
    piece: Finite
    for piece in leaf.pieces:
        left, right = float(piece.low), float(piece.high)
        above = [side * float(piece.loss(arb(x)).mid()) > side * line.split for x in (left, right)]
        if piece.lean or not any(above):
            calm.append(piece)
        elif all(above):
            lively.append(piece)
        else:
            for _ in range(40):
                middle = (left + right) / 2
                left, right = (middle, right) if float(piece.loss(arb(middle)).mid()) < line.split else (left, middle)
            width = height(piece, line.turn) * side
            calm.append(replace(piece, step=(ball(left), -width)))
            lively.append(replace(piece, step=(ball(left), width)))
    return Leaf(leaf.atoms, tuple(calm)), lively


def height(piece: Piece, turn: float) -> arb:
    """How far a contour may be shifted: height * |slope| <= turn for every slope."""
    return (ball(turn) / functools.reduce(arb.max, [abs(b).upper() for _, b in piece.p + piece.q])).lower()


class Panel:
    """A panel, with upper bounds on the box around its ellipse: log of radius * |b w S_P|, the loss, |Im l|."""

    def __init__(self, piece: Finite, low: arb, high: arb):
        """UndecidedError where the loss is not proved analytic on the box."""
        self.piece, self.middle, self.radius = piece, (low + high) / 2, (high - low) / 2
        long, short = (self.radius * (RHO + sign * arb(1) / RHO) / 2 for sign in (1, -1))
        box = acb(self.middle + around(long), around(short))
        log_p, loss = piece.logs(box)
        self.log_size = (log_p.real + (self.radius * piece.largest_weight(box)).log()).upper()
        self.loss, self.turn = loss.real, loss.imag.abs_upper()

    def log_error(self, nodes: int, sigma: arb, frequency: arb) -> arb:
        """Theorem. If f is analytic within the Bernstein ellipse of [-1, 1] whose semi-axes add up to rho, and |f| <= m there, then the
        n-point Gauss-Legendre sum, n >= 2, is within (64/15) m rho^{-2n} / (1 - rho^-2) of the integral.

        Proof. f = sum_k a_k T_k, |a_k| <= 2 m rho^-k. The sum is exact for k < 2n and, like the integral, 0 for odd k; for even k >= 4
        the integral of T_k is at most 2/15, the sum at most 2, so the error is at most the sum over even k >= 2n of 2 m rho^-k (32/15).
        The ellipse lies in the box, on which log_sum has proved the loss analytic, and |e^{s l}| <= e^{sigma Re l + |Im s| |Im l|}.
        """
        constant = (arb(64) / 15 / (1 - arb(RHO) ** -2)).log() - 2 * nodes * arb(RHO).log()
        return (constant + self.log_size + (sigma * self.loss).upper() + frequency * self.turn).upper()


def covering(piece: Finite, line: Any, wanted: list[tuple[arb, arb]]) -> list[Panel]:
    """Panels that are halved until their errors for all wanted (Re s, |Im s|) are `digits` below the integral, which a few points tell.
    (Any panels that cover the piece are right.)"""
    places = [piece.low, *(right for _, right in _divided(piece.low, piece.high, 64))]
    few = [[float(log.mid()) for log in (*piece.logs(x), piece.weight(x).log())] for x in places]
    goals = []
    for sigma, _ in wanted:
        logs = [log_p + float(sigma) * loss + log_w for log_p, loss, log_w in few]
        sizes = [max(a, b) - math.log(max(1.0, abs(a - b))) for a, b in itertools.pairwise(logs)]  # exponential between the points
        goals.append(max(sizes) - line.digits * math.log(2.0))
    waiting, done = _divided(piece.low, piece.high, 8), []
    while waiting:
        line.progress("a quadrature rule")
        ends = waiting.pop()
        try:
            panel = Panel(piece, *ends)
            fine = all(float(panel.log_error(line.nodes, *s)) <= goal for s, goal in zip(wanted, goals, strict=True))
        except UndecidedError:
            fine = False
        if fine:
            done.append(panel)
        else:
            waiting += _divided(*ends, 2)
        if len(waiting) + len(done) > MOST_PANELS:
            raise UndecidedError(f"a quadrature rule would need more than {MOST_PANELS} panels of {line.nodes} nodes")
    return done


@functools.lru_cache(maxsize=64)
def _legendre(nodes: int, bits: int) -> list[tuple[arb, arb]]:
    return [arb.legendre_p_root(nodes, k, weight=True) for k in range(nodes)]


def _divided(low: Any, high: Any, parts: int) -> list[tuple[arb, arb]]:
    return list(itertools.pairwise([*(low + (high - low) * k / parts for k in range(parts)), high]))


class Transform:
    """M(s) of a finite leaf at Re s = c + 1, Im s = j h, j = 0..last, and at tilt + 1 for all `tilts`."""

    def __init__(self, leaf: Leaf, line: Any, step: arb, last: int, tilts: tuple[float, ...]):
        self.line, self.step, self.last, self.curve = line, step, last, leaf.curve
        wanted = [(ball(tilt) + 1, ZERO) for tilt in tilts] + [(ball(line.c) + 1, (step * last).upper())] * (last > 0)
        simple = [piece for piece in leaf.pieces if piece.lean and len(piece.p) == len(piece.q) == 1]
        self.ends = [end for piece in simple for end in self._ends(piece)]
        self.panels = [panel for piece in leaf.pieces if piece not in simple for panel in covering(piece, line, wanted)]
        nodes = len(self.panels) * line.nodes + len(leaf.atoms)
        terms = sum(len(panel.piece.p + panel.piece.q) for panel in self.panels) * line.nodes
        if terms * ctx.prec > MOST_NUMBERS or nodes * last * ctx.prec > MOST_WORK:
            raise UndecidedError(f"{nodes} nodes times {last} frequencies are too many")
        self.nodes = [(p, (q / p).log()) for p, q in leaf.atoms]
        for panel in self.panels:
            line.progress("nodes of a quadrature rule")
            for place, width in _legendre(line.nodes, ctx.prec):
                x = panel.middle + panel.radius * place
                log_p, loss = panel.piece.logs(x)
                self.nodes.append((panel.radius * width * panel.piece.weight(x) * log_p.exp(), loss))

    @staticmethod
    def _ends(piece: Finite) -> list[tuple[arb, arb, arb, arb]]:
        """One exponential, dP e^{s l} = e^{A + g x + s (B + d x)} dx, has the integral e^{A + g x + s l} / (g + s d) between its ends:
        (+-e^{A + g x}, l, g, d) at both."""
        below, rise = piece.p[0][1], piece.q[0][1] - piece.p[0][1]
        ends = [(sign, *piece.logs(x)) for sign, x in ((1, piece.high), (-1, piece.low))]
        return [(sign * log_p.exp(), loss, piece.lean + below, rise) for sign, log_p, loss in ends]

    def error(self, sigma: arb, frequency: arb) -> arb:
        """The interval in which sum - M(s) lies for Re s = sigma, |Im s| <= frequency."""
        return around(sum((panel.log_error(self.line.nodes, sigma, frequency).exp() for panel in self.panels), ZERO).upper())

    def real(self, tilt: float) -> arb:
        """M(tilt + 1). For Chernoff's bound alone a Renyi curve will do: M(c + 1) <= e^{k(c)}."""
        if self.curve is not None and not self.line.last:
            return self.curve(ball(tilt)).exp()
        sigma = ball(tilt) + 1
        value = sum((w * (sigma * l).exp() for w, l in self.nodes), ZERO) + self.error(sigma, ZERO)
        return value + sum((w * (sigma * l).exp() / (g + sigma * d) for w, l, g, d in self.ends), ZERO)

    def values(self) -> list[acb]:
        """M(c + 1 + i j h), j = 0..last."""
        sigma, error = ball(self.line.c) + 1, self.error(ball(self.line.c) + 1, self.step * self.last)
        found = [value + acb(error, error) for value in self._sums([(w * (sigma * l).exp(), l) for w, l in self.nodes])]
        for w, l, g, d in self.ends:
            one = self._sums([(w * (sigma * l).exp(), l)])
            found = [value + more / (g + acb(sigma, j * self.step) * d) for j, (value, more) in enumerate(zip(found, one, strict=True))]
        return found

    def _sums(self, nodes: list[tuple[arb, arb]]) -> list[acb]:
        """sum_q w_q e^{i j h l_q}, j = 0..last, as products of two matrices: j = small + big * stride."""
        stride = math.isqrt(self.last) + 1
        rows, some = self.last // stride + 1, max(1, MOST_ENTRIES // ctx.prec // stride)
        total = acb_mat(rows, stride)
        for start in range(0, len(nodes), some):
            self.line.progress("a transform on a line")
            part = nodes[start : start + some]
            big = [powers(self.step * l * stride, rows) for _, l in part]
            left = acb_mat(rows, len(part), [w * row[k] for k in range(rows) for (w, _), row in zip(part, big, strict=True)])
            total += left * acb_mat(len(part), stride, [phase for _, l in part for phase in powers(self.step * l, stride)])
        return total.entries()[: self.last + 1]


def powers(angle: arb, count: int) -> list[acb]:
    """e^{i k angle}, k = 0..count - 1; the error of repeated multiplication is cut short by fresh exponentials."""
    one, found = acb(0, angle).exp(), [acb(1)]
    for k in range(1, count):
        found.append(found[-1] * one if k % FRESH else acb(0, k * angle).exp())
    return found[:count]
