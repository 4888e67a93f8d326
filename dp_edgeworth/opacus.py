"""Certified accounting for Opacus (extra `opacus`). Importing this module registers the accountant under the name "edgeworth":

    import dp_edgeworth.opacus
    engine = opacus.PrivacyEngine(accountant="edgeworth")
    noise = opacus.accountants.utils.get_noise_multiplier(accountant="edgeworth", ...)

Opacus hands over its history, the noise multiplier, sample rate and number of steps; what is certified is Gaussian noise on Poisson
samples with one record added or removed. `make_private(poisson_sampling=False)` draws no Poisson samples, which an accountant cannot
see: then the number is no guarantee, as with every accountant of Opacus.
"""

from __future__ import annotations

from typing import Any

from dp_edgeworth import validation
from dp_edgeworth.accountants.accountant import EdgeworthIntervalAccountant
from dp_edgeworth.accountants.history import from_history
from dp_edgeworth.intervals import Interval

with validation.needs("opacus", "opacus"):
    from opacus.accountants import IAccountant, register_accountant

NAME = "edgeworth"
_IGNORED = {"alphas", "eps_error", "delta_error"}  # of the other accountants' grids and orders


class EdgeworthAccountant(IAccountant):
    """An Opacus accountant whose epsilon is a proved upper bound.

    Attributes:
      history: rows of (noise multiplier, sample rate, steps). Opacus assigns it directly, so every answer is computed from it.
    """

    def __init__(self) -> None:
        self.history: list[tuple[float, float, int]] = []

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Signals one optimisation step."""
        if self.history and tuple(self.history[-1][:2]) == (noise_multiplier, sample_rate):
            self.history[-1] = (noise_multiplier, sample_rate, self.history[-1][2] + 1)
        else:
            self.history.append((noise_multiplier, sample_rate, 1))

    def get_epsilon(self, delta: float, **settings: Any) -> float:
        """A proved upper bound of the epsilon spent so far.

        `alphas`, `eps_error` and `delta_error`, which other accountants take, have no meaning here and are ignored.
        """
        unknown = sorted(set(settings) - _IGNORED)
        if unknown:
            raise TypeError(f"`get_epsilon` must be called with `delta` only. Found {', '.join(unknown)}.")
        return self.accountant().get_epsilon(delta)

    def get_epsilon_interval(self, delta: float) -> Interval:
        """Certified lower and upper bounds."""
        return self.accountant().get_epsilon_interval(delta)

    def accountant(self) -> EdgeworthIntervalAccountant:
        """The dp-accounting accountant of the history: for statements, reports and curves."""
        return from_history(self.history)

    def __len__(self) -> int:
        """Number of optimisation steps so far."""
        return sum(int(steps) for _, _, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        """The name in Opacus' registry and in checkpoints."""
        return NAME


register_accountant(NAME, EdgeworthAccountant, force=True)
