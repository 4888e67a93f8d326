"""M(s) = E_P[e^{s l}] of one leaf: on a line, at real points, and of its calm part; and the hints that say where.

A `Line` holds the hints of one direction. They choose between theorems that are true for all of them; `validated` checks what they
ask for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from flint import acb, arb, ctx

from .balls import UndecidedError, ball, proved
from .envelope import rectangle_height, rectangle_sides, spread_of
from .laws import Leaf, Piece
from .quadrature import Rule, Window

MOST_WORK = 60_000_000_000  # nodes times frequencies times bits: a minute or two


@dataclass(frozen=True)
class Line:
    """Where the sum of `contour` is taken, and how its ends are bounded.

    Attributes:
      c, step, last: c > 0, h > 0 and J >= 1: the points are c + i j h, j = 0..J. tau: >= 0, the smoothing.
      low, high: 0 <= low < c < high, for the aliases on either side.
      reach: standard deviations kept beyond the components of Q. nodes, digits: of the quadrature rules.
      split: losses above about this one are the lively part of a leaf (`below`: those below it), the rest is calm; None: all are calm.
        turn: angle of the shifted contour, < 3 < pi. blur: width of the window between the parts, in units of the contour's height.
      rare: leave out the outcomes in which all losses are calm; the tilt `calm` >= 0 bounds them.
      cells: without a split, cells per piece of the other envelope.
    """

    c: float
    step: float
    last: int
    low: float
    high: float
    reach: float
    nodes: int
    digits: float
    tau: float = 0.0
    split: float | None = None
    turn: float = 1.0
    blur: float = 0.5
    below: bool = False
    rare: bool = False
    calm: float = 0.0
    cells: int = 0


def validated(line: Line) -> Line:
    """The same line, if it satisfies what the theorems ask for."""
    reals = (line.c, line.step, line.low, line.high, line.reach, line.digits, line.tau, line.turn, line.blur, line.calm,
             0.0 if line.split is None else line.split)
    good = (all(isinstance(x, float) and math.isfinite(x) and abs(x) < 1e15 for x in reals)
            and all(isinstance(n, int) and not isinstance(n, bool) for n in (line.last, line.nodes, line.cells))
            and isinstance(line.rare, bool) and isinstance(line.below, bool)
            and line.c > 0 and line.step > 0 and 0 <= line.low < line.c < line.high and line.tau >= 0 and line.calm >= 0
            and 0 < line.turn < 3 and 0.1 <= line.blur <= 10 and 0 < line.reach <= 200 and 8 <= line.digits <= 2000
            and 1 <= line.last <= 200_000 and 8 <= line.nodes <= 512 and 0 <= line.cells <= 200
            and (not line.cells if line.split is not None else not line.rare))
    if not good:
        raise UndecidedError(f"the hints are not within the bounds of the theorems: {str(line)[:300]}")
    return line


class Transform:
    """M(s) of one leaf and of its calm part, cut off as the line says."""

    def __init__(self, leaf: Leaf, line: Line):
        self.leaf, self.line = leaf, line
        frequency = line.step * line.last
        tilts = [(line.c + 1, frequency, False), (line.high + 1, 0.0, False), (line.low + 1, 0.0, False)]
        if line.split is not None:
            tilts += [(line.c + 1, frequency * line.rare, True), (line.calm + 1, 0.0, line.rare)]
        # Exponentials only (Laplace noise) are closed forms.
        self.closed = [piece for piece in leaf.pieces if piece.lean and len(piece.p) == len(piece.q) == 1]
        self.rules = [Rule(piece, ends(piece, line), tilts, line.nodes, line.digits, _window(piece, line))
                      for piece in leaf.pieces if piece not in self.closed]
        self.missing = sum((rule.missing for rule in self.rules), arb(0))

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
        """M(tilt + 1), or its calm part; a positive number."""
        sigma = ball(tilt) + 1
        value = sum((rule.real(sigma, calm) for rule in self.rules), self._rest(acb(sigma)).real)
        if not proved(value > 0):
            raise UndecidedError("a transform is not known to any accuracy: more bits or a finer rule are needed")
        return value

    def values(self, calm: bool = False) -> list[acb]:
        """M(c + 1 + i j h), j = 0..J, or its calm part."""
        sigma, step, last = ball(self.line.c) + 1, ball(self.line.step), self.line.last
        if max([100 * len(self.leaf.atoms), *(len(rule.losses) for rule in self.rules)]) * last * ctx.prec > MOST_WORK:
            raise UndecidedError(f"{sum(len(rule.losses) for rule in self.rules)} nodes times {last} frequencies are too many")
        found = [self._rest(acb(sigma, j * step)) for j in range(last + 1)]
        for rule in self.rules:
            found = [value + more for value, more in zip(found, rule.line(sigma, step, last, calm), strict=True)]
        return found

    def growth(self) -> arb:
        """log((A + B) / A), A + B a bound of |M(c + 1 + iv)| for all v >= J h: B = `lively` beyond the calm part A, or B = -D
        beyond A = M(c + 1)."""
        line, y = self.line, ball(self.line.step) * self.line.last
        sigma, total = ball(line.c) + 1, arb(0)
        if line.split is not None:
            for rule in self.rules:
                if rule.window is not None:
                    total += rectangle_sides(rule, rectangle_height(rule.piece, line.turn), line.turn, sigma, y)
        elif line.cells:
            for piece in self.leaf.pieces:
                total -= spread_of(piece, ends(piece, line), line.cells, sigma, y)
        return (total / self.real(line.c, line.split is not None)).log1p()


def ends(piece: Piece, line: Line) -> tuple[arb, arb]:
    """The ends of a piece; where it has none, `reach` beyond the components of Q, less for those of small weight (any ends are
    right)."""
    places = [0.0, 0.0]
    for a, b in piece.q if not piece.lean else ():
        shift = float(b.mid())
        room = math.sqrt(max(line.reach**2 + 2 * min(float(a.mid()) + shift**2 / 2, 0.0), 1.0))
        places += [shift - room, shift + room]
    return (ball(min(places)) if piece.low is None else piece.low, ball(max(places)) if piece.high is None else piece.high)


def _window(piece: Piece, line: Line) -> Window | None:
    """Centred where the loss is about `split` (bisection in doubles: any centre is right)."""
    if line.split is None or piece.lean:
        return None
    low, high = (float(end) for end in ends(piece, line))
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if float(piece.loss(acb(middle)).real.mid()) < line.split else (low, middle)
    return Window(ball(low), rectangle_height(piece, line.turn) * ball(line.blur), -1 if line.below else 1)
