"""The mirror identity: the other direction of a curve against its own exact values."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from mpmath import mp, mpf

from dp_edgeworth.losses.gaussian_noise import GaussianShift
from dp_edgeworth.losses.operations import reverse, subsample
from dp_edgeworth.proofs.closed_form import ClosedForm
from dp_edgeworth.proofs.contour import contour
from dp_edgeworth.proofs.curve import Curve, LogBounds
from dp_edgeworth.proofs.mirror import Mirrored
from dp_edgeworth.proofs.rounded_lattice import rounded_lattice
from dp_edgeworth.proofs.rounding import rounded_leaves
from dp_edgeworth.sums.composition import Composition

LEAF = subsample(GaussianShift(1.25), 0.125)
EPSILONS = np.array([0.0, 1e-9, 0.01, 0.05, 0.1])


def exact_add(epsilon: float) -> mpf:
    """sup of the reversed pair of one sampled Gaussian, 40 digits: P has it where the ratio is below x = e^-epsilon."""
    with mp.workdps(40):
        p, mu, x = mpf("0.125"), mpf("1.25"), mp.exp(-mpf(epsilon))
        if x <= 1 - p:
            return mpf(0)
        edge = (mp.log((x - 1 + p) / p) + mu * mu / 2) / mu
        own, other = mp.ncdf(edge), (1 - p) * mp.ncdf(edge) + p * mp.ncdf(edge - mu)
        return own - other / x


def test_one_sampled_gaussian_in_the_other_direction() -> None:
    leaves = rounded_leaves(Composition({LEAF: 1}), 0.002, -36.0)
    assert leaves is not None
    found = Mirrored(rounded_lattice(leaves, 0.7, 16_384)).bounds(EPSILONS)
    for epsilon, lower, upper in zip(EPSILONS, found.lower, found.upper, strict=True):
        exact = float(exact_add(float(epsilon)))
        assert np.exp(lower) <= exact <= np.exp(upper) < exact + 1e-5


@pytest.mark.parametrize("count", [1, 7])
def test_it_agrees_with_the_reverse_itself(count: int) -> None:
    ours, other = (rounded_leaves(Composition({leaf: count}), 0.002, -36.0) for leaf in (LEAF, reverse(LEAF)))
    assert ours is not None and other is not None
    mirrored, own = Mirrored(rounded_lattice(ours, 0.7, 32_768)).bounds(EPSILONS), rounded_lattice(other, 3.0, 32_768).bounds(EPSILONS)
    assert np.all(mirrored.lower <= own.upper) and np.all(own.lower <= mirrored.upper)


def test_what_is_subtracted_is_rounded_outwards() -> None:
    """Where delta of the other direction is 1e-17, a difference of numbers near 1 knows nothing of it."""
    form = ClosedForm(lambda e: np.log(-np.expm1(np.minimum(e, -1e-300)) + 0.0), 0.0)  # delta(-eps) = 1 - e^-eps: nothing the other way
    found = Mirrored(form).bounds(np.array([0.5, 2.0]))
    assert np.all(found.lower == -np.inf) and np.all(np.exp(found.upper) >= 8.0 * 2.2e-16)


def test_only_curves_of_delta_have_a_mirror_image() -> None:
    curve = contour(Composition({LEAF: 5}), -0.5, 40.0, 400, 1e-3, np.array([-0.75, -0.25]))
    with pytest.raises(ValueError, match="must be one of delta"):
        Mirrored(curve).bounds(EPSILONS)


@dataclasses.dataclass(frozen=True)
class Certain(Curve):
    """A curve that is one float at every epsilon, without any room."""

    log_g: float
    theorem = "certain"
    tilt = 1.0

    def bounds(self, epsilons: np.ndarray) -> LogBounds:
        here = np.full(len(epsilons), self.log_g)
        return LogBounds(here, here, here, np.full(len(epsilons), -1.0))


@pytest.mark.parametrize("delta", [0.3, 0.7, 0.999])
def test_the_identity_is_rounded_outwards(delta: float) -> None:
    """At many epsilons, against the identity in 40 digits: a curve without room leaves the charge of the subtraction alone."""
    epsilons = np.linspace(-3.0, 0.3, 400)
    found = Mirrored(Certain(float(np.log(delta)))).bounds(epsilons)
    with mp.workdps(40):
        g = mp.exp(mpf(float(np.log(delta))))
        for epsilon, lower, upper in zip(map(float, epsilons), found.lower, found.upper, strict=True):
            exact = 1 - mp.exp(epsilon) + mp.exp(epsilon) * g
            assert mp.exp(mpf(float(lower))) <= exact <= mp.exp(mpf(float(upper)))
