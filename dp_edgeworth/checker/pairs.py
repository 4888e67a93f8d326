"""Which pair of distributions each leaf is, in direction "remove" (Q is with the record); "add" is the reversed pair.

Under REPLACE_ONE every additive noise has twice its sensitivity. Events and relations that are not here have no proof here.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from flint import arb

from .balls import InputError, UndecidedError, ball
from .events import Event, checked_event, field, listed, walk
from .laws import CONSTANT, Leaf, Piece, normal_piece, shifted

MOST_LEAVES, MOST_ATOMS = 20_000, 2_000
ZERO = arb(0)
NON_PRIVATE = Leaf(("not private",), infinite=arb(1), lost=arb(1), mirror=True)
NOTHING = Leaf(("no loss",), mirror=True)


def composition(tree: object, relation: str) -> tuple[list[tuple[Leaf, int]], arb]:
    """The leaves of direction "remove", equal ones together, and the variance of all Gaussian leaves: mu^2 times count, added up.

    (Gaussians compose to one: e^{mu_1^2 (s^2 - s) / 2} e^{mu_2^2 (s^2 - s) / 2}.)
    """
    found: dict[tuple[object, ...], tuple[Leaf, int]] = {}
    variance = arb(0)
    for event, count in walk(tree):
        leaf = leaf_of(event, relation)
        if leaf.variance is not None:
            variance += count * leaf.variance
        elif leaf is not NOTHING:
            found[leaf.key] = (leaf, count + found.get(leaf.key, (leaf, 0))[1])
        if len(found) > MOST_LEAVES:
            raise UndecidedError(f"there are more than {MOST_LEAVES} distinct leaves")
    return list(found.values()), variance


def leaf_of(event: Event, relation: str) -> Leaf:
    """The pair of a leaf event; UndecidedError for events and relations without a proof here."""
    if event["type"] not in _READERS:
        raise UndecidedError(f"`{event['type'][:60]}` is not among the leaves with a proof")
    return _READERS[event["type"]](event, relation)


def _require(event: Event, relation: str, *allowed: str) -> None:
    if relation not in allowed:
        raise UndecidedError(f"`{event['type']}` has no pair under {relation}")


# ---- Gaussian noise ----


def _inverse(noise: float) -> arb:
    return 1 / ball(noise)


def _square(noise: float, factor: int = 1) -> arb | None:
    """(sensitivity / noise)^2; None without noise."""
    return arb(0) if math.isinf(noise) else (factor * _inverse(noise)) ** 2 if noise else None


def _gaussian_leaf(variance: arb | None) -> Leaf:
    """N(0, 1) against N(mu, 1): M(s) = e^{mu^2 (s^2 - s) / 2}."""
    if variance is None:
        return NON_PRIVATE
    return NOTHING if variance.is_zero() else Leaf(("gaussian",), variance=variance, mirror=True)


def _factor(relation: str) -> int:
    return 2 if relation == "REPLACE_ONE" else 1


def _gaussian(event: Event, relation: str) -> Leaf:
    return _gaussian_leaf(_square(field(event, "noise_multiplier", 0), _factor(relation)))


def _tree_aggregation(event: Event, relation: str) -> Leaf:
    """A record touches at most bit_length(steps) nodes of one tree: a Gaussian of that squared sensitivity."""
    _require(event, relation, "REPLACE_SPECIAL")
    steps = event.get("step_counts")
    numbers = [steps] if isinstance(steps, int) else listed(event, "step_counts")
    most = max([0, *(field({**event, "step_counts": k}, "step_counts", 0, 10**15, whole=True) for k in numbers)])
    square = _square(field(event, "noise_multiplier", 0))
    return NOTHING if not most else _gaussian_leaf(None if square is None else square * most.bit_length())


def _inner_square(event: Event) -> arb | None:
    """Squared shift of the one Gaussian that a composition of Gaussians is, for one record; None if it is not private."""
    total = arb(0)
    for leaf, count in walk(event):
        if leaf["type"] == "NonPrivateDpEvent":
            return None
        if leaf["type"] != "GaussianDpEvent":
            raise UndecidedError(f"sampling of `{leaf['type'][:60]}` is not among the leaves with a proof")
        square = _square(field(leaf, "noise_multiplier", 0))
        if square is None:
            return None
        total += count * square
    return total


def _sampled_gaussian(square: arb | None, p: arb, relation: str, key: tuple[object, ...]) -> Leaf:
    """Poisson sampling with 0 < p <= 1 of a Gaussian, `square` the squared shift of one record.

    One record more: N(0, 1) against (1-p) N(0, 1) + p N(mu, 1). One record replaced: (1-p) N(0, 1) + p N(-mu, 1) against (1-p) N(0,
    1) + p N(mu, 1), the worst of two records at distance 2 mu, which is its own mirror image.
    """
    if square is None:
        return NON_PRIVATE
    if square.is_zero() or p.is_zero():
        return NOTHING
    replaced = relation == "REPLACE_ONE"
    if (p - 1).is_zero():
        return _gaussian_leaf(square * 4 if replaced else square)
    mu = square.sqrt()
    up = (shifted(1 - p, arb(0)), shifted(p, mu))
    down = (shifted(1 - p, arb(0)), shifted(p, -mu))
    return Leaf(("sampled", *key), pieces=(Piece(down if replaced else CONSTANT, up),), mirror=replaced)


def _sampled(event: Event, relation: str) -> Leaf:
    """Probabilities of nested samplings multiply; then Gaussians, or one Laplace, discrete Laplace or mixture."""
    p, key = arb(1), []
    while event["type"] == "PoissonSampledDpEvent":
        share = field(event, "sampling_probability", 0, 1)
        p, event = p * ball(share), checked_event(event.get("event"))
        key.append(share)
    contents = list(walk(event))
    if not contents or p.is_zero():
        return NOTHING
    if len(contents) == 1 and contents[0][1] == 1:
        event = contents[0][0]
        if event["type"] == "PoissonSampledDpEvent":
            raise UndecidedError("sampling of a composed sampling is not among the leaves with a proof")
        if event["type"] in _SAMPLED:
            _require(event, relation, "ADD_OR_REMOVE_ONE", "REPLACE_SPECIAL")
            return _SAMPLED[event["type"]](event, relation, p, tuple(key))
    return _sampled_gaussian(_inner_square(event), p, relation, (tuple(key), _text(contents)))


def _text(contents: list[tuple[Event, int]]) -> str:
    return repr([(event["type"], event.get("noise_multiplier"), count) for event, count in contents])


def _mixture(event: Event, relation: str, p: arb | None = None, key: tuple[object, ...] = ()) -> Leaf:
    """N(0, 1) against sum_k w_k N(s_k / sigma, 1), the weights divided by their sum; sampling adds a shift 0 of probability 1 - p."""
    _require(event, relation, "ADD_OR_REMOVE_ONE", "REPLACE_SPECIAL")
    noise = field(event, "standard_deviation", 0)
    weights, shifts = listed(event, "sampling_probs"), listed(event, "sensitivities")
    probabilities = [field({**event, "sampling_probs": w}, "sampling_probs", 0, 1) for w in weights]
    if not weights or len(weights) != len(shifts) or not math.isclose(math.fsum(probabilities), 1, rel_tol=1e-8):
        raise InputError("`sampling_probs` must be as many as `sensitivities` and sum to 1.")
    if len(weights) > MOST_ATOMS:
        raise UndecidedError(f"a mixture has more than {MOST_ATOMS} parts")
    used = [(field({**event, "sensitivities": s}, "sensitivities", 0), w) for s, w in zip(shifts, probabilities, strict=True) if w > 0]
    if noise == 0 or any(math.isinf(s) for s, _ in used):
        return NON_PRIVATE if any(s for s, _ in used) else NOTHING
    total, p = sum((ball(w) for _, w in used), arb(0)), arb(1) if p is None else p
    gathered = {0: 1 - p}
    for s, w in used:
        gathered[s] = gathered.get(s, arb(0)) + p * ball(w) / total
    if math.isinf(noise) or not any(gathered.keys() - {0}):
        return NOTHING
    terms = [shifted(w, ball(s) / ball(noise)) for s, w in gathered.items() if not w.is_zero()]
    if len(terms) == 1:
        return _gaussian_leaf(terms[0][1] ** 2)
    return Leaf(("mixture", noise, tuple(sorted(map(repr, used))), key), pieces=(normal_piece(tuple(terms)),))


def _without_replacement(event: Event, relation: str) -> Leaf:
    """A fixed-size sample, one record replaced: the symmetric pair whose losses above 0 are those of Poisson sampling with p = size
    / n and twice the shift (x > mu/2), those below 0 their mirror image, with what mass is left, (1-p) erf(mu / sqrt 8), at 0.

    That pair has the larger of the two directions' curves as its own, at every epsilon (drop-in contract, last paragraph).
    """
    _require(event, relation, "REPLACE_ONE")
    size = field(event, "source_dataset_size", 1, 10**15, whole=True)
    sample = field(event, "sample_size", 0, size, whole=True)
    square = _inner_square(checked_event(event.get("event")))
    if square is None or sample == size:
        return NON_PRIVATE if square is None and sample else NOTHING if not sample else _gaussian_leaf(square and square * 4)
    if not sample or square.is_zero():
        return NOTHING
    p, mu = ball(sample) / size, 2 * square.sqrt()
    above = Piece(CONSTANT, (shifted(1 - p, arb(0)), shifted(p, mu)), low=mu / 2)
    rest = (1 - p) * (mu / arb(8).sqrt()).erf()
    key = ("without replacement", sample, size, _text(list(walk(event["event"]))))
    return Leaf(key, ((rest, rest),), (above, above.reversed()), mirror=True)


def _truncated(event: Event, relation: str) -> Leaf:
    """Whether the batch is full without the record is a public coin (arXiv:2508.15089): if so the record displaces another one, a
    replacement of twice the shift with the conditional probability of being in the batch; otherwise plain Poisson sampling.

    P(Bin(n, p) >= k) is the regularised incomplete beta function I_p(k, n - k + 1).
    """
    size = field(event, "dataset_size", 0, 10**15, whole=True)
    p = ball(field(event, "sampling_probability", 0, 1))
    batch = field(event, "truncated_batch_size", 0, 10**15, whole=True)
    square = _square(field(event, "noise_multiplier", 0))
    key = ("truncated", size, event["sampling_probability"], batch, event["noise_multiplier"], relation)
    if not batch or not size or p.is_zero():
        return NOTHING
    plain = _sampled_gaussian(square, p, relation, key)
    if square is None or batch > size - 1 or square.is_zero():
        return plain
    if size > 10**7:
        raise UndecidedError("truncated batches of more than 10^7 records take too long")
    full = _binomial_tail(batch, size - 1, p)
    conditional = _binomial_tail(batch + 1, size, p) * batch / full / size
    if plain.variance is not None:  # p = 1: always full
        conditional, full = ball(batch) / size, arb(1)
        return _sampled_gaussian(square * 4, conditional, "REPLACE_ONE", key)
    displaced = _sampled_gaussian(square * 4, conditional, "REPLACE_ONE", key)
    pieces = (displaced.pieces[0].scaled(full), plain.pieces[0].scaled(1 - full))
    return Leaf(key, pieces=pieces, mirror=relation == "REPLACE_ONE")


def _binomial_tail(k: int, n: int, p: arb) -> arb:
    """P(Bin(n, p) >= k), k >= 1."""
    if k > n:
        return arb(0)
    value = p.beta_lower(arb(k), arb(n - k + 1), 1)
    if not value.is_finite() or value.rel_accuracy_bits() < 40:
        raise UndecidedError("the probability of a full batch is not known accurately")
    return value


# ---- other noise ----


def _laplace_leaf(t: arb | None, p: arb, key: tuple[object, ...]) -> Leaf:
    """Noise e^{-|x|}/2 moved by t, sampled with probability p. Under P the ratio is e^{-t} with probability 1/2, e^{t} with probability
    e^{-t}/2, and e^{2x - t} with density e^{-x}/2 on 0 < x < t; sampling makes 1 - p + p r of a ratio r."""
    if t is None:
        return NON_PRIVATE
    if t.is_zero():
        return NOTHING
    sampled = not (p - 1).is_zero()
    low, high = (p * (sign * t).exp() + (1 - p) for sign in (-1, 1))
    terms = (((1 - p).log(), arb(0)),) * sampled + ((p.log() - t, arb(2)),)
    half = arb(1) / 2
    atoms = ((half, half * low), (half * (-t).exp(), half * (-t).exp() * high))
    return Leaf(("laplace", *key), atoms, (Piece(CONSTANT, terms, arb(0), t, -1),), mirror=not sampled)


def _laplace(event: Event, relation: str, p: arb | None = None, key: tuple[object, ...] = ()) -> Leaf:
    noise = field(event, "noise_multiplier", 0)
    shift = arb(0) if math.isinf(noise) else _factor(relation) * _inverse(noise) if noise else None
    return _laplace_leaf(shift, arb(1) if p is None else p, (noise, key))


def _permute_and_flip(event: Event, relation: str) -> Leaf:
    """At most the loss of Laplace noise of scale 1 / epsilon."""
    epsilon = field(event, "epsilon", 0)
    return NON_PRIVATE if math.isinf(epsilon) else _laplace_leaf(ball(epsilon), arb(1), ("permute and flip", epsilon))


def _discrete_laplace(event: Event, relation: str, p: arb | None = None, key: tuple[object, ...] = ()) -> Leaf:
    """P(x) proportional to e^{-a |x|} on the integers, moved by s: losses a (2k - s), k = 0..s, with P-masses 1 / (1 + e^-a),
    tanh(a/2) e^{-a k}, e^{-a s} / (1 + e^-a). Sampling makes 1 - p + p r of a ratio r."""
    noise = field(event, "noise_parameter", 0)
    s = _factor(relation) * field(event, "sensitivity", 0, MOST_ATOMS, whole=True)
    if noise == 0 or math.isinf(noise) or not s:
        return NON_PRIVATE if s else NOTHING
    a = ball(noise)
    side = 1 / (1 + (-a).exp())
    masses = [side, *((a / 2).tanh() * (-a * k).exp() for k in range(1, s)), (-a * s).exp() * side]
    if p is None or (p - 1).is_zero():
        atoms = tuple(zip(masses, masses[::-1], strict=True))
        return Leaf(("discrete laplace", noise, s), atoms, lattice=(-s * a, 2 * a, tuple(range(s + 1))), mirror=True)
    atoms = tuple((m, m * (1 - p + p * (a * (2 * k - s)).exp())) for k, m in enumerate(masses))
    return Leaf(("sampled discrete laplace", noise, s, key), atoms, lattice=_two_points(atoms))


def _two_points(atoms: tuple[tuple[arb, arb], ...]) -> tuple[arb, arb, tuple[int, ...]] | None:
    """Two losses are a lattice."""
    if len(atoms) != 2:
        return None
    low, high = ((q / p).log() for p, q in atoms)
    return (low, high - low, (0, 1))


def _randomized_response(event: Event, relation: str) -> Leaf:
    """k buckets, a uniform answer with probability r: the own bucket has 1 - r + r/k, every other r/k; the neighbour's answer, or a
    uniform one under REPLACE_SPECIAL."""
    _require(event, relation, "REPLACE_ONE", "REPLACE_SPECIAL")
    noise, k = field(event, "noise_parameter", 0, 1), field(event, "num_buckets", 1, 10**15, whole=True)
    if k == 1 or noise == 1:
        return NOTHING
    if noise == 0:
        return NON_PRIVATE
    other = ball(noise) / k
    own = 1 - ball(noise) + other
    if relation == "REPLACE_SPECIAL":
        atoms = ((arb(k - 1) / k, (k - 1) * other), (arb(1) / k, own))
        return Leaf(("randomized response", noise, k, relation), atoms, lattice=_two_points(atoms))
    loss = (own / other).log()
    three = ((own, other), ((k - 2) * other,) * 2, (other, own))
    return _symmetric(("randomized response", noise, k), loss, three)


def _symmetric(key: tuple[object, ...], loss: arb, three: tuple[tuple[arb, arb], ...], mass: arb = ZERO) -> Leaf:
    """Losses -loss, 0, loss; those without mass left out; infinite with probability `mass`."""
    used = [(pair, k) for k, pair in enumerate(three) if not pair[0].is_zero()]
    lattice = (-loss, loss, tuple(k for _, k in used))
    return Leaf(key, tuple(pair for pair, _ in used), infinite=mass, lost=mass, lattice=lattice, mirror=True)


def _epsilon_delta(event: Event, relation: str) -> Leaf:
    """Infinite loss with probability delta, otherwise +-epsilon as randomised response with e^eps / (1 + e^eps): dominates any
    (epsilon, delta)."""
    epsilon, delta = field(event, "epsilon", 0), field(event, "delta", 0, 1)
    if math.isinf(epsilon) or delta == 1:
        return NON_PRIVATE
    e, rest = ball(epsilon), 1 - ball(delta)
    high, low = rest / (1 + (-e).exp()), rest / (1 + e.exp())
    if e.is_zero():
        return Leaf(("delta", delta), ((rest, rest),), infinite=ball(delta), lost=ball(delta), mirror=True) if delta else NOTHING
    return _symmetric(("epsilon delta", epsilon, delta), e, ((high, low), (arb(0), arb(0)), (low, high)), ball(delta))


_SAMPLED: dict[str, Callable[..., Leaf]] = {
    "LaplaceDpEvent": _laplace, "DiscreteLaplaceDpEvent": _discrete_laplace, "MixtureOfGaussiansDpEvent": _mixture}
_READERS: dict[str, Callable[[Event, str], Leaf]] = {
    "GaussianDpEvent": _gaussian, "SingleEpochTreeAggregationDpEvent": _tree_aggregation, "PoissonSampledDpEvent": _sampled,
    "SampledWithoutReplacementDpEvent": _without_replacement, "TruncatedSubsampledGaussianDpEvent": _truncated,
    "LaplaceDpEvent": _laplace, "PermuteAndFlipDpEvent": _permute_and_flip, "DiscreteLaplaceDpEvent": _discrete_laplace,
    "RandomizedResponseDpEvent": _randomized_response, "EpsilonDeltaDpEvent": _epsilon_delta, "MixtureOfGaussiansDpEvent": _mixture,
    "NonPrivateDpEvent": lambda event, relation: NON_PRIVATE}
