"""epsilon(delta) and delta(epsilon), each computed twice."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
from dp_accounting import NeighboringRelation as Relation
from dp_accounting import dp_event as de
from scipy.optimize import brentq

from comparisons.exact.arithmetic import TARGET_ACCURACY, Exact, InaccurateError, Law
from comparisons.exact.compositions import Composition, chernoff_table, log_kappa, log_top_mass, top_of
from comparisons.exact.contour import Contour, contour_of, parameters
from comparisons.exact.events import uses_of
from comparisons.exact.leaves import Lattice
from comparisons.exact.point_masses import Atoms, atomic_part


def chernoff_epsilon(comp: Composition, log_delta: float) -> tuple[float, float]:
    """The Chernoff bound on epsilon(delta) and its order c."""
    c, k = chernoff_table(comp, log_delta, None)
    bounds = (k + log_kappa(c) - log_delta) / c
    best = int(np.argmin(bounds))
    return max(float(bounds[best]), 0.0), float(c[best])


def _chernoff_log_delta(comp: Composition, epsilon: float) -> float:
    c, k = chernoff_table(comp, None, epsilon)
    return min(0.0, float((k + log_kappa(c) - c * epsilon).min()))


def _solver(
    comp: Composition, epsilon: float, log_delta: float, variant: int, tolerance: float
) -> Contour | Atoms:
    """Whatever evaluates log delta near epsilon."""
    c, period = parameters(comp, epsilon, log_delta, variant)
    if all(isinstance(law, Lattice) for law, _ in comp.laws) and not comp.square:
        atoms = atomic_part(comp, c)
        if atoms is not None:
            return atoms
    return contour_of(comp, c, period, variant, epsilon, max(tolerance, 1e-11))


def _log_delta(solver: Contour | Atoms, epsilon: float) -> float:
    if isinstance(solver, Contour):
        return solver.log_delta(epsilon)
    scale, part = solver.log_delta(epsilon)
    return float(scale + np.log(part)) if part > 0 else -1e9


def _root(f: Callable[[float], float], guess: float, step: float) -> float:
    """Zero of a decreasing f on [0, inf), 0 if f(0) <= 0."""
    lo = hi = guess
    while f(hi) > 0:
        lo, hi, step = hi, hi + step, 2 * step
    while lo > 0 and f(lo) <= 0:
        hi, lo, step = lo, max(0.0, lo - step), 2 * step
    if lo == 0 and f(0.0) <= 0:
        return 0.0
    return float(brentq(f, lo, hi, xtol=1e-300, rtol=1e-15, maxiter=200))


def _epsilon_of(comp: Composition, delta: float) -> Exact:
    """epsilon(delta) of one direction."""
    log_delta = math.log(delta)
    law = comp.single()
    if law is not None:
        return Exact(_single_epsilon(law, delta), 1e-15)
    if _total_variation_below(comp, delta):
        return Exact(0.0, 0.0)
    if (near_top := _epsilon_near_top(comp, log_delta)) is not None:
        return near_top
    _check_exponents(comp)
    guess, c = chernoff_epsilon(comp, log_delta)  # d log delta / d epsilon is about -c
    answers, unsettled = [], 0.0
    for variant, rough in ((0, True), (0, False), (1, False)):
        solver = _solver(comp, guess, log_delta, variant, 1e-7 * c * guess if rough else 1e-11 * c * guess)
        guess = _root(lambda e: _log_delta(solver, e) - log_delta, guess, 0.5 / c)  # noqa: B023
        answers.append(guess)
        if not rough and guess > 0:
            unsettled = max(unsettled, _unsettled(solver, comp) / min(c * guess, 1e6))
    return _agreed(answers[1], answers[2], unsettled)


def _epsilon_near_top(comp: Composition, log_delta: float) -> Exact | None:
    """M (1 - e^{eps-t}) <= delta(eps) <= 1 - e^{eps-t}, t the largest loss, M its mass; None if not tight."""
    top = comp.top()
    log_mass = sum(count * log_top_mass(law) for law, count in comp.laws)
    if not math.isfinite(top) or log_delta > log_mass - 1:
        return None
    low, high = (top + math.log1p(-math.exp(log_delta - shift)) for shift in (log_mass, 0.0))
    accuracy = max((high - low) / high, 1e-15)
    return Exact((low + high) / 2, accuracy) if accuracy < 1e-13 else None


def _check_exponents(comp: Composition) -> None:
    """A few point masses of huge losses are multiplied by e^loss, which must be a float of 80 bits."""
    largest = max((count * top_of(law) for law, count in comp.laws if isinstance(law, Lattice) and top_of(law) > 1_000.0), default=0.0)
    if largest > 11_000.0:
        raise InaccurateError(f"Point masses with losses of up to {largest:g} are beyond the exponents of 80 bits.")


def _delta_of(comp: Composition, epsilon: float) -> Exact:
    """delta(epsilon) of one direction."""
    law = comp.single()
    if law is not None:
        with mpmath.workdps(60):
            return Exact(float(law.single(mpmath.mpf(epsilon))), 1e-15)
    if epsilon >= comp.top() * (1 - 1e-15):
        return Exact(0.0, 0.0)
    _check_exponents(comp)
    guess = _chernoff_log_delta(comp, epsilon) - 2
    answers, unsettled = [], 0.0
    for variant, rough in ((0, True), (0, False), (1, False)):
        solver = _solver(comp, epsilon, guess, variant, 1e-6 if rough else 1e-11)
        guess = min(_log_delta(solver, epsilon), 0.0)
        answers.append(guess)
        unsettled = unsettled if rough else max(unsettled, _unsettled(solver, comp))
    return _agreed(math.exp(answers[1]), math.exp(answers[2]), unsettled)


def _total_variation_below(comp: Composition, delta: float) -> bool:
    """Whether delta(0) <= delta follows from sum_i m_i delta_i(0) or from Pinsker: epsilon is 0 then."""
    gauss = math.erf(math.sqrt(comp.square / 8))
    with mpmath.workdps(40):
        parts = [count * float(law.single(mpmath.mpf(0))) for law, count in comp.laws]
    if gauss + sum(parts) < delta * (1 - 1e-6):
        return True
    tiny, count = 1e-6, sum(count for _, count in comp.laws)
    divergence = comp.log_mgf(tiny) / tiny  # with 80 bits good to about 1e-19 count / tiny
    return 1e-12 * count < delta**2 and divergence < 2 * delta**2 * (1 - 1e-3)


def _single_epsilon(law: Law, delta: float) -> float:
    """Bisection and secants on the closed form in 60 digits."""
    with mpmath.workdps(60):
        if law.single(mpmath.mpf(0)) <= delta:
            return 0.0
        target = mpmath.log(mpmath.mpf(delta))
        lo, hi = mpmath.mpf(0), mpmath.mpf(1)
        while (value := law.single(hi)) > delta:
            lo, hi = hi, 2 * hi
        for _ in range(70):
            middle = (lo + hi) / 2
            value = law.single(middle)
            lo, hi = (middle, hi) if value > 0 and mpmath.log(value) > target else (lo, middle)
        return float((lo + hi) / 2)


def _unsettled(solver: Contour | Atoms, comp: Composition) -> float:
    """By how much log delta still changed at the last doubling of the mollifier; what m-th powers round by for point masses.

    Point masses that share no lattice have structure at every scale, so that two equal answers prove little: 1e-7 at best.
    """
    if not isinstance(solver, Contour):
        return 1e-17 * sum(count for _, count in comp.laws)
    only_points = not comp.square and all(isinstance(law, Lattice) for law, _ in comp.laws)
    return max(solver.settled, 1e-7 if only_points else 0.0)


def _agreed(one: float, two: float, unsettled: float) -> Exact:
    """The first value; its accuracy is ten times the disagreement (both may err alike), or the unsettled rest if that is larger."""
    difference = 0.0 if one == two else abs(one - two) / max(abs(one), 1e-320)
    accuracy = max(10.0 * difference, unsettled, 1e-15)
    if not accuracy <= TARGET_ACCURACY:
        raise InaccurateError(f"Two computations gave {one!r} and {two!r}, unsettled by {unsettled:.1e}.")
    return Exact(one, accuracy)


def directions(event: de.DpEvent, relation: Relation) -> list[Composition]:
    """The remove and the add composition, once if they are the same."""
    uses = uses_of(event, relation)
    remove = Composition.of([(u.remove, u.times) for u in uses])
    add = Composition.of([(u.add, u.times) for u in uses])
    symmetric = all(u.remove == u.add or getattr(u.remove, "probability", 0) == 1 for u in uses)
    if not remove.laws and not remove.square:
        return []
    return [remove] if symmetric or not remove.laws else [remove, add]


def exact_delta(
    event: de.DpEvent, epsilon: float, neighboring_relation: Relation = Relation.ADD_OR_REMOVE_ONE
) -> Exact:
    """delta(eps) = max over directions of E_Q[(1 - e^{eps - L})_+], with its relative accuracy.

    >>> round(exact_delta(de.GaussianDpEvent(1.0), 1.0).value, 12)
    0.126936737507
    """
    answers = [_delta_of(comp, float(epsilon)) for comp in directions(event, neighboring_relation)]
    return max(answers, default=Exact(0.0, 0.0))


def exact_epsilon(
    event: de.DpEvent, delta: float, neighboring_relation: Relation = Relation.ADD_OR_REMOVE_ONE
) -> Exact:
    """epsilon(delta) = max over directions of inf{eps >= 0: delta(eps) <= delta}, with its relative accuracy.

    >>> round(exact_epsilon(de.GaussianDpEvent(1.0), 1e-5).value, 10)
    4.3771780957
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must be strictly between 0 and 1. Found {delta}.")
    best = Exact(0.0, 0.0)
    for comp in directions(event, neighboring_relation):
        if best.value > 0 and _chernoff_log_delta(comp, best.value) < math.log(delta):
            continue
        best = max(best, _epsilon_of(comp, float(delta)))
    return best
