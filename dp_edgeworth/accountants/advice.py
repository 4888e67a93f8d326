"""Why an interval is wider than asked, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from dp_edgeworth.sums.composition import Composition

_RARE = "A few rare, large losses carry epsilon here; a larger `tolerance` or delta makes the answer quicker, not narrower."
_ADVICE = {
    "largest loss": "The upper end is the largest possible loss: losses are too steep for anything finer at this delta.",
    "Chernoff": "Counts or losses are so large that sums are lost in rounding; the interval is a few deviations of the loss wide.",
    "one jump": _RARE,
    "convolution": _RARE,
    "other": "The asked width is below what double precision resolves here; a larger `tolerance` says the same in less time.",
    "between": "The mechanism is known between two pairs only, or is any one of a class: each end is of another pair.",
}


def advice(upper_by: str, directions: Sequence[Composition]) -> str:
    """What made the interval wide: the theorem of its upper end, or that there is one pair above and another one below."""
    if upper_by not in _ADVICE and any(composition.dominated is not composition for composition in directions):
        return _ADVICE["between"]
    return _ADVICE.get(upper_by, _ADVICE["other"])
