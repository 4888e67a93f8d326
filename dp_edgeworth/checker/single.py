"""delta(eps) of one mechanism, in closed form, and of losses on a lattice, as a finite sum."""

from __future__ import annotations

from collections.abc import Callable

from flint import acb, arb

from .balls import UndecidedError, ball, kappa, proved
from .laws import Leaf, Piece

MOST_POINTS = 200_000


def delta_of_one(leaf: Leaf, epsilon: arb) -> arb:
    """delta(eps) = Q(infinite) + sum over atoms of (q - e^eps p)_+ + sum over pieces of int (dQ - e^eps dP)_+.

    Losses increase along a piece, so its integral is Q - e^eps P of the part above the point where the loss is eps.
    """
    total, scale = leaf.infinite, epsilon.exp()
    for p, q in leaf.atoms:
        total += arb(0).max(q - scale * p)
    for piece in leaf.pieces:
        start = _crossing(piece, epsilon)
        if start is not None:
            end = piece.high
            total += piece.mass(piece.q, start, end) - scale * piece.mass(piece.p, start, end)
    return total


def _crossing(piece: Piece, epsilon: arb) -> arb | None:
    """A ball around the x with l(x) = eps, whose ends are proved to lie on either side; the lower end of the piece if l > eps on
    all of it, None if l <= eps on all of it."""
    limit = _limit(piece)
    if limit is not None and proved(limit <= epsilon):
        return None
    if piece.low is not None and proved(_loss(piece, piece.low) >= epsilon):
        return piece.low
    low = piece.low if piece.low is not None else _outwards(lambda x: proved(_loss(piece, x) < epsilon), arb(-1))
    high = piece.high if piece.high is not None else _outwards(lambda x: proved(_loss(piece, x) > epsilon), arb(1))
    if not proved(_loss(piece, low) < epsilon) or not proved(_loss(piece, high) > epsilon):
        raise UndecidedError("epsilon is too near the loss at the end of a piece")
    return _halved(piece, epsilon, low, high)


def _outwards(is_there: Callable[[arb], bool], x: arb) -> arb:
    """x, 2x, 4x, ..."""
    for _ in range(200):
        if is_there(x):
            return x
        x = x * 2
    raise UndecidedError("no place where the loss passes epsilon was found")


def _limit(piece: Piece) -> arb | None:
    return Leaf((), pieces=(piece,)).largest_loss()


def _loss(piece: Piece, x: arb) -> arb:
    return piece.loss(acb(x)).real


def _halved(piece: Piece, epsilon: arb, low: arb, high: arb) -> arb:
    """Bisection as long as the comparisons can be proved; not in the middle, where the crossing of a symmetric pair may be exactly."""
    for _ in range(4 * 1100):
        middle = (low + (high - low) * 7 / 16).mid()
        loss = _loss(piece, middle)
        if proved(loss < epsilon):
            low = middle
        elif proved(loss > epsilon):
            high = middle
        else:
            break
    return low.union(high)


def lattice_bounds(leaf: Leaf, count: int, epsilon: arb, c: float, high: float, points: int) -> tuple[arb, arb]:
    """Bounds of delta for `count` uses of a leaf whose losses are first + k * spacing.

    Theorem. Sums of losses lie on count * first + spacing Z. With y* the smallest of these above eps and z_j = c
    + 2 pi i j / (N g),

        sum_k e^{ckNg} G(eps + kNg) = (1/N) sum_{j<N} M(z_j + 1)^m [e^{-z_j y*} / (1 - e^{-z_j g}) - e^{eps - (z_j + 1) y*} / (1 -
        e^{-(z_j + 1) g})].

    All terms on the left are >= 0; those with k < 0 add up to at most 1 / (e^{cNg} - 1), those with k > 0 are 0 if eps + Ng is at
    least the largest sum, and otherwise at most kappa(c') E[e^{c' (Y - eps)}] / (e^{(c' - c) N g} - 1) for any c' > c, here `high`.
    """
    assert leaf.lattice is not None
    good = isinstance(points, int) and not isinstance(points, bool)
    if not good or not 2 <= points <= MOST_POINTS or points * len(leaf.atoms) > 10 * MOST_POINTS or not 0 < c < high < 1e15:
        raise UndecidedError("a lattice sum needs 0 < c < high and few enough points")
    first, spacing, steps = leaf.lattice
    tilt, start = ball(c), count * first
    number = ((epsilon - start) / spacing).floor().unique_fmpz()
    if number is None:
        raise UndecidedError("epsilon is too near a point of the lattice")
    above = start + (int(number) + 1) * spacing
    total = acb(0)
    for j in range(points // 2 + 1):
        z = acb(tilt, 2 * arb.pi() * j / (points * spacing))
        value = _power(leaf, z + 1, count)
        kernel = (-z * above).exp() / (1 - (-z * spacing).exp()) - (epsilon - (z + 1) * above).exp() / (1 - (-(z + 1) * spacing).exp())
        total += value * kernel * (1 if j == 0 or 2 * j == points else 2)
    whole, period = total.real / points, points * spacing
    alias = 1 / (tilt * period).expm1()
    if not proved(epsilon + period >= start + count * max(steps) * spacing):
        other = ball(high)
        alias += kappa(other) * _power(leaf, acb(other + 1), count).real * (-other * epsilon).exp() / ((other - tilt) * period).expm1()
    infinite = 1 - (1 - leaf.infinite) ** count
    return (infinite + whole - alias).lower(), (infinite + whole).upper()


def _power(leaf: Leaf, s: acb, count: int) -> acb:
    """M(s)^count = e^{s count first} (sum_k p_k e^{s g k})^count."""
    assert leaf.lattice is not None
    first, spacing, steps = leaf.lattice
    ratio = (s * spacing).exp()
    total = sum((p * ratio**k for (p, _), k in zip(leaf.atoms, steps, strict=True)), acb(0))
    return total**count * (s * count * first).exp()
