"""A comparison of sampling schemes as a chart: one bar per scheme from the lower to the upper end of epsilon. Needs matplotlib.

Colours (Okabe and Ito's) are the neighboring relations; bars of different colours are not comparable.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dp_edgeworth.events.description import rounded_up

if TYPE_CHECKING:
    from dp_edgeworth.analysis.sampling import SamplingComparison

_COLOURS = ("#0072B2", "#E69F00", "#009E73")


def chart(table: SamplingComparison, axes: Any = None) -> Any:
    """Draws the intervals, or the noise multipliers where these were solved for, and returns matplotlib's axes."""
    from matplotlib import pyplot

    if axes is None:
        _, axes = pyplot.subplots(figsize=(8.0, 1.2 + 0.45 * len(table.rows)))
    solved, seen = table.target_epsilon is not None, set()
    for place, row in enumerate(table.rows):
        colour = _COLOURS[table.relations.index(row.neighboring_relation)]
        low, high = (0.0, row.noise_multiplier) if solved else (row.interval.lower, row.interval.upper)
        if not math.isfinite(high):
            continue
        name = None if row.neighboring_relation in seen else row.neighboring_relation
        seen.add(row.neighboring_relation)
        axes.barh(place, high, color=colour, alpha=0.35, label=name)
        axes.barh(place, low if not solved else high, color=colour)
        axes.text(high, place, f" {rounded_up(high, 4)}", va="center", fontsize=9)
    axes.set(yticks=range(len(table.rows)), yticklabels=[row.scheme for row in table.rows],
             xlabel="noise multiplier" if solved else "epsilon (light: between the lower and the upper end)")
    axes.invert_yaxis()
    axes.set_title(table.title, fontsize=10)
    axes.legend(title="not comparable across", fontsize=8, title_fontsize=8, loc="lower right")
    axes.figure.tight_layout()
    return axes
