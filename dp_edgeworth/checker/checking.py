"""A claim, proved or refused.

    upper end: in every direction delta(eps) <= delta        lower end: in some direction delta(eps) > delta (of a claimed delta: >=)

with (eps, delta) = (upper, given), (lower, given) for a claimed epsilon and (given, upper), (given, lower) for a claimed delta.
What is proved is "proved"; "refuted" means that the opposite was proved; everything else is "undecided". delta(eps) of a direction
comes from

    no leaf with a loss, or the sum of the largest losses <= eps      delta is the mass of infinite losses
    one mechanism, or Gaussians only                                   closed form (`single`)
    one leaf with losses on a lattice, if so hinted                    finite sum (`single`)
    anything else                                                      transform on a line, as hinted (`contour`)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from flint import arb

from . import contour, single, transforms
from .balls import InputError, UndecidedError, ball, proved, working_bits
from .certificate import Claim, read
from .laws import CONSTANT, Leaf, Piece
from .pairs import NON_PRIVATE, composition

PROVED, REFUTED, UNDECIDED = "proved", "refuted", "undecided"
MOST_SECONDS = 600.0
Counted = list[tuple[Leaf, int]]
Bounds = tuple[arb, arb]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Verification:
    """What became of both ends. `reasons` says how, or why not, in sentences."""

    upper: str
    lower: str
    reasons: tuple[str, ...]
    bits: int
    seconds: float

    @property
    def proved(self) -> bool:
        return self.upper == self.lower == PROVED


def _silent(text: str) -> None:
    """Tells nobody."""


def verify(certificate: str | bytes, progress: Progress = _silent, most_seconds: float = MOST_SECONDS) -> Verification:
    """Checks a certificate; InputError if it is none."""
    return check(read(certificate), progress, most_seconds)


def check(claim: Claim, progress: Progress = _silent, most_seconds: float = MOST_SECONDS) -> Verification:
    """Checks a claim. It takes at most about `most_seconds`, and then is undecided."""
    start, bits = time.monotonic(), _bits(claim.hints)

    def watched(text: str) -> None:
        if time.monotonic() - start > most_seconds:
            raise UndecidedError(f"more than {most_seconds:g} s are needed")
        progress(text)

    with working_bits(bits):
        try:
            results, reasons = _ends(claim, watched)
        except InputError:
            raise
        except UndecidedError as error:
            results, reasons = [UNDECIDED] * 2, [f"{error}"]
        except (ArithmeticError, ValueError, MemoryError) as error:  # a ball without a number, a number without a float
            results, reasons = [UNDECIDED] * 2, [f"{type(error).__name__}: {error}"[:200]]
    return Verification(results[0], results[1], tuple(reasons), bits, time.monotonic() - start)


def _bits(hints: dict[str, Any]) -> int:
    bits = hints.get("bits", 128)
    return bits if isinstance(bits, int) and not isinstance(bits, bool) and 64 <= bits <= 4096 else 128


def _ends(claim: Claim, progress: Progress) -> tuple[list[str], list[str]]:
    """The verdicts on both ends, and the reasons."""
    leaves, variance = composition(claim.event, claim.relation)
    points = _points(claim)
    sides: dict[str, list[Bounds] | None] = {}
    reasons = []
    for name in ("remove", "add"):
        if name == "add" and all(leaf.mirror for leaf, _ in leaves):
            break
        directed = [(leaf if name == "remove" else leaf.reversed(), count) for leaf, count in leaves]
        try:
            how, sides[name] = _bounds(directed, variance, [ball(e) for e, _ in points], claim.hints.get(name), progress)
        except UndecidedError as error:
            how, sides[name] = f"undecided, as {error}", None
        reasons.append(f"{name}: {how}.")
    verdicts = [_upper(sides, points[0][1]), _lower(sides, points[1][1], claim.quantity == "epsilon")]
    trivial = [claim.upper is None or (claim.quantity == "delta" and claim.upper >= 1), claim.lower == 0]
    return [PROVED if plain else verdict for plain, verdict in zip(trivial, verdicts, strict=True)], reasons


def _points(claim: Claim) -> list[tuple[Fraction, Fraction]]:
    """(epsilon, delta) of the upper and of the lower end."""
    upper = claim.upper if claim.upper is not None else claim.lower
    if claim.quantity == "epsilon":
        return [(upper, claim.given), (claim.lower, claim.given)]
    return [(claim.given, upper), (claim.given, claim.lower)]


def _upper(sides: dict[str, list[Bounds] | None], delta: Fraction) -> str:
    """delta(eps) <= delta in every direction; refuted by one direction in which it is larger."""
    if any(found is not None and proved(found[0][0] > ball(delta)) for found in sides.values()):
        return REFUTED
    good = all(found is not None and proved(found[0][1] <= ball(delta)) for found in sides.values())
    return PROVED if good else UNDECIDED


def _lower(sides: dict[str, list[Bounds] | None], delta: Fraction, strict: bool) -> str:
    """delta(eps) > delta (not strict: >=) in some direction; refuted by the opposite in every direction."""
    number, known = ball(delta), [found[1] for found in sides.values() if found is not None]
    if any(proved(low > number if strict else low >= number) for low, _ in known):
        return PROVED
    below = len(known) == len(sides) and all(proved(high <= number if strict else high < number) for _, high in known)
    return REFUTED if below else UNDECIDED


def _bounds(leaves: Counted, variance: arb, epsilons: list[arb], hint: object,
            progress: Progress) -> tuple[str, list[Bounds]]:
    """Bounds of delta at every epsilon in one direction, and how they were found."""
    if any(leaf is NON_PRIVATE for leaf, _ in leaves):
        return "not private: delta is 1", [(arb(1), arb(1))] * len(epsilons)
    infinite = -sum((count * (-leaf.infinite).log1p() for leaf, count in leaves), arb(0)).expm1() if leaves else arb(0)
    beyond = [_beyond(leaves, variance, epsilon) for epsilon in epsilons]
    if any(beyond):
        below = [epsilon for epsilon, found in zip(epsilons, beyond, strict=True) if not found]
        how, rest = _bounds(leaves, variance, below, hint, progress) if below else ("", [])
        values, words = iter(rest), f"no finite loss exceeds epsilon; {how}".rstrip("; ")
        return words, [(infinite, infinite) if found else next(values) for found in beyond]
    alone = leaves[0][0] if len(leaves) == 1 and leaves[0][1] == 1 and variance.is_zero() else None
    if not leaves:
        mu = variance.sqrt()
        alone = Leaf((), pieces=(Piece(CONSTANT, ((-mu * mu / 2, mu),)),))
    if alone is not None:
        deltas = [single.delta_of_one(alone, epsilon) for epsilon in epsilons]
        return "closed form of one mechanism", [(delta.lower(), delta.upper()) for delta in deltas]
    return _hinted(leaves, variance, infinite, epsilons, hint, progress)


def _beyond(leaves: Counted, variance: arb, epsilon: arb) -> bool:
    """Whether no sum of finite losses exceeds epsilon."""
    total = arb(0)
    for leaf, count in leaves:
        top = leaf.largest_loss()
        if top is None:
            return False
        total += count * top
    return variance.is_zero() and proved(total <= epsilon)


def _hinted(leaves: Counted, variance: arb, infinite: arb, epsilons: list[arb], hint: object,
            progress: Progress) -> tuple[str, list[Bounds]]:
    """The method that the hint names, with its parameters."""
    if not isinstance(hint, dict):
        raise UndecidedError("there is no hint for this direction")
    given = dict(hint)
    method = given.pop("method", None)
    alone = len(leaves) == 1 and variance.is_zero() and leaves[0][0].lattice is not None
    if method == "lattice" and alone and given.keys() == {"c", "high", "points"}:
        c, high = (given[name] if isinstance(given[name], float) else 0.0 for name in ("c", "high"))
        return "finite sum over a lattice", [single.lattice_bounds(*leaves[0], e, c, high, given["points"]) for e in epsilons]
    if method not in ("contour", "chernoff") or not set(given) <= set(transforms.Line.__dataclass_fields__):
        raise UndecidedError(f"the hint is not one of this checker: {str(hint)[:200]}")
    try:
        line = transforms.validated(transforms.Line(**given))
    except TypeError as error:
        raise UndecidedError(f"the hint is not complete: {error}") from None
    if method == "chernoff":
        return "Chernoff's bound", contour.chernoff(leaves, variance, infinite, line, epsilons, progress)
    return f"transform at {line.last + 1} points of a line", contour.delta_bounds(leaves, variance, infinite, line, epsilons, progress)
