"""A sweep as an HTML table, for a notebook: rows and columns are the two longest axes, the third is in the caption."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dp_edgeworth.events.description import rounded_up

if TYPE_CHECKING:
    from dp_edgeworth.analysis.sweeps import SweepResult

_MOST = 12  # rows and columns


def as_html(result: SweepResult) -> str:
    """The first index of the shortest axis; of long axes the first entries."""
    names = list(result.axes)
    fixed = names[2 - int(np.argmin(result.epsilon.shape[::-1]))]
    across, down = (name for name in names if name != fixed)
    values = np.take(result.epsilon, 0, axis=names.index(fixed)).T
    head = "".join(f"<th>{value:g}</th>" for value in result.axes[across][:_MOST])
    rows = "".join(f"<tr><th>{value:g}</th>" + "".join(f"<td>{rounded_up(float(cell), 4)}</td>" for cell in row[:_MOST]) + "</tr>"
                   for value, row in zip(result.axes[down][:_MOST], values, strict=False))
    kind = "certified upper ends" if result.certified else "estimates, not guarantees"
    more = "; the first of them" if max(values.shape) > _MOST or result.axes[fixed].size > 1 else ""
    caption = (f"epsilon at delta = {result.target_delta:g} ({result.neighboring_relation.name}; {kind}); {fixed} = "
               f"{result.axes[fixed][0]:g}; rows {down}, columns {across}{more}")
    return f"<p>{caption}</p><table><tr><th></th>{head}</tr>{rows}</table>"
