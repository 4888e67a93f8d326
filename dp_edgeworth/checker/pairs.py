"""Which pair of distributions each event is, in direction "remove" (Q is with the record); "add" is the reversed pair.

Under REPLACE_ONE every additive noise has twice its sensitivity. An event that stands for a class of mechanisms is a pair (or a Renyi
curve) that dominates the class, and from below its members (`Leaf.least`). Events and relations that are not in the tables at the end
have no proof here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

from flint import arb

from .balls import InputError, UndecidedError, ball, proved
from .certificate import Event, field, leaves, listed, numbers
from .laws import CONSTANT, ONE, ZERO, Leaf, Piece, density

SLACK = arb(2) ** -80
MOST_LEAVES, MOST_ATOMS, MOST_RECORDS, WHOLE = 20_000, 2_000, 10**7, 10**15
NON_PRIVATE = Leaf(infinite=ONE, lost=ONE, mirror=True)
NOTHING = Leaf(mirror=True)


def composition(tree: object, relation: str) -> list[tuple[Leaf, int]]:
    """The leaves of direction "remove" with their counts, equal ones together."""
    found: dict[str, tuple[Leaf, int]] = {}
    for event, count in leaves(tree):
        key = json.dumps(event, sort_keys=True)
        if key not in found and len(found) == MOST_LEAVES:
            raise UndecidedError(f"there are more than {MOST_LEAVES} distinct leaves")
        leaf, before = found.get(key) or (leaf_of(event, relation), 0)
        found[key] = (leaf, before + count)
    return [(leaf, count) for leaf, count in found.values() if leaf is not NOTHING]


def leaf_of(event: Event, relation: str) -> Leaf:
    """The pair of a leaf event; UndecidedError for events and relations without a proof here."""
    kind = event["type"]
    if kind not in PAIRS:
        raise UndecidedError(f"`{kind[:60]}` is not among the leaves with a proof")
    relations, pair = PAIRS[kind]
    if relation not in relations:
        raise UndecidedError(f"`{kind}` has no pair under {relation}")
    return pair(event, relation)


# ---- Gaussian noise ----


def _gaussian(square: arb | None) -> Leaf:
    """N(0, 1) against N(mu, 1), mu^2 = square; None is no noise."""
    if square is None:
        return NON_PRIVATE
    return NOTHING if square.is_zero() else Leaf(variance=square, mirror=True)


def _square(event: Event, name: str = "noise_multiplier") -> arb | None:
    """(1 / noise)^2; None without noise."""
    noise = field(event, name, 0)
    return ZERO if math.isinf(noise) else 1 / ball(noise) ** 2 if noise else None


def _factor(relation: str) -> int:
    """How far a record moves an additive query, in units of its sensitivity."""
    return 2 if relation == "REPLACE_ONE" else 1


def _times(factor: int, square: arb | None) -> arb | None:
    return None if square is None else factor * square


def _tree_aggregation(event: Event, relation: str) -> Leaf:
    """A record touches at most bit_length(steps) nodes of one tree: a Gaussian of that squared sensitivity."""
    steps = event.get("step_counts")
    counts = numbers({**event, "step_counts": [steps] if isinstance(steps, int) else listed(event, "step_counts")}, "step_counts", 0,
                     WHOLE, whole=True)
    most, square = max([0, *counts]), _square(event)
    return _gaussian(_times(most.bit_length(), square)) if most else NOTHING


def _inner_square(tree: object) -> arb | None:
    """Squared shift of the one Gaussian that a composition of Gaussians is, for one record; None if it is not private."""
    total = ZERO
    for event, count in leaves(tree):
        if event["type"] not in ("GaussianDpEvent", "NonPrivateDpEvent"):
            raise UndecidedError(f"sampling of `{event['type'][:60]}` is not among the leaves with a proof")
        square = None if event["type"] == "NonPrivateDpEvent" else _square(event)
        if square is None:
            return None
        total += count * square
    return total


def _sampled_gaussian(square: arb | None, p: arb, relation: str) -> Leaf:
    """Poisson sampling with 0 <= p <= 1 of a Gaussian, `square` the squared shift of one record.

    One record replaced: (1-p) N(0, 1) + p N(-mu, 1) against (1-p) N(0, 1) + p N(mu, 1), the worst of two records at distance 2 mu,
    which is its own mirror image.
    """
    if p.is_zero() or square is None or square.is_zero():
        return NOTHING if p.is_zero() else _gaussian(square)
    if (p - 1).is_zero():
        return _gaussian(_factor(relation) ** 2 * square)
    leaf = _sampled(_gaussian(square), p)
    if relation != "REPLACE_ONE":
        return leaf
    up = leaf.pieces[0].q
    return Leaf(pieces=(Piece(tuple((a, -b) for a, b in up), up),), mirror=True)


def _poisson(event: Event, relation: str) -> Leaf:
    """Probabilities of nested samplings multiply; then any Gaussians, or one leaf of `SAMPLED`."""
    p, inner = ONE, event
    while inner["type"] == "PoissonSampledDpEvent":
        p *= ball(field(inner, "sampling_probability", 0, 1))
        contents = list(leaves(inner.get("event")))
        if p.is_zero() or not contents:
            return NOTHING
        if len(contents) > 1 or contents[0][1] > 1 or contents[0][0]["type"] == "GaussianDpEvent":
            return _sampled_gaussian(_inner_square(inner["event"]), p, relation)
        inner = contents[0][0]
    leaf = leaf_of(inner, relation) if inner["type"] in ("NonPrivateDpEvent", *SAMPLED) else None
    if leaf is None or relation == "REPLACE_ONE":
        raise UndecidedError(f"sampling of `{inner['type'][:60]}` under {relation} is not among the leaves with a proof")
    if leaf in (NON_PRIVATE, NOTHING) or (p - 1).is_zero():
        return leaf
    return _sampled(leaf, p)


def _sampled(leaf: Leaf, p: arb) -> Leaf:
    """One record more, 0 < p < 1: (P, Q) becomes (P, (1-p) P + p Q), whatever they are."""
    if not leaf.variance.is_zero():
        return _sampled(Leaf(pieces=(density(leaf.variance),)), p)
    rest, least = 1 - p, leaf.least
    atoms = [(a, rest * a + p * b) for a, b in leaf.atoms] + [(leaf.lost, rest * leaf.lost)] * (not leaf.lost.is_zero())
    pieces = [replace(part, q=tuple((a + w.log(), b) for w, terms in ((rest, part.p), (p, part.q)) for a, b in terms))
              for part in leaf.pieces]
    return Leaf(tuple(atoms), tuple(pieces), p * leaf.infinite, least=least and (lambda share: _sampled(least(share), p)))


def _mixture(event: Event, relation: str) -> Leaf:
    """N(0, 1) against sum_k w_k N(s_k / sigma, 1), the weights divided by their sum."""
    noise = field(event, "standard_deviation", 0)
    weights, shifts = numbers(event, "sampling_probs", 0, 1), numbers(event, "sensitivities", 0)
    if not weights or len(weights) != len(shifts) or not math.isclose(math.fsum(weights), 1, rel_tol=1e-8):
        raise InputError("`sampling_probs` must be as many as `sensitivities` and sum to 1.")
    if len(weights) > MOST_ATOMS:
        raise UndecidedError(f"a mixture has more than {MOST_ATOMS} parts")
    used = [(s, ball(w)) for s, w in zip(shifts, weights, strict=True) if w > 0]
    if noise == 0 or any(math.isinf(s) for s, _ in used):
        return NON_PRIVATE if any(s for s, _ in used) else NOTHING
    gathered: dict[float, arb] = {}
    for s, w in used:
        gathered[s] = gathered.get(s, ZERO) + w
    total = sum(gathered.values(), ZERO)
    scale = ZERO if math.isinf(noise) else 1 / ball(noise)
    terms = [((w / total).log() - (s * scale) ** 2 / 2, s * scale) for s, w in ((ball(s), w) for s, w in gathered.items())]
    if len(terms) == 1 or scale.is_zero():
        return _gaussian(terms[0][1] ** 2)
    return Leaf(pieces=(Piece(CONSTANT, tuple(terms)),))


def _without_replacement(event: Event, relation: str) -> Leaf:
    """A fixed-size sample, one record replaced: the symmetric pair whose losses above 0 are those of Poisson sampling with p = size
    / n and twice the shift (x > mu/2), those below 0 their mirror image, with what mass is left, (1-p) erf(mu / sqrt 8), at 0.

    One of the two directions of that Poisson-sampled pair has the larger delta, (P, (1-p) P + p Q) for eps >= 0: its curve is that of
    the losses above 0, and the symmetric pair has it in both directions.
    """
    size = field(event, "source_dataset_size", 1, WHOLE, whole=True)
    sample = field(event, "sample_size", 0, size, whole=True)
    square = _times(4, _inner_square(event.get("event")))
    if not sample or square is None or square.is_zero() or sample == size:
        return _gaussian(square) if sample else NOTHING
    p, mu = ball(sample) / size, square.sqrt()
    above = replace(_sampled(_gaussian(square), p).pieces[0], low=mu / 2)
    rest = (1 - p) * (mu / arb(8).sqrt()).erf()
    return Leaf(((rest, rest),), (above, above.reversed()), mirror=True)


def _truncated(event: Event, relation: str) -> Leaf:
    """Whether the batch is full without the record is a public coin (arXiv:2508.15089): if so the record displaces another one, a
    replacement of twice the shift with the conditional probability of being in the batch; otherwise plain Poisson sampling."""
    size, batch = (field(event, name, 0, WHOLE, whole=True) for name in ("dataset_size", "truncated_batch_size"))
    p, square = ball(field(event, "sampling_probability", 0, 1)), _square(event)
    if not batch or not size or p.is_zero():
        return NOTHING
    if square is None or square.is_zero() or batch > size - 1:
        return _sampled_gaussian(square, p, relation)
    if (p - 1).is_zero():  # always full
        return _sampled_gaussian(4 * square, ball(batch) / size, "REPLACE_ONE")
    if size > MOST_RECORDS:
        raise UndecidedError(f"truncated batches of more than {MOST_RECORDS} records take too long")
    full = _binomial_tail(batch, size - 1, p)
    parts = (full, _sampled_gaussian(4 * square, _binomial_tail(batch + 1, size, p) * batch / full / size, "REPLACE_ONE")), (
        1 - full, _sampled_gaussian(square, p, relation))
    return Leaf(pieces=tuple(replace(leaf.pieces[0], weight=w) for w, leaf in parts), mirror=relation == "REPLACE_ONE")


def _binomial_tail(k: int, n: int, p: arb) -> arb:
    """P(Bin(n, p) >= k), k >= 1: the regularised incomplete beta function I_p(k, n - k + 1)."""
    value = p.beta_lower(arb(k), arb(n - k + 1), 1) if k <= n else ZERO
    if not value.is_finite() or (k <= n and value.rel_accuracy_bits() < 40):
        raise UndecidedError("the probability of a full batch is not known accurately")
    return value


# ---- other noise ----


def _laplace(event: Event, relation: str) -> Leaf:
    noise = field(event, "noise_multiplier", 0)
    return NON_PRIVATE if noise == 0 else NOTHING if math.isinf(noise) else _shifted_laplace(_factor(relation) / ball(noise))


def _shifted_laplace(t: arb) -> Leaf:
    """Noise e^{-|x|}/2 moved by t. Under P the loss is -t with probability 1/2, t with probability e^{-t}/2, and 2x - t with density
    e^{-x}/2 on 0 < x < t."""
    half, far = ONE / 2, (-t).exp() / 2
    return Leaf(((half, far), (far, half)), (Piece(CONSTANT, ((-t, arb(2)),), ZERO, t, -1),), mirror=True)


def _discrete_laplace(event: Event, relation: str) -> Leaf:
    """P(x) proportional to e^{-a |x|} on the integers, moved by s: losses a (2k - s), k = 0..s, with P-masses 1 / (1 + e^-a),
    tanh(a/2) e^{-a k}, e^{-a s} / (1 + e^-a)."""
    noise = field(event, "noise_parameter", 0)
    s = _factor(relation) * field(event, "sensitivity", 0, WHOLE, whole=True)
    if noise == 0 or math.isinf(noise) or not s:
        return NON_PRIVATE if s else NOTHING
    if s > MOST_ATOMS:
        raise UndecidedError(f"discrete Laplace noise has more than {MOST_ATOMS} losses")
    a = ball(noise)
    side = 1 / (1 + (-a).exp())
    masses = [side, *((a / 2).tanh() * (-a * k).exp() for k in range(1, s)), (-a * s).exp() * side]
    return Leaf(tuple(zip(masses, masses[::-1], strict=True)), grid=(-s * a, 2 * a), mirror=True)


def _randomized_response(event: Event, relation: str) -> Leaf:
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


# ---- classes of mechanisms ----


def _epsilon_delta(event: Event, relation: str) -> Leaf:
    """Infinite loss with probability delta, otherwise +-epsilon as randomised response with e^eps / (1 + e^eps): dominates any
    (epsilon, delta) and is one of them."""
    epsilon, delta = field(event, "epsilon", 0), ball(field(event, "delta", 0, 1))
    if math.isinf(epsilon) or (delta - 1).is_zero():
        return NON_PRIVATE
    if epsilon == 0:
        return Leaf(((1 - delta, 1 - delta),), infinite=delta, lost=delta, mirror=True) if not delta.is_zero() else NOTHING
    high, low = ((1 - delta) / (1 + (-sign * ball(epsilon)).exp()) for sign in (1, -1))
    return Leaf(((high, low), (low, high)), infinite=delta, lost=delta, mirror=True)


def _permute_and_flip(event: Event, relation: str) -> Leaf:
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


def _exponential(event: Event, relation: str) -> Leaf:
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


def _zero_concentrated(event: Event, relation: str) -> Leaf:
    """(xi, rho)-zCDP: k(c) = c (xi + rho (c + 1)). From below the Gaussian with mu^2 = 2 rho."""
    rho, xi = field(event, "rho", 0), field(event, "xi", 0) if "xi" in event else 0
    if math.isinf(rho) or math.isinf(xi) or rho == xi == 0:
        return NON_PRIVATE if rho or xi else NOTHING
    return Leaf(mirror=True, curve=lambda c: c * (ball(xi) + ball(rho) * (c + 1)), least=lambda share: _gaussian(2 * ball(rho)))


def _renyi(event: Event, relation: str) -> Leaf:
    """Divergences of some orders. K(c) = log E_Q[e^{c l}] is convex and K(0) = 0, so between them k is the chord of c D_{c+1}; beyond
    them nothing is known, and nothing from below."""
    orders, values = numbers(event, "orders", 1), numbers(event, "values", 0)
    if len(orders) != len(values) or any(a >= b for a, b in zip([1, *orders], orders, strict=False)) or math.inf in orders:
        raise InputError("`orders` must be increasing numbers above 1, as many as `values`.")
    table = [(ZERO, ZERO)] + [(ball(a) - 1, (ball(a) - 1) * ball(d)) for a, d in zip(orders, values, strict=True) if d < math.inf]

    def curve(c: arb) -> arb:
        for (left, low), (right, high) in zip(table, table[1:], strict=False):
            if proved(left <= c) and proved(c <= right):
                return low + (high - low) * (c - left) / (right - left)
        raise UndecidedError("a tilt is beyond the orders of a Renyi curve")

    return Leaf(mirror=True, curve=curve, least=lambda share: NOTHING)


def _profile(event: Event, relation: str) -> Leaf:
    """delta(eps_j) <= u_j for all neighbours. With x = e^eps, H(x) = sup Q(S) - x P(S) is convex, non-increasing, H(0) = 1, and
    H(1/x) <= 1 - 1/x + u/x at the mirrored points; so it lies below the chords of any of these points, constant beyond the last one.

    That is the profile of the pair with P(R = x_j) = change of slope at x_j, P(R = 0) = 1 + slope at 0, Q(R = inf) = last value, if its
    masses are proved not negative (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022; SLACK, by which every u_j is raised, keeps masses
    that would be 0 from looking negative). Nothing is known from below.
    """
    epsilons, deltas = numbers(event, "epsilons", -1e300, 1e300), numbers(event, "deltas", 0, 1)
    if len(epsilons) != len(deltas) or any(a >= b for a, b in zip(epsilons, epsilons[1:], strict=False)) or not epsilons:
        raise InputError("`epsilons` must be increasing numbers, as many as `deltas`.")
    points = [(ZERO, ONE)]
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        x, u = ball(epsilon).exp(), ball(delta) + SLACK
        points += [(x, u)] + [(1 / x, 1 - (1 - u) / x)] * (epsilon != 0)
    hull: list[tuple[arb, arb]] = []
    for point in sorted(points, key=lambda point: (float(point[0]), float(point[1]))):
        while len(hull) > 1 and not proved(_slope(hull[-2], hull[-1]) < _slope(hull[-1], point)):
            hull.pop()
        hull += [point] * (not hull or (proved(hull[-1][0] < point[0]) and proved(hull[-1][1] > point[1])))
    slopes = [_slope(a, b) for a, b in zip(hull, hull[1:], strict=False)] + [ZERO]
    masses = [(right - left, x) for left, right, (x, _) in zip(slopes[:-1], slopes[1:], hull[1:], strict=True)]
    lost, infinite = 1 + slopes[0], hull[-1][1]
    if not proved(lost >= 0) or not proved(infinite >= 0) or not all(proved(p > 0) for p, _ in masses):
        raise UndecidedError("the masses of a profile's pair are not known to be positive")
    return Leaf(tuple((p, x * p) for p, x in masses), infinite=infinite, lost=lost, mirror=True, least=lambda share: NOTHING)


def _slope(first: tuple[arb, arb], second: tuple[arb, arb]) -> arb:
    return (second[1] - first[1]) / (second[0] - first[0])


ANY = ("ADD_OR_REMOVE_ONE", "REPLACE_ONE", "REPLACE_SPECIAL")
ONE_MORE, REPLACED, SPECIAL = (ANY[0], ANY[2]), (ANY[1],), (ANY[2],)
SAMPLED = ("LaplaceDpEvent", "DiscreteLaplaceDpEvent", "MixtureOfGaussiansDpEvent", "ExponentialMechanismDpEvent")
PAIRS: dict[str, tuple[tuple[str, ...], Callable[[Event, str], Leaf]]] = {
    "NonPrivateDpEvent": (ANY, lambda event, relation: NON_PRIVATE),
    "GaussianDpEvent": (ANY, lambda event, relation: _gaussian(_times(_factor(relation) ** 2, _square(event)))),
    "SingleEpochTreeAggregationDpEvent": (SPECIAL, _tree_aggregation),
    "PoissonSampledDpEvent": (ANY, _poisson),
    "SampledWithoutReplacementDpEvent": (REPLACED, _without_replacement),
    "TruncatedSubsampledGaussianDpEvent": (ANY, _truncated),
    "MixtureOfGaussiansDpEvent": (ONE_MORE, _mixture),
    "LaplaceDpEvent": (ANY, _laplace),
    "DiscreteLaplaceDpEvent": (ANY, _discrete_laplace),
    "RandomizedResponseDpEvent": ((*REPLACED, *SPECIAL), _randomized_response),
    "EpsilonDeltaDpEvent": (ANY, _epsilon_delta),
    "PermuteAndFlipDpEvent": (ANY, _permute_and_flip),
    "ExponentialMechanismDpEvent": (ANY, _exponential),
    "ZCDpEvent": (ANY, _zero_concentrated),
    "RenyiDpEvent": (ANY, _renyi),
    "ProfileDpEvent": (ANY, _profile),
}
