"""Finite pairs: what follows from the log P-masses and the losses of their points, and from what is infinite."""

from __future__ import annotations

import abc
import dataclasses
import functools

import numpy as np

from dp_edgeworth.losses.cells import Cells
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import Demand, Rule

_LONGEST = 5000.0  # e to this power is a long double; losses further apart are looked at in turn


class FinitePair(Pllr):
    """A pair with finitely many losses; its rule is exact."""

    atomic = True

    @property
    @abc.abstractmethod
    def _atoms(self) -> tuple[np.ndarray, np.ndarray]:
        """Every finite loss with the larger of its two masses: that under Q where it is positive, that under P otherwise."""

    @functools.cached_property
    def _log_finite(self) -> tuple[np.ndarray, np.ndarray]:
        """log P-mass and loss of every point whose loss is finite."""
        losses, masses = self._atoms
        return np.log(masses) - np.maximum(losses, 0.0), losses

    @property
    def supremum(self) -> float:
        return np.inf if self.infinite_mass else self.finite_supremum

    @property
    def finite_supremum(self) -> float:
        return float(self._log_finite[1].max(initial=-np.inf))

    @property
    def infimum(self) -> float:
        return -np.inf if self.lost_mass else float(self._log_finite[1].min(initial=np.inf))

    @property
    def loss_scale(self) -> float:
        return float(np.abs(self._log_finite[1]).max(initial=0.0))

    def largest_kept(self, log_tail: float) -> float:
        return self.finite_supremum

    def rule(self, demand: Demand) -> Rule:
        log_p, losses = self._log_finite
        return Rule(losses[None], log_p[None], np.array([self.lost_mass]), np.array([self.infinite_mass]))

    def cells(self, cuts: float | np.ndarray, log_tail: float) -> Cells:
        return Cells.of_atoms(FinitePair.rule(self, Demand()))

    @functools.cached_property
    def profiles(self) -> tuple[NodeProfile, NodeProfile]:
        """Of (P, Q) and of (Q, P)."""
        losses, masses = self._atoms
        right = NodeProfile.of(losses, masses, self.infinite_mass)
        return right, right if self.mirror else NodeProfile.of(-losses, masses, self.lost_mass)

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        return _log_stick(np.asarray(epsilon, float), *self.profiles)

    def log_reversed_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        return _log_stick(np.asarray(epsilon, float), *self.profiles[::-1])


@dataclasses.dataclass(frozen=True)
class NodeProfile:
    """H(x_j) = E_P[(R - x_j)_+] + infinite and U_j = x_j P(x_j <= R < inf) at x_j = e^{loss}, loss 0 and the losses above it.

        U_j = q_j + e^{-gap} U_next,        H_j = H_next + (1 - e^{-gap}) U_next,

    sums of positive terms, in long doubles: relative error 4 n units in their last place.
    """

    losses: np.ndarray
    sticks: np.ndarray
    heavy: np.ndarray

    @classmethod
    def of(cls, losses: np.ndarray, masses: np.ndarray, infinite: float) -> NodeProfile:
        """From losses in any order with their Q-masses, of which only positive losses are looked at."""
        order = np.argsort(losses, kind="stable")
        order = order[losses[order] > 0.0]
        losses, masses = np.append(0.0, losses[order]), np.append(0.0, masses[order]).astype(np.longdouble)
        heavy = _tails(losses, masses) + masses
        steps = -np.expm1(-np.diff(losses.astype(np.longdouble))) * heavy[1:]
        return cls(losses, np.longdouble(infinite) + np.append(np.cumsum(steps[::-1])[::-1], np.longdouble(0.0)), heavy)

    def at(self, eps: np.ndarray) -> np.ndarray:
        """H(e^eps), eps >= 0, as long doubles: linear in e^eps between two nodes, H_next + (1 - e^{eps - next}) U_next."""
        last = len(self.losses) - 1
        index = np.clip(np.searchsorted(self.losses, eps, side="right") - 1, 0, max(last - 1, 0))
        following = np.minimum(index + 1, last)
        rest = np.maximum(self.losses[following].astype(np.longdouble) - eps, 0.0)
        inside = self.sticks[following] - self.heavy[following] * np.expm1(-rest)
        return np.where(eps >= self.losses[last], self.sticks[last], inside)

    def crossing(self, sticks: np.ndarray) -> np.ndarray:
        """About the eps >= 0 with H(e^eps) = `sticks`, for those who search."""
        index = np.clip(np.searchsorted(-self.sticks, -sticks), 1, max(len(self.losses) - 1, 1)) - (len(self.losses) == 1)
        share = (sticks - self.sticks[index]) / np.maximum(self.heavy[index], np.finfo(np.longdouble).tiny)
        return np.maximum(self.losses[index] + np.log1p(-np.clip(share, 0.0, 1.0 - 1e-15)), 0.0).astype(float)


def _tails(losses: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """x_j P(x_j < R < inf) at the nodes: sums from the right of P-masses, block by block so that these are long doubles."""
    exact = losses.astype(np.longdouble)
    blocks = np.split(np.arange(len(losses)), np.flatnonzero(np.diff(np.floor(losses / _LONGEST))) + 1)
    tails = np.zeros(len(losses), np.longdouble)
    carried, last = np.longdouble(0.0), exact[-1]  # T + q at the first node of the block on the right
    for here in reversed(blocks):
        base = exact[here[0]]
        p = masses[here] * np.exp(base - exact[here])
        beyond = carried * np.exp(base - last)
        sums = np.concatenate([np.cumsum(p[:0:-1])[::-1], [np.longdouble(0.0)]]) + beyond
        tails[here] = np.exp(exact[here] - base) * sums
        carried, last = tails[here[0]] + masses[here[0]], base
    return tails


def _log_stick(eps: np.ndarray, here: NodeProfile, there: NodeProfile) -> np.ndarray:
    """log H, from the nodes of its own side; for eps < 0 by the mirror identity H(x) = 1 - x + x H_mirrored(1/x)."""
    low = np.minimum(eps, 0.0)
    with np.errstate(divide="ignore", under="ignore"):
        below = np.exp(low) * there.at(-low) - np.expm1(low)
        return np.log(np.minimum(np.where(eps < 0.0, below, here.at(np.maximum(eps, 0.0))), 1.0)).astype(float)
