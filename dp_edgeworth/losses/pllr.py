"""One direction of one leaf: the law of its privacy-loss log-likelihood ratio (PLLR), and what every kind of loss must say of itself.

A leaf is an ordered pair of distributions (P, Q) with loss L = log dQ/dP; X is L under P and Y is L under Q ([EA] Definition 3.1).
What has no default here must be declared by every kind of loss: a missing statement is an error when the loss is made, not a bound that
is wider, or false, without anyone noticing. Attributes may be declared as plain class attributes.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_edgeworth.losses.rules import Demand, Rule

if TYPE_CHECKING:
    from dp_edgeworth.losses.cells import Cells

ROUNDED = 4e-15  # relative error of a number that a few operations made


class Pllr(abc.ABC):
    """The law of L = log dQ/dP for one ordered pair, exactly. Subclasses are frozen, hashable values.

    Members that are not abstract have a default that is right for every pair and costs time only.
    """

    @property
    @abc.abstractmethod
    def supremum(self) -> float:
        """Essential upper bound of L."""

    @property
    @abc.abstractmethod
    def infimum(self) -> float:
        """Essential lower bound of L."""

    @property
    @abc.abstractmethod
    def infinite_mass(self) -> float:
        """Q-mass of L = +inf."""

    @property
    @abc.abstractmethod
    def lost_mass(self) -> float:
        """P-mass of L = -inf."""

    @property
    @abc.abstractmethod
    def top_mass(self) -> float:
        """Q-mass of L = supremum, not more than it is; 0 where it is infinite or unknown."""

    @property
    @abc.abstractmethod
    def bottom_mass(self) -> float:
        """P-mass of L = infimum, not more than it is; 0 where it is infinite or unknown."""

    @property
    @abc.abstractmethod
    def atomic(self) -> bool:
        """Whether L has atoms only, and its rule is them."""

    @property
    @abc.abstractmethod
    def loss_scale(self) -> float:
        """Size of the numbers that the closed form subtracts from each other."""

    @abc.abstractmethod
    def rule(self, demand: Demand) -> Rule:
        """A rule of one row that is as accurate as the demand asks."""

    @abc.abstractmethod
    def largest_kept(self, log_tail: float) -> float:
        """Upper bound of the finite losses that are left where those of Q-mass e^{log_tail} may be left out."""

    @abc.abstractmethod
    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        """log E_Q[(1 - e^{epsilon - L})_+] in closed form, or None.

        Accurate to 1e-12 plus what an error of a few units in the last place of epsilon and of `loss_scale` does to it.
        """

    @abc.abstractmethod
    def cells(self, cuts: float | np.ndarray, log_tail: float) -> Cells | None:
        """Cells in which the loss, or its logarithm where that is steeper, changes by about `cuts` deviations; None if too many.

        `cuts` may be increasing losses instead, at about which to cut. At most e^{log_tail} of Q, and of P, is in cells whose losses
        are not bounded.
        """

    def log_reversed_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        """`log_hockey_stick` of (Q, P); a pair that is not its own mirror image must say it."""
        if not self.mirror:
            raise NotImplementedError(f"`{type(self).__name__}` must define `log_reversed_hockey_stick`.")
        return self.log_hockey_stick(epsilon)

    @property
    def mirror(self) -> bool:
        """Whether (Q, P) has the same law of losses as (P, Q)."""
        return False

    @property
    def gaussian_variance(self) -> float | None:
        """mu^2 where K(z) = mu^2 (z^2 + z) / 2 exactly, else None."""
        return None

    @property
    def infinite_mass_error(self) -> float:
        """Relative error of `infinite_mass`; 0 where it is a number that was given."""
        return ROUNDED

    @property
    def lost_mass_error(self) -> float:
        """Relative error of `lost_mass`; 0 where it is a number that was given."""
        return ROUNDED

    @property
    def cuttable(self) -> bool:
        """Whether L is bounded, but its rule can leave out the largest losses (`Demand.log_tail`)."""
        return False

    @property
    def has_tail(self) -> bool:
        """Whether its rule can leave out the largest losses."""
        return self.finite_supremum == math.inf or self.cuttable

    @property
    def finite_supremum(self) -> float:
        """Essential upper bound of what is finite of L."""
        return self.supremum

    @property
    def supremum_error(self) -> float:
        """Bound of the relative rounding error of the supremum where that is finite."""
        return ROUNDED

    def smallest_kept(self, log_tail: float) -> float:
        """`largest_kept` from below and under P, which for a mirror image is the same number."""
        return -self.largest_kept(log_tail) if self.mirror and not self.lost_mass else self.infimum

    @property
    def kind(self) -> tuple[type, ...]:
        """Members of one kind can be evaluated in one batch."""
        return (type(self),)

    @classmethod
    def rules(cls, members: Sequence[Any], demand: Demand, sampled: np.ndarray | None = None) -> Rule:
        """One rule for many members of the same kind; by default one at a time.

        `sampled` are the probabilities with which the rule will be subsampled, for kinds that can make use of them.
        """
        return Rule.stacked([member.rule(demand) for member in members])


class OnlyRules(Pllr):
    """A loss of which nothing is claimed but its rules and, where a subclass declares them, other members.

    For parts of pairs that exist inside a proof only, and for losses that nothing else is known of: intervals are wider.
    """

    supremum = property(lambda self: math.inf)
    infimum, infinite_mass, lost_mass, top_mass, bottom_mass = -math.inf, 0.0, 0.0, 0.0, 0.0
    atomic, loss_scale = False, 0.0

    def largest_kept(self, log_tail: float) -> float:
        return self.finite_supremum

    def log_hockey_stick(self, epsilon: np.ndarray) -> None:
        return None

    def log_reversed_hockey_stick(self, epsilon: np.ndarray) -> None:
        return None

    def cells(self, cuts: float | np.ndarray, log_tail: float) -> None:
        return None
