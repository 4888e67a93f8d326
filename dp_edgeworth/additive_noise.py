"""Additive noise from `scipy.stats`: checked for symmetry and log-concavity, then rounded to a pair on both sides of the truth.

The line is cut into cells with exact probabilities under P (noise) and Q (shifted noise). L is monotone, because the density
is log-concave.
    Upper pair: a cell with masses (p, q) and losses in [l0, l1] becomes two atoms at l0 and l1 with the same masses in
      total. Every hockey-stick is convex in the likelihood ratio, so it can only grow.
    Lower pair: a cell becomes one atom with loss log(q/p). That is post-processing, so every hockey-stick can only shrink.
Both statements survive composition and sampling. The gap is second order in the width of a cell.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from scipy import stats

from dp_edgeworth import _validate
from dp_edgeworth.noise import Atoms
from dp_edgeworth.pllr import Pllr

_CELLS = 6_000


@dataclasses.dataclass(frozen=True)
class AdditiveNoise:
    """A named continuous distribution with its parameters."""

    distribution: str
    parameters: tuple[tuple[str, float], ...]

    @classmethod
    @functools.lru_cache(maxsize=256)
    def _checked(cls, distribution: str, parameters: tuple[tuple[str, float], ...]) -> AdditiveNoise:
        noise = cls(distribution, parameters)
        noise._check_shape()
        return noise

    @classmethod
    def validated(cls, distribution: Any, parameters: Any) -> AdditiveNoise:
        """Raises ValueError for an unknown name, bad parameters, or noise that is not symmetric and log-concave."""
        family = getattr(stats, distribution, None) if isinstance(distribution, str) else None
        if not isinstance(family, stats.rv_continuous):
            raise ValueError(f"`distribution` must name a continuous distribution of scipy.stats. Found {distribution!r}.")
        names = [*(family.shapes.replace(" ", "").split(",") if family.shapes else []), "loc", "scale"]
        given = {name: _validate.finite(f"parameters[{name!r}]", value) for name, value in parameters}
        unknown, missing = set(given) - set(names), set(names) - set(given) - {"loc", "scale"}
        if unknown or missing:
            raise ValueError(f"`parameters` of {distribution!r} must be among {names}, shapes included. Found {sorted(given)}.")
        if not given.get("scale", 1.0) > 0:
            raise ValueError(f"`parameters['scale']` must be positive. Found {given['scale']!r}.")
        shapes = [given[name] for name in names[:-2]]
        if shapes and not np.all(family._argcheck(*shapes)):
            raise ValueError(f"`parameters` must be admissible shapes of {distribution!r}. Found {given}.")
        return cls._checked(distribution, tuple(sorted(given.items())))

    @functools.cached_property
    def frozen(self) -> Any:
        # A location does not change the loss, and without it both tails keep their relative accuracy.
        parameters = {name: value for name, value in self.parameters if name != "loc"}
        return getattr(stats, self.distribution)(**parameters)

    @property
    def _values(self) -> dict[str, float]:
        return {"scale": 1.0, **dict(self.parameters)}

    @property
    def gaussian_scale(self) -> float | None:
        """Standard deviation where the noise is normal."""
        if self.distribution == "norm":
            return self._values["scale"]
        if self.distribution == "gennorm" and self._values["beta"] == 2.0:
            return self._values["scale"] / math.sqrt(2.0)
        return None

    @property
    def laplace_scale(self) -> float | None:
        """Scale where the noise is Laplace."""
        if self.distribution == "laplace" or (self.distribution == "gennorm" and self._values["beta"] == 1.0):
            return self._values["scale"]
        return None

    @functools.cached_property
    def centre(self) -> float:
        return float(self.frozen.median())

    @functools.cached_property
    def reach(self) -> float:
        """Distance from the centre beyond which there is less than 1e-300, or nothing."""
        with np.errstate(all="ignore"):
            return float(self.frozen.isf(1e-300)) - self.centre

    def _check_shape(self) -> None:
        with np.errstate(all="ignore"):
            core = float(self.frozen.isf(1e-12)) - self.centre
            if not (math.isfinite(core) and core > 0 and math.isfinite(self.reach)):
                raise ValueError(f"`distribution` must have a log-concave density. Found {self.distribution!r} with "
                                 f"{dict(self.parameters)}, whose tails are heavier than exponential.")
            x = np.linspace(-core, core, 2_001)
            log_density = self.frozen.logpdf(self.centre + x)
        if not np.allclose(log_density, log_density[::-1], rtol=1e-7, atol=1e-9, equal_nan=True):
            raise ValueError("`distribution` must be symmetric, because a record can move the answer either way. "
                             f"Found {self.distribution!r} with {dict(self.parameters)}.")
        inside = log_density[np.isfinite(log_density)]
        bend = inside[1:-1] - 0.5 * (inside[:-2] + inside[2:])
        if np.isnan(log_density).any() or np.any(bend < -1e-9 * (1.0 + np.abs(inside[1:-1]))):
            raise ValueError(f"`distribution` must have a log-concave density. Found {self.distribution!r} with "
                             f"{dict(self.parameters)}, whose log-density is not concave.")

    def pair(self, sensitivity: float) -> Pllr:
        """The upper pair for a shift by `sensitivity`, with the lower one inside."""
        edges = self._edges(sensitivity)
        with np.errstate(all="ignore"):
            p, q = self._masses(edges), self._masses(edges - sensitivity)
            loss = self.frozen.logpdf(self.centre + edges - sensitivity) - self.frozen.logpdf(self.centre + edges)
            high_tail = float(self.frozen.sf(self.centre + edges[-1] - sensitivity))
            low_tail = float(self.frozen.cdf(self.centre + edges[0]))
            # The lower pair has no tails: they are merged with the cells at the ends.
            p_all, q_all = p.copy(), q.copy()
            p_all[-1] += float(self.frozen.sf(self.centre + edges[-1]))
            q_all[-1] += high_tail
            p_all[0] += low_tail
            q_all[0] += float(self.frozen.cdf(self.centre + edges[0] - sensitivity))
        some = (p_all > 0) | (q_all > 0)
        coarse = Atoms(tuple(p_all[some].tolist()), tuple(q_all[some].tolist()))
        return _rounded_up(p, q, loss, low_tail, high_tail, coarse)

    def _edges(self, sensitivity: float) -> np.ndarray:
        """Cells narrow where the density is high and the loss is steep."""
        x = np.linspace(-self.reach, self.reach + sensitivity, 40_001)
        with np.errstate(all="ignore"):
            density = np.maximum(self.frozen.logpdf(self.centre + x), self.frozen.logpdf(self.centre + x - sensitivity))
        weight = np.exp(np.maximum(np.nan_to_num(density - np.nanmax(density), nan=-700.0), -700.0) / 4.0)
        area = np.concatenate([[0.0], np.cumsum(0.5 * (weight[1:] + weight[:-1]))])
        share = area / area[-1] + 0.1 * (x - x[0]) / (x[-1] - x[0])
        edges = np.interp(np.linspace(0.0, share[-1], _CELLS + 1), share, x)
        # Where the noise has a bounded support its ends are edges, so that no cell has infinite losses in part only.
        ends = np.array(self.frozen.support()) - self.centre
        ends = np.concatenate([ends, ends + sensitivity])
        return np.unique(np.concatenate([edges, ends[np.isfinite(ends)]]))

    def _masses(self, edges: np.ndarray) -> np.ndarray:
        """Probabilities between edges, from the nearer tail."""
        below, above = self.frozen.cdf(self.centre + edges), self.frozen.sf(self.centre + edges)
        left = edges[1:] <= 0
        return np.maximum(np.where(left, below[1:] - below[:-1], above[:-1] - above[1:]), 0.0)


def _rounded_up(p: np.ndarray, q: np.ndarray, loss: np.ndarray, low_tail: float, high_tail: float, coarse: Atoms) -> Atoms:
    """Two atoms per cell with the cell's masses, shared with its neighbours, and the one-atom pair below it."""
    low, high = loss[:-1], np.maximum(loss[1:], loss[:-1])
    usable = np.isfinite(low) & np.isfinite(high) & (p > 0) & (q > 0)
    infinite = float(q[~usable].sum()) + high_tail
    lost = float(p[~usable].sum()) + low_tail
    p, q, low, high = p[usable], q[usable], low[usable], high[usable]
    with np.errstate(all="ignore"):
        upper = np.where(high > low, (q * np.exp(-low) - p) / np.expm1(high - low), 0.5 * p)
    upper = np.clip(upper, 0.0, p)
    p_atoms = np.concatenate([p - upper, upper])
    q_atoms = np.concatenate([(p - upper) * np.exp(low), upper * np.exp(high)])
    return Atoms((0.0, lost, *p_atoms.tolist()), (infinite, 0.0, *q_atoms.tolist()), coarse)


def discrete_gaussian(event: Any, sigma: float, sensitivity: int, most_atoms: int) -> Pllr:
    """Masses of the discrete Gaussian and of its shift, to the smallest positive float."""
    reach = math.ceil(38.0 * sigma) + 1 if math.isfinite(sigma) else math.inf
    if 2 * reach + sensitivity > most_atoms:
        raise ValueError(f"`sigma` and `sensitivity` must need at most {most_atoms} points. Found {event!r}.")
    x = np.arange(-reach, reach + sensitivity + 1, dtype=float)
    with np.errstate(under="ignore"):
        p, q = np.exp(-0.5 * (x / sigma) ** 2), np.exp(-0.5 * ((x - sensitivity) / sigma) ** 2)
        total = math.fsum(np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2))
    return Atoms(tuple((p / total).tolist()), tuple((q / total).tolist()))
