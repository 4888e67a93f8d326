"""Characteristic functions of tilted leaves at equispaced frequencies, with a bound of every error.

    log phi(y_j) = log(1 + sum_q omega_q (e^{i y_j v_q} - 1)),   y_j = j h, j = 0..J

Two ways. With j = a B + b every phase is the sum of a coarse and a fine one, and

    e^{i(alpha + beta)} - 1 = (e^{i alpha} - 1) + e^{i alpha} (e^{i beta} - 1),

so that 2 sqrt(J) exponentials per node and one matrix product give all J sums, without cancellation against 1: with s and t the sizes
of the phases, the terms are at most min(s, 2) and min(t, 2). Where a leaf needs very many nodes and frequencies: a non-uniform FFT.

The FFT spreads each node over 2 W + 1 cells of a grid R = 4 times finer than needed with weights e^{-lambda l^2}. Its error per
unit of weight (Poisson summation; Dutt and Rokhlin 1993) is at most

    2.1 exp(-(pi^2 / lambda)(1 - 1/R)) + 2.1 sqrt(lambda / pi) exp(pi^2 / (4 R^2 lambda)) sum_{l >= W} e^{-lambda l^2}.

Nodes with |v| y_J < 3 are left out of it and summed by their moments instead, so that the error is relative to the weight of the
nodes whose phase really turns: where rare samples carry the loss, that is about one sample in all compositions together.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import fft

from dp_edgeworth.losses.rules import EPSILON
from dp_edgeworth.sums.blocks import COUNT_ERROR, Block, Transform

_OVERSAMPLING = 4
_LAMBDA, _SPREAD = 0.2145, 13
_FFT_ERROR = 2.0e-14  # both terms above are below 4e-15 each; the rest is rounding of the transform
_LONG = 400_000  # nodes times frequencies of one leaf beyond which its FFT is faster than a product of matrices
_CHUNK = 64  # nodes whose terms one product of matrices adds up: 2 of them each, in any order
_AT_ONCE = 100_000  # exponentials in memory: what a cache holds
_STILL, _STILL_ORDER = 3.0, 34  # 3^35 / 35! is below 1e-23


def log_characteristic(block: Block, transform: Transform, step: float, last: int) -> tuple[np.ndarray, np.ndarray]:
    """sum_i m_i log phi_i(j step) for j = 0..last, and the bound of its rounding error; of transforms at several tilts one column each.

    The bound does not depend on how leaves are grouped in blocks.
    """
    values, weights = block.rule.values, transform.weights
    nodes = values.shape[1]
    j = np.arange(last + 1).reshape(-1, *(1,) * (weights.ndim - 1))
    # Units in the last place lost by the additions of a product; at most 19 more touch a term (`composition`), and 5 other roundings.
    growth: np.ndarray | float = _CHUNK + 4.0
    extra: np.ndarray | float = 0.0
    if nodes * last <= _LONG:
        gains = _products(values, weights, step, last)
    else:
        most = np.maximum(_STILL / last * j, 1e-9)  # the Taylor series: 20 (e^t - 1) + 4 t e^t for phases t up to this
        growth = 20.0 * np.expm1(most) / most + 4.0 * np.exp(most) - 20.0
        gains, extra = np.empty((*weights.shape[:-1], last + 1), complex), np.empty(weights.shape[:-1])
        for row in np.ndindex(weights.shape[:-1]):
            gains[row], extra[row] = _non_uniform_fft(values[row[-1]], weights[row], step, last)
        gains = np.moveaxis(gains, -1, 0)
    real, imag = gains.real, gains.imag
    y = step * j
    # a phase of size t is rounded by about t units in the last place
    phase = y * (weights * np.abs(values)).sum(axis=-1)
    tilted = np.minimum(2.0 * transform.weight_error, y * transform.weighted_loss_error)
    error = EPSILON * ((growth + 20.0) * np.minimum(4.0, phase) + 4.0 * phase + tilted) + extra
    with np.errstate(divide="ignore"):
        # log1p keeps relative accuracy near |phi| = 1; for a small |phi| it would lose what 1 + real still has.
        modulus = np.where(real > -0.3, 0.5 * np.log1p(np.maximum(real * (2.0 + real) + imag * imag, -0.9)),
                           np.log(np.hypot(1.0 + real, imag)))
        # A modulus below its own error is raised to it, which keeps the relative error at most 2.
        modulus = np.minimum(np.maximum(modulus, np.log(error)), 0.0)
    modulus[0] = 0.0
    angle = np.arctan2(imag, 1.0 + real)
    # The last term is for the sums over the leaves.
    relative = 2.0 * error * np.exp(-modulus) + COUNT_ERROR * EPSILON * (np.abs(modulus) + np.abs(angle))
    return block.total(modulus) + 1j * block.total(angle), block.total(relative)


def _products(values: np.ndarray, weights: np.ndarray, step: float, last: int) -> np.ndarray:
    """sum_q omega_q (e^{i j h v_q} - 1), j = 0..last, by the identity of the module's header; shape (frequencies, ..., members).

    Rounding: j h v and its half are off by two units, which moves a phase of size t by 2 t of them; a sum of 2 _CHUNK real products in
    any order loses at most as many half units of the sum of their sizes, which is at most omega |e^{i beta} - 1|.
    """
    fine = math.isqrt(last) + 1
    coarse = last // fine + 1
    size = max(1, _AT_ONCE // ((fine + coarse) * values.shape[1]))
    parts = []
    for start in range(0, len(values), size):
        v, w = values[start:start + size], weights[..., start:start + size, None, :]
        far, near = _turned(v, step * (fine * np.arange(coarse))), _turned(v, step * np.arange(fine))
        plain = (far * w).sum(axis=-1)
        moved = (1.0 + far) * w
        total = np.zeros((*moved.shape[:-1], fine), complex)
        for at in range(0, v.shape[1], _CHUNK):
            here = slice(at, at + _CHUNK)
            product = np.matmul(moved[..., here], near[..., here].swapaxes(-1, -2))
            total += product
        parts.append((total + plain[..., None]).reshape(*total.shape[:-2], -1)[..., :last + 1])
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-2)
    return whole.transpose(whole.ndim - 1, *range(whole.ndim - 1))


def _turned(values: np.ndarray, y: np.ndarray) -> np.ndarray:
    """e^{i y v} - 1 = 2 u (i - u) / (1 + u^2), u = tan(y v / 2), to relative accuracy; shape (members, frequencies, nodes)."""
    u = np.tan(0.5 * y[:, None] * values[:, None, :])
    result = np.empty(u.shape, complex)
    result.imag = 2.0 * u / (1.0 + u * u)
    result.real = -u * result.imag
    return result


def _non_uniform_fft(values: np.ndarray, weights: np.ndarray, step: float, last: int) -> tuple[np.ndarray, float]:
    """sum_q omega_q (e^{i j h v_q} - 1) for j = 0..last and the bound of its error."""
    y = step * np.arange(last + 1)
    still = np.abs(values) * y[-1] < _STILL
    gain = _from_moments(values[still], weights[still], y)
    turning = ~still & (weights > 0)
    mass = float(weights[turning].sum())
    gain += _spread_and_transform(step * values[turning], weights[turning], last) - mass
    return gain, _FFT_ERROR * mass


def _from_moments(values: np.ndarray, weights: np.ndarray, y: np.ndarray) -> np.ndarray:
    """sum_q omega_q (e^{i y v_q} - 1) by its Taylor series; terms are at most e^3 times the sum of the moduli."""
    if not len(values):
        return np.zeros(len(y), complex)
    scale = float(np.abs(values).max()) or 1.0
    powers = values / scale
    unit, moments, power = 1j * y * scale, [], weights.copy()
    for _ in range(_STILL_ORDER):
        power = power * powers
        moments.append(float(power.sum()))
    total = np.zeros(len(y), complex)
    for k in range(_STILL_ORDER, 0, -1):
        total = (total + moments[k - 1]) * unit / k
    return total


def _spread_and_transform(angles: np.ndarray, weights: np.ndarray, last: int) -> np.ndarray:
    """sum_q omega_q e^{i j angle_q}, j = 0..last, by Gaussian gridding and one real FFT."""
    cells = fft.next_fast_len(2 * _OVERSAMPLING * (last + 1), real=True)
    # Angles are reduced as integers of cells: reducing them as floats would lose what a small negative angle has of accuracy.
    position = angles * (cells / (2.0 * np.pi))
    nearest = np.floor(position + 0.5)
    offset = position - nearest
    base = nearest.astype(np.int64)
    grid = np.zeros(cells)
    core = weights * np.exp(-_LAMBDA * offset * offset)
    factor = np.exp(2.0 * _LAMBDA * offset)
    for sign in (1, -1):
        power = core.copy()
        for l in range(0 if sign > 0 else 1, _SPREAD + 1):
            if l > 0:
                power *= factor if sign > 0 else 1.0 / factor
            grid += np.bincount((base + sign * l) % cells, weights=power * np.exp(-_LAMBDA * l * l), minlength=cells)
    spectrum = np.conj(fft.rfft(grid)[: last + 1])
    j = np.arange(last + 1)
    return spectrum * np.sqrt(_LAMBDA / np.pi) * np.exp((np.pi * j / cells) ** 2 / _LAMBDA)
