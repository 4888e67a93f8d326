"""Sums of losses: K(z), Chernoff bounds, tilted sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from comparisons.exact.arithmetic import COMPLEX, LARGE_COUNT, NO_ATOMS, REAL, Law, Rule, expm1, kept, log1p
from comparisons.exact.leaves import GaussianPair, LaplacePair, Lattice, SymmetricSubsample, Tagged


def log_kappa(c: np.ndarray) -> np.ndarray:
    """log of c^c / (1+c)^{1+c}: delta(eps) <= kappa(c) e^{K(c) - c eps}."""
    return c * np.log(c) - (1 + c) * np.log1p(c)


def tilted_sum(rule: Rule, c: float) -> tuple[np.longdouble, np.ndarray]:
    """log of the real sum_q e^{log_weight + c loss}, and the normalised (complex) tilted weights."""
    exponent = rule.log_weight + REAL(c) * rule.loss
    top = exponent.real.max()
    weights = np.exp(exponent - top)
    total = weights.sum().real
    return top + np.log(total), weights / total


def split(law: Law, count: int, c: float, variant: int) -> tuple[Rule, Rule]:
    """The continuous part and the atoms of a law, as rules (the atoms come first in `rule`)."""
    rule, n = law.rule(c, variant), law.atoms().loss.size
    smooth = Rule(rule.loss[n:], rule.log_weight[n:])
    if smooth.loss.size:
        smooth = kept(smooth, (c, 0.0, -1.0) if count > LARGE_COUNT else (c,))
    return smooth, law.atoms()


def block_transform(
    rule: Rule, c: float, scale: np.longdouble, h: np.longdouble, j0: int, n: int
) -> np.ndarray:
    """sum_q e^{log_weight + (c + i j h) loss - scale} for j0 <= j < j0 + n; e^{i(b+k)h} = e^{ibh} e^{ikh}."""
    if rule.loss.size == 0:
        return np.zeros(n, COMPLEX)
    width = 128
    steps = np.exp(1j * h * np.arange(width).astype(REAL) * rule.loss[:, None])
    rotation = 1j * rule.loss
    fixed = rule.log_weight + REAL(c) * rule.loss - scale
    starts = j0 + width * np.arange(-(-n // width))
    rows = max(1, 1_000_000 // rule.loss.size)
    parts = [
        np.exp(fixed + (h * starts[k : k + rows].astype(REAL))[:, None] * rotation) @ steps
        for k in range(0, starts.size, rows)
    ]
    return np.concatenate(parts).ravel()[:n]


def _accurate_log(rule: Rule, z: np.ndarray) -> np.ndarray:
    """log E_Q[e^{zL}] to relative accuracy: E_Q[e^{zL}] - 1 = E_Q[e^{zL} - 1 - z (1 - e^{-L})]."""
    weights, slope = np.exp(rule.log_weight), expm1(-rule.loss)
    rows = max(1, 300_000 // rule.loss.size)
    sums = [
        (expm1(part[:, None] * rule.loss) + part[:, None] * slope) @ weights
        for part in np.array_split(z, max(1, z.size // rows))
    ]
    return log1p(np.concatenate(sums))


def accurate_block(rule: Rule, c: float, h: np.longdouble, j0: int, n: int) -> np.ndarray:
    """`_accurate_log` at z = c + i j h, j0 <= j < j0 + n, by one matrix product.

    With A = e^{z_b L} - 1, B = e^{ikhL} - 1, s = e^{-L} - 1 and z = z_b + ikh the summand is
    (A + z_b s) + (B + ikh s) + A B: every term is of second order in L.
    """
    width = 128
    weights, slope = np.exp(rule.log_weight), expm1(-rule.loss)
    inner = 1j * h * np.arange(width).astype(REAL)
    steps = expm1(inner * rule.loss[:, None])
    step_sums = weights @ (steps + inner * slope[:, None])
    starts = c + 1j * h * (j0 + width * np.arange(-(-n // width))).astype(REAL)
    rows = max(1, 500_000 // rule.loss.size)
    parts = []
    for k in range(0, starts.size, rows):
        z = starts[k : k + rows, None]
        base = expm1(z * rule.loss)
        parts.append(((base + z * slope) @ weights)[:, None] + step_sums + (base * weights) @ steps)
    return log1p(np.concatenate(parts).ravel()[:n])


@dataclass
class Composition:
    """All leaves of one direction: plain Gaussians merged (shift^2 = `square`), the others with counts."""

    square: float
    laws: tuple[tuple[Law, int], ...]
    table: dict[float, float] = field(default_factory=dict)

    @staticmethod
    def of(uses: Sequence[tuple[Law, int]]) -> Composition:
        square = 0.0
        laws: dict[Law, int] = {}
        for law, count in uses:
            mu2 = law.shift_squared() if isinstance(law, GaussianPair) else None
            if mu2 is not None:
                square += count * mu2
            else:
                laws[law] = laws.get(law, 0) + count
        return Composition(square, tuple(laws.items()))

    def log_mgf(self, c: float) -> float:
        """K(c) for real c."""
        if c not in self.table:
            logs = [count * log_of_rule(law.rule(c, 0), c, count) for law, count in self.laws]
            self.table[c] = float(sum(logs, REAL(self.square) * (c * c + c) / 2))
        return self.table[c]

    def top(self) -> float:
        """The largest possible loss."""
        return math.inf if self.square else sum(count * top_of(law) for law, count in self.laws)

    def single(self) -> Law | None:
        """The only leaf, if it is used once."""
        if not self.laws and self.square:
            return GaussianPair((0.0,), (REAL(1),), (math.sqrt(self.square),), (REAL(1),))
        lone = self.square == 0 and len(self.laws) == 1 and self.laws[0][1] == 1
        return self.laws[0][0] if lone else None

    def top_tilt(self) -> float:
        """Largest c for which the quadrature rules stay small."""
        limits = [1e7]
        for law, _ in self.laws:
            if isinstance(law, GaussianPair | Tagged | SymmetricSubsample):
                limits.append(1e5)
            elif isinstance(law, LaplacePair):
                limits.append(6000 / law.shift / law.slope())
        return min(limits)


def top_of(law: Law) -> float:
    """sup L: finite for point masses, Laplace, and where P has the same outermost Gaussian as Q."""
    if isinstance(law, Lattice | LaplacePair):
        return float(law.atoms().loss.real.max())
    if isinstance(law, Tagged):
        return max(top_of(law.first), top_of(law.second))
    if isinstance(law, GaussianPair):
        pick = max if law.rising else min
        p, q = pick(law.p_means), pick(law.q_means)
        ratio = law.q_weights[law.q_means.index(q)] / law.p_weights[law.p_means.index(p)]
        return float(np.log(ratio)) if p == q else math.inf
    return math.inf


def log_top_mass(law: Law) -> float:
    """log of the Q-mass of the atom at sup L, -inf if there is none."""
    atoms = law.atoms() if isinstance(law, Lattice | LaplacePair) else NO_ATOMS
    return float(atoms.log_weight[np.argmax(atoms.loss.real)].real) if atoms.loss.size else -math.inf


def log_of_rule(rule: Rule, c: float, count: int) -> np.longdouble:
    """log E_Q[e^{cL}], through the control variate for large counts."""
    if delicate(rule, c, count):
        return _accurate_log(rule, np.array([c], COMPLEX))[0].real
    return tilted_sum(rule, c)[0]


def delicate(rule: Rule, c: float, count: int) -> bool:
    """Whether log E_Q[e^{zL}] must be accurate relative to itself (and e^{cL} does not overflow)."""
    return count > LARGE_COUNT and float(np.abs(c * rule.loss.real).max()) < 5000


def chernoff_table(
    comp: Composition, log_delta: float | None, epsilon: float | None
) -> tuple[np.ndarray, ...]:
    """Arrays of c and K(c), from c = 1e-3 to well beyond the best Chernoff order for delta or epsilon."""
    cs, values, scores = [], [], []
    c = 1e-3
    while c < comp.top_tilt():
        k = comp.log_mgf(c)
        score = (
            (k + float(log_kappa(np.array(c))) - (log_delta or 0.0)) / c
            if epsilon is None
            else k - c * epsilon
        )
        cs.append(c)
        values.append(k)
        scores.append(score)
        best = min(scores)
        room = 3 * best if epsilon is None else best + 60 + 2 * abs(best)
        if score > room and c > 4 * cs[int(np.argmin(scores))]:
            break
        c *= 1.2
    return np.array(cs), np.array(values)
