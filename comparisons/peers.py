"""Adapters: the accountants of other people as dp-accounting `PrivacyAccountant`s over the same events.

PLD   dp-accounting's `PLDAccountant`; randomized response is unrolled, because the original ignores `count` for it.
FFT   prv-accountant 0.2.0 [GLW], both ends. One direction only: "remove" (P = the mixture, Q = the noise alone).
GDP   central limit theorem; GDP-E its Edgeworth refinement (`gaussian_limit`).
AFA   autodp's Analytical Fourier Accountant [ZDW] (extra `afa`). One direction only: "remove".
RDP   needs no adapter. Under REPLACE_ONE it lacks the factor 2 of the sensitivity (google/differential-privacy#378).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.privacy_accountant import NeighboringRelation, PrivacyAccountant

from comparisons import gaussian_limit
from comparisons.gaussian_limit import Noise
from dp_edgeworth.events.tree import leaves

AR, RO = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE


class UnrolledPldAccountant(PLDAccountant):
    """`PLDAccountant` that composes randomized response as often as it was asked to."""

    def _maybe_compose(self, event: dp_event.DpEvent, count: int, do_compose: bool) -> Any:
        repeat = count if do_compose and isinstance(event, dp_event.RandomizedResponseDpEvent) else 0
        for _ in range(1, repeat):
            super()._maybe_compose(event, 1, True)
        return super()._maybe_compose(event, 1 if repeat else count, do_compose)


class LeafAccountant(PrivacyAccountant):
    """Base of the adapters: a composition is leaves with counts; each leaf is Gaussian or Laplace noise, or sampled."""

    name: str
    families: tuple[str, ...] = ("gaussian", "laplace")
    sampled_families: tuple[str, ...] = ("gaussian",)

    def __init__(self, neighboring_relation: NeighboringRelation = AR) -> None:
        super().__init__(neighboring_relation)
        self._counts: dict[dp_event.DpEvent, int] = {}

    def _maybe_compose(self, event: dp_event.DpEvent, count: int, do_compose: bool) -> Any:
        for leaf, repeats in leaves(event):
            message = self._objection(leaf)
            if message:
                return self.CompositionErrorDetails(invalid_event=leaf, error_message=message)
            if do_compose:
                self._counts[leaf] = self._counts.get(leaf, 0) + count * repeats
        return None

    def _objection(self, leaf: dp_event.DpEvent) -> str | None:
        """Why this leaf cannot be composed, or None."""
        inner, probability = _unsampled(leaf)
        family = _FAMILIES.get(type(inner))
        if family not in (self.families if probability == 1.0 else self.sampled_families):
            return f"{self.name} does not support this event. Found `{leaf}`."
        if probability < 1.0 and self.neighboring_relation is RO:
            return (
                f"{self.name} supports sampled events for `ADD_OR_REMOVE_ONE` only. Found {self.neighboring_relation}."
            )
        return None

    @property
    def noises(self) -> list[Noise]:
        """The composed leaves; under REPLACE_ONE the sensitivity is 2, so the relative noise is halved."""
        factor = 0.5 if self.neighboring_relation is RO else 1.0
        found = []
        for leaf, count in self._counts.items():
            inner, probability = _unsampled(leaf)
            if probability > 0.0:
                scale = factor * float(inner.noise_multiplier)
                found.append(Noise(_FAMILIES[type(inner)], scale, probability, count))
        return found


_FAMILIES: dict[type, str] = {dp_event.GaussianDpEvent: "gaussian", dp_event.LaplaceDpEvent: "laplace"}


def _unsampled(leaf: dp_event.DpEvent) -> tuple[Any, float]:
    """The event inside `PoissonSampledDpEvent` and its sampling probability; 1.0 where there is none."""
    if isinstance(leaf, dp_event.PoissonSampledDpEvent):
        return leaf.event, float(leaf.sampling_probability)
    return leaf, 1.0


class GdpAccountant(LeafAccountant):
    """The central limit theorem; exact for plain Gaussians."""

    name = "GDP"

    def get_epsilon(self, target_delta: float) -> float:
        return gaussian_limit.gdp_epsilon(target_delta, gaussian_limit.gaussian_mu(self.noises))

    def get_delta(self, target_epsilon: float) -> float:
        return math.exp(gaussian_limit.gdp_log_delta(target_epsilon, gaussian_limit.gaussian_mu(self.noises)))


class GdpEdgeworthAccountant(LeafAccountant):
    """Edgeworth on the trade-off curve, then duality [ZDLS]."""

    name = "GDP-E"
    sampled_families = ("gaussian", "laplace")

    def get_epsilon(self, target_delta: float) -> float:
        return gaussian_limit.gdp_e_epsilon(target_delta, self.noises)


class PrvAccountant(LeafAccountant):
    """prv-accountant [GLW] with `eps_error` as the paper sets it and `delta_error` = delta / 1000, its own default."""

    name = "FFT"

    def __init__(self, neighboring_relation: NeighboringRelation = AR, *, eps_error: float = 0.1) -> None:
        super().__init__(neighboring_relation)
        self._eps_error = eps_error

    def get_epsilon_interval(self, target_delta: float) -> tuple[float, float, float]:
        """(lower, estimate, upper) as prv-accountant returns them, unaltered."""
        from prv_accountant import PRVAccountant

        noises = self.noises
        counts = [noise.count for noise in noises]
        accountant = PRVAccountant(
            prvs=[_prv(noise) for noise in noises],
            max_self_compositions=counts,
            eps_error=self._eps_error,
            delta_error=target_delta / 1000.0,
        )
        lower, estimate, upper = accountant.compute_epsilon(delta=target_delta, num_self_compositions=counts)
        return lower, estimate, upper

    def get_epsilon(self, target_delta: float) -> float:
        return self.get_epsilon_interval(target_delta)[2]


def _prv(noise: Noise) -> Any:
    """prv-accountant's random variable; its Laplace takes mu = 1 / scale."""
    from prv_accountant import privacy_random_variables as prvs

    if noise.family == "laplace":
        return prvs.LaplaceMechanism(mu=1.0 / noise.scale)
    if noise.probability == 1.0:
        return prvs.GaussianMechanism(noise_multiplier=noise.scale)
    return prvs.PoissonSubsampledGaussianMechanism(sampling_probability=noise.probability, noise_multiplier=noise.scale)


class FourierAccountant(LeafAccountant):
    """autodp's AFA [ZDW]: characteristic functions by quadrature, Levy inversion with 700 fixed nodes.

    Three favours, without which autodp 0.2.3.1 fails on a current SciPy or takes minutes: `scipy.integrate.quadrature`,
    removed in SciPy 1.14, is put back; its search for epsilon, which hands `minimize_scalar` the bounds of delta as
    those of e^epsilon (older SciPy ignored them, current SciPy obeys), is replaced by a root search on its delta; the
    characteristic function is cached between the steps of the search. One direction, "remove", which is autodp's
    default: in the other one the error of its quadrature, times e^epsilon, hides any delta below about 1e-4.
    """

    name = "AFA"

    def get_epsilon(self, target_delta: float) -> float:
        return _root(self._delta_curve(remove=True), target_delta)

    def get_delta(self, target_epsilon: float) -> float:
        return self._delta_curve(remove=True)(target_epsilon)

    def _delta_curve(self, remove: bool) -> Callable[[float], float]:
        """delta(epsilon) of one direction, as autodp computes it."""
        try:
            from autodp.autodp_core import Mechanism
        except ImportError as error:
            raise ImportError("autodp is not installed: pip install -e '.[afa]'") from error
        pairs = [(noise.count, *_log_phis(noise, remove)) for noise in self.noises]
        mechanism = Mechanism()
        sums = (_cached_sum([(c, p) for c, p, _ in pairs]), _cached_sum([(c, q) for c, _, q in pairs]))
        mechanism.propagate_updates(sums, "log_phi")

        def delta(epsilon: float) -> float:
            with np.errstate(all="ignore"):
                return float(mechanism.get_approx_delta(epsilon))

        return delta


def _root(curve: Callable[[float], float], target: float) -> float:
    """Where a curve first falls to `target`: small steps outward from 0, because the tail may be noise, then Brent."""
    from scipy import optimize

    low, high = 0.0, 0.1
    if curve(low) <= target:
        return 0.0
    while curve(high) > target:
        low, high = high, 1.1 * high
        if high > 1e4:
            return math.inf
    return float(optimize.brentq(lambda epsilon: curve(epsilon) - target, low, high))


def _cached_sum(terms: list[tuple[int, Callable[[float], complex]]]) -> Callable[[float], complex]:
    """log phi of a composition, remembered for each frequency."""

    @functools.cache
    def log_phi(t: float) -> complex:
        return sum((count * phi(t) for count, phi in terms), 0.0 + 0.0j)

    return log_phi


def _log_phis(noise: Noise, remove: bool) -> tuple[Callable[[float], complex], Callable[[float], complex]]:
    """autodp's log characteristic functions of log(p/q) under p and of log(q/p) under q."""
    from autodp import phi_bank
    from scipy import integrate

    if not hasattr(integrate, "quadrature"):
        integrate.quadrature = _quadrature
    if noise.family == "laplace":
        laplace = functools.partial(phi_bank.phi_laplace, {"b": noise.scale})
        return laplace, laplace
    if noise.probability == 1.0:
        gaussian = functools.partial(phi_bank.phi_gaussian, {"sigma": noise.scale})
        return gaussian, gaussian
    parameters = {"sigma": noise.scale, "gamma": noise.probability}
    return (
        functools.partial(phi_bank.phi_subsample_gaussian_p, parameters, remove_only=remove),
        functools.partial(phi_bank.phi_subsample_gaussian_q, parameters, remove_only=remove),
    )


def _quadrature(
    func: Callable[[np.ndarray], np.ndarray], a: float, b: float, *, tol: float, rtol: float, maxiter: int
) -> tuple[complex, float]:
    """Gauss-Legendre rules of growing order until two agree: what `scipy.integrate.quadrature` did before 1.14."""
    from scipy.integrate import fixed_quad

    value: complex = math.inf
    error = math.inf
    for order in range(1, maxiter + 1):
        previous, value = value, fixed_quad(func, a, b, n=order)[0]
        error = abs(value - previous)
        if error < tol or error < rtol * abs(value):
            break
    return value, error
