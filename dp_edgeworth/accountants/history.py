"""An accountant from the history of a training run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.accountants.accountant import EdgeworthIntervalAccountant


def from_history(history: Iterable[tuple[float, float, int]],
                 neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
                 **settings: Any) -> EdgeworthIntervalAccountant:
    """The certified accountant of Gaussian noise on Poisson samples, from rows of (noise multiplier, sampling probability, steps).

    That is the `history` of Opacus' accountants, and the form in which most training loops log a noise schedule.

    Args:
      history: the rows; rows of 0 steps are left out.
      neighboring_relation: how neighbouring data sets differ.
      **settings: as for `EdgeworthIntervalAccountant`.

    Raises:
      ValueError: a row is no such triple; the sentence names the row and the parameter.

    >>> accountant = from_history([(1.0, 0.01, 500), (0.8, 0.01, 500)])
    >>> round(accountant.get_epsilon(1e-5), 4)
    2.6607
    """
    accountant = EdgeworthIntervalAccountant(neighboring_relation, **settings)
    for i, row in enumerate(validation.of_kind("history", history, Iterable, "rows of three numbers")):
        entries = validation.sequence(f"history[{i}]", row)
        if len(entries) != 3:
            raise ValueError(f"`history[{i}]` must be (noise_multiplier, sampling_probability, steps). Found {validation.shown(row)}.")
        noise = validation.at_least_zero(f"history[{i}]: noise_multiplier", entries[0])
        probability = validation.probability(f"history[{i}]: sampling_probability", entries[1])
        steps = validation.integer(f"history[{i}]: steps", entries[2], 0)
        if steps:
            accountant.compose(_leaf(noise, probability), steps)
    return accountant


def _leaf(noise: float, probability: float) -> dp_event.DpEvent:
    gaussian = dp_event.GaussianDpEvent(noise)
    return gaussian if probability == 1.0 else dp_event.PoissonSampledDpEvent(probability, gaussian)
