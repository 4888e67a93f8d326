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

An event class of your own: CONTRIBUTING, "A mechanism in six lines".
"""

from dp_edgeworth.losses.mechanisms import additive, curves, discrete, sampled
from dp_edgeworth.losses.mechanisms.registry import NO_LOSS, NON_PRIVATE, Directions, directions, register_mechanism
from dp_edgeworth.losses.mechanisms.registry import UnsupportedLeafError as UnsupportedLeafError

__all__ = ["NON_PRIVATE", "NO_LOSS", "Directions", "additive", "curves", "directions", "discrete", "register_mechanism", "sampled"]
