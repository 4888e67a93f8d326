"""Events whose pair needs a certified curve: sampled compositions and selections, batches as people draw them; and answers for classes.

    inner_curves           certified delta of a composition at many epsilons
    curve_pairs            from such curves to finite pairs, above and below
    sampled_compositions   Poisson sampling of any composition
    selection              the best of a random number of runs
    whole                  answers for what an accountant has composed, leaves whose event allows many mechanisms among it
    random_allocation      one epoch of it is a curve; several epochs, and others beside it, are finite pairs above and below that curve
    batch_events           which event is random allocation, and shuffled batches

May import everything up to `search`. Importing it registers the events. A change here can make bounds false only through
`curve_pairs` (which pair) and through the formulas of the events; everything else is proved in `losses` and `proofs`.
"""

from dp_edgeworth.profiles import batch_events, sampled_compositions, selection

__all__ = ["batch_events", "sampled_compositions", "selection"]
