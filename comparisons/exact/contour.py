"""The contour integral, by the trapezoid rule."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.fft
import scipy.special
import scipy.stats

from comparisons.exact.arithmetic import COMPLEX, MAX_WORK, PI, REAL, InaccurateError, joined
from comparisons.exact.compositions import (
    Composition,
    accurate_block,
    block_transform,
    chernoff_table,
    delicate,
    log_kappa,
    log_of_rule,
    split,
    tilted_sum,
)
from comparisons.exact.point_masses import Atoms, atomic_part


@dataclass
class Contour:
    """e^{K(z) - K(c)} / (z (z+1)) at z = c + i j h without the atomic part, mollified if need be."""

    c: float
    h: np.longdouble
    log_scale: np.longdouble
    values: np.ndarray
    atoms: Atoms | None
    settled: float

    def log_delta(self, epsilon: float) -> float:
        """log of e^{K(c) - c eps} (h/pi) sum'_j Re[values_j e^{-i j h eps}] + the atomic part."""
        total = _fourier_sum(self.values, self.h, epsilon)
        scale = self.log_scale - REAL(self.c) * REAL(epsilon)
        if self.atoms is not None:
            atom_scale, part = self.atoms.log_delta(epsilon)
            total = total + np.exp(atom_scale - scale) * part
        return float(scale + np.log(total)) if total > 0 else -1e9


def _fourier_sum(values: np.ndarray, h: np.longdouble, epsilon: float) -> np.longdouble:
    """(h/pi) sum'_j Re[values_j e^{-i j h eps}], the first term halved."""
    width = 512
    padded = np.concatenate([values, np.zeros(-values.size % width, COMPLEX)]).reshape(-1, width)
    angle = -1j * h * REAL(epsilon)
    inner = padded @ np.exp(angle * np.arange(width).astype(REAL))
    outer = np.exp(angle * width * np.arange(padded.shape[0]).astype(REAL))
    return h / PI * ((inner * outer).sum().real - values[0].real / 2)


def _mollifier(n: int, full: int) -> np.ndarray:
    """erfc((y - Y/2)/w)/2 with w = Y/13 on the first n nodes, Y at node n; zero up to `full`."""
    t = (np.arange(n) / n - 0.5) * 13
    return np.concatenate([scipy.special.erfc(t) / 2, np.zeros(full - n)]).astype(REAL)


class _Transform:
    """e^{K(z) - K(c)}, its atomic part and an envelope of the difference, block by block."""

    def __init__(self, comp: Composition, c: float, h: np.longdouble, variant: int, atoms: bool) -> None:
        self.comp, self.c, self.h, self.atoms = comp, c, h, atoms
        self.parts = [split(law, count, c, variant) for law, count in comp.laws]
        whole = [joined(parts) for parts in self.parts]
        self.scales = [tilted_sum(rule, c)[0] for rule in whole]
        self.whole = whole
        logs = [n * log_of_rule(r, c, n) for r, (_, n) in zip(whole, comp.laws, strict=True)]
        self.log_scale = sum(logs, REAL(comp.square) * (REAL(c) ** 2 + REAL(c)) / 2)

    def variance(self) -> float:
        """K''(c)."""
        total = self.comp.square
        for rule, (_, count) in zip(self.whole, self.comp.laws, strict=True):
            weights = tilted_sum(rule, self.c)[1]
            mean = (weights * rule.loss).sum()
            total += count * float((weights * (rule.loss - mean) ** 2).sum().real)
        return total

    def resonance(self) -> float:
        """2 pi / the smallest gap between atoms, where |E e^{iyL}| may come back; 0 without atoms."""
        gaps = [np.diff(atoms.loss.real).min() for _, atoms in self.parts if atoms.loss.size > 1]
        return float(2 * PI / min(gaps)) if gaps else 0.0

    def block(self, j0: int, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Integrand and envelope for j0 <= j < j0 + n."""
        y = self.h * np.arange(j0, j0 + n).astype(REAL)
        z = self.c + 1j * y
        log_all = REAL(self.comp.square) * (1j * y * (2 * self.c + 1) - y * y) / 2
        log_atoms, log_envelope, log_atom_envelope = np.zeros(n, COMPLEX), log_all.real.copy(), REAL(0)
        for k, (_, count) in enumerate(self.comp.laws):
            smooth, atoms, log_law = self._law(k, count, j0, n)
            log_all = log_all + count * log_law
            if self.atoms:
                log_atoms = log_atoms + count * np.log(atoms + REAL("1e-4000"))
            mass = np.exp(
                self.parts[k][1].log_weight.real + self.c * self.parts[k][1].loss.real - self.scales[k]
            ).sum()
            log_envelope = log_envelope + count * np.log(
                np.minimum(1, mass + np.abs(smooth)) + REAL("1e-4000")
            )
            log_atom_envelope = log_atom_envelope + count * np.log(mass + REAL("1e-4000"))
        value, envelope = np.exp(log_all), np.exp(log_envelope)
        if self.atoms:
            value, envelope = value - np.exp(log_atoms), envelope - np.exp(log_atom_envelope)
        kernel = z * (z + 1)
        return value / kernel, np.abs(envelope) / np.abs(kernel)

    def _law(self, k: int, count: int, j0: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Continuous part, atoms and log of one leaf's transform over its value at c."""
        whole, (smooth_rule, atom_rule) = self.whole[k], self.parts[k]
        arguments = (self.c, self.scales[k], self.h, j0, n)
        atoms = block_transform(atom_rule, *arguments)
        if not delicate(whole, self.c, count):
            smooth = block_transform(smooth_rule, *arguments)
            return smooth, atoms, np.log(smooth + atoms + REAL("1e-4000"))
        log_law = accurate_block(whole, self.c, self.h, j0, n) - log_of_rule(whole, self.c, count)
        return np.exp(log_law) - atoms, atoms, log_law


def contour_of(
    comp: Composition, c: float, period: float, variant: int, epsilon: float, tolerance: float
) -> Contour:
    """Extends the integral until its envelope is negligible or doubling the mollifier changes nothing."""
    h = 2 * PI / REAL(period)
    atoms = atomic_part(comp, c)
    transform = _Transform(comp, c, h, variant, atoms is not None)
    reach = (14, 11)[variant] / math.sqrt(transform.variance())
    n = max(256, math.ceil(reach / float(h)))
    points = 20 + sum(rule.loss.size for rule in transform.whole)
    if n * points > MAX_WORK:
        raise InaccurateError(f"The losses spread over too many scales: {n} nodes to start with.")
    values, envelope = transform.block(0, n)
    history: list[float] = []
    while True:
        size = abs(_fourier_sum(values, h, epsilon)) * PI / h
        if atoms is not None:
            scale, part = atoms.log_delta(epsilon)
            size += abs(part) * np.exp(scale - transform.log_scale + c * REAL(epsilon)) * PI / h
        if envelope[values.size // 2 :].sum() < 1e-15 * size:
            return Contour(c, h, transform.log_scale, values, atoms, 0.0)
        now = Contour(c, h, transform.log_scale, values * _mollifier(values.size, values.size), atoms, 0.0)
        history.append(now.log_delta(epsilon))
        change = max(abs(history[-1] - v) for v in history[-3:-1]) if len(history) > 2 else math.inf
        if change < tolerance and values.size * float(h) > 6 * transform.resonance():
            now.settled = change
            return now
        if 2 * values.size * points > MAX_WORK:
            now.settled = change
            return now
        more, more_envelope = transform.block(values.size, values.size)
        values, envelope = np.concatenate([values, more]), np.concatenate([envelope, more_envelope])


def parameters(comp: Composition, epsilon: float, log_delta: float, variant: int) -> tuple[float, float]:
    """c and the period: aliases below e^-tolerance delta, e^{K(c) - c eps} not far above delta.

    The trapezoid sum is sum_k e^{ckp} delta(eps + kp); delta <= 1 on the left, Chernoff's bound on the right.
    """
    c, k = chernoff_table(comp, None, epsilon)
    tolerance, limit = ((30, 10), (34, 7))[variant]
    left = (tolerance - log_delta) / c
    gap = c[None, :] - c[:, None]
    bound = (k + log_kappa(c) - c * epsilon - log_delta + tolerance)[None, :]
    right = np.where(gap > 0, bound / np.where(gap > 0, gap, 1), np.inf).min(axis=1)
    period = np.maximum(np.maximum(left, right), 1e-12)
    loss = k - c * epsilon - log_delta - np.log(c * (c + 1))
    allowed = (loss <= max(limit, loss.min() + 3)) & np.isfinite(period)
    if not allowed.any():
        raise InaccurateError(f"No contour for epsilon {epsilon}, log delta {log_delta}.")
    best = int(np.flatnonzero(allowed)[np.argmin(period[allowed])])
    return float(c[best]), float(period[best]) * (1.05, 1.3)[variant]
