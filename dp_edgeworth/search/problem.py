"""What the methods of the table work on: a composition, and what reductions have left of it."""

from __future__ import annotations

import dataclasses

from dp_edgeworth.proofs import reduction
from dp_edgeworth.proofs.contour import Contour
from dp_edgeworth.proofs.curve import Curve
from dp_edgeworth.proofs.proved import Proved
from dp_edgeworth.proofs.reduction import Reduced, Reduction
from dp_edgeworth.search.questions import Question
from dp_edgeworth.sums.composition import Composition


@dataclasses.dataclass(frozen=True)
class Problem:
    """A composition, and what is left of it after reductions: curves of `rest` are curves of `whole`."""

    whole: Composition
    rest: Composition
    reductions: tuple[Reduction, ...] = ()
    made: list[Curve] = dataclasses.field(default_factory=list)  # all curves of `whole` so far
    other: Contour | None = None  # of the direction of which `whole` is the mirror image

    def reduced(self, step: Reduction) -> Problem:
        return Problem(self.whole, step.rest, (step, *self.reductions), self.made)

    def curve(self, curve: Curve) -> Curve:
        for step in self.reductions:
            curve = Reduced(curve, step)
        self.made.append(curve)
        return curve


def without_rare(problem: Problem, question: Question, found: Proved, number: int, log_share: float) -> Problem:
    """Without the largest losses, whose probability is e^{log_share} of the delta of a target."""
    return problem.reduced(reduction.truncated(problem.rest, question.log_delta(problem.whole, found, number) + log_share))
