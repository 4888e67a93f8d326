"""The characteristic function f_S of a standardised sum of losses on a grid, and bounds of it beyond."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from dp_edgeworth.losses.rules import EPSILON, RuleTooLargeError
from dp_edgeworth.paper.prawitz_bounds import leaf_envelope
from dp_edgeworth.paper.prawitz_kernel import Envelope
from dp_edgeworth.sums import characteristic, envelope
from dp_edgeworth.sums.blocks import Block, Transform
from dp_edgeworth.sums.composition import Composition

_FEW_LEAVES = 8
_FEW_NODES = 3_000
_GRID_COST = 3e-9  # of `prawitz`, over E S^4, at 1,000 nodes
_NEAR = 150.0  # how far the leaves themselves are evaluated, in 1/deviation


_Parts = tuple[tuple[Block, Transform], ...]


@dataclasses.dataclass(frozen=True)
class StandardCharacteristic:
    """f_S(u) = e^{-i u mean / B} prod_i phi_i(u / B)^{m_i}, B the deviation, and an envelope of |f_S|."""

    parts: _Parts
    gaussian: float  # variance of the unsampled Gaussian leaves
    drift: float  # their mean less that of the sum
    deviation: float
    fourth: float  # E S^4
    nodes: int
    envelope: Envelope
    dies_out: bool

    @functools.cached_property
    def main_sample(self) -> tuple[np.ndarray, float]:
        return self.sample(10.0)

    def sample(self, end: float) -> tuple[np.ndarray, float]:
        """f_S at the nodes of [0, end] and one step beyond, and a bound of all errors."""
        step = end / self.nodes / self.deviation
        y = step * np.arange(self.nodes + 2)
        log_f = -0.5 * self.gaussian * y * y + 1j * y * self.drift
        # Rounding of the terms of the exponent; the last 8 cover the rules, which are accurate to e^-40.
        relative = EPSILON * (8.0 * y * (abs(self.drift) + self.gaussian) + 4.0 * self.gaussian * y * y + 8.0)
        for block, transform in self.parts:
            part, error = characteristic.log_characteristic(block, transform, step, self.nodes + 1)
            log_f, relative = log_f + part, relative + error
        values = np.exp(log_f)
        error = np.abs(values) * np.expm1(np.minimum(relative, 50.0)) + 4.0 * EPSILON * end  # u = y deviation; |f'| <= 1
        return values, float(np.max(np.minimum(error, 2.0)))


def _parts(composition: Composition, tilt: float, frequency: float) -> _Parts | None:
    """Blocks of leaves and their laws, good for frequencies up to `frequency`; None if the rules would be too large."""
    try:
        blocks = composition.blocks(composition.demand(tilt - 1.0, tilt + 1.0, frequency))
        return tuple((block, block.transform(tilt)) for block in blocks)
    except RuleTooLargeError:
        return None


def _node_count(fourth: float, accuracy: float) -> int:
    """So many nodes that the grid of `prawitz`, 3e-9 E S^4 (1000/nodes)^4, costs less than `accuracy`.

    At most what costs 1e-8, and 6,000; at least 200, of which 40 lie where a normal cf is not small.
    """
    need, most = 1e3 * (_GRID_COST * fourth / np.array([max(accuracy, 1e-300), 1e-8])) ** 0.25
    return math.ceil(min(max(need, 200.0), max(most, 1e3), 6e3))


def standard_characteristic(composition: Composition, tilt: float, mean: float, deviation: float, fourth: float, accuracy: float,
                            by_moments: Envelope) -> StandardCharacteristic | None:
    """f_S for distances that are needed to `accuracy`, with another envelope `by_moments`; None if the rules would be too large."""
    nodes = _node_count(fourth, accuracy)
    parts, gaussian = _parts(composition, tilt, 10.1 / deviation), composition.gaussian_variance
    if parts is None:
        return None
    near, bound = _decay(parts, gaussian, tilt, deviation)
    if near > 10.0 and composition.leaf_count <= _FEW_LEAVES:
        fine = _parts(composition, tilt, near / deviation)
        if fine is not None and sum(block.rule.values.size for block, _ in fine) <= _FEW_NODES:
            bound = _refined(_decay(fine, gaussian, tilt, deviation)[1], fine, gaussian, deviation, near)
    far = np.geomspace(10.0, 1e3, 100)  # on a lattice it comes back
    dies_out = bool(bound(far[:-1], far[1:]).max() < 1e-9)
    drift = gaussian * (tilt + 0.5) - mean
    return StandardCharacteristic(parts, gaussian, drift, deviation, fourth, nodes,
                                  _remembered(lambda a, b: np.minimum(bound(a, b), by_moments(a, b))), dies_out)


def _decay(parts: _Parts, gaussian: float, tilt: float, deviation: float) -> tuple[float, Envelope]:
    """The envelope of |f_S| made of uniform laws, and the u (at most _NEAR) beyond which it is below e^-25."""
    decay = envelope.Envelope.of(parts, tilt, gaussian)
    u = np.array([10.0, 14.0, 20.0, 28.0, 40.0, 60.0, 100.0, _NEAR])
    near = u[np.argmax(np.append(decay.exponent(u[:-1] / deviation) > 25.0, True))]
    return float(near), lambda a, b: np.exp(-decay.exponent(np.asarray(a) / deviation))


def _remembered(bound: Envelope) -> Envelope:
    """The same envelope; cells that were asked for before, by another order, are not computed again."""
    known: dict[tuple[float, float, int], np.ndarray] = {}

    def envelope_of_cells(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        key = (float(a[0]), float(b[-1]), len(a))
        if key not in known:
            known[key] = bound(a, b)
        return known[key].copy()

    return envelope_of_cells


def _refined(far: Envelope, parts: _Parts, gaussian: float, deviation: float, near: float) -> Envelope:
    """For u < near also the leaves themselves. `leaf_envelope` standardises by its own leaves, hence the scale."""
    counts = np.concatenate([block.counts for block, _ in parts])
    variances = np.maximum(np.concatenate([transform.variance for _, transform in parts]), 1e-290)

    def leaves(t: np.ndarray) -> np.ndarray:
        return np.concatenate([
            np.abs(np.einsum("mnt,mn->mt", np.exp(1j * block.rule.values[:, :, None] * t), transform.weights))
            for block, transform in parts])

    inner = leaf_envelope(leaves, count=counts, variance=variances, error=1e-13)
    scale = math.sqrt(float(counts @ variances)) / deviation

    def combined(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        result, close = far(a, b), np.asarray(b) < near
        if np.any(close):
            smooth = np.exp(-0.5 * gaussian * (a[close] / deviation) ** 2)
            result[close] = np.minimum(result[close], smooth * inner(a[close] * scale, b[close] * scale))
        return result

    return combined
