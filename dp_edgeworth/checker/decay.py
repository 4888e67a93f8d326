"""How |M(sigma + iv)| decays as v grows: two bounds that do not increase with v."""

from __future__ import annotations

import functools
import math

from flint import acb, arb

from .balls import proved
from .laws import ZERO, Piece
from .transforms import Finite, Progress, height

MOST_BOXES, UPRIGHT, PARTS = 2000, 12, 4


def lively(piece: Finite, turn: float, sigma: arb, y: arb, progress: Progress) -> arb:
    """B with |M(sigma + iv)| <= B for all v >= y, of one piece alone.

    Theorem. f(x) = b(x) w(x) S_P(x) e^{s l(x)}, s = sigma + iv, is analytic in low < Re x < high, 0 < Im x < a, so its integral
    along the real side is that along the three others. The slopes of S_Q lie in [0, turn/a], those of S_P in [-turn/a, 0], turn
    < pi. Then every term of S_Q has its argument in [0, turn], so has S_Q, which is not 0; that of S_P is in [-turn, 0]. So Im l =
    arg S_Q - arg S_P >= 0, and |e^{s l}| = e^{sigma Re l - v Im l} does not increase with v. Boxes cover the three sides; `log_sum` has
    the arguments that are meant: its own differ from them by a multiple of 2 pi, and by less than turn + pi/2.
    """
    low, high, top = piece.low, piece.high, height(piece, turn)
    count = min(max(64, math.ceil(6 * turn * float((high - low) / top))), MOST_BOXES)
    width, total = (high - low) / count, ZERO
    boxes = [(width, acb((low + k * width).union(low + (k + 1) * width), top)) for k in range(count)]
    boxes += [(top / UPRIGHT, acb(end, (top * k / UPRIGHT).union(top * (k + 1) / UPRIGHT)))
              for k in range(UPRIGHT) for end in (low, high)]
    for length, x in boxes:
        progress("a shifted contour")
        log_p, loss = piece.logs(x)
        log_size = log_p.real + sigma * loss.real - y * ZERO.max(loss.imag.lower())
        total += length * log_size.exp().upper() * piece.largest_weight(x)
    return total.upper()


def spread(piece: Finite, cells: int, sigma: arb, y: arb, progress: Progress) -> arb:
    """D with |M(sigma + iv)| <= M(sigma) - D for all v >= y; of several pieces, the D add up.

    Theorem. Let r = b S_P e^{sigma l}, and k <= r / l' on a cell, on which the loss increases by d. Then |int r e^{ivl}| <= int (r
    - k l') + k |int l' e^{ivl}| = int r - k d (1 - |sinc(v d / 2)|), and |sinc| <= `sinc_sup`, which does not increase. All else
    has modulus at most its value at v = 0.
    """
    total, width = ZERO, (piece.high - piece.low) / cells
    for cell in range(cells):
        progress("cells of a density")
        left, right = piece.low + width * cell, piece.low + width * (cell + 1)
        longer = (piece.loss(right) - piece.loss(left)).lower()
        if proved(longer > 0):
            total += floor(piece, left, right, sigma) * longer * (1 - sinc_sup(y * longer / 2))
    return total.lower()


def floor(piece: Piece, low: arb, high: arb, sigma: arb) -> arb:
    """Lower bound of b S_P e^{sigma l} / l' on an interval, from balls that cover it."""
    floors = []
    for k in range(PARTS):
        x = (low + (high - low) * k / PARTS).union(low + (high - low) * (k + 1) / PARTS)
        log_p, loss = piece.logs(x)
        floors.append(((log_p + sigma * loss).exp() / piece.slope(x).abs_upper()).lower())
    return ZERO.max(functools.reduce(arb.min, floors))


def sinc_sup(u: arb) -> arb:
    """Upper bound of sup over v >= u of |sin v / v|: 1/u for u >= 1, 1 - u^2/6 + u^4/120 for u <= 1.

    (sin u / u decreases up to pi, is below its alternating Taylor sum, and is at least sin 1 = 0.84 up to 1; beyond pi it is below
    1/pi.)
    """
    return (1 / u).upper() if proved(u >= 1) else (1 - u * u / 6 + u**4 / 120).upper() if proved(u <= 1) else arb(1)
