"""Events that dp-accounting does not have.

`AdditiveNoiseDpEvent`: any additive noise with a log-concave density, named as in `scipy.stats`.
`PllrMomentsDpEvent`: a mechanism of which only the first four cumulants of its losses are known.

Both are frozen `attrs` classes like dp-accounting's own events, so they compare, hash, pickle, deep-copy and
convert to named tuples.
"""

from __future__ import annotations

import attr
from dp_accounting import dp_event


class _Name(str):
    """A string that survives `to_named_tuple`, which takes every sequence apart and calls its type with a list of the parts."""

    __slots__ = ()

    def __new__(cls, value: object) -> _Name:
        return super().__new__(cls, "".join(value) if isinstance(value, list) else value)


def _name(value: object) -> object:
    """The value as a `_Name` if it is a string; others are refused where the event is used."""
    return _Name(value) if isinstance(value, str) else value


def _sorted_pairs(parameters: object) -> tuple[tuple[str, float], ...]:
    """Distribution parameters as sorted (name, value) pairs, so that equal events are equal."""
    items = parameters.items() if isinstance(parameters, dict) else parameters
    return tuple(sorted((str(name), value) for name, value in items))  # type: ignore[attr-defined]


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

    x_cumulants: tuple[float, float, float, float] = attr.ib(converter=tuple)
    y_cumulants: tuple[float, float, float, float] = attr.ib(converter=tuple)
    x_absolute_third: float | None = None
    y_absolute_third: float | None = None
