"""One event of every kind, for the table of docs/events.md. Run as a script to write that table."""

from __future__ import annotations

import math
import pathlib

import dp_accounting as dpa
from dp_accounting import dp_event
from event_table import event_table
from main_branch import DiscreteGaussian, EpsilonDelta, Exponential, PermuteAndFlip

from dp_edgeworth import AdditiveNoiseDpEvent, PllrMomentsDpEvent, ProfileDpEvent, RenyiDpEvent

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "events.md"
START, END = "<!-- table: made by tests/event_samples.py -->\n", "<!-- end of table -->\n"
GAUSSIAN, LAPLACE = dpa.GaussianDpEvent(1.0), dpa.LaplaceDpEvent(1.0)
SAMPLES = (
    GAUSSIAN, LAPLACE, dp_event.DiscreteLaplaceDpEvent(0.7, 2), DiscreteGaussian(2.0, 1.0, 1), DiscreteGaussian(2.0, 1.5),
    dp_event.MixtureOfGaussiansDpEvent(1.5, [0.0, 1.0], [0.5, 0.5]), AdditiveNoiseDpEvent("logistic"),
    dpa.RandomizedResponseDpEvent(0.5, 2), EpsilonDelta(0.5, 1e-6), Exponential(0.5), PermuteAndFlip(0.5), dpa.ZCDpEvent(0.1),
    RenyiDpEvent([2.0, 8.0], [0.1, 0.4]), ProfileDpEvent([0.5, 1.0], [1e-3, 1e-6]),
    PllrMomentsDpEvent((-0.1, 0.2, 0.0, 0.0), (0.1, 0.2, 0.0, 0.0)),
    dpa.PoissonSampledDpEvent(0.1, GAUSSIAN), dpa.PoissonSampledDpEvent(0.1, LAPLACE), dpa.PoissonSampledDpEvent(0.1, Exponential(0.5)),
    dpa.PoissonSampledDpEvent(0.1, dpa.ZCDpEvent(0.1)), dpa.PoissonSampledDpEvent(0.1, dpa.ComposedDpEvent([GAUSSIAN, LAPLACE])),
    dpa.PoissonSampledDpEvent(0.1, dpa.RandomizedResponseDpEvent(0.5, 2)),
    dpa.SampledWithoutReplacementDpEvent(100, 10, GAUSSIAN), dpa.SampledWithReplacementDpEvent(100, 10, GAUSSIAN),
    dpa.TruncatedSubsampledGaussianDpEvent(1000, 0.01, 15, 1.0), dpa.SingleEpochTreeAggregationDpEvent(4.0, [7, 8]),
    dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 5.0, 1.0), dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 5.0, math.inf),
    dpa.NoOpDpEvent(), dpa.NonPrivateDpEvent(),
)


def page_with_table(text: str) -> str:
    before, _, rest = text.partition(START)
    return before + START + "\n" + event_table(SAMPLES) + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text()))
