"""The only place that raises ValueError for a parameter.

Every message names the parameter, the constraint and the value found. Values may be Python numbers, numpy scalars,
0-d arrays, `Decimal` or `Fraction`; what comes back is a plain `float` or `int`.
"""

from __future__ import annotations

import contextlib
import math
import operator
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
from dp_accounting.privacy_accountant import NeighboringRelation

LARGEST = 10**300  # what still is a float after some arithmetic
_T = TypeVar("_T")


def shown(value: Any) -> str:
    """A value in a message; Python refuses to print integers of more than some thousand digits."""
    try:
        return repr(value)
    except ValueError:
        return f"a `{type(value).__name__}` of too many digits"


def _is_real(value: Any) -> bool:
    """Whether all of a numpy value is real numbers (or objects, to be looked at one by one): no flags, dates, text or gaps."""
    return value.dtype.kind in "iufO" and not np.ma.is_masked(value)


def number(name: str, value: Any) -> float:
    """A real number, NaN excluded; one that the floats can only hold as 0 or infinity is refused, as either may be the unsafe side."""
    item = value
    if isinstance(value, np.ndarray | np.generic):
        item = value.item() if value.ndim == 0 and _is_real(value) else None
    try:
        # Only what is a number by itself: float() would read text and buffers, too.
        if isinstance(item, bool) or not (hasattr(type(item), "__float__") or hasattr(type(item), "__index__")):
            raise TypeError
        result = float(item)
    except OverflowError:
        raise ValueError(f"`{name}` must be within the range of floats. Found {shown(value)}.") from None
    except (TypeError, ValueError):
        raise ValueError(f"`{name}` must be a real number. Found {shown(value)}.") from None
    if math.isnan(result):
        raise ValueError(f"`{name}` must be a real number. Found {shown(value)}.")
    if (result == 0.0 or math.isinf(result)) and item != result:
        raise ValueError(f"`{name}` must be within the range of floats. Found {shown(value)}.")
    return result


def _number_that(holds: Callable[[float], bool], constraint: str, name: str, value: Any) -> float:
    result = number(name, value)
    if not holds(result):
        raise ValueError(f"`{name}` must be {constraint}. Found {shown(value)}.")
    return result


def at_least_zero(name: str, value: Any) -> float:
    """A number >= 0, infinity included."""
    return _number_that(lambda x: x >= 0, "at least 0", name, value)


def positive(name: str, value: Any) -> float:
    """A finite number > 0."""
    return _number_that(lambda x: 0 < x < math.inf, "positive and finite", name, value)


def finite(name: str, value: Any) -> float:
    """A finite number."""
    return _number_that(math.isfinite, "finite", name, value)


def probability(name: str, value: Any) -> float:
    """A number in [0, 1]."""
    return _number_that(lambda x: 0 <= x <= 1, "in [0, 1]", name, value)


def integer(name: str, value: Any, minimum: int) -> int:
    """An integer >= minimum, of any integer type; a float is refused even when it is whole."""
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        result = operator.index(value)
    except TypeError:
        raise ValueError(f"`{name}` must be an integer that is at least {minimum}. Found {shown(value)}.") from None
    if result < minimum:
        raise ValueError(f"`{name}` must be an integer that is at least {minimum}. Found {shown(value)}.")
    if result > LARGEST:
        raise ValueError(f"`{name}` must be at most 1e300. Found about 1e{math.log10(result):.0f}.")
    return result


def of_kind(name: str, value: _T, kind: Any, words: str) -> _T:
    """An instance of a class, or of one of several."""
    if not isinstance(value, kind):
        raise ValueError(f"`{name}` must be {words}. Found {shown(value)}.")
    return value


def flag(name: str, value: Any) -> bool:
    """True or False."""
    return bool(of_kind(name, value, (bool, np.bool_), "a bool"))


def path(value: Any) -> pathlib.Path:
    """Where to write."""
    return pathlib.Path(of_kind("path", value, (str, os.PathLike), "a path"))


def sequence(name: str, value: Any, *, length: int | None = None) -> list[Any]:
    """A non-empty one-dimensional sequence; of so many entries if `length` is given, otherwise of any number of them."""
    words = "a non-empty sequence" if length is None else f"a sequence of {length}"
    if isinstance(value, str | bytes) or not isinstance(value, Iterable) or getattr(value, "ndim", 1) == 0:
        raise ValueError(f"`{name}` must be {words}. Found {shown(value)}.")
    items = list(value)
    if not items or length not in (None, len(items)):
        raise ValueError(f"`{name}` must be {words}. Found {shown(value)}.")
    return items


def mixture(name: str, value: Any) -> tuple[float, ...]:
    """Probabilities that add up to 1 (to 1e-9, as dp-accounting allows), normalised."""
    weights = [probability(f"{name}[{i}]", item) for i, item in enumerate(sequence(name, value))]
    total = math.fsum(weights)
    if not math.isclose(total, 1.0, rel_tol=1e-9):
        raise ValueError(f"`{name}` must add up to 1. Found a sum of {total!r}.")
    return tuple(weight / total for weight in weights)


def _entries(name: str, value: Any) -> np.ndarray:
    """A scalar or a sequence as an array; sequences that have no type of their own as objects, so that nothing is converted."""
    try:
        result = np.asarray(value, dtype=None if hasattr(value, "__array__") else object)
        if _is_real(result) and not np.ma.is_masked(value):
            return result
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(f"`{name}` must be a real number or an array of them. Found {shown(value)}.")


def array_in(name: str, value: Any, low: float, high: float) -> np.ndarray:
    """Real numbers in [low, high], a scalar or an array; NaN excluded."""
    result = _entries(name, value)
    if not np.can_cast(result.dtype, np.float64):  # objects, and floats of more than 64 bits
        result = np.array([number(name, item) for item in result.ravel()], float).reshape(result.shape)
    result = result.astype(np.float64)
    if not np.all((result >= low) & (result <= high)):
        span = f"in [{low:g}, {high:g}]" if math.isfinite(high) else f"at least {low:g}"
        raise ValueError(f"`{name}` must be {span}. Found {shown(value)}.")
    return result


def axis(name: str, value: Any, check: Callable[[str, Any], _T]) -> list[_T]:
    """A value, or the entries of a one-dimensional sequence, each checked."""
    entries = np.atleast_1d(_entries(name, value))
    if entries.ndim > 1 or not entries.size:
        raise ValueError(f"`{name}` must be a value or a non-empty one-dimensional sequence. Found {shown(value)}.")
    return [check(name, item) for item in entries]


def relation(value: Any) -> NeighboringRelation:
    """A neighboring relation: its name or number is none."""
    return of_kind("neighboring_relation", value, NeighboringRelation, "a `NeighboringRelation`")


@contextlib.contextmanager
def needs(library: str, extra: str) -> Iterator[None]:
    """Around the import of a library: where that is missing, the extra that brings it is named."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != library:
            raise
        sentence = f"`dp_edgeworth.{extra}` needs {library}: pip install 'dp-edgeworth[{extra}]'."
        raise ModuleNotFoundError(sentence, name=library) from None
