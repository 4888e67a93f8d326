"""Leaf events to ordered pairs of PLLRs, one registered function per event class.

`directions(event, neighboring_relation)` answers with the losses of both directions ([EA] Lemma 3.3 takes the larger):
"remove" (the data set with the record is Q) and "add" (it is P). For replacement relations the two directions are the two
orders of the neighbours. What a mechanism is asked never depends on how often it runs: counts are applied by the composition.

    registry        `register_mechanism`, `directions`; `require` refuses relations that an event does not have
    additive        Gaussian, Laplace, mixtures, trees, noise of scipy.stats        discrete    finitely many outcomes
    sampled         Poisson, without replacement, truncated batches                 curves      known by a curve
    rounded_pairs   the pairs that these share, parameters of any size rounded to the safe side
    (events that need the certified curve of what runs inside them register in `dp_edgeworth.profiles`)

What a neighboring relation does to an event is decided in its own function, and nowhere else. Under REPLACE_ONE a record can move an
additive query by twice its sensitivity, so the shift doubles (`rounded_pairs.shift_of`, `discrete`, `additive`; RDP in dp-accounting
omits this factor, google/differential-privacy#378); sampled noise becomes another pair, with the record's own sample on both sides
(`rounded_pairs.sampled_gaussian`, `sampled`); events known by a curve stay as they are, as a curve holds for every pair of neighbours.

To add an event class of your own, register a function that returns its pair:

>>> import attr, dp_accounting as dpa
>>> import dp_edgeworth
>>> @attr.s(frozen=True, auto_attribs=True)
... class CoinDpEvent(dpa.DpEvent):
...     bias: float
>>> @dp_edgeworth.register_mechanism(CoinDpEvent)
... def coin(event, neighboring_relation):
...     return dp_edgeworth.Atoms((event.bias, 1 - event.bias), (1 - event.bias, event.bias))
>>> round(dp_edgeworth.EdgeworthIntervalAccountant().compose(CoinDpEvent(0.25)).get_epsilon(0), 9)  # log 3
1.098612289
"""

from dp_edgeworth.losses.mechanisms import additive, curves, discrete, sampled
from dp_edgeworth.losses.mechanisms.registry import NO_LOSS, NON_PRIVATE, Directions, directions, register_mechanism
from dp_edgeworth.losses.mechanisms.registry import UnsupportedLeafError as UnsupportedLeafError

__all__ = ["NON_PRIVATE", "NO_LOSS", "Directions", "additive", "curves", "directions", "discrete", "register_mechanism", "sampled"]
