"""Which pair of distributions each event is, in direction "remove" (Q is with the record); "add" is the reversed pair.

Under REPLACE_ONE every additive noise has twice its sensitivity. Events and relations that are not in PAIRS have no proof here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

from flint import arb, ctx

from . import classes
from .balls import InputError, UndecidedError, ball, working_bits
from .certificate import ANY, COUNT, POSITIVE, SHARE, SIZE, Event, Fields, leaves, listed, number, values
from .laws import CONSTANT, NON_PRIVATE, NOTHING, ONE, ZERO, Leaf, Piece, Terms, density

MOST_LEAVES, MOST_RECORDS, MOST_ATOMS, MOST_BITS = 20_000, 10**7, classes.MOST_ATOMS, 128_000_000
NO_NOISE, BETA_BITS = arb("inf"), 256  # the incomplete beta function takes minutes with thousands of bits


def composition(tree: object, relation: str) -> list[tuple[Leaf, int]]:
    """The leaves of direction "remove" with their counts, equal ones together."""
    found: dict[str, tuple[Leaf, int]] = {}
    numbers = 0
    for event, count in leaves(tree):
        key = json.dumps(event, sort_keys=True)
        leaf, before = found.get(key) or (leaf_of(event, relation), 0)
        numbers += (len(leaf.atoms) + sum(len(piece.p + piece.q) for piece in leaf.pieces)) * (not before)
        if len(found) > MOST_LEAVES or numbers * ctx.prec > MOST_BITS:
            raise UndecidedError(f"there are more than {MOST_LEAVES} distinct leaves, or they have {MOST_BITS} bits of losses")
        found[key] = (leaf, before + count)
    return [(leaf, count) for leaf, count in found.values() if leaf is not NOTHING]


def leaf_of(event: Event, relation: str) -> Leaf:
    """The pair of a leaf event; UndecidedError for events and relations without a proof here."""
    relations, pair, fields = PAIRS.get(event["type"], ((), gaussian, {}))
    if relation not in relations:
        raise UndecidedError(f"`{event['type'][:60]}` under {relation} is not among the leaves with a proof")
    return pair(relation, *values(event, fields))


def factor(relation: str) -> int:
    """How far a record moves an additive query, in units of its sensitivity."""
    return 2 if relation == "REPLACE_ONE" else 1


def square_of(noise: float) -> arb:
    """(1 / noise)^2, NO_NOISE where it is infinite."""
    return NO_NOISE if noise == 0 else ZERO if math.isinf(noise) else 1 / ball(noise) ** 2


def gaussian(square: arb) -> Leaf:
    """N(0, 1) against N(mu, 1), mu^2 = square."""
    return NOTHING if square.is_zero() else Leaf(variance=square, mirror=True) if square.is_finite() else NON_PRIVATE


def tree_aggregation(relation: str, noise: float, steps: object) -> Leaf:
    """A record touches at most bit_length(steps) nodes of one tree: a Gaussian of that squared sensitivity."""
    event: Event = {"type": "SingleEpochTreeAggregationDpEvent", "steps": [steps] if isinstance(steps, int) else steps}
    most = max([0, *(number(event, "step_counts", COUNT, value) for value in listed(event, "steps"))])
    return gaussian(most.bit_length() * square_of(noise)) if most else NOTHING


def mixture(relation: str, noise: float, shifts: list[float], weights: list[float]) -> Leaf:
    """N(0, 1) against sum_k w_k N(s_k / noise, 1), the weights divided by their sum."""
    if not weights or len(weights) != len(shifts) or not math.isclose(math.fsum(weights), 1, rel_tol=1e-8):
        raise InputError("`sampling_probs` must be as many as `sensitivities` and sum to 1.")
    if len(weights) > MOST_ATOMS:
        raise UndecidedError(f"a mixture has more than {MOST_ATOMS} parts")
    gathered: dict[float, arb] = {}
    for s, w in zip(shifts, weights, strict=True):
        if w > 0:
            gathered[s] = gathered.get(s, ZERO) + ball(w)
    if min(gathered) < 0:
        raise InputError("`sensitivities` must not be negative where the probability is not 0.")
    if noise == 0 or math.inf in gathered:
        return NON_PRIVATE if any(gathered) else NOTHING
    if len(gathered) == 1 or math.isinf(noise):
        return gaussian(ball(max(gathered)) ** 2 * square_of(noise))
    total, scale = sum(gathered.values(), ZERO), 1 / ball(noise)
    terms = [((w / total).log() - (ball(s) * scale) ** 2 / 2, ball(s) * scale) for s, w in gathered.items()]
    return Leaf(pieces=(Piece(CONSTANT, tuple(terms)),))


def laplace(relation: str, noise: float) -> Leaf:
    """Noise e^{-|x|}/2 moved by `factor` / noise."""
    return classes.trivial(noise, math.inf, 0) or classes.shifted_laplace(factor(relation) / ball(noise))


def discrete_laplace(relation: str, noise: float, sensitivity: int) -> Leaf:
    """P(x) proportional to e^{-a |x|} on the integers, moved by s: losses a (2k - s), k = 0..s, with P-masses 1 / (1 + e^-a),
    tanh(a/2) e^{-a k}, e^{-a s} / (1 + e^-a)."""
    s = factor(relation) * sensitivity
    if noise == 0 or math.isinf(noise) or not s:
        return NON_PRIVATE if s else NOTHING
    if s > MOST_ATOMS:
        raise UndecidedError(f"discrete Laplace noise has more than {MOST_ATOMS} losses")
    a = ball(noise)
    side = 1 / (1 + (-a).exp())
    masses = [side, *((a / 2).tanh() * (-a * k).exp() for k in range(1, s)), (-a * s).exp() * side]
    return Leaf(tuple(zip(masses, masses[::-1], strict=True)), mirror=True)


def randomized_response(relation: str, noise: float, k: int) -> Leaf:
    """k buckets, a uniform answer with probability r: the own bucket has 1 - r + r/k, every other r/k; the neighbour's answer, or a
    uniform one under REPLACE_SPECIAL."""
    if k == 1 or noise in (0, 1):
        return NON_PRIVATE if k > 1 and noise == 0 else NOTHING
    other = ball(noise) / k
    own = 1 - ball(noise) + other
    if relation == "REPLACE_SPECIAL":
        return Leaf(((arb(k - 1) / k, (k - 1) * other), (ONE / k, own)))
    return Leaf(((other, own), (own, other), *[((k - 2) * other,) * 2] * (k > 2)), mirror=True)


def epsilon_delta(relation: str, epsilon: float, delta: float) -> Leaf:
    """Infinite loss with probability delta, otherwise +-epsilon as randomised response with e^eps / (1 + e^eps): dominates any
    (epsilon, delta) and is one of them."""
    if math.isinf(epsilon) or delta == 1:
        return NON_PRIVATE
    infinite = ball(delta)
    if epsilon == 0:
        return Leaf(((1 - infinite, 1 - infinite),), infinite=infinite, lost=infinite, mirror=True) if delta else NOTHING
    high, low = ((1 - infinite) / (1 + (-sign * ball(epsilon)).exp()) for sign in (1, -1))
    return Leaf(((high, low), (low, high)), infinite=infinite, lost=infinite, mirror=True)


def poisson(relation: str, probability: float, inner: object) -> Leaf:
    """Probabilities of nested samplings multiply; then any Gaussians, or one leaf of `SAMPLED`."""
    p, contents = ball(probability), list(leaves(inner))
    while not p.is_zero() and len(contents) == 1 and contents[0][1] == 1 and contents[0][0]["type"] == POISSON:
        probability, inner = values(contents[0][0], PAIRS[POISSON][2])
        p, contents = p * ball(probability), list(leaves(inner))
    if p.is_zero() or not contents:
        return NOTHING
    event, count = contents[0]
    if len(contents) > 1 or count > 1 or event["type"] == "GaussianDpEvent":
        return sampled_gaussian(inner_square(inner), p, relation)
    leaf = leaf_of(event, relation) if event["type"] in ("NonPrivateDpEvent", *SAMPLED) else None
    if leaf is None or relation == "REPLACE_ONE":
        raise UndecidedError(f"sampling of `{event['type'][:60]}` under {relation} is not among the leaves with a proof")
    return leaf if leaf in (NON_PRIVATE, NOTHING) or (p - 1).is_zero() else sampled(leaf, p)


def inner_square(tree: object) -> arb:
    """Squared shift of the one Gaussian that a composition of Gaussians is, for one record."""
    total = ZERO
    for event, count in leaves(tree):
        if event["type"] not in ("GaussianDpEvent", "NonPrivateDpEvent"):
            raise UndecidedError(f"sampling of `{event['type'][:60]}` is not among the leaves with a proof")
        total += count * square_of(*(values(event, PAIRS[event["type"]][2]) or [0.0]))
    return total


def sampled_gaussian(square: arb, p: arb, relation: str) -> Leaf:
    """Poisson sampling with 0 <= p <= 1 of a Gaussian, `square` the squared shift of one record.

    One record replaced: (1-p) N(0, 1) + p N(-mu, 1) against (1-p) N(0, 1) + p N(mu, 1), the worst of two records at distance 2 mu,
    which is its own mirror image.
    """
    if p.is_zero() or square.is_zero() or not square.is_finite():
        return NOTHING if p.is_zero() else gaussian(square)
    if (p - 1).is_zero():
        return gaussian(factor(relation) ** 2 * square)
    leaf = sampled(gaussian(square), p)
    if relation != "REPLACE_ONE":
        return leaf
    up = leaf.pieces[0].q
    return Leaf(pieces=(Piece(tuple((a, -b) for a, b in up), up),), mirror=True)


def sampled(leaf: Leaf, p: arb) -> Leaf:
    """One record more, 0 < p < 1: (P, Q) becomes (P, (1-p) P + p Q), whatever they are."""
    if not leaf.variance.is_zero():
        return sampled(Leaf(pieces=(density(leaf.variance),)), p)
    rest, least = 1 - p, leaf.least
    atoms = [(a, rest * a + p * b) for a, b in leaf.atoms] + [(leaf.lost, rest * leaf.lost)] * (not leaf.lost.is_zero())
    pieces = [replace(part, q=scaled(rest, part.p) + scaled(p, part.q)) for part in leaf.pieces]
    return Leaf(tuple(atoms), tuple(pieces), p * leaf.infinite, least=least and (lambda share: sampled(least(share), p)))


def scaled(weight: arb, terms: Terms) -> Terms:
    return tuple((a + weight.log(), b) for a, b in terms)


def without_replacement(relation: str, size: int, sample: int, inner: object) -> Leaf:
    """A fixed-size sample, one record replaced: the symmetric pair whose losses above 0 are those of Poisson sampling with p = size
    / n and twice the shift (x > mu/2), those below 0 their mirror image, with what mass is left, (1-p) erf(mu / sqrt 8), at 0.

    One of the two directions of that Poisson-sampled pair has the larger delta, (P, (1-p) P + p Q) for eps >= 0: its curve is that of
    the losses above 0, and the symmetric pair has it in both directions.
    """
    if sample > size:
        raise InputError(f"`sample_size` must be at most `source_dataset_size`. Found {sample} of {size}.")
    square = 4 * inner_square(inner)
    if not sample or sample == size or square.is_zero() or not square.is_finite():
        return gaussian(square) if sample else NOTHING
    p, mu = ball(sample) / size, square.sqrt()
    above = replace(sampled(gaussian(square), p).pieces[0], low=mu / 2)
    rest = (1 - p) * (mu / arb(8).sqrt()).erf()
    return Leaf(((rest, rest),), (above, above.reversed()), mirror=True)


def truncated(relation: str, size: int, probability: float, batch: int, noise: float) -> Leaf:
    """Whether the batch is full without the record is a public coin (arXiv:2508.15089): if so the record displaces another one, a
    replacement of twice the shift with the conditional probability of being in the batch; otherwise plain Poisson sampling."""
    p, square = ball(probability), square_of(noise)
    if not batch or not size or p.is_zero():
        return NOTHING
    if square.is_zero() or not square.is_finite() or batch > size - 1:
        return sampled_gaussian(square, p, relation)
    if probability == 1:  # always full
        return sampled_gaussian(4 * square, ball(batch) / size, "REPLACE_ONE")
    if size > MOST_RECORDS:
        raise UndecidedError(f"truncated batches of more than {MOST_RECORDS} records take too long")
    full = binomial_tail(batch, size - 1, p)
    displaced = sampled_gaussian(4 * square, binomial_tail(batch + 1, size, p) * batch / full / size, "REPLACE_ONE")
    parts = ((full, displaced.pieces[0]), (1 - full, sampled_gaussian(square, p, relation).pieces[0]))
    pieces = tuple(replace(part, p=scaled(w, part.p), q=scaled(w, part.q)) for w, part in parts)
    return Leaf(pieces=pieces, mirror=relation == "REPLACE_ONE")


def binomial_tail(k: int, n: int, p: arb) -> arb:
    """P(Bin(n, p) >= k), k >= 1: the regularised incomplete beta function I_p(k, n - k + 1)."""
    with working_bits(min(ctx.prec, BETA_BITS)):
        value = p.beta_lower(arb(k), arb(n - k + 1), 1) if k <= n else ZERO
    if not value.is_finite() or (k <= n and value.rel_accuracy_bits() < 40):
        raise UndecidedError("the probability of a full batch is not known accurately")
    return value


ONE_MORE, REPLACED, SPECIAL, POISSON = (ANY[0], ANY[2]), (ANY[1],), (ANY[2],), "PoissonSampledDpEvent"
SAMPLED = ("LaplaceDpEvent", "DiscreteLaplaceDpEvent", "MixtureOfGaussiansDpEvent", "ExponentialMechanismDpEvent")
PAIRS: dict[str, tuple[tuple[str, ...], Callable[..., Leaf], Fields]] = {
    "NonPrivateDpEvent": (ANY, lambda relation: NON_PRIVATE, {}),
    "GaussianDpEvent": (ANY, lambda relation, noise: gaussian(factor(relation) ** 2 * square_of(noise)), {"noise_multiplier": SIZE}),
    "SingleEpochTreeAggregationDpEvent": (SPECIAL, tree_aggregation, {"noise_multiplier": SIZE, "step_counts": None}),
    POISSON: (ANY, poisson, {"sampling_probability": SHARE, "event": None}),
    "SampledWithoutReplacementDpEvent": (
        REPLACED, without_replacement, {"source_dataset_size": POSITIVE, "sample_size": COUNT, "event": None}),
    "TruncatedSubsampledGaussianDpEvent": (ANY, truncated, {
        "dataset_size": COUNT, "sampling_probability": SHARE, "truncated_batch_size": COUNT, "noise_multiplier": SIZE}),
    "MixtureOfGaussiansDpEvent": (ONE_MORE, mixture, {
        "standard_deviation": SIZE, "sensitivities": [(float, -math.inf, math.inf)], "sampling_probs": [SHARE]}),
    "LaplaceDpEvent": (ANY, laplace, {"noise_multiplier": SIZE}),
    "DiscreteLaplaceDpEvent": (ANY, discrete_laplace, {"noise_parameter": SIZE, "sensitivity": COUNT}),
    "RandomizedResponseDpEvent": ((*REPLACED, *SPECIAL), randomized_response, {"noise_parameter": SHARE, "num_buckets": POSITIVE}),
    "EpsilonDeltaDpEvent": (ANY, epsilon_delta, {"epsilon": SIZE, "delta": SHARE}),
    "PermuteAndFlipDpEvent": (ANY, classes.permute_and_flip, {"epsilon": SIZE}),
    "ExponentialMechanismDpEvent": (ANY, classes.exponential_mechanism, {"epsilon": SIZE}),
    "ZCDpEvent": (ANY, classes.zero_concentrated, {"rho": SIZE, "xi": SIZE}),
    "RenyiDpEvent": (ANY, classes.renyi, {"orders": [(float, 1, math.inf)], "values": [SIZE]}),
    "ProfileDpEvent": (ANY, classes.profile, {"epsilons": [(float, -1e300, 1e300)], "deltas": [SHARE], "lower_deltas": None}),
}
