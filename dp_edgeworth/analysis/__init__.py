"""Questions in one call: what a tree costs and why, sweeps, planning, privacy curves, statements and pictures.

    explanation, attribution       epsilon of a tree and what every node of it contributes (`report`, `icicle`: as text and picture)
    planning                       the noise, the steps or the sampling probability that a budget allows
    sweeps, heat_map               epsilon over a grid of parameters, and its picture
    curves                         delta(epsilon), the trade-off function and GDP mu of an event
    statement                      a guarantee in words

May import: every room but the command line and the adapters.

A change here cannot make an interval false; it can report one under the wrong name, or on the wrong side of rounding.
"""
