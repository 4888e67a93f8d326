"""Theorems: given a sum of losses and *any* parameters, a bound of delta(epsilon) that is true.

Nothing here searches, knows of tolerances, or trusts its callers: parameters are checked, and wrong ones make a bound wide.

    theorem           what it needs                                      what it says                        where it was checked
    contour           a tilt, a period, frequencies, smoothing           log G within cut, alias, price      docs/proof-reading.md
    lattice           losses on one lattice, a tilt, points              log G, no cut                       the same
    rounded_lattice   leaves rounded to a lattice, a tilt, points        log G, second order in the step     the same
    mirror            a curve of the other direction                     delta, absolutely                   the same
    one_jump          rounded lattices, cells of large losses            log G where one large loss decides  the same
    convolution       cells of every leaf, a step                        log G, nothing cancels              the same
    closed_form       Gaussians, one leaf, few sums of atoms, Laplace    log delta and log(1 - delta)        the same
    chernoff          tilts                                              an upper end and a lower one        the same
    largest_loss      nothing                                            bounds at once                      the same
    reduction         losses or leaves that hardly matter                a curve from one of an easier sum   the same
    renyi_bounds      a Renyi curve of everything                        upper ends, nothing from below      the same
    random_allocation  an epoch of random allocation, a contour          delta of one epoch, both directions  the same
    tradeoff          bounds of delta at some epsilons                   a band of the trade-off function    the same

    curve     what every theorem gives: `bounds(epsilons)`, certified bounds of log G at any epsilon
    rounding  lemma: any loss on a lattice, from above and from below
    aliases   lemma: what a trapezoid sum adds to the curve that it is meant for (`contour`; `rounded_lattice` has its own)
    lognormal_step    lemma: the Laplace transform of a log-normal step, with its quadrature error
    allocation_tails  lemma: what a sum of log-normal steps leaves out
    ends      the one place where bounds of G become proved ends of epsilon and delta
    proved    the type of what is proved; only this room, and the paper's own bounds, make one

May import: `sums`, `losses`, `validation`, `intervals`.

A change here can make a published guarantee false. Every error term that is charged is in tests/mutation_check.py: without it a test
fails. Numbers that stand for an error are beside their derivation; numbers that only steer are in `search`.
"""
