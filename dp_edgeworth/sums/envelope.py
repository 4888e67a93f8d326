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

from dp_edgeworth.sums.blocks import Block, Transform

RATIO, FIRST, LAST = 1.12, -330, 120
LENGTHS = RATIO ** np.arange(float(FIRST), LAST)
_SIDE_LOBE = 0.21723362821122166  # largest |sin v / v| for v >= pi, at v = 4.4934


def nested_uniforms(block: Block, log_mgfs: np.ndarray, tilts: np.ndarray) -> np.ndarray:
    """Masses (times counts) of the uniform laws below the tilted densities of leaves, by length rounded down to `LENGTHS`; one row per
    tilt."""
    rule = block.rule
    if rule.edges is None or rule.cell_log_density is None:
        return np.zeros((len(tilts), len(LENGTHS)))
    exponents = (tilts[:, None, None] + 1.0) * rule.edges
    lengths = np.abs(rule.edges[:, 1:] - rule.edges[:, :-1])
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
    heights = np.exp(-np.sort(-unimodal, axis=-1))
    widths = np.cumsum(lengths[np.arange(len(lengths))[:, None], order], axis=-1)
    drops = heights.copy()
    drops[..., :-1] -= heights[..., 1:]
    shares = drops * widths
    shares = shares / np.maximum(shares.sum(axis=-1, keepdims=True), 1.0)  # rounding must not make more than a law
    place = np.searchsorted(LENGTHS, widths, side="right") - 1
    masses = np.where(place >= 0, block.counts[:, None] * shares, 0.0)
    pairs = zip(np.maximum(place, 0), masses, strict=True)
    return np.array([np.bincount(at.ravel(), mass.ravel(), len(LENGTHS)) for at, mass in pairs])


@dataclasses.dataclass(frozen=True)
class Envelope:
    """prod |phi_i(y)|^{m_i} <= exp(-exponent(y)), exponent non-decreasing in |y|.

    Attributes:
      masses: of the uniform laws of every length of `LENGTHS`.
      variance: the squared shift of all Gaussians together.
    """

    masses: np.ndarray
    variance: float

    @classmethod
    def of(cls, leaves: Iterable[tuple[Block, Transform]], tilt: float, variance: float) -> Envelope:
        """Of leaves with their transforms at one tilt, and Gaussians."""
        at = np.array([tilt])
        return cls(sum((nested_uniforms(block, transform.log_mgf[None], at)[0] for block, transform in leaves), np.zeros(len(LENGTHS))),
                   variance)

    def smoothed(self, tau2: float) -> Envelope:
        """With one more Gaussian mechanism of squared shift tau^2."""
        return dataclasses.replace(self, variance=self.variance + tau2)

    def exponent(self, y: np.ndarray | float) -> np.ndarray:
        """The sum of the header, rounded down."""
        y = np.asarray(y, float)
        used = self.masses.nonzero()[0]
        spread = (self.masses[used] * (1.0 - sup_sinc(0.5 * y[..., None] * LENGTHS[used]))).sum(axis=-1)
        return spread * (1.0 - 1e-9) + 0.5 * self.variance * y * y


def sup_sinc(u: np.ndarray) -> np.ndarray:
    """sup_{v >= u} |sin v / v|."""
    main = np.sinc(np.minimum(u, 2.6) / np.pi)
    return np.where(u < 2.5, main, np.minimum(np.maximum(main, _SIDE_LOBE), np.where(u > 4.5, 1.0 / np.maximum(u, 1.0), 1.0)))
