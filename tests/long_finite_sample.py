"""The paper's bounds against the independent oracle: 1,000 random events, "uniform" and "adaptive" of orders 1 to 3.

    python tests/long_finite_sample.py [--events 1000] [--seed 1] [--seconds 20]

Event i of a seed is always the same: one to three kinds of Gaussian and Laplace leaves, most of them Poisson-sampled, i.i.d.
for even i, at a delta between 0.5 and 1e-6. Truth is `comparisons.exact.exact_epsilon` (80 bits, shares no code with the
package), widened by its own accuracy. An event that the oracle does not answer in time, or not to 1e-8, is replaced by the
next one. Ends with a table of counts and the violations; the exit status is 1 if there are any.
`tests/paper/test_finite_sample.py` runs the first few.
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import dp_accounting as dpa
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from comparisons import exact
from dp_edgeworth import EdgeworthIntervalAccountant

METHODS = {
    "uniform": {"bound": "uniform"},
    "adaptive": {"bound": "adaptive"},
    "adaptive, order 2": {"bound": "adaptive", "order": 2},
    "adaptive, order 3": {"bound": "adaptive", "order": 3},
}


class Case(NamedTuple):
    index: int
    event: dpa.DpEvent
    delta: float


def _between(rng: np.random.Generator, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def _leaf(rng: np.random.Generator) -> dpa.DpEvent:
    """Gaussian or Laplace, four of five sampled."""
    base = (dpa.GaussianDpEvent, dpa.LaplaceDpEvent)[int(rng.integers(2))](_between(rng, 0.4, 20))
    return dpa.PoissonSampledDpEvent(_between(rng, 1e-3, 1), base) if rng.random() < 0.8 else base


def random_case(seed: int, index: int) -> Case:
    rng = np.random.default_rng([seed, index])
    kinds = 1 if index % 2 == 0 else int(rng.integers(2, 4))
    parts = [dpa.SelfComposedDpEvent(_leaf(rng), round(_between(rng, 1, 1e5))) for _ in range(kinds)]
    return Case(index, dpa.ComposedDpEvent(parts), _between(rng, 1e-6, 0.5))


class _TooSlowError(Exception):
    pass


def _stop(*_: object) -> None:
    raise _TooSlowError


def truth(case: Case, seconds: float) -> exact.Exact | None:
    """The oracle's epsilon; None where it has none in time."""
    before = signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        return exact.exact_epsilon(case.event, case.delta)
    except (ArithmeticError, _TooSlowError):
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def violations(case: Case, known: exact.Exact) -> Iterator[str]:
    """What is wrong with the intervals of one event."""
    slack = 1.0 + 2.0 * known.accuracy
    for name, settings in METHODS.items():
        found = EdgeworthIntervalAccountant(**settings).compose(case.event).get_epsilon_interval(case.delta)
        if not found.lower <= found.estimate <= found.upper:
            yield f"{name}: out of order, {found}"
        if not found.lower <= known.value * slack:
            yield f"{name}: lower end {found.lower!r} above {known.value!r}"
        if not known.value <= found.upper * slack:
            yield f"{name}: upper end {found.upper!r} below {known.value!r}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0, help="processor time of the oracle, per event")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    index = 0
    while counts["judged"] < arguments.events:
        case, index = random_case(arguments.seed, index), index + 1
        known = truth(case, arguments.seconds)
        if known is None:
            counts["no oracle"] += 1
            continue
        counts["judged"] += 1
        counts["i.i.d." if len(case.event.events) == 1 else "mixed"] += 1
        for sentence in violations(case, known):
            counts["violations"] += 1
            print(f"VIOLATION {case!r}: {sentence}", flush=True)
        if counts["judged"] % 50 == 0:
            print(dict(counts), flush=True)
    print(dict(counts), "none violated" if not counts["violations"] else "")
    return bool(counts["violations"])


if __name__ == "__main__":
    sys.exit(main())
