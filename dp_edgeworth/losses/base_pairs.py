"""The base pairs: what a leaf event is made of before sampling, reversing and mixing.

    GaussianShift            N(0,1) against N(mu,1)                          closed form; trapezoid or panels under sampling
    LaplaceShift             Laplace(0,1) against Laplace(mu,1)              two atoms and Gauss-Legendre panels
    Atoms                    any finite pair of probability vectors         exact
    NormalMixture            N(0,1) against sum w_k N(c_k,1)                 trapezoid or panels
    SampledReplacement       Poisson sampling, one record replaced          trapezoid or panels
    SampledWithoutReplacement  the symmetric curve of a fixed-size sample   atom at 0 and Gauss-Legendre panels

Each docstring says why the rule is as accurate as `Demand` asks, relative to e^{K(Re z)}.
"""

from __future__ import annotations

from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.gaussian_noise import GaussianShift, NormalMixture, SampledReplacement, SampledWithoutReplacement
from dp_edgeworth.losses.laplace_noise import LaplaceShift

__all__ = [
    "Atoms",
    "GaussianShift",
    "LaplaceShift",
    "NormalMixture",
    "SampledReplacement",
    "SampledWithoutReplacement",
]
