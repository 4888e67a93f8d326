"""A claim, proved or refused.

    upper end: in every direction delta(eps) <= delta        lower end: in some direction delta(eps) > delta (of a claimed delta: >=)

with (eps, delta) = (upper, given), (lower, given) for a claimed epsilon and (given, upper), (given, lower) for a claimed delta.
What is proved is "proved"; "refuted" means that the opposite was proved; everything else is "undecided". delta(eps) of a direction
comes from

    a leaf that is not private                                         1
    no leaf with a loss, or the sum of the largest losses <= eps      the mass of infinite losses
    one mechanism, or Gaussians only                                   closed form (`laws.delta_of_one`)
    anything else                                                      transform on a line, as hinted (`contour`)

Where an event stands for a class of mechanisms, what dominates it gives upper bounds of delta, and a member of it lower bounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from flint import arb

from .balls import InputError, UndecidedError, ball, proved, working_bits
from .certificate import Claim, read
from .classes import merged
from .contour import Counted, delta_bounds, infinite_mass, largest_sum
from .laws import NON_PRIVATE, NOTHING, ONE, ZERO, Leaf, delta_of_one, density
from .pairs import composition
from .transforms import validated

PROVED, REFUTED, UNDECIDED = "proved", "refuted", "undecided"
MOST_SECONDS = 600.0
Bounds = list[tuple[arb, arb]]  # of delta, at both ends
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Verification:
    """What became of both ends. `reasons` says how, or why not, in sentences; `seconds` are of CPU time."""

    upper: str
    lower: str
    reasons: tuple[str, ...]
    bits: int
    seconds: float

    @property
    def proved(self) -> bool:
        return self.upper == self.lower == PROVED


def verify(certificate: str | bytes, progress: Progress = lambda text: None, most_seconds: float = MOST_SECONDS) -> Verification:
    """Checks a certificate; InputError if it is none. It takes at most about `most_seconds` of CPU time, and then is undecided."""
    start, claim = time.thread_time(), read(certificate)
    hinted = claim.hints.get("bits")
    bits = hinted if type(hinted) is int and 64 <= hinted <= 4096 else 128

    def watched(text: str) -> None:
        if time.thread_time() - start > most_seconds:
            raise UndecidedError(f"more than {most_seconds:g} s are needed")
        progress(text)

    with working_bits(bits):
        try:
            upper, lower, reasons = _ends(claim, watched)
        except InputError:
            raise
        except UndecidedError as error:
            upper, lower, reasons = UNDECIDED, UNDECIDED, [f"Undecided, as {error}."]
        except (ArithmeticError, ValueError, MemoryError, RecursionError) as error:  # a ball without a number, a number without a float
            upper, lower, reasons = UNDECIDED, UNDECIDED, [f"Undecided, as {type(error).__name__}: {error}"[:200] + "."]
    return Verification(upper, lower, tuple(reasons), bits, time.thread_time() - start)


def _ends(claim: Claim, progress: Progress) -> tuple[str, str, list[str]]:
    """The verdicts on both ends, and the reasons."""
    leaves, share, reasons = composition(claim.event, claim.relation), claim.hints.get("share"), []
    member = ball(share) if isinstance(share, float) and 0 <= share <= 1 else ONE / 2
    above = claim.lower if claim.upper is None else claim.upper
    ends, given = [ball(above), ball(claim.lower)], [ball(claim.given)] * 2
    epsilons, (high, low) = (ends, given) if claim.quantity == "epsilon" else (given, ends)
    sides: list[Bounds] = []
    for name in ("remove", "add")[: 1 if all(leaf.mirror for leaf, _ in leaves) else 2]:
        directed = [(leaf if name == "remove" else leaf.reversed(), count) for leaf, count in leaves]
        members = [(leaf.least(member) if leaf.least else leaf, count) for leaf, count in directed]
        asked = {name: directed, f"{name} member": members} if any(leaf.least for leaf, _ in directed) else {name: directed}
        answers = [_bounds(some, epsilons, claim.hints.get(key), claim.hints.get("points"), progress) for key, some in asked.items()]
        reasons += [f"{key}: {how}." for key, (how, _) in zip(asked, answers, strict=True)]
        found, least = answers[0][1], answers[-1][1]
        sides.append([(below, above) for (below, _), (_, above) in zip(least, found, strict=True)])
    upper = REFUTED if any(proved(side[0][0] > high) for side in sides) else UNDECIDED
    upper = PROVED if all(proved(side[0][1] <= high) for side in sides) else upper
    strict = claim.quantity == "epsilon"
    lower = REFUTED if all(proved(side[1][1] <= low if strict else side[1][1] < low) for side in sides) else UNDECIDED
    lower = PROVED if any(proved(side[1][0] > low if strict else side[1][0] >= low) for side in sides) else lower
    nothing = claim.upper is None or (claim.quantity == "delta" and claim.upper >= 1)
    return PROVED if nothing else upper, PROVED if claim.lower == 0 else lower, reasons


def _bounds(leaves: Counted, epsilons: list[arb], hint: object, points: object, progress: Progress) -> tuple[str, Bounds]:
    """How, and bounds of delta at every epsilon in one direction; 0 and 1 where nothing is proved."""
    try:
        leaves = [(leaf, count) for leaf, count in merged(leaves, points, progress) if leaf is not NOTHING]
    except UndecidedError as error:
        return f"undecided, as {error}", [(ZERO, ONE)] * len(epsilons)
    if any(leaf is NON_PRIVATE for leaf, _ in leaves):
        return "not private, delta is 1", [(ONE, ONE)] * len(epsilons)
    infinite, top = infinite_mass(leaves), largest_sum(leaves)
    beyond = [not leaves or (top is not None and proved(top <= epsilon)) for epsilon in epsilons]
    below = [epsilon for epsilon, over in zip(epsilons, beyond, strict=True) if not over]
    try:
        how, found = _transformed(leaves, below, hint, progress) if below else ("no finite loss exceeds epsilon", [])
    except UndecidedError as error:
        how, found = f"undecided, as {error}", [(ZERO, ONE)] * len(below)
    known = iter(found)
    return how, [(infinite.lower(), infinite.upper()) if over else next(known) for over in beyond]


def _transformed(leaves: Counted, epsilons: list[arb], hint: object, progress: Progress) -> tuple[str, Bounds]:
    """How, and bounds of delta of leaves with finite losses."""
    gaussians = all(not leaf.variance.is_zero() for leaf, _ in leaves)  # their mu^2 add up
    alone = Leaf(pieces=(density(sum((count * leaf.variance for leaf, count in leaves), ZERO)),)) if gaussians else leaves[0][0]
    if gaussians or (len(leaves) == leaves[0][1] == 1 and (alone.atoms or alone.pieces)):
        deltas = [delta_of_one(alone, epsilon) for epsilon in epsilons]
        return "closed form of one mechanism", [(delta.lower(), delta.upper()) for delta in deltas]
    line = validated(hint, progress)
    how = f"transform at {line.last + 1} points of a line" if line.last else "Chernoff's bound"
    return how, delta_bounds(leaves, line, epsilons)
