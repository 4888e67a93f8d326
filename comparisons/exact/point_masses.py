"""Compositions of point masses only: tilted FFT in 80 bits, exact sums."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.fft
import scipy.special
import scipy.stats

from comparisons.exact.arithmetic import COMPLEX, MAX_ATOMS, REAL, Rule
from comparisons.exact.compositions import Composition, tilted_sum


@dataclass
class Atoms:
    """A sum of independent point-mass laws tilted by c: losses, tilted masses, and the log of their total."""

    c: float
    losses: np.ndarray
    masses: np.ndarray
    log_total: np.longdouble

    def log_delta(self, epsilon: float) -> tuple[np.longdouble, np.longdouble]:
        """(log scale, S) with delta = e^{scale} S, S = sum_{l > eps} w_l e^{-c(l-eps)} (1 - e^{-(l-eps)})."""
        u = self.losses - REAL(epsilon)
        part = u > 0
        terms = self.masses[part] * np.exp(-REAL(self.c) * u[part]) * -np.expm1(-u[part])
        return self.log_total - REAL(self.c) * REAL(epsilon), terms.sum()


def _power(rule: Rule, count: int, c: float) -> Atoms | None:
    """The count-fold sum of a point-mass law: FFT if its losses are equally spaced, enumeration otherwise."""
    losses = rule.loss.real
    log_total, weights = tilted_sum(rule, c)
    weights = weights.real
    if count == 1 or losses.size == 1:
        return Atoms(
            c,
            losses * count,
            np.ones(losses.size, REAL) * weights**count if losses.size == 1 else weights,
            count * log_total,
        )
    gaps = np.diff(losses)
    if np.ptp(gaps) > 1e-17 * np.abs(losses).max() * losses.size:
        return _enumerated(losses, weights, count, c, log_total)
    k = np.arange(losses.size).astype(REAL)
    mean = float(count * (weights * k).sum())
    sd = math.sqrt(float(count * ((weights * k**2).sum() - (weights * k).sum() ** 2)) + 1)
    size = 1 << math.ceil(math.log2(min(count * (losses.size - 1) + 1, 40 * sd + 200)))
    first = 0 if size > count * (losses.size - 1) else max(0, round(mean) - size // 2)
    padded = np.zeros(size, REAL)
    padded[: losses.size] = weights
    power = scipy.fft.ifft(scipy.fft.fft(padded.astype(COMPLEX)) ** count).real  # numpy's has 64 bits before 2.0
    where = first + np.arange(size)
    where = where[where <= count * (losses.size - 1)]
    masses = power[where % size]
    keep = masses > 1e-18 * masses.max() * (1e-6 if where.size < 1000 else 1)
    step = (losses[-1] - losses[0]) / (losses.size - 1)
    values = count * losses[0] + where[keep].astype(REAL) * step
    return Atoms(c, values, masses[keep], count * log_total)


def _enumerated(
    losses: np.ndarray, weights: np.ndarray, count: int, c: float, log_total: np.longdouble
) -> Atoms | None:
    """All multisets of `count` losses with multinomial masses, dropping those below 1e-24."""
    values, logs, left = np.zeros(1, REAL), np.zeros(1, REAL), np.array([count])
    table = np.append(REAL(0), np.cumsum(np.log(np.arange(1, count + 1).astype(REAL))))
    for loss, weight in zip(losses[:-1], weights[:-1], strict=True):
        if left.sum() + left.size > MAX_ATOMS:
            return None
        owner = np.repeat(np.arange(left.size), left + 1)
        used = np.arange(owner.size) - np.repeat(np.cumsum(left + 1) - left - 1, left + 1)
        values = values[owner] + used * loss
        logs = logs[owner] + used * np.log(weight + REAL("1e-4000")) - table[used]
        left = left[owner] - used
    logs = table[count] + logs + left * np.log(weights[-1] + REAL("1e-4000")) - table[left]
    values = values + left * losses[-1]
    keep = logs > logs.max() - 60
    return Atoms(c, values[keep], np.exp(logs[keep]), count * log_total)


def atomic_part(comp: Composition, c: float) -> Atoms | None:
    """The part of the composition in which every leaf lands on an atom; None if empty or too large."""
    if comp.square:
        return None
    total = Atoms(c, np.zeros(1, REAL), np.ones(1, REAL), REAL(0))
    for law, count in comp.laws:
        rule = law.atoms()
        part = _power(rule, count, c) if rule.loss.size else None
        if part is None or total.losses.size * part.losses.size > MAX_ATOMS:
            return None
        losses = np.add.outer(total.losses, part.losses).ravel()
        masses = np.multiply.outer(total.masses, part.masses).ravel()
        keep = masses > 1e-24 * masses.max()
        total = Atoms(c, losses[keep], masses[keep], total.log_total + part.log_total)
    return total
