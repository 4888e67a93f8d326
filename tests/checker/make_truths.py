"""Writes tests/golden/checker_truths.json: exact epsilons of `comparisons.exact` (not of this package) with hints for the checker.

python tests/checker/make_truths.py
"""

from __future__ import annotations

import json
import pathlib

import dp_accounting as dpa
from dp_accounting import NeighboringRelation as Relation
from dp_accounting import dp_event

from comparisons import exact
from dp_edgeworth.analysis import certificates

AR, RO, RS = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE, Relation.REPLACE_SPECIAL


def sampled(p, event):
    return dpa.PoissonSampledDpEvent(p, event)


CASES = (
    (dpa.SelfComposedDpEvent(sampled(0.05, dpa.GaussianDpEvent(1.0)), 200), AR, 1e-5),
    (dpa.SelfComposedDpEvent(sampled(0.01, dpa.GaussianDpEvent(0.8)), 10_000), AR, 1e-5),
    (dpa.SelfComposedDpEvent(sampled(0.01, dpa.GaussianDpEvent(0.8)), 100), AR, 1e-6),
    (dpa.SelfComposedDpEvent(sampled(0.3, dpa.GaussianDpEvent(2.0)), 20), RO, 1e-4),
    (dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(5.0), 10), AR, 1e-6),
    (dpa.SelfComposedDpEvent(dpa.LaplaceDpEvent(5.0), 300), AR, 1e-5),
    (dpa.SelfComposedDpEvent(sampled(0.1, dpa.LaplaceDpEvent(1.0)), 500), AR, 1e-5),
    (dpa.SelfComposedDpEvent(dpa.RandomizedResponseDpEvent(0.6, 4), 40), RO, 1e-4),
    (dpa.SelfComposedDpEvent(dp_event.DiscreteLaplaceDpEvent(0.2, 2), 50), AR, 1e-4),
    (dpa.SelfComposedDpEvent(dpa.SampledWithoutReplacementDpEvent(1000, 50, dpa.GaussianDpEvent(2.0)), 100), RO, 1e-5),
    (dp_event.MixtureOfGaussiansDpEvent(1.5, [0.0, 0.5, 1.0], [0.5, 0.25, 0.25]), AR, 1e-3),
)


def row(event, relation, delta):
    value = exact.exact_epsilon(event, delta, relation)
    assert value.accuracy < 1e-10, value
    certificate = certificates.certify(event, target_delta=delta, neighboring_relation=relation, digits=7)
    return {
        "event": json.loads(certificate.event),
        "relation": relation.name,
        "delta": certificate.given,
        "epsilon": value.value,
        "lower": certificate.lower,
        "upper": certificate.upper,
        "hints": json.loads(certificate.hints),
    }


if __name__ == "__main__":
    source = (
        "epsilon: comparisons.exact.exact_epsilon (mpmath), relative accuracy 1e-10 or better; hints: certificates.certify at 7 digits"
    )
    path = pathlib.Path(__file__).resolve().parent.parent / "golden" / "checker_truths.json"
    path.write_text(json.dumps({"source": source, "rows": [row(*case) for case in CASES]}, indent=1) + "\n")
