"""How fast the characteristic function of a tilted sum must decay.

If a density is at least g and g is unimodal, then g is a mixture of uniform laws on nested intervals, so the law is
1 - sum q_k of something and q_k of a uniform law on an interval of length l_k, and its characteristic function obeys

    |phi(y)| <= 1 - sum_k q_k (1 - S(y l_k / 2)) <= exp(-sum_k q_k (1 - S(y l_k / 2))),   S(u) = sup_{v >= u} |sin v / v|.

(Triangle inequality; |cf of a uniform law on length l| = |sin(yl/2) / (yl/2)|.) Exponents add over independent leaves, and
over leaves only the masses m_i q_k and the lengths matter: they are kept in a histogram of lengths rounded down.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

from dp_edgeworth.sums.composition import Block, Transform

_RATIO = np.log(1.12)
_SIDE_LOBE = 0.21723362821122166  # largest |sin v / v| for v >= pi, at v = 4.4934


def nested_uniforms(block: Block, log_mgfs: np.ndarray, tilts: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Masses (times counts) and lengths of the uniform laws below the tilted densities of a block of leaves.

    One row per tilt; `log_mgfs` has the shape (tilts, leaves). None where a leaf has no density.
    """
    rule = block.rule
    if rule.edges is None or rule.cell_log_density is None:
        return None
    exponents = (tilts[:, None, None] + 1.0) * rule.edges
    lengths = np.abs(np.diff(rule.edges, axis=1))
    floor = np.minimum(exponents[..., :-1], exponents[..., 1:]) + rule.cell_log_density - log_mgfs[..., None]
    floor = np.where(lengths > 1e-200, np.minimum(floor, 460.0), -np.inf)  # spikes beyond all scales are not needed
    # The peak is searched where a cell carries mass, so that a spike of no mass does not take it.
    mode = np.argmax(floor + np.log(lengths + 1e-320), axis=-1)[..., None]
    cells = np.arange(floor.shape[-1])
    right = np.minimum.accumulate(np.where(cells >= mode, floor, np.inf), axis=-1)
    left = np.minimum.accumulate(np.where(cells <= mode, floor, np.inf)[..., ::-1], axis=-1)[..., ::-1]
    unimodal = np.where(cells >= mode, right, left)
    # Sorted by height, the cells above a level are an interval; every level is a uniform law.
    order = np.argsort(-unimodal, axis=-1)
    place = order + len(cells) * np.arange(unimodal.size // len(cells)).reshape(*unimodal.shape[:-1], 1)
    heights = np.exp(unimodal.ravel()[place])
    widths = np.cumsum(np.broadcast_to(lengths, unimodal.shape).ravel()[place], axis=-1)
    drops = np.append(heights[..., :-1] - heights[..., 1:], heights[..., -1:], axis=-1)
    shares = drops * widths
    shares = shares / np.maximum(shares.sum(axis=-1, keepdims=True), 1.0)  # rounding must not make more than a law
    rows = len(tilts)
    return (block.counts[:, None] * shares).reshape(rows, -1), widths.reshape(rows, -1)


@dataclasses.dataclass(frozen=True)
class Envelope:
    """prod |phi_i(y)|^{m_i} <= exp(-exponent(y)), exponent non-decreasing in |y|."""

    masses: np.ndarray
    lengths: np.ndarray
    variance: float

    @classmethod
    def of(cls, leaves: Iterable[tuple[Block, Transform]], tilt: float, variance: float) -> Envelope:
        """Of all leaves with their transforms at one tilt, and Gaussians: masses by length, rounded down to a geometric grid."""
        laws = [nested_uniforms(block, transform.log_mgf[None], np.array([tilt])) for block, transform in leaves]
        parts = [(masses[0], lengths[0]) for masses, lengths in filter(None, laws)]
        masses = np.concatenate([part[0] for part in parts]) if parts else np.zeros(0)
        lengths = np.concatenate([part[1] for part in parts]) if parts else np.zeros(0)
        use = (lengths > 1e-280) & (masses > 0)
        if not use.any():
            return cls(np.zeros(0), np.zeros(0), variance)
        bins = np.floor(np.log(lengths[use]) / _RATIO).astype(np.int64)
        first = int(bins.min())
        total = np.bincount(bins - first, weights=masses[use])
        kept = np.flatnonzero(total)
        return cls(total[kept], np.exp((kept + first) * _RATIO), variance)

    def smoothed(self, tau2: float) -> Envelope:
        """With one more Gaussian mechanism of squared shift tau^2."""
        return dataclasses.replace(self, variance=self.variance + tau2)

    def exponent(self, y: np.ndarray | float) -> np.ndarray:
        y = np.asarray(y, float)
        spread = (self.masses * (1.0 - sup_sinc(0.5 * y[..., None] * self.lengths))).sum(axis=-1)
        return spread * (1.0 - 1e-9) + 0.5 * self.variance * y * y

    def frequency(self, need: float) -> float:
        """Smallest y (to 2 %) with exponent(y) + log y >= need, at most 1e15."""
        low, high = -40.0, np.log(1e15)
        if self.exponent(np.exp(high)) + high < need:
            return float(np.exp(high))
        while high - low > 0.02:
            grid = np.linspace(low, high, 33)
            enough = self.exponent(np.exp(grid)) + grid >= need
            first = max(int(np.argmax(enough)), 1)
            low, high = grid[first - 1], grid[first]
        return float(np.exp(high))


def sup_sinc(u: np.ndarray) -> np.ndarray:
    """sup_{v >= u} |sin v / v|."""
    main = np.sinc(np.minimum(u, 2.6) / np.pi)
    return np.where(u < 2.5, main, np.minimum(np.maximum(main, _SIDE_LOBE), np.where(u > 4.5, 1.0 / np.maximum(u, 1.0), 1.0)))
