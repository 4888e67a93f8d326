"""Events that stand for a class of mechanisms: a pair, or a Renyi curve, that dominates the class, and members of it from below.

A Renyi curve is k with log E_Q[e^{c l}] <= k(c) in both directions. Curves of an adaptive composition add up at common c.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flint import arb, ctx

from .balls import InputError, UndecidedError, ball, kappa, proved, working_bits
from .laws import CONSTANT, NON_PRIVATE, NOTHING, ONE, ZERO, Leaf, Piece

MOST_ATOMS = 2_000
BETWEEN = 30  # points of a Renyi curve for one of a hint
SPARE_BITS = 512  # for the differences of slopes of a profile


def trivial(size: float, nothing: float = 0, everything: float = math.inf) -> Leaf | None:
    return NOTHING if size == nothing else NON_PRIVATE if size == everything else None


def shifted_laplace(t: arb) -> Leaf:
    """Noise e^{-|x|}/2 moved by t. Under P the loss is -t with probability 1/2, t with probability e^{-t}/2, and 2x - t with density
    e^{-x}/2 on 0 < x < t."""
    half, far = ONE / 2, (-t).exp() / 2
    return Leaf(((half, far), (far, half)), (Piece(CONSTANT, ((-t, arb(2)),), ZERO, t, -1),), mirror=True)


def permute_and_flip(relation: str, epsilon: float) -> Leaf:
    """At most the loss of Laplace noise of shift e = epsilon. From below two candidates: the first one wins with probability
    e^{-s e} / 2, with the record 1 - e^{-(1 - s) e} / 2, where s in [0, 1] is the share of the gap."""

    def two_candidates(share: arb) -> Leaf:
        few, rest = (-share * ball(epsilon)).exp() / 2, ((share - 1) * ball(epsilon)).exp() / 2
        return Leaf(((few, 1 - rest), (1 - few, rest)))

    return trivial(epsilon) or replace(shifted_laplace(ball(epsilon)), least=two_candidates)


def exponential_mechanism(relation: str, epsilon: float) -> Leaf:
    """Bounded range e (Durfee, Rogers 2019; Dong, Durfee, Rogers 2020): the loss lies in [t - e, t] for some t in [0, e].

    Given t the worst case is two atoms, P-masses (1 - e^{t-e}) e^{-t} / (1 - e^{-e}) at t and (1 - e^{-t}) / (1 - e^{-e}) at t - e: the
    members. The supremum over t of their profiles is that of a loss with density proportional to e^{-l/2} on [-e, e] under P, which
    here is l = 2x - e with density e^{-x} / (1 - e^{-e}) on 0 < x < e; it dominates. Its Renyi curve is larger than the largest of the
    members', k(c) = (c+1) g((c+1) e / 2) - c g(c e / 2) - g(e / 2), g(y) = log(sinh(y) / y), which holds too.
    """
    if found := trivial(epsilon):
        return found
    e = ball(epsilon)
    whole = 1 - (-e).exp()

    def g(y: arb) -> arb:
        return (y.sinh() / y).log()

    def two_atoms(share: arb) -> Leaf:
        t = share * e
        high, low = (1 - (t - e).exp()) / whole, (1 - (-t).exp()) / whole
        return Leaf(((high * (-t).exp(), high), (low, low * (t - e).exp())))

    scale = (2 / whole).log()
    return Leaf(pieces=(Piece(((scale, ZERO),), ((scale - e, arb(2)),), ZERO, e, -1),), mirror=True, least=two_atoms,
                curve=lambda c: (c + 1) * g((c + 1) * e / 2) - c * g(c * e / 2) - g(e / 2))


def zero_concentrated(relation: str, rho: float, xi: float) -> Leaf:
    """(xi, rho)-zCDP: k(c) = c (xi + rho (c + 1)). From below the Gaussian with mu^2 = 2 rho."""
    member = Leaf(variance=2 * ball(rho), mirror=True) if 0 < rho < math.inf else NOTHING
    return trivial(max(rho, xi)) or Leaf(
        mirror=True, curve=lambda c: c * (ball(xi) + ball(rho) * (c + 1)), least=lambda share: member)


def renyi(relation: str, orders: list[float], divergences: list[float]) -> Leaf:
    """Divergences of some orders. K(c) = log E_Q[e^{c l}] is convex and K(0) = 0, so between them k is the chord of c D_{c+1}; beyond
    them nothing is known, and nothing from below."""
    if len(orders) != len(divergences) or any(a >= b for a, b in itertools.pairwise([1, *orders])) or math.inf in orders:
        raise InputError("`orders` must be increasing numbers above 1, as many as `values`.")
    if len(orders) > MOST_ATOMS:
        raise UndecidedError(f"a Renyi curve has more than {MOST_ATOMS} orders")
    finite = [(a, d) for a, d in zip(orders, divergences, strict=True) if d < math.inf]
    table = [(ZERO, ZERO)] + [(ball(a) - 1, (ball(a) - 1) * ball(d)) for a, d in finite]

    def curve(c: arb) -> arb:
        place = bisect.bisect_left([a - 1 for a, _ in finite[:-1]], float(c))  # in doubles; where it is wrong the next lines say so
        (left, low), (right, high) = table[place:place + 2] if finite else ((ONE, ZERO), (ZERO, ZERO))
        if not proved(left <= c) or not proved(c <= right):
            raise UndecidedError("a tilt is beyond the orders of a Renyi curve")
        return low + (high - low) * (c - left) / (right - left)

    return Leaf(mirror=True, curve=curve, least=lambda share: NOTHING)


def profile(relation: str, epsilons: list[float], deltas: list[float], lower_deltas: object = None) -> Leaf:
    """delta(eps_j) <= u_j for all neighbours. Nothing is known from below."""
    if len(epsilons) != len(deltas) or any(a >= b for a, b in itertools.pairwise(epsilons)) or not epsilons:
        raise InputError("`epsilons` must be increasing numbers, as many as `deltas`.")
    return replace(dominating([(epsilon, ball(u)) for epsilon, u in zip(epsilons, deltas, strict=True)]), least=lambda share: NOTHING)


def dominating(points: list[tuple[float, arb]]) -> Leaf:
    """A pair that dominates every class with delta(eps_j) <= u_j in both directions, for all j.

    Theorem (profiles.md, 1). With x = e^eps, H(x) = sup Q(S) - x P(S) is convex, non-increasing, H(0) = 1, and H(1/x) <= 1 - 1/x + u/x
    at the mirrored points; so it lies below the chords of any of these points, constant beyond the last one. That is the profile of
    the pair with P(R = x_j) = change of slope at x_j, P(R = 0) = 1 + slope at 0, Q(R = inf) = last value, if its masses are proved not
    negative (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022).

    The points here are (x, v = u - (1 - x)), with slopes larger by 1, so that P(R = 0) has nothing to cancel.
    """
    if len(points) > MOST_ATOMS:
        raise UndecidedError(f"a profile has more than {MOST_ATOMS} points")
    places = []
    with working_bits(ctx.prec + SPARE_BITS):
        for epsilon, u in points:
            x = ball(epsilon).exp()
            places += [(epsilon, x, u + x - 1, u), (-epsilon, 1 / x, u / x, 1 - (1 - u) / x)]
        hull = [(ZERO, ZERO, ONE)]
        for _, x, v, u in sorted(places, key=lambda place: (place[0], float(place[2]))):
            if proved(x > hull[-1][0]) and proved(u < hull[-1][2]):
                while len(hull) > 1 and not proved(_slope(hull[-2], hull[-1]) < _slope(hull[-1], (x, v, u))):
                    hull.pop()
                hull.append((x, v, u))
        slopes = [_slope(a, b) for a, b in itertools.pairwise(hull)] + [ONE]
        masses = [(right - left, x) for left, right, (x, _, _) in zip(slopes[:-1], slopes[1:], hull[1:], strict=True)]
    lost, infinite = slopes[0], hull[-1][2]
    if not masses or not proved(lost >= 0) or not proved(infinite >= 0) or not all(proved(p > 0) for p, _ in masses):
        raise UndecidedError("the masses of a profile's pair are not known to be positive")
    return Leaf(tuple((p, x * p) for p, x in masses), infinite=infinite, lost=lost, mirror=True)


def _slope(first: tuple[arb, arb, arb], second: tuple[arb, arb, arb]) -> arb:
    return (second[1] - first[1]) / (second[0] - first[0])


def merged(leaves: list[tuple[Leaf, int]], points: Any, progress: Callable[[str], None]) -> list[tuple[Leaf, int]]:
    """The leaves with all that have a Renyi curve replaced by one pair; `points` is a hint, (eps_j, c_j), None for no change.

    Theorem (profiles.md, 4). For all these leaves together k = sum m_i k_i, so H(e^eps) <= kappa(c) e^{k(c) - c eps} for every c > 0,
    in both directions: `dominating` has the pair. It may stand beside the others in any order: their dominating pairs can be drawn
    first, and given these the leaves with curves are one adaptive composition. (Between two points of the hint there are more.)
    """
    known = [(leaf, count, leaf.curve) for leaf, count in leaves if leaf.curve is not None]
    if points is None or not known:
        return leaves
    good = isinstance(points, list) and all(isinstance(point, list) and [*map(type, point)] == [float] * 2 for point in points)
    if not good or not 0 < len(points) * BETWEEN <= MOST_ATOMS or not all(abs(eps) <= 1e15 and 0 < c <= 1e15 for eps, c in points):
        raise UndecidedError(f"the points of a Renyi curve must be at most {MOST_ATOMS // BETWEEN} pairs of numbers")
    profile_of_all = []
    for (left, first), (right, last) in itertools.pairwise([*points, points[-1]]):
        progress("a pair of all Renyi curves")
        for k in range(BETWEEN):
            epsilon, c = left + (right - left) * k / BETWEEN, ball(first + (last - first) * k / BETWEEN)
            exponent = sum((count * curve(c) for _, count, curve in known), ZERO) - c * ball(epsilon)
            profile_of_all.append((epsilon, ONE.min((kappa(c) * exponent.exp()).upper())))
    return [*((leaf, count) for leaf, count in leaves if leaf.curve is None), (dominating(profile_of_all), 1)]
