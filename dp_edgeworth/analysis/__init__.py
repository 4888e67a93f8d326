"""Questions in one call: what a tree costs and why, sweeps, planning, privacy curves, statements and pictures.

    explanation, attribution       epsilon of a tree and what every node of it contributes (`report`, `icicle`: as text and picture)
    planning, budgets              the noise, the steps or the sampling probability that a budget allows; `calibration` solves for them
    sweeps, heat_map               epsilon over a grid of parameters, and its picture
    sampling, sampling_schemes     one recipe under every way to draw its batches
    curves, charts                 delta(epsilon), the trade-off function and GDP mu of an event
    statement, html_report         a guarantee in words, and as a page
    certificates                   answers that anyone can check
    rendering, progress            how answers are written; that work goes on

May import: every room but the command line and the adapters.

A change here cannot make an interval false; it can report one under the wrong name, or on the wrong side of rounding.
"""
