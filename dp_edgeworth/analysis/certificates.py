"""Certificates: a number that anyone can check.

A `Certificate` is a claim (an event, a neighboring relation, a delta and an interval of epsilon, or the other way round) with hints
that make its proof quick. `verify` proves or refuses the claim with the checker of `dp_edgeworth.checker`, which imports nothing
else of this package.

>>> import dp_accounting as dpa
>>> import dp_edgeworth
>>> event = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(0.8)), 10_000)
>>> certificate = dp_edgeworth.certify(event, target_delta=1e-5)
>>> certificate.lower, certificate.upper
('10.053', '10.054')
>>> dp_edgeworth.verify(certificate).proved
True
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.accountants.accountant import EdgeworthIntervalAccountant
from dp_edgeworth.analysis import certificate_classes, certificate_hints
from dp_edgeworth.events import serialization
from dp_edgeworth.intervals import Interval

if TYPE_CHECKING:
    from dp_edgeworth.checker import Verification

_QUICK = 5.0  # seconds
_FORMAT, _VERSION = "dp-edgeworth-certificate", 1
_MARGIN = Decimal("0.05")  # of the last digit: an end that is nearer to the exact value takes the next digit
_EXACT = Context(prec=1100, Emax=99_999, Emin=-99_999)


@dataclasses.dataclass(frozen=True)
class Certificate:
    """`lower` <= `quantity` <= `upper` at `given`, as exact decimals.

    Attributes:
      event: the event as JSON text (docs/event-json.md). neighboring_relation: its name.
      quantity: "epsilon" or "delta"; `given` is the other one.
      lower, upper: the ends, rounded outward; "inf" where nothing is claimed from above.
      hints, made_by: JSON text; believed by nobody.
    """

    event: str
    neighboring_relation: str
    quantity: str
    given: str
    lower: str
    upper: str
    hints: str = "{}"
    made_by: str = "{}"

    def to_json(self) -> str:
        """The certificate as a JSON document."""
        parts = {name: json.loads(getattr(self, name)) for name in ("event", "hints", "made_by")}
        plain = {name: getattr(self, name) for name in ("neighboring_relation", "quantity", "given", "lower", "upper")}
        return json.dumps(
            {
                "format": _FORMAT,
                "version": _VERSION,
                "event": parts["event"],
                **plain,
                "hints": parts["hints"],
                "made_by": parts["made_by"],
            },
            indent=1,
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Certificate:
        """The certificate that `to_json` wrote.

        Raises:
          ValueError: `text` is no certificate; one sentence says why.
        """
        _checker().read(validation.of_kind("text", text, str | bytes, "the text of a certificate"))
        data = json.loads(text)
        parts = {name: json.dumps(data.get(name, {})) for name in ("event", "hints", "made_by")}
        return cls(**parts, **{name: data[name] for name in ("neighboring_relation", "quantity", "given", "lower", "upper")})


def _checker() -> Any:
    try:
        from dp_edgeworth import checker
    except ImportError as error:
        if (error.name or "").split(".")[0] != "flint":
            raise
        raise ImportError("Certificates need python-flint: pip install 'dp-edgeworth[verify]'.") from None
    return checker


def verify(
    certificate: Certificate | str | bytes, progress: Callable[[str], None] = lambda text: None, *, most_seconds: float = 600.0
) -> Verification:
    """Proves or refuses a certificate in ball arithmetic.

    Args:
      certificate: a `Certificate`, or the text of one.
      progress: is told now and then what is being done.
      most_seconds: after about so much CPU time the ends that are left are undecided.

    Returns:
      A `Verification`: `upper` and `lower` are "proved", "refuted" (the opposite was proved) or "undecided"; `reasons`, `bits`,
      `seconds`.

    Raises:
      ValueError: the text is no certificate.
    """
    validation.of_kind("certificate", certificate, Certificate | str | bytes, "a `Certificate` or the text of one")
    text = certificate.to_json() if isinstance(certificate, Certificate) else certificate
    return _checker().verify(text, progress, validation.positive("most_seconds", most_seconds))


def certify(
    event: dp_event.DpEvent,
    *,
    target_delta: float | None = None,
    target_epsilon: float | None = None,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    digits: int = 5,
) -> Certificate:
    """A certificate for epsilon at `target_delta`, or for delta at `target_epsilon`.

    Args:
      event: what was run.
      target_delta, target_epsilon: one of them.
      neighboring_relation: how neighbouring data sets differ.
      digits: significant digits of the ends, which are rounded outward.

    Raises:
      ValueError: a parameter is out of range. UnsupportedEventError: the event has no accountant.
    """
    digits = validation.integer("digits", digits, 1)
    if digits > 12:
        raise ValueError(f"`digits` must be at most 12. Found {digits}.")
    if (target_delta is None) == (target_epsilon is None):
        raise ValueError("One of `target_delta` and `target_epsilon` must be given.")
    accountant = EdgeworthIntervalAccountant(neighboring_relation, tolerance=10.0 ** -(digits + 2)).compose(event)
    if target_delta is not None:
        given = validation.probability("target_delta", target_delta)
        return certificate_of(event, neighboring_relation, "epsilon", given, accountant.get_epsilon_interval(given), digits)
    given = validation.finite("target_epsilon", validation.at_least_zero("target_epsilon", target_epsilon))
    return certificate_of(event, neighboring_relation, "delta", given, accountant.get_delta_interval(given), digits)


def certificate_of(
    event: dp_event.DpEvent, neighboring_relation: NeighboringRelation, quantity: str, given: float, interval: Interval, digits: int
) -> Certificate:
    """The certificate of an interval that is known already."""
    lower, upper = rounded(interval.lower, digits, ROUND_FLOOR), rounded(interval.upper, digits, ROUND_CEILING)
    if quantity == "delta" and upper != "inf" and Decimal(upper) > 1:
        upper = "1"
    tree = json.loads(serialization.to_json(event))["event"]
    claim = Certificate(
        json.dumps(tree), neighboring_relation.name, quantity, repr(float(given)), lower, upper, "{}", json.dumps(_versions())
    )
    accountant = EdgeworthIntervalAccountant(neighboring_relation).compose(event)
    found = claim
    for merged in (False, True):  # the Renyi curves of some events as one pair, if nothing else proves the upper end
        hints = _hints(claim, interval, accountant, merged)
        found = _with_more_points(dataclasses.replace(claim, hints=json.dumps(hints))) if hints else found
        if not merged and ("share" not in hints or verify(found, most_seconds=_QUICK).upper != "undecided"):
            break
    return found


def _with_more_points(certificate: Certificate) -> Certificate:
    """The same certificate with longer lines, more cells, less smoothing where it is not proved otherwise, while trying is quick."""
    hints = json.loads(certificate.hints)
    spent = 0.0
    for _ in range(10):
        result = verify(certificate, most_seconds=_QUICK)
        spent += result.seconds
        lines = [hint for hint in hints.values() if isinstance(hint, dict) and "step" in hint]
        if result.proved or "refuted" in (result.upper, result.lower) or not lines or result.seconds > _QUICK or spent > 4.0 * _QUICK:
            break
        for hint in lines:
            hint["last"] = min(math.ceil(1.5 * hint["last"]) + 1, 200_000)
            hint.update({"cells": min(math.ceil(1.4 * hint["cells"]), 200)} if "cells" in hint else {})
            hint.update({"tau": hint["tau"] / 1.5} if "tau" in hint else {})
        certificate = dataclasses.replace(certificate, hints=json.dumps(hints))
    return certificate


def rounded(value: float, digits: int, direction: str) -> str:
    """A number rounded up or down to so many significant digits, at least a twentieth of the last one away; exact decimal arithmetic.

    >>> rounded(10.05363477, 5, ROUND_CEILING), rounded(10.05363477, 5, ROUND_FLOOR), rounded(1.0, 3, ROUND_CEILING)
    ('10.054', '10.053', '1.01')
    """
    if math.isinf(value):
        return "inf" if direction == ROUND_CEILING else repr(1.7976931348623157e308)
    if value <= 0.0:
        return "0"
    exact = Decimal(value)
    unit = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    moved = _EXACT.add(exact, _EXACT.multiply(_MARGIN, unit if direction == ROUND_CEILING else -unit))
    result = moved.quantize(unit, rounding=direction, context=_EXACT)
    return "0" if result <= 0 else str(result.normalize(_EXACT)).lower() if abs(exact.adjusted()) > 15 else format(result, "f")


def _versions() -> dict[str, str]:
    found = {}
    for name in ("dp-edgeworth", "dp-accounting", "python-flint"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "unknown"
    return found


def _hints(claim: Certificate, interval: Interval, accountant: EdgeworthIntervalAccountant, merged: bool) -> dict[str, Any]:
    """Hints for every direction that needs some; none for an event that the checker cannot read."""
    checker = _checker()
    from dp_edgeworth.checker import balls, classes, laws, pairs

    hints: dict[str, Any] = {"bits": 128}
    try:
        with balls.working_bits(160):
            leaves = pairs.composition(json.loads(claim.event), claim.neighboring_relation)
            whole, above, below = _targets(claim, interval, accountant)
            if any(leaf.least for leaf, _ in leaves):
                hints["share"] = certificate_classes.share(leaves, below.epsilon, below.delta)
                members = certificate_classes.members(leaves, hints["share"])
                if merged:
                    hints["points"] = certificate_classes.curve_points(leaves, math.log(above.delta * max(above.slack, 1e-9)) - 3.0)
                    leaves = classes.merged(leaves, hints["points"] or None, lambda text: None)
                wanted = {"remove": (leaves, above), "add": (_reversed(leaves), above), "remove member": (members, below),
                          "add member": (_reversed(members), below)}
            else:
                wanted = {"remove": (leaves, whole), "add": (_reversed(leaves), whole)}
            if all(leaf.mirror for leaf, _ in leaves):
                wanted = {name: value for name, value in wanted.items() if name.startswith("remove")}
            for name, (directed, target) in wanted.items():
                lossy = [(leaf, count) for leaf, count in directed if leaf is not laws.NOTHING]
                found = _direction(lossy, target, "member" not in name)
                if found is not None:
                    hints[name] = found
                    hints["bits"] = max(hints["bits"], 32 * math.ceil((found.get("digits", 64.0) + 72.0) / 32.0))
    except (checker.UndecidedError, checker.InputError, ArithmeticError, ValueError, MemoryError):
        pass  # the checker will say why
    return hints


def _reversed(leaves: Any) -> Any:
    return [(leaf.reversed(), count) for leaf, count in leaves]


def _direction(leaves: Any, target: _Target, above: bool) -> dict[str, Any] | None:
    """Chernoff's bound where that is enough, otherwise a line or a lattice for both ends."""
    closed = len(leaves) == 1 and leaves[0][1] == 1 and leaves[0][0].curve is None
    from dp_edgeworth.checker import contour

    target = target._replace(delta=target.delta - float(contour.infinite_mass(leaves).mid()))
    if not leaves or target.delta <= 0.0 or not math.isfinite(target.epsilon) or closed:
        return None
    if above and math.isfinite(target.ends[1]):
        found = certificate_hints.chernoff_hint(leaves, target.ends, math.log(target.delta), min(0.3 * target.slack, 0.05))
        if found is not None or any(leaf.curve and not leaf.pieces for leaf, _ in leaves):
            return found
    slack = target.slack
    if slack < 1e-5 and target.ends[0] < target.ends[1]:  # too little to be seen in differences of delta
        widths = [width for width in (target.ends[1] - target.epsilon, target.epsilon - target.ends[0]) if width > 0.0]
        slack = certificate_hints.slope(leaves, target.epsilon, target.delta) * min(widths, default=0.0)
    return certificate_hints.hint(leaves, target.epsilon, math.log(target.delta), min(max(0.3 * slack, 1e-14), 0.3))


class _Target(NamedTuple):
    """Where delta(eps) must be known: at `epsilon`, to within slack * delta; `ends` are the epsilons of both ends."""

    epsilon: float
    delta: float
    slack: float
    ends: tuple[float, float]


def _targets(claim: Certificate, interval: Interval, accountant: EdgeworthIntervalAccountant) -> tuple[_Target, _Target, _Target]:
    """What both ends together ask for, and each alone."""
    given, low, high = float(claim.given), float(claim.lower), float(claim.upper)
    if claim.quantity == "delta":
        known = (max(interval.estimate, 0.0), interval.upper, max(interval.lower, 0.0))
        slacks = [abs(end - delta) / delta if delta else 0.0 for end, delta in ((high, known[1]), (low, known[2]))]
        both = min(abs(end - known[0]) for end in (low, high)) / known[0] if known[0] else 0.0
        whole, above, below = (_Target(given, delta, slack, (given, given))
                               for delta, slack in zip(known, (both, *slacks), strict=True))
        return whole, above, below
    at_low, at_high = (accountant.get_delta_interval(min(end, 1e300)) for end in (low, high))
    above = _Target(high, given, 1.0 - at_high.upper / given if given else 0.0, (high, high))
    below = _Target(low, at_low.lower, 1.0 - given / at_low.lower if at_low.lower else 0.0, (low, low))
    if not math.isfinite(high):
        return _Target(interval.estimate, given, 0.0, (low, high)), above, below
    if at_high.estimate == 0.0:  # beyond the largest loss: only the lower end needs a proof
        return below._replace(ends=(low, high)), above, below
    rooms = [1.0 - at_high.estimate / given if given else 0.0] + ([at_low.estimate / given - 1.0] if low else [])
    return _Target(interval.estimate, given, min(rooms), (low, high)), above, below
