"""The only place that raises ValueError for a parameter.

Every message names the parameter, the constraint and the value found. Values may be Python numbers, numpy scalars,
0-d arrays, `Decimal` or `Fraction`; what comes back is a plain `float` or `int`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

_LARGEST = 10**300  # what still is a float after some arithmetic


def number(name: str, value: Any) -> float:
    """A real number, NaN excluded."""
    try:
        if isinstance(value, str | bytes | bool | np.bool_):
            raise TypeError
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"`{name}` must be a real number. Found {value!r}.") from None
    if math.isnan(result):
        raise ValueError(f"`{name}` must be a real number. Found {value!r}.")
    return result


def at_least_zero(name: str, value: Any) -> float:
    """A number >= 0, infinity included."""
    result = number(name, value)
    if result < 0:
        raise ValueError(f"`{name}` must be at least 0. Found {value!r}.")
    return result


def positive(name: str, value: Any) -> float:
    """A finite number > 0."""
    result = number(name, value)
    if not 0 < result < math.inf:
        raise ValueError(f"`{name}` must be positive and finite. Found {value!r}.")
    return result


def finite(name: str, value: Any) -> float:
    """A finite number."""
    result = number(name, value)
    if math.isinf(result):
        raise ValueError(f"`{name}` must be finite. Found {value!r}.")
    return result


def probability(name: str, value: Any) -> float:
    """A number in [0, 1]."""
    result = number(name, value)
    if not 0 <= result <= 1:
        raise ValueError(f"`{name}` must be in [0, 1]. Found {value!r}.")
    return result


def integer(name: str, value: Any, minimum: int) -> int:
    """An integer >= minimum, of any integer type; a float is refused even when it is whole."""
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        result = operator.index(value)
    except TypeError:
        raise ValueError(f"`{name}` must be an integer that is at least {minimum}. Found {value!r}.") from None
    if result < minimum:
        raise ValueError(f"`{name}` must be an integer that is at least {minimum}. Found {value!r}.")
    if result > _LARGEST:
        raise ValueError(f"`{name}` must be at most 1e300. Found about 1e{math.log10(result):.0f}.")
    return result


def sequence(name: str, value: Any) -> list[Any]:
    """A non-empty one-dimensional sequence."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable) or getattr(value, "ndim", 1) == 0:
        raise ValueError(f"`{name}` must be a non-empty sequence. Found {value!r}.")
    items = list(value)
    if not items:
        raise ValueError(f"`{name}` must be a non-empty sequence. Found {value!r}.")
    return items


def mixture(name: str, value: Any) -> tuple[float, ...]:
    """Probabilities that add up to 1 (to 1e-9, as dp-accounting allows), normalised."""
    weights = [probability(f"{name}[{i}]", item) for i, item in enumerate(sequence(name, value))]
    total = math.fsum(weights)
    if not math.isclose(total, 1.0, rel_tol=1e-9):
        raise ValueError(f"`{name}` must add up to 1. Found a sum of {total!r}.")
    return tuple(weight / total for weight in weights)


def array_in(name: str, value: Any, low: float, high: float) -> np.ndarray:
    """Real numbers in [low, high], a scalar or an array; NaN excluded."""
    try:
        result = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"`{name}` must be a real number or an array of them. Found {value!r}.") from None
    if result.dtype != np.float64 or isinstance(value, str | bytes | bool):
        raise ValueError(f"`{name}` must be a real number or an array of them. Found {value!r}.")
    if not np.all((result >= low) & (result <= high)):
        span = f"in [{low:g}, {high:g}]" if math.isfinite(high) else f"at least {low:g}"
        raise ValueError(f"`{name}` must be {span}. Found {value!r}.")
    return result
