"""Counts of losses: cumulants, K(z), characteristic functions on a line, sums that grow with new leaves only.

    pair_sums        how often every pair of losses was composed; the directions that follow
    loss_sums        sums over the leaves of one direction, extended by new leaves only, for its mirror image too
    composition      one direction: K, masses of infinite losses, the largest loss
    blocks           many leaves of one kind as one array, with bounds of every rounding error
    characteristic   characteristic functions of tilted leaves at equispaced frequencies
    envelope         how fast they must decay

May import: `losses`, `validation`, `intervals`.

A change here can make every bound false: a count that is lost, a rounding error that is not charged.
"""
