"""Events that dp-accounting does not have.

`AdditiveNoiseDpEvent`: any additive noise with a log-concave density, named as in `scipy.stats`.
`PllrMomentsDpEvent`: a mechanism of which only the first four cumulants of its losses are known.
`ProfileDpEvent`: a mechanism of which only an upper bound of delta(epsilon) is known, at some epsilons.
`RenyiDpEvent`: a mechanism of which only Renyi divergences are known, at some orders.

All are frozen `attrs` classes like dp-accounting's own events, so they compare, hash, pickle, deep-copy and
convert to named tuples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attr
from dp_accounting import dp_event

from dp_edgeworth import validation


class _Name(str):
    """A string that survives `to_named_tuple`, which takes every sequence apart and calls its type with a list of the parts."""

    __slots__ = ()

    def __new__(cls, value: object) -> _Name:
        return super().__new__(cls, "".join(value) if isinstance(value, list) else value)


def _name(value: object) -> object:
    """The value as a `_Name` if it is a string; others are refused where the event is used."""
    return _Name(value) if isinstance(value, str) else value


def _sorted_pairs(parameters: Any) -> tuple[tuple[str, float], ...]:
    """Distribution parameters as sorted (name, value) pairs, so that equal events are equal."""
    items = parameters.items() if isinstance(parameters, Mapping) else parameters
    try:
        return tuple(sorted((str(name), value) for name, value in items))
    except (TypeError, ValueError):
        raise ValueError(f"`parameters` must be a mapping or (name, value) pairs. Found {validation.shown(parameters)}.") from None


def _tuple(values: Any) -> Any:
    """A sequence of numbers as a tuple, so that the event is a value; others are refused where the event is used."""
    try:
        return tuple(values)
    except TypeError:
        return values


@attr.s(frozen=True, slots=True, auto_attribs=True)
class AdditiveNoiseDpEvent(dp_event.DpEvent):
    """A query answer plus noise drawn from a continuous `scipy.stats` distribution with a log-concave density.

    Attributes:
      distribution: name of a continuous distribution in `scipy.stats`, for example "logistic" or "gennorm".
      parameters: its shape parameters, `loc` and `scale`, as a mapping or as (name, value) pairs.
      sensitivity: how far one record can move the answer.

    >>> AdditiveNoiseDpEvent("logistic", {"scale": 2.0})
    AdditiveNoiseDpEvent(distribution='logistic', parameters=(('scale', 2.0),), sensitivity=1.0)
    """

    distribution: str = attr.ib(converter=_name)
    parameters: tuple[tuple[str, float], ...] = attr.ib(default=(), converter=_sorted_pairs)
    sensitivity: float = 1.0


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PllrMomentsDpEvent(dp_event.DpEvent):
    """A mechanism known by the moments of its privacy-loss log-likelihood ratios X (under P) and Y (under Q) only.

    Attributes:
      x_cumulants, y_cumulants: mean, variance, third and fourth cumulant of X and of Y.
      x_absolute_third, y_absolute_third: E|X - E X|^3 and E|Y - E Y|^3, or None where unknown (then the bounds use
        the fourth moment instead).
    """

    x_cumulants: tuple[float, float, float, float] = attr.ib(converter=_tuple)
    y_cumulants: tuple[float, float, float, float] = attr.ib(converter=_tuple)
    x_absolute_third: float | None = None
    y_absolute_third: float | None = None


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ProfileDpEvent(dp_event.DpEvent):
    """A mechanism known by its privacy profile: delta(epsilons[i]) <= deltas[i] for all neighbours, whichever of them is the first.

    Accounted is the worst mechanism with such a profile: connect-the-dots on the convex hull of the points.

    Attributes:
      epsilons: increasing numbers of either sign. From a negative one, delta(-eps) <= 1 - e^eps + e^eps delta(eps) bounds the other
        side by the mirror identity; those are optional.
      deltas: as many probabilities, none below 1 - e^eps.
      lower_deltas: lower bounds of delta at the same epsilons, in both orders of the neighbours, or None where nothing is known
        from below.

    >>> ProfileDpEvent([0.5, 1.0], [1e-3, 1e-6])
    ProfileDpEvent(epsilons=(0.5, 1.0), deltas=(0.001, 1e-06), lower_deltas=None)
    """

    epsilons: tuple[float, ...] = attr.ib(converter=_tuple)
    deltas: tuple[float, ...] = attr.ib(converter=_tuple)
    lower_deltas: tuple[float, ...] | None = attr.ib(default=None, converter=_tuple)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class RenyiDpEvent(dp_event.DpEvent):
    """A mechanism known by Renyi differential privacy: divergence of order orders[i] at most values[i], for all neighbours.

    Between the orders the convexity of (alpha - 1) D_alpha is used; beyond the last one nothing is assumed. Curves of several such
    leaves are added before they become an epsilon.

    Attributes:
      orders: increasing numbers above 1.
      values: as many numbers >= 0; an infinite one says nothing.

    >>> RenyiDpEvent([2.0, 8.0], [0.1, 0.4])
    RenyiDpEvent(orders=(2.0, 8.0), values=(0.1, 0.4))
    """

    orders: tuple[float, ...] = attr.ib(converter=_tuple)
    values: tuple[float, ...] = attr.ib(converter=_tuple)
