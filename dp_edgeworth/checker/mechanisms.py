"""Which pair of distributions a mechanism is that runs on all records, in direction "remove" (Q is with the record).

Under REPLACE_ONE every additive noise has twice its sensitivity. An event that stands for a class of mechanisms is a pair (or a Renyi
curve) that dominates the class, and from below its members (`Leaf.least`).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

from flint import arb

from .balls import InputError, UndecidedError, ball, proved
from .certificate import Event, field, listed, numbers
from .laws import CONSTANT, ONE, ZERO, Leaf, Piece

MOST_ATOMS, WHOLE = 2_000, 10**15
SLACK = arb(2) ** -80
NON_PRIVATE = Leaf(infinite=ONE, lost=ONE, mirror=True)
NOTHING = Leaf(mirror=True)


def gaussian(square: arb | None) -> Leaf:
    """N(0, 1) against N(mu, 1), mu^2 = square; None is no noise."""
    if square is None:
        return NON_PRIVATE
    return NOTHING if square.is_zero() else Leaf(variance=square, mirror=True)


def square_of(event: Event, name: str = "noise_multiplier") -> arb | None:
    """(1 / noise)^2; None without noise."""
    noise = field(event, name, 0)
    return ZERO if math.isinf(noise) else 1 / ball(noise) ** 2 if noise else None


def factor(relation: str) -> int:
    """How far a record moves an additive query, in units of its sensitivity."""
    return 2 if relation == "REPLACE_ONE" else 1


def times(factor: int, square: arb | None) -> arb | None:
    return None if square is None else factor * square


def tree_aggregation(event: Event, relation: str) -> Leaf:
    """A record touches at most bit_length(steps) nodes of one tree: a Gaussian of that squared sensitivity."""
    steps = event.get("step_counts")
    counts = numbers({**event, "step_counts": [steps] if isinstance(steps, int) else listed(event, "step_counts")}, "step_counts", 0,
                     WHOLE, whole=True)
    most, square = max([0, *counts]), square_of(event)
    return gaussian(times(most.bit_length(), square)) if most else NOTHING


def mixture(event: Event, relation: str) -> Leaf:
    """N(0, 1) against sum_k w_k N(s_k / sigma, 1), the weights divided by their sum."""
    noise = field(event, "standard_deviation", 0)
    weights, shifts = numbers(event, "sampling_probs", 0, 1), numbers(event, "sensitivities", -math.inf)
    if not weights or len(weights) != len(shifts) or not math.isclose(math.fsum(weights), 1, rel_tol=1e-8):
        raise InputError("`sampling_probs` must be as many as `sensitivities` and sum to 1.")
    if len(weights) > MOST_ATOMS:
        raise UndecidedError(f"a mixture has more than {MOST_ATOMS} parts")
    used = [(s, ball(w)) for s, w in zip(shifts, weights, strict=True) if w > 0]
    if any(s < 0 for s, _ in used):
        raise InputError("`sensitivities` must not be negative where the probability is not 0.")
    if noise == 0 or any(math.isinf(s) for s, _ in used):
        return NON_PRIVATE if any(s for s, _ in used) else NOTHING
    gathered: dict[float, arb] = {}
    for s, w in used:
        gathered[s] = gathered.get(s, ZERO) + w
    total = sum(gathered.values(), ZERO)
    scale = ZERO if math.isinf(noise) else 1 / ball(noise)
    terms = [((w / total).log() - (s * scale) ** 2 / 2, s * scale) for s, w in ((ball(s), w) for s, w in gathered.items())]
    if len(terms) == 1 or scale.is_zero():
        return gaussian(terms[0][1] ** 2)
    return Leaf(pieces=(Piece(CONSTANT, tuple(terms)),))


def laplace(event: Event, relation: str) -> Leaf:
    noise = field(event, "noise_multiplier", 0)
    return NON_PRIVATE if noise == 0 else NOTHING if math.isinf(noise) else _shifted_laplace(factor(relation) / ball(noise))


def _shifted_laplace(t: arb) -> Leaf:
    """Noise e^{-|x|}/2 moved by t. Under P the loss is -t with probability 1/2, t with probability e^{-t}/2, and 2x - t with density
    e^{-x}/2 on 0 < x < t."""
    half, far = ONE / 2, (-t).exp() / 2
    return Leaf(((half, far), (far, half)), (Piece(CONSTANT, ((-t, arb(2)),), ZERO, t, -1),), mirror=True)


def discrete_laplace(event: Event, relation: str) -> Leaf:
    """P(x) proportional to e^{-a |x|} on the integers, moved by s: losses a (2k - s), k = 0..s, with P-masses 1 / (1 + e^-a),
    tanh(a/2) e^{-a k}, e^{-a s} / (1 + e^-a)."""
    noise = field(event, "noise_parameter", 0)
    s = factor(relation) * field(event, "sensitivity", 0, WHOLE, whole=True)
    if noise == 0 or math.isinf(noise) or not s:
        return NON_PRIVATE if s else NOTHING
    if s > MOST_ATOMS:
        raise UndecidedError(f"discrete Laplace noise has more than {MOST_ATOMS} losses")
    a = ball(noise)
    side = 1 / (1 + (-a).exp())
    masses = [side, *((a / 2).tanh() * (-a * k).exp() for k in range(1, s)), (-a * s).exp() * side]
    return Leaf(tuple(zip(masses, masses[::-1], strict=True)), grid=(-s * a, 2 * a), mirror=True)


def randomized_response(event: Event, relation: str) -> Leaf:
    """k buckets, a uniform answer with probability r: the own bucket has 1 - r + r/k, every other r/k; the neighbour's answer, or a
    uniform one under REPLACE_SPECIAL."""
    noise, k = field(event, "noise_parameter", 0, 1), field(event, "num_buckets", 1, WHOLE, whole=True)
    if k == 1 or noise in (0, 1):
        return NON_PRIVATE if k > 1 and noise == 0 else NOTHING
    other = ball(noise) / k
    own = 1 - ball(noise) + other
    if relation == "REPLACE_SPECIAL":
        return Leaf(((arb(k - 1) / k, (k - 1) * other), (ONE / k, own)))
    loss = (own / other).log()
    return Leaf(((other, own), (own, other), *[((k - 2) * other,) * 2] * (k > 2)), grid=(loss, loss) if k > 2 else None, mirror=True)


def epsilon_delta(event: Event, relation: str) -> Leaf:
    """Infinite loss with probability delta, otherwise +-epsilon as randomised response with e^eps / (1 + e^eps): dominates any
    (epsilon, delta) and is one of them."""
    epsilon, delta = field(event, "epsilon", 0), ball(field(event, "delta", 0, 1))
    if math.isinf(epsilon) or (delta - 1).is_zero():
        return NON_PRIVATE
    if epsilon == 0:
        return Leaf(((1 - delta, 1 - delta),), infinite=delta, lost=delta, mirror=True) if not delta.is_zero() else NOTHING
    high, low = ((1 - delta) / (1 + (-sign * ball(epsilon)).exp()) for sign in (1, -1))
    return Leaf(((high, low), (low, high)), infinite=delta, lost=delta, mirror=True)


def permute_and_flip(event: Event, relation: str) -> Leaf:
    """At most the loss of Laplace noise of shift e = epsilon. From below two candidates: the first one wins with probability
    e^{-s e} / 2, with the record 1 - e^{-(1 - s) e} / 2, where s in [0, 1] is the share of the gap."""
    epsilon = field(event, "epsilon", 0)
    if epsilon == 0 or math.isinf(epsilon):
        return NON_PRIVATE if epsilon else NOTHING
    e = ball(epsilon)

    def two_candidates(share: arb) -> Leaf:
        few, rest = (-share * e).exp() / 2, ((share - 1) * e).exp() / 2
        return Leaf(((few, 1 - rest), (1 - few, rest)))

    return replace(_shifted_laplace(e), least=two_candidates)


def exponential(event: Event, relation: str) -> Leaf:
    """Bounded range e (Durfee, Rogers 2019; Dong, Durfee, Rogers 2020): the loss lies in [t - e, t] for some t in [0, e].

    Given t the worst case is two atoms, P-masses (1 - e^{t-e}) e^{-t} / (1 - e^{-e}) at t and (1 - e^{-t}) / (1 - e^{-e}) at t - e: the
    members. The supremum over t of their profiles is that of a loss with density proportional to e^{-l/2} on [-e, e] under P, which
    here is l = 2x - e with density e^{-x} / (1 - e^{-e}) on 0 < x < e; it dominates. Its Renyi curve is larger than the largest of the
    members', k(c) = (c+1) g((c+1) e / 2) - c g(c e / 2) - g(e / 2), g(y) = log(sinh(y) / y), which holds too.
    """
    epsilon = field(event, "epsilon", 0)
    if epsilon == 0 or math.isinf(epsilon):
        return NON_PRIVATE if epsilon else NOTHING
    e = ball(epsilon)
    whole = 1 - (-e).exp()

    def g(y: arb) -> arb:
        return (y.sinh() / y).log()

    def two_atoms(share: arb) -> Leaf:
        t = share * e
        high, low = (1 - (t - e).exp()) / whole, (1 - (-t).exp()) / whole
        return Leaf(((high * (-t).exp(), high), (low, low * (t - e).exp())))

    return Leaf(pieces=(Piece(CONSTANT, ((-e, arb(2)),), ZERO, e, -1, 2 / whole),), mirror=True, least=two_atoms,
                curve=lambda c: (c + 1) * g((c + 1) * e / 2) - c * g(c * e / 2) - g(e / 2))


def zero_concentrated(event: Event, relation: str) -> Leaf:
    """(xi, rho)-zCDP: k(c) = c (xi + rho (c + 1)). From below the Gaussian with mu^2 = 2 rho."""
    rho, xi = field(event, "rho", 0), field(event, "xi", 0) if "xi" in event else 0
    if math.isinf(rho) or math.isinf(xi) or rho == xi == 0:
        return NON_PRIVATE if rho or xi else NOTHING
    return Leaf(mirror=True, curve=lambda c: c * (ball(xi) + ball(rho) * (c + 1)), least=lambda share: gaussian(2 * ball(rho)))


def renyi(event: Event, relation: str) -> Leaf:
    """Divergences of some orders. K(c) = log E_Q[e^{c l}] is convex and K(0) = 0, so between them k is the chord of c D_{c+1}; beyond
    them nothing is known, and nothing from below."""
    orders, values = numbers(event, "orders", 1), numbers(event, "values", 0)
    if len(orders) != len(values) or any(a >= b for a, b in zip([1, *orders], orders, strict=False)) or math.inf in orders:
        raise InputError("`orders` must be increasing numbers above 1, as many as `values`.")
    if len(orders) > MOST_ATOMS:
        raise UndecidedError(f"a Renyi curve has more than {MOST_ATOMS} orders")
    table = [(ZERO, ZERO)] + [(ball(a) - 1, (ball(a) - 1) * ball(d)) for a, d in zip(orders, values, strict=True) if d < math.inf]

    def curve(c: arb) -> arb:
        for (left, low), (right, high) in itertools.pairwise(table):
            if proved(left <= c) and proved(c <= right):
                return low + (high - low) * (c - left) / (right - left)
        raise UndecidedError("a tilt is beyond the orders of a Renyi curve")

    return Leaf(mirror=True, curve=curve, least=lambda share: NOTHING)


def profile(event: Event, relation: str) -> Leaf:
    """delta(eps_j) <= u_j for all neighbours. With x = e^eps, H(x) = sup Q(S) - x P(S) is convex, non-increasing, H(0) = 1, and
    H(1/x) <= 1 - 1/x + u/x at the mirrored points; so it lies below the chords of any of these points, constant beyond the last one.

    That is the profile of the pair with P(R = x_j) = change of slope at x_j, P(R = 0) = 1 + slope at 0, Q(R = inf) = last value, if its
    masses are proved not negative (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022; SLACK, by which every u_j is raised, keeps masses
    that would be 0 from looking negative). Nothing is known from below.
    """
    epsilons, deltas = numbers(event, "epsilons", -1e300, 1e300), numbers(event, "deltas", 0, 1)
    if len(epsilons) != len(deltas) or any(a >= b for a, b in itertools.pairwise(epsilons)) or not epsilons:
        raise InputError("`epsilons` must be increasing numbers, as many as `deltas`.")
    if len(epsilons) > MOST_ATOMS:
        raise UndecidedError(f"a profile has more than {MOST_ATOMS} points")
    points = [(ZERO, ONE)]
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        x, u = ball(epsilon).exp(), ball(delta) + SLACK
        points += [(x, u)] + [(1 / x, 1 - (1 - u) / x)] * (epsilon != 0)
    hull: list[tuple[arb, arb]] = []
    for point in sorted(points, key=lambda point: (float(point[0]), float(point[1]))):
        while len(hull) > 1 and not proved(_slope(hull[-2], hull[-1]) < _slope(hull[-1], point)):
            hull.pop()
        hull += [point] * (not hull or (proved(hull[-1][0] < point[0]) and proved(hull[-1][1] > point[1])))
    slopes = [_slope(a, b) for a, b in itertools.pairwise(hull)] + [ZERO]
    masses = [(right - left, x) for left, right, (x, _) in zip(slopes[:-1], slopes[1:], hull[1:], strict=True)]
    lost, infinite = 1 + slopes[0], hull[-1][1]
    if not proved(lost >= 0) or not proved(infinite >= 0) or not all(proved(p > 0) for p, _ in masses):
        raise UndecidedError("the masses of a profile's pair are not known to be positive")
    return Leaf(tuple((p, x * p) for p, x in masses), infinite=infinite, lost=lost, mirror=True, least=lambda share: NOTHING)


def _slope(first: tuple[arb, arb], second: tuple[arb, arb]) -> arb:
    return (second[1] - first[1]) / (second[0] - first[0])
