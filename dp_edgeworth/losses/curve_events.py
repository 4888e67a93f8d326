"""Events that are known by a curve: profiles, Renyi divergences, zCDP, and the selection mechanisms and discrete noise of dp-accounting.

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
from dp_edgeworth.events.own_events import ProfileDpEvent, RenyiDpEvent
from dp_edgeworth.losses import mechanisms
from dp_edgeworth.losses.bounded_range import exponential_mechanism, permute_and_flip
from dp_edgeworth.losses.class_leaf import ClassLeaf
from dp_edgeworth.losses.laplace_noise import LaplaceShift
from dp_edgeworth.losses.mechanisms import NO_LOSS, NON_PRIVATE, Directions, register_mechanism
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.renyi_curves import RenyiCurve, Tabulated, ZeroConcentrated
from dp_edgeworth.losses.user_profile import pair_of_points

_SMALLEST, _LARGEST = 1e-140, 1e100  # epsilons of selection mechanisms and squares of them, so that these are floats
_DOWN = 1.0 - 4.0 * float(np.finfo(float).eps)


def _both(leaf: Pllr) -> Directions:
    return Directions(leaf, leaf)


@register_mechanism(dp_event.ZCDpEvent)
def _zcdp(event: dp_event.ZCDpEvent, relation: NeighboringRelation) -> Directions:
    """(xi, rho)-zCDP; with rho = 0 it is pure DP with epsilon xi."""
    rho, xi = validation.at_least_zero("rho", event.rho), validation.at_least_zero("xi", event.xi)
    if math.isinf(rho) or math.isinf(xi):
        return NON_PRIVATE
    if rho == 0.0:
        return mechanisms.directions_of(mechanisms.epsilon_delta_pair(xi, 0.0))
    return zero_concentrated(rho, xi)


def zero_concentrated(rho: float, xi: float = 0.0, member: Pllr | None = None) -> Directions:
    """All (xi, rho)-zCDP mechanisms, 0 < rho < inf; the Gaussian with mu^2 = 2 rho is one of them."""
    member = member or mechanisms.gaussian_pair(math.sqrt(2.0 * rho) * _DOWN).dominated
    return _both(ClassLeaf((member,), ZeroConcentrated(rho, xi)))


@register_mechanism(RenyiDpEvent)
def _renyi(event: RenyiDpEvent, relation: NeighboringRelation) -> Directions:
    return renyi(event.orders, event.values)


def renyi(orders: Any, values: Any) -> Directions:
    """All mechanisms with these Renyi divergences; nothing is known from below."""
    alphas = np.array([validation.finite(f"orders[{i}]", order) for i, order in enumerate(validation.sequence("orders", orders))])
    bounds = np.array([validation.at_least_zero(f"values[{i}]", value) for i, value in enumerate(validation.sequence("values", values))])
    if len(alphas) != len(bounds):
        raise ValueError(f"`values` must be as many as `orders`, {len(alphas)}. Found {len(bounds)}.")
    if not (alphas[0] > 1.0 and np.all(np.diff(alphas) > 0.0)):
        raise ValueError(f"`orders` must be increasing numbers above 1. Found {validation.shown(orders)}.")
    curve = renyi_curve(alphas - 1.0, (alphas - 1.0) * bounds)
    if curve is None:
        return NON_PRIVATE
    if not np.any(bounds[np.isfinite(bounds)]):
        return NO_LOSS
    return _both(ClassLeaf((NO_LOSS.remove,), curve))


def renyi_curve(orders: np.ndarray, values: np.ndarray) -> RenyiCurve | None:
    """The curve of a table of k(c); None where it says nothing."""
    kept = np.isfinite(values)
    return Tabulated.of(orders[kept], values[kept]) if kept.any() else None


@register_mechanism(ProfileDpEvent)
def _profile(event: ProfileDpEvent, relation: NeighboringRelation) -> Directions:
    """The pair of its points, which is its own mirror image."""
    pair = pair_of_points(event.epsilons, event.deltas, event.lower_deltas)
    return NO_LOSS if pair is None else _both(pair)


def _exponential(event: Any, relation: NeighboringRelation) -> Directions:
    """`epsilon` is the range of the loss, as in dp-accounting."""
    epsilon = validation.at_least_zero("epsilon", event.epsilon)
    if epsilon == 0.0:
        return NO_LOSS
    if not _SMALLEST <= epsilon <= _LARGEST:  # pure DP is above it, nothing is below it
        above = NON_PRIVATE if epsilon > _LARGEST else mechanisms.directions_of(mechanisms.epsilon_delta_pair(epsilon, 0.0))
        return above if math.isinf(epsilon) else _both(ClassLeaf((NO_LOSS.remove,), pair=above.remove))
    return _both(exponential_mechanism(epsilon))


def _permute_and_flip(event: Any, relation: NeighboringRelation) -> Directions:
    found = mechanisms.laplace_pair(validation.at_least_zero("epsilon", event.epsilon))
    if isinstance(found.remove, LaplaceShift):
        return _both(permute_and_flip(found.remove.mu, found.remove))
    return found


def _discrete_gaussian(event: Any, relation: NeighboringRelation) -> Pllr | Directions:
    """e^{-x^2 / (2 sigma^2)} on the integers, in any dimension; `sensitivity` is that in l2.

    In one dimension and for an integer sensitivity the pair itself. Otherwise zCDP: for integer shifts D_alpha <= alpha shift^2 / (2
    sigma^2), and shifts of coordinates add up (Canonne, Kamath, Steinke 2020); from below one coordinate that moves alone.
    """
    mechanisms.require(event, relation, mechanisms.AR, mechanisms.RS)
    sigma = validation.at_least_zero("sigma", event.sigma)
    sensitivity = validation.at_least_zero("sensitivity", getattr(event, "sensitivity", 1.0))
    dimension = getattr(event, "dimension", None)
    if dimension is not None:
        dimension = validation.integer("dimension", dimension, 1)
    if sensitivity == 0.0 or math.isinf(sigma):
        return NO_LOSS
    if sigma == 0.0 or math.isinf(sensitivity):
        return NON_PRIVATE
    whole = math.floor(min(sensitivity, 1e9))
    if dimension == 1 and whole == sensitivity:
        return mechanisms.discrete_gaussian_pair(event, sigma, whole)
    rho = 0.5 * (sensitivity / sigma) ** 2
    if not 1e-280 < rho < 1e280:
        raise mechanisms.UnsupportedLeafError(event, "`sensitivity / sigma` must be within 1e-140 and 1e140. "
                                              f"Found {sensitivity / sigma!r}.")
    return zero_concentrated(rho * (1.0 + 4e-16), 0.0, _one_coordinate(event, sigma, whole))


def _one_coordinate(event: Any, sigma: float, whole: int) -> Pllr:
    try:
        return mechanisms.directions_of(mechanisms.discrete_gaussian_pair(event, sigma, whole)).remove.dominated if whole else NO_LOSS.remove
    except mechanisms.UnsupportedLeafError:  # too many points
        return NO_LOSS.remove


for _name, _function, _additive in (
    ("ExponentialMechanismDpEvent", _exponential, False),
    ("PermuteAndFlipDpEvent", _permute_and_flip, False),
    ("DiscreteGaussianDpEvent", _discrete_gaussian, True),
):
    if hasattr(dp_event, _name):  # only on dp-accounting's main branch, which has the same version number
        register_mechanism(getattr(dp_event, _name), samplable=_additive)(_function)
