"""How |M(sigma + iv)| decays as v grows: two bounds that do not increase with v."""

from __future__ import annotations

import functools
import math

from flint import acb, arb

from .balls import UndecidedError, ball, proved
from .laws import Piece, Terms, log_sum
from .quadrature import Rule, Window

MOST_BOXES, UPRIGHT, PARTS = 2000, 12, 4


def rectangle_height(piece: Piece, turn: float) -> arb:
    """a, with |slope| a <= turn for every slope."""
    steepest = functools.reduce(arb.max, [abs(b).upper() for _, b in piece.p + piece.q])
    return (ball(turn) / steepest).lower()


def rectangle_sides(rule: Rule, height: arb, turn: float, sigma: arb, y: arb) -> arb:
    """B with |lively part of M(sigma + iv)| <= B for all v >= y.

    Theorem. f(x) = b(x) S_P(x) e^{s l(x)} w(x), s = sigma + iv, is analytic in low < Re x < high, 0 < Im x < a, so its integral
    along the real side is that along the three others. Let the slopes of S_Q lie in [0, turn/a], those of S_P in [-turn/a, 0], turn
    < pi. Then every term of S_Q has its argument in [0, turn], so has S_Q, which is not 0; that of S_P is in [-turn, 0]. So Im l =
    arg S_Q - arg S_P >= 0, |e^{s l}| = e^{sigma Re l - v Im l} does not increase with v, and Im l >= Im S_Q / |S_Q| - Im S_P /
    |S_P| (an angle in [0, pi] is at least its sine). Boxes cover the three sides.
    """
    piece, window = rule.piece, rule.window
    if window is None or not all(proved(b >= 0) for _, b in piece.q) or not all(proved(b <= 0) for _, b in piece.p):
        raise UndecidedError("a split needs losses that increase with x")
    count = min(max(64, math.ceil(6 * turn * float((rule.high - rule.low) / height))), MOST_BOXES)
    width, total = (rule.high - rule.low) / count, arb(0)
    boxes = [(width, acb((rule.low + k * width).union(rule.low + (k + 1) * width), height)) for k in range(count)]
    for k in range(UPRIGHT):
        part = (height * k / UPRIGHT).union(height * (k + 1) / UPRIGHT)
        boxes += [(height / UPRIGHT, acb(end, part)) for end in (rule.low, rule.high)]
    for length, x in boxes:
        size, angle = _size(piece, window, x, sigma)
        total += (length * size * (-y * angle).exp()).upper()
    return total.upper()


def _size(piece: Piece, window: Window, x: acb, sigma: arb) -> tuple[arb, arb]:
    """Upper bound of |b S_P e^{sigma l} w| and lower bound of Im l on a box with Im x >= 0."""
    above, below = (sum(((a + b * x).exp() for a, b in terms), acb(0)) for terms in (piece.q, piece.p))
    sizes = [value.abs_lower().union(value.abs_upper()) for value in (above, below)]
    if not all(proved(size > 0) for size in sizes):
        raise UndecidedError("a box of the contour shift is too wide")
    angle = above.imag.lower() / sizes[0].upper() - below.imag.upper() / sizes[1].upper()
    log_size = piece.log_base(x).real + sizes[1].log() + sigma * (sizes[0].log() - sizes[1].log())
    weight = window.largest(True, x.real.lower(), x.real.upper(), x.imag.upper())
    return (piece.weight * log_size.exp() * weight).upper(), arb(0).max(angle.lower())


def spread_of(piece: Piece, ends: tuple[arb, arb], cells: int, sigma: arb, y: arb) -> arb:
    """D with |M(sigma + iv)| <= M(sigma) - D for all v >= y; of several pieces, the D add up.

    Theorem. Let r = b S_P e^{sigma l}, and k <= r / l' on a cell, on which the loss increases by d. Then |int r e^{ivl}| <= int (r
    - k l') + k |int l' e^{ivl}| = int r - k d (1 - |sinc(v d / 2)|), and |sinc| <= `sinc_sup`, which does not increase. All else
    has modulus at most its value at v = 0.
    """
    (low, high), total = ends, arb(0)
    for cell in range(cells):
        left, right = (low + (high - low) * j / cells for j in (cell, cell + 1))
        longer = (piece.loss(acb(right)) - piece.loss(acb(left))).real.lower()
        if proved(longer > 0):
            total += _floor(piece, left, right, sigma) * longer * (1 - sinc_sup(y * longer / 2))
    return total.lower()


def _floor(piece: Piece, low: arb, high: arb, sigma: arb) -> arb:
    """Lower bound of b S_P e^{sigma l} / l' on an interval, from balls that cover it."""
    floors = []
    for k in range(PARTS):
        x = (low + (high - low) * k / PARTS).union(low + (high - low) * (k + 1) / PARTS)
        below, above = log_sum(piece.p, x), log_sum(piece.q, x)
        slope = _mean_slope(piece.q, x, above) - _mean_slope(piece.p, x, below)
        floors.append((piece.weight * (piece.log_base(x) + below + sigma * (above - below)).exp() / slope.abs_upper()).lower())
    return arb(0).max(functools.reduce(arb.min, floors))


def _mean_slope(terms: Terms, x: arb, log_total: arb) -> arb:
    """d/dx log sum_i e^{a_i + b_i x}."""
    return sum((b * (a + b * x - log_total).exp() for a, b in terms), arb(0))


def sinc_sup(u: arb) -> arb:
    """Upper bound of sup over v >= u of |sin v / v|: 1/u for u >= 1, 1 - u^2/6 + u^4/120 for u <= 1.

    (sin u / u decreases up to pi, is below its alternating Taylor sum, and is at least sin 1 = 0.84 up to 1; beyond pi it is below
    1/pi.)
    """
    return (1 / u).upper() if proved(u >= 1) else (1 - u * u / 6 + u**4 / 120).upper() if proved(u <= 1) else arb(1)
