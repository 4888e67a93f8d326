"""The registry of methods: what each one promises, and how to make one.

A guarantee is `interval` (both ends proved), `upper bound` or `estimate` (no promise). A factory takes the neighboring
relation and returns a dp-accounting `PrivacyAccountant`; imports happen inside it, so a missing package costs its own
row and no other.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation, PrivacyAccountant

INTERVAL, UPPER, ESTIMATE = "interval", "upper bound", "estimate"
Factory = Callable[[NeighboringRelation], PrivacyAccountant]
Ends = tuple[float | None, float | None, float | None]


@dataclass(frozen=True)
class Method:
    """A named accountant; `shown` is what its users call it. `extra` methods run when they are asked for, not by default."""

    name: str
    shown: str
    guarantee: str
    line: str
    factory: Factory
    extra: bool = False

    def ends(self, event: dp_event.DpEvent, delta: float, relation: NeighboringRelation) -> Ends:
        """(lower, estimate, upper) epsilon at `delta`; None where the method does not give it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NotAGuaranteeWarning and the peers' own: the registry says it already
            accountant = self.factory(relation).compose(event)
            if hasattr(accountant, "get_epsilon_interval"):
                lower, estimate, upper = accountant.get_epsilon_interval(delta)
                return float(lower), float(estimate), float(upper)
            epsilon = float(accountant.get_epsilon(delta))
        return (None, None, epsilon) if self.guarantee == UPPER else (None, epsilon, None)


class ExactMethod(Method):
    """The truth line, with its own accuracy as an interval."""

    def ends(self, event: dp_event.DpEvent, delta: float, relation: NeighboringRelation) -> Ends:
        from comparisons.exact import exact_epsilon

        value, accuracy = exact_epsilon(event, delta, relation)
        slack = max(accuracy, 1e-12) * abs(value)  # a bound that is short by a rounding is not called false
        return value - slack, float(value), value + slack


def _edgeworth(**settings: Any) -> Factory:
    def factory(relation: NeighboringRelation) -> PrivacyAccountant:
        from dp_edgeworth import ApproximateEdgeworthAccountant

        return ApproximateEdgeworthAccountant(relation, **settings)

    return factory


def _interval(**settings: Any) -> Factory:
    def factory(relation: NeighboringRelation) -> PrivacyAccountant:
        from dp_edgeworth import EdgeworthIntervalAccountant

        return EdgeworthIntervalAccountant(relation, **settings)

    return factory


def _peer(name: str, **settings: Any) -> Factory:
    def factory(relation: NeighboringRelation) -> PrivacyAccountant:
        from comparisons import peers

        return getattr(peers, name)(relation, **settings)

    return factory


def _rdp(relation: NeighboringRelation) -> PrivacyAccountant:
    from dp_accounting.rdp import RdpAccountant

    return RdpAccountant(neighboring_relation=relation)


def _allocation_peer(relation: NeighboringRelation) -> PrivacyAccountant:
    from comparisons.allocation_peer import AllocationAccountant

    return AllocationAccountant(relation)


_ALL = (
    Method("EW_CERTIFIED", "EdgeworthIntervalAccountant", INTERVAL, "ours: certified inversion of the characteristic function",
           _interval()),
    Method("EW_ADAPTIVE", "EdgeworthIntervalAccountant(bound='adaptive')", INTERVAL, "ours: EW_LOW and EW_UPP, the paper's bounds",
           _interval(bound="adaptive")),
    Method("EW_UNIFORM", "EdgeworthIntervalAccountant(bound='uniform')", INTERVAL, "ours: the paper's uniform bounds",
           _interval(bound="uniform")),
    Method("EW_EST", "ApproximateEdgeworthAccountant", ESTIMATE, "ours: the paper's AEA, Edgeworth of order 2", _edgeworth(order=2)),
    Method("EW_EST_1", "ApproximateEdgeworthAccountant(order=1)", ESTIMATE, "ours: AEA of order 1", _edgeworth(order=1)),
    Method("EW_EST_3", "ApproximateEdgeworthAccountant(order=3)", ESTIMATE, "ours: AEA of order 3", _edgeworth(order=3)),
    Method("EW_TILTED", "ApproximateEdgeworthAccountant(tilted=True)", ESTIMATE, "ours: Edgeworth around the saddle point",
           _edgeworth(tilted=True)),
    Method("PLD_1e-4", "PLDAccountant", UPPER, "dp-accounting PLD, interval 1e-4 (its default)",
           _peer("UnrolledPldAccountant", value_discretization_interval=1e-4)),
    Method("PLD_1e-3", "PLDAccountant, interval 1e-3", UPPER, "dp-accounting PLD, interval 1e-3",
           _peer("UnrolledPldAccountant", value_discretization_interval=1e-3)),
    Method("RDP", "RdpAccountant", UPPER, "dp-accounting RDP, the moments accountant (MA)", _rdp),
    Method("FFT", "PRVAccountant (FFT)", INTERVAL, "prv-accountant 0.2.0, eps_error 0.1: FFT_LOW and FFT_UPP, remove only",
           _peer("PrvAccountant")),
    Method("FFT_FINE", "PRVAccountant (FFT), eps_error 0.01", INTERVAL, "prv-accountant 0.2.0, eps_error 0.01, remove only",
           _peer("PrvAccountant", eps_error=0.01), extra=True),
    Method("GDP", "central limit theorem (GDP)", ESTIMATE, "central limit theorem; exact for plain Gaussians", _peer("GdpAccountant")),
    Method("GDP-E", "GDP, Edgeworth (GDP-E)", ESTIMATE, "Edgeworth on the trade-off curve, then duality",
           _peer("GdpEdgeworthAccountant")),
    Method("AFA", "autodp (AFA)", ESTIMATE, "autodp's Analytical Fourier Accountant (extra `afa`), remove only",
           _peer("FourierAccountant")),
    Method("PLD_ALLOCATION", "PLD-accounting", INTERVAL, "PLD-accounting 2.0, epochs of random allocation only, its own accuracy",
           _allocation_peer, extra=True),
)  # fmt: skip
EXACT = ExactMethod("EXACT", "exact", INTERVAL, "the truth: comparisons/exact, more than double precision", _rdp)
METHODS: dict[str, Method] = {method.name: method for method in (EXACT, *_ALL)}
DEFAULT: tuple[str, ...] = tuple(method.name for method in _ALL if not method.extra)
ALIASES = {
    "EW_LOW": "EW_ADAPTIVE", "EW_UPP": "EW_ADAPTIVE", "EW_EST_2": "EW_EST", "FFT_LOW": "FFT", "FFT_UPP": "FFT",
    "MA": "RDP", "PLD": "PLD_1e-4", "GDP_E": "GDP-E", "PRV": "FFT",
}  # fmt: skip


class UnknownNameError(ValueError):
    """A case or a method that does not exist."""


def pick(kind: str, wanted: list[str], known: dict[str, Any], aliases: dict[str, str] | None = None) -> list[str]:
    """The names asked for, in order and once each; an unknown one is an `UnknownNameError` that lists the known."""
    found: dict[str, None] = {}
    for name in wanted:
        name = (aliases or {}).get(name, name)
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f" Did you mean `{close[0]}`?" if close else ""
            raise UnknownNameError(f"{kind} must be one of {', '.join(known)}. Found `{name}`.{hint}")
        found[name] = None
    return list(found)
