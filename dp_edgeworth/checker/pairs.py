"""Which pair of distributions each event is, in direction "remove" (Q is with the record); "add" is the reversed pair.

Events and relations that are not in the table at the end have no proof here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from flint import arb

from . import mechanisms
from .balls import UndecidedError, ball
from .certificate import Event, field, leaves
from .laws import ONE, ZERO, Leaf, Piece, density
from .mechanisms import NON_PRIVATE, NOTHING, WHOLE, factor, gaussian, square_of, times

MOST_LEAVES, MOST_RECORDS = 20_000, 10**7


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


def _inner_square(tree: object) -> arb | None:
    """Squared shift of the one Gaussian that a composition of Gaussians is, for one record; None if it is not private."""
    total = ZERO
    for event, count in leaves(tree):
        if event["type"] not in ("GaussianDpEvent", "NonPrivateDpEvent"):
            raise UndecidedError(f"sampling of `{event['type'][:60]}` is not among the leaves with a proof")
        square = None if event["type"] == "NonPrivateDpEvent" else square_of(event)
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
        return NOTHING if p.is_zero() else gaussian(square)
    if (p - 1).is_zero():
        return gaussian(factor(relation) ** 2 * square)
    leaf = _sampled(gaussian(square), p)
    if relation != "REPLACE_ONE":
        return leaf
    up = leaf.pieces[0].q
    return Leaf(pieces=(Piece(tuple((a, -b) for a, b in up), up),), mirror=True)


def _sampled(leaf: Leaf, p: arb) -> Leaf:
    """One record more, 0 < p < 1: (P, Q) becomes (P, (1-p) P + p Q), whatever they are."""
    if not leaf.variance.is_zero():
        return _sampled(Leaf(pieces=(density(leaf.variance),)), p)
    rest, least = 1 - p, leaf.least
    atoms = [(a, rest * a + p * b) for a, b in leaf.atoms] + [(leaf.lost, rest * leaf.lost)] * (not leaf.lost.is_zero())
    pieces = [replace(part, q=tuple((a + w.log(), b) for w, terms in ((rest, part.p), (p, part.q)) for a, b in terms))
              for part in leaf.pieces]
    return Leaf(tuple(atoms), tuple(pieces), p * leaf.infinite, least=least and (lambda share: _sampled(least(share), p)))


def _without_replacement(event: Event, relation: str) -> Leaf:
    """A fixed-size sample, one record replaced: the symmetric pair whose losses above 0 are those of Poisson sampling with p = size
    / n and twice the shift (x > mu/2), those below 0 their mirror image, with what mass is left, (1-p) erf(mu / sqrt 8), at 0.

    One of the two directions of that Poisson-sampled pair has the larger delta, (P, (1-p) P + p Q) for eps >= 0: its curve is that of
    the losses above 0, and the symmetric pair has it in both directions.
    """
    size = field(event, "source_dataset_size", 1, WHOLE, whole=True)
    sample = field(event, "sample_size", 0, size, whole=True)
    square = times(4, _inner_square(event.get("event")))
    if not sample or square is None or square.is_zero() or sample == size:
        return gaussian(square) if sample else NOTHING
    p, mu = ball(sample) / size, square.sqrt()
    above = replace(_sampled(gaussian(square), p).pieces[0], low=mu / 2)
    rest = (1 - p) * (mu / arb(8).sqrt()).erf()
    return Leaf(((rest, rest),), (above, above.reversed()), mirror=True)


def _truncated(event: Event, relation: str) -> Leaf:
    """Whether the batch is full without the record is a public coin (arXiv:2508.15089): if so the record displaces another one, a
    replacement of twice the shift with the conditional probability of being in the batch; otherwise plain Poisson sampling."""
    size, batch = (field(event, name, 0, WHOLE, whole=True) for name in ("dataset_size", "truncated_batch_size"))
    p, square = ball(field(event, "sampling_probability", 0, 1)), square_of(event)
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


ANY = ("ADD_OR_REMOVE_ONE", "REPLACE_ONE", "REPLACE_SPECIAL")
ONE_MORE, REPLACED, SPECIAL = (ANY[0], ANY[2]), (ANY[1],), (ANY[2],)
SAMPLED = ("LaplaceDpEvent", "DiscreteLaplaceDpEvent", "MixtureOfGaussiansDpEvent", "ExponentialMechanismDpEvent")
PAIRS: dict[str, tuple[tuple[str, ...], Callable[[Event, str], Leaf]]] = {
    "NonPrivateDpEvent": (ANY, lambda event, relation: NON_PRIVATE),
    "GaussianDpEvent": (ANY, lambda event, relation: gaussian(times(factor(relation) ** 2, square_of(event)))),
    "SingleEpochTreeAggregationDpEvent": (SPECIAL, mechanisms.tree_aggregation),
    "PoissonSampledDpEvent": (ANY, _poisson),
    "SampledWithoutReplacementDpEvent": (REPLACED, _without_replacement),
    "TruncatedSubsampledGaussianDpEvent": (ANY, _truncated),
    "MixtureOfGaussiansDpEvent": (ONE_MORE, mechanisms.mixture),
    "LaplaceDpEvent": (ANY, mechanisms.laplace),
    "DiscreteLaplaceDpEvent": (ANY, mechanisms.discrete_laplace),
    "RandomizedResponseDpEvent": ((*REPLACED, *SPECIAL), mechanisms.randomized_response),
    "EpsilonDeltaDpEvent": (ANY, mechanisms.epsilon_delta),
    "PermuteAndFlipDpEvent": (ANY, mechanisms.permute_and_flip),
    "ExponentialMechanismDpEvent": (ANY, mechanisms.exponential),
    "ZCDpEvent": (ANY, mechanisms.zero_concentrated),
    "RenyiDpEvent": (ANY, mechanisms.renyi),
    "ProfileDpEvent": (ANY, mechanisms.profile),
}
