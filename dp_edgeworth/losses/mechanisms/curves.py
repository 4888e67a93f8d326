"""Events that are known by a curve: profiles, Renyi divergences, zCDP, the selection mechanisms and discrete noise of dp-accounting.

    ProfileDpEvent                  a pair on the hull of its points
    RenyiDpEvent, ZCDpEvent         Renyi curves; from below, the Gaussian of the same rho
    ExponentialMechanismDpEvent     the smaller of a pair and a Renyi curve (`bounded_range`)
    PermuteAndFlipDpEvent           the Laplace pair; from below two candidates
    DiscreteGaussianDpEvent         the pair in one dimension and for integer sensitivity, otherwise zCDP with rho = s^2 / (2 sigma^2)

All of these are statements about a pair of neighbours as such, so they hold under every neighboring relation (additive noise under
REPLACE_ONE, where a record moves the query by twice its sensitivity, is not among them). Importing this module registers them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.events import available
from dp_edgeworth.events.own_events import ProfileDpEvent, RenyiDpEvent
from dp_edgeworth.losses.bounded_range import exponential_mechanism, permute_and_flip
from dp_edgeworth.losses.bracket import Bracket, Leaf, below, between
from dp_edgeworth.losses.laplace_noise import LaplaceShift
from dp_edgeworth.losses.mechanisms import registry
from dp_edgeworth.losses.mechanisms.discrete import MOST_ATOMS, discrete_gaussian, epsilon_delta
from dp_edgeworth.losses.mechanisms.registry import NO_LOSS, NON_PRIVATE, Directions, both, mirrored, register_if_known
from dp_edgeworth.losses.mechanisms.rounded_pairs import laplace, normal, ratio
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.renyi_curves import Tabulated, ZeroConcentrated
from dp_edgeworth.losses.user_profile import pair_of_points

_SMALLEST, _LARGEST = 1e-140, 1e100  # epsilons of selection mechanisms and squares of them, so that these are floats
_LARGEST_DIVERGENCE = 1e250
_DOWN = 1.0 - 4.0 * float(np.finfo(float).eps)


@registry.register_mechanism(available.ZCDpEvent, samplable=True)
def _zcdp(event: dp_event.ZCDpEvent, relation: NeighboringRelation) -> Directions:
    """(xi, rho)-zCDP; with rho = 0 it is pure DP with epsilon xi."""
    rho, xi = validation.at_least_zero("rho", event.rho), validation.at_least_zero("xi", event.xi)
    if math.isinf(rho) or math.isinf(xi):
        return NON_PRIVATE
    if rho == 0.0:
        return both(epsilon_delta(xi, 0.0))
    if max(rho, xi) > _LARGEST_DIVERGENCE:
        return mirrored(between(NON_PRIVATE.remove, NO_LOSS.remove))
    return zero_concentrated(rho, xi)


def zero_concentrated(rho: float, xi: float = 0.0, member: Pllr | None = None) -> Directions:
    """All (xi, rho)-zCDP mechanisms, 0 < rho < inf; the Gaussian with mu^2 = 2 rho is one of them."""
    member = member or below(normal(math.sqrt(2.0 * rho) * _DOWN))
    return mirrored(Bracket((member,), curve=ZeroConcentrated(rho, xi)))


@registry.register_mechanism(RenyiDpEvent, samplable=True)
def _renyi(event: RenyiDpEvent, relation: NeighboringRelation) -> Directions:
    """All mechanisms with these Renyi divergences; nothing is known from below."""
    orders, values = event.orders, event.values
    alphas = np.array([validation.finite(f"orders[{i}]", order) for i, order in enumerate(validation.sequence("orders", orders))])
    listed = validation.sequence("values", values)
    bounds = np.array([validation.at_least_zero(f"values[{i}]", value) for i, value in enumerate(listed)])
    if len(alphas) != len(bounds):
        raise ValueError(f"`values` must be as many as `orders`, {len(alphas)}. Found {len(bounds)}.")
    if not (alphas[0] > 1.0 and np.all(np.diff(alphas) > 0.0)):
        raise ValueError(f"`orders` must be increasing numbers above 1. Found {validation.shown(orders)}.")
    with np.errstate(over="ignore"):
        table = np.maximum((alphas - 1.0) * bounds, np.minimum(bounds, 5e-324))
    known = np.isfinite(table)
    if not known.any():
        return NON_PRIVATE
    if not bounds[known].any():
        return NO_LOSS
    return mirrored(Bracket((below(NO_LOSS.remove),), curve=Tabulated.of(alphas[known] - 1.0, table[known])))


@registry.register_mechanism(ProfileDpEvent, samplable=True)
def _profile(event: ProfileDpEvent, relation: NeighboringRelation) -> Directions:
    """The pair of its points, which is its own mirror image."""
    pair = pair_of_points(event.epsilons, event.deltas, event.lower_deltas)
    return NO_LOSS if pair is None else mirrored(pair)


@register_if_known("ExponentialMechanismDpEvent", samplable=True)
def _exponential(event: Any, relation: NeighboringRelation) -> Directions:
    """`epsilon` is the range of the loss, as in dp-accounting."""
    epsilon = validation.at_least_zero("epsilon", event.epsilon)
    if epsilon == 0.0:
        return NO_LOSS
    if not _SMALLEST <= epsilon <= _LARGEST:  # pure DP is above it, nothing is below it
        above = NON_PRIVATE if epsilon > _LARGEST else both(epsilon_delta(epsilon, 0.0))
        return above if math.isinf(epsilon) else mirrored(between(above.remove, NO_LOSS.remove))
    return mirrored(exponential_mechanism(epsilon))


@register_if_known("PermuteAndFlipDpEvent", samplable=True)
def _permute_and_flip(event: Any, relation: NeighboringRelation) -> Directions:
    found = laplace(validation.at_least_zero("epsilon", event.epsilon))
    if isinstance(found.remove, LaplaceShift):
        return mirrored(permute_and_flip(found.remove.mu, found.remove))
    return found


@register_if_known("DiscreteGaussianDpEvent", samplable=True)
def _discrete_gaussian(event: Any, relation: NeighboringRelation) -> Leaf | Directions:
    """e^{-x^2 / (2 sigma^2)} on the integers, in any dimension; `sensitivity` is that in l2.

    In one dimension and for an integer sensitivity the pair itself, where it has not too many points. Otherwise zCDP: for integer
    shifts D_alpha <= alpha shift^2 / (2 sigma^2), and shifts of coordinates add up (Canonne, Kamath, Steinke 2020); from below one
    coordinate that moves alone.
    """
    registry.require(event, relation, registry.AR, registry.RS)
    sigma = validation.at_least_zero("sigma", event.sigma)
    sensitivity = validation.at_least_zero("sensitivity", getattr(event, "sensitivity", 1.0))
    dimension = getattr(event, "dimension", None)
    if dimension is not None:
        dimension = validation.integer("dimension", dimension, 1)
    if sensitivity == 0.0 or math.isinf(sigma):
        return NO_LOSS
    if sigma == 0.0 or math.isinf(sensitivity):
        return NON_PRIVATE
    shift, whole = ratio(sensitivity, sigma), math.floor(min(sensitivity, 1e9))
    if shift > _LARGEST:
        return mirrored(between(NON_PRIVATE.remove, NO_LOSS.remove))
    one = discrete_gaussian(sigma, whole) if whole and 80.0 * sigma + whole <= MOST_ATOMS else NO_LOSS.remove
    if dimension == 1 and whole == sensitivity and one is not NO_LOSS.remove:
        return one
    return zero_concentrated(0.5 * max(shift, _SMALLEST) ** 2 * (1.0 + 1e-15), 0.0, below(one))
