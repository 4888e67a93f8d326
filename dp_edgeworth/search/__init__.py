"""Which theorem, with which parameters, until the interval is as narrow as asked. Nothing here is believed.

    answers     the door: epsilon of deltas, delta at epsilons, the larger of all directions
    methods     one table: which theorem in which order, when it applies, what it costs
    questions   what is asked, where to put a curve for it, when an answer is good enough
    contours    one planner for all contours: tilt, period, frequencies, smoothing
    lattices    steps, tilts and periods of rounded lattices, for any number of targets
    problem     a composition, and what reductions have left of it
    whole_curve where to look for trade-off bands and the Gaussian parameter
    ladder      K on a ladder of tilts around the saddle point, and first guesses read off it
    crossing    candidates for the ends of epsilon

May import: `proofs`, `sums`, `losses`, `validation`, `intervals`.

A change here can make answers wide or slow, never false: results reach the user only as `Proved`, which this room cannot make.
"""
