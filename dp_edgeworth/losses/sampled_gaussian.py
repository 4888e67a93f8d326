"""Gaussian noise under the two samplings in which a record is replaced."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
from scipy import special

from dp_edgeworth.losses.cells import EXP_ERROR, Cells, normal_cells
from dp_edgeworth.losses.gaussian_curve import LOG_SQRT_2PI
from dp_edgeworth.losses.gaussian_noise import GaussianShift, NormalPair
from dp_edgeworth.losses.normal_mixtures import Normals
from dp_edgeworth.losses.operations import Subsampled
from dp_edgeworth.losses.rules import Demand, Rule
from dp_edgeworth.losses.trapezoid import cut_point


@dataclasses.dataclass(frozen=True)
class _SampledPair(NormalPair):
    """A record is replaced in a sample of Gaussian noise; either order of the neighbours has the same losses."""

    mu: float
    probability: float
    mirror = True
    loss_scale = property(lambda self: self.mu**2 - math.log(self.probability))


@dataclasses.dataclass(frozen=True)
class SampledReplacement(_SampledPair):
    """P = (1-p) N(0,1) + p N(-mu,1), Q = (1-p) N(0,1) + p N(mu,1): Poisson sampling, one record replaced."""

    @functools.cached_property
    def normals(self) -> Normals:
        return Normals.sampled(self.mu, self.probability, mirrored=True)


@dataclasses.dataclass(frozen=True)
class SampledWithoutReplacement(_SampledPair):
    """The symmetric pair of a fixed-size sample: its hockey-stick is the larger of the two directions'.

    With R = Subsampled(GaussianShift(mu), p): the loss above 0 is that of R, in x > mu/2; by symmetry (the law of -L under P is that of
    L under Q) it is the mirror image below 0; what mass is left sits at 0. The largest losses are at most those of R.
    """

    @functools.cached_property
    def normals(self) -> Normals:
        """Of R."""
        return Normals.sampled(self.mu, self.probability)

    @property
    def mass_of_zero(self) -> float:
        """What of P, and of Q, has the loss 0."""
        return (1.0 - self.probability) * float(special.erf(self.mu / math.sqrt(8.0)))

    def rule(self, demand: Demand) -> Rule:
        """Panels in x from mu/2, where L = 0; the mirror image, whose exponents are 1 - s, is made of the same nodes."""
        both = dataclasses.replace(demand, low=min(demand.low, 1.0 - demand.high), high=max(demand.high, 1.0 - demand.low))
        half_tail = dataclasses.replace(demand, log_tail=demand.log_tail - math.log(2.0))
        cut = max(cut_point(half_tail, self.normals.shifts, self.normals.weights), 0.5 * self.mu + 1.0)
        top = self.normals.ends(both, -math.inf)[1]
        x, w = self.normals.panels(0.5 * self.mu, min(cut, top), both)
        loss, above, none = self.normals.loss(x), np.log(w) - 0.5 * x * x - LOG_SQRT_2PI, np.zeros(1)
        gone = float(self.normals.beyond(cut).sum()) if cut < top else 0.0  # above, and below the mirror image
        grid = np.linspace(0.5 * self.mu, float(x[-1]), 257)
        return Rule(np.concatenate([-loss[::-1], [0.0], loss])[None],
                    np.concatenate([(above + loss)[::-1], [math.log(max(self.mass_of_zero, 5e-324))], above])[None], none, none,
                    self.normals.loss(grid)[None], self.normals.density_floor(grid), np.full((2, 1), gone))

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        """For eps >= 0 that of the subsampled pair."""
        return Subsampled(GaussianShift(self.mu), self.probability).log_hockey_stick(epsilon)

    def cells(self, cuts: float | np.ndarray, log_tail: float) -> Cells | None:
        """Of the sampled pair the losses above 0, which are those of x > mu/2, their mirror image, and the rest at 0."""
        upper = normal_cells(self.normals, cuts, log_tail, start=0.5 * self.mu)
        if upper is None:
            return None
        rest, none = np.array([self.mass_of_zero]), np.zeros(1)
        off = 8.0 * EXP_ERROR * rest
        return Cells.mixed([(1.0, upper), (1.0, upper.reversed()), (1.0, Cells(none, none, none, none, rest, rest, off, off))])
