"""Writes exact_values.json: exact epsilon(delta) of about 120 events from `comparisons.exact`.

Run from the repository: python tests/golden/make_exact_values.py (about ten minutes on one core).
Each row: id, event (a Python expression over dp_accounting.dp_event names), relation, delta, epsilon,
accuracy (relative disagreement of two computations), method (closed form, lattice sum, contour), seconds.
"""

from __future__ import annotations

import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from dp_accounting import NeighboringRelation as Relation
from dp_accounting import dp_event as de

from comparisons import exact

AR, RS, RO = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_SPECIAL, Relation.REPLACE_ONE
Case = tuple[str, de.DpEvent, Relation, float]


def times(event: de.DpEvent, count: int) -> de.DpEvent:
    return de.SelfComposedDpEvent(event, count)


def sampled(p: float, event: de.DpEvent) -> de.DpEvent:
    return de.PoissonSampledDpEvent(p, event)


def gaussian(noise: float) -> de.DpEvent:
    return de.GaussianDpEvent(noise)


def gaussian_cases() -> list[Case]:
    """Plain and subsampled Gaussians: counts 1..1e6, the hard regime m p about 1, deltas 0.5..1e-300."""
    grid = [(0.01, 0.8, 1000), (0.05, 1.0, 200), (0.02, 2.0, 10_000), (0.3, 5.0, 50), (0.9, 20.0, 10)]
    cases = [
        (f"sg-{p}-{s}-{m}-{d:g}", times(sampled(p, gaussian(s)), m), AR, d)
        for p, s, m in grid
        for d in (0.01, 1e-5, 1e-10, 1e-14)
    ]
    cases += [
        (f"sg-tiny-delta-{d:g}", times(sampled(0.05, gaussian(1.0)), 200), AR, d)
        for d in (0.5, 1e-50, 1e-300)
    ]
    cases += [
        (f"sg-long-{m}", times(sampled(0.001, gaussian(0.6)), m), AR, 1e-6)
        for m in (1, 10, 100, 10_000, 1_000_000)
    ]
    cases += [
        (f"sg-hard-{m}", times(sampled(1 / m, gaussian(s)), m), AR, 1e-6)
        for m, s in ((2, 0.5), (30, 1.0), (1000, 0.6), (100_000, 0.7), (1_000_000, 0.5))
    ]
    cases += [(f"sg-hard-add-{d:g}", times(sampled(0.002, gaussian(1.0)), 500), RS, d) for d in (0.05, 1e-9)]
    cases += [
        (f"sg-replace-one-{m}", times(sampled(p, gaussian(s)), m), RO, d)
        for p, s, m, d in (
            (0.02, 1.0, 500, 1e-6),
            (0.1, 0.7, 1, 1e-3),
            (0.001, 0.8, 1000, 1e-8),
            (0.5, 10.0, 20, 0.1),
            (1e-4, 0.9, 100_000, 1e-12),
        )
    ]
    cases += [
        (f"g-{s}-{m}-{d:g}", times(gaussian(s), m), r, d)
        for s, m, r, d in (
            (1.0, 1, AR, 1e-5),
            (80.0, 1500, AR, 1e-10),
            (0.5, 1, RO, 0.3),
            (30.0, 10**6, RS, 1e-8),
            (50.0, 3, AR, 1e-300),
            (4.0, 12, RO, 1e-14),
        )
    ]
    cases += [
        (
            "sg-composition",
            times(sampled(0.1, de.ComposedDpEvent([gaussian(3.0), times(gaussian(6.0), 4)])), 60),
            AR,
            1e-7,
        ),
        ("sg-composition-replace", times(sampled(0.1, times(gaussian(6.0), 4)), 60), RO, 1e-7),
        ("sg-twice", times(sampled(0.2, sampled(0.05, gaussian(0.9))), 2000), AR, 1e-6),
        ("tree", times(de.SingleEpochTreeAggregationDpEvent(4.0, [100, 1000]), 3), RS, 1e-6),
        ("tree-scalar", de.SingleEpochTreeAggregationDpEvent(2.0, 7), RS, 1e-3),
    ]
    return cases


def laplace_cases() -> list[Case]:
    """Continuous and discrete Laplace, with and without sampling."""
    grid = [
        (1.0, 1.0, 1),
        (1.0, 1.0, 10),
        (1.0, 5.0, 1000),
        (1.0, 20.0, 3),
        (0.01, 0.5, 1000),
        (0.1, 1.0, 25),
        (0.3, 3.0, 2),
        (0.001, 0.4, 100_000),
    ]
    cases = [
        (
            f"lap-{p}-{b}-{m}-{d:g}",
            times(sampled(p, de.LaplaceDpEvent(b)) if p < 1 else de.LaplaceDpEvent(b), m),
            r,
            d,
        )
        for p, b, m in grid
        for r, d in ((AR, 0.01), (RS, 1e-7))
    ]
    cases += [(f"lap-replace-{m}", times(de.LaplaceDpEvent(4.0), m), RO, 1e-6) for m in (1, 40)]
    cases += [
        (
            f"dlap-{a}-{s}-{m}-{p}",
            times(
                sampled(p, de.DiscreteLaplaceDpEvent(a, s)) if p < 1 else de.DiscreteLaplaceDpEvent(a, s), m
            ),
            r,
            d,
        )
        for a, s, m, p, r, d in (
            (0.5, 1, 1, 1.0, AR, 0.01),
            (0.3, 3, 8, 1.0, RS, 1e-6),
            (0.05, 2, 10**5, 1.0, AR, 1e-9),
            (0.7, 1, 500, 0.1, AR, 1e-5),
            (0.4, 2, 100, 0.05, RS, 1e-8),
            (0.2, 4, 6, 0.3, AR, 1e-3),
            (0.3, 1, 10**6, 0.01, AR, 1e-12),
        )
    ]
    return cases


def other_cases() -> list[Case]:
    """Randomised response, mixtures of Gaussians, truncated sampling, sampling without replacement."""
    cases = [
        (f"rr-{p}-{k}-{m}-{r.name}", times(de.RandomizedResponseDpEvent(p, k), m), r, d)
        for p, k, m, d in ((0.5, 2, 10, 1e-6), (0.6, 5, 1, 0.01), (0.9, 10, 5000, 1e-9), (0.2, 3, 40, 1e-200))
        for r in (RS, RO)
    ]
    mixture = de.MixtureOfGaussiansDpEvent(1.5, [0.0, 0.5, 1.0], [0.5, 0.3, 0.2])
    sparse = de.MixtureOfGaussiansDpEvent(0.8, [0.0, 1.0, 2.0], [0.97, 0.02, 0.01])
    cases += [
        (f"mog-{m}-{d:g}", times(event, m), r, d)
        for event, m, r, d in (
            (mixture, 1, AR, 1e-5),
            (mixture, 30, AR, 1e-6),
            (mixture, 10_000, RS, 1e-10),
            (sparse, 100, RS, 1e-4),
            (sparse, 4, AR, 0.01),
        )
    ]
    cases += [("mog-sampled", times(sampled(0.05, mixture), 800), AR, 1e-6)]
    cases += [
        (f"truncated-{n}-{m}-{r.name}", times(de.TruncatedSubsampledGaussianDpEvent(n, p, b, s), m), r, d)
        for n, p, b, s, m, d in (
            (1000, 0.05, 55, 1.2, 40, 1e-6),
            (10_000, 0.01, 130, 1.0, 2000, 1e-8),
            (500, 0.02, 20, 2.0, 1, 1e-4),
        )
        for r in (AR, RS, RO)
    ]
    cases += [
        (f"wor-{n}-{k}-{m}", times(de.SampledWithoutReplacementDpEvent(n, k, gaussian(s)), m), RO, d)
        for n, k, s, m, d in (
            (1000, 10, 2.0, 500, 1e-6),
            (100, 50, 5.0, 20, 1e-5),
            (1000, 1, 1.0, 1000, 1e-8),
            (1000, 100, 3.0, 1, 1e-3),
            (10_000, 100, 1.5, 100_000, 1e-9),
            (64, 64, 4.0, 9, 1e-5),
        )
    ]
    cases += [
        (
            "wor-composition",
            times(
                de.SampledWithoutReplacementDpEvent(
                    200, 10, de.ComposedDpEvent([gaussian(4.0), gaussian(4.0)])
                ),
                100,
            ),
            RO,
            1e-5,
        )
    ]
    return cases


def mixed_cases() -> list[Case]:
    """Compositions of different leaves."""
    sg, lap, rr = (
        times(sampled(0.02, gaussian(1.0)), 500),
        de.LaplaceDpEvent(5.0),
        de.RandomizedResponseDpEvent(0.7, 4),
    )
    dlap, mog = de.DiscreteLaplaceDpEvent(0.2, 2), de.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0], [0.9, 0.1])
    wor = times(de.SampledWithoutReplacementDpEvent(1000, 20, gaussian(2.0)), 200)
    trees: list[tuple[list[de.DpEvent], Relation, float]] = [
        ([sg, gaussian(3.0)], AR, 1e-6),
        ([sg, times(lap, 3)], AR, 1e-5),
        ([times(dlap, 5), times(lap, 2)], RS, 1e-4),
        ([times(rr, 6), gaussian(2.0)], RS, 1e-6),
        ([times(rr, 6), times(dlap, 3)], RS, 1e-5),
        ([sg, times(mog, 40)], RS, 1e-8),
        ([wor, gaussian(10.0)], RO, 1e-6),
        ([wor, times(rr, 3)], RO, 1e-5),
        ([times(lap, 4), times(rr, 2)], RO, 1e-3),
        ([sg, times(sampled(0.0005, gaussian(0.7)), 10_000), times(lap, 2), times(mog, 5)], AR, 1e-10),
        ([times(sampled(1e-4, gaussian(0.5)), 5000), times(sampled(0.3, gaussian(8.0)), 30)], AR, 1e-7),
        ([times(sampled(0.1, lap), 30), times(sampled(0.2, mog), 30), gaussian(20.0)], RS, 1e-6),
    ]
    return [(f"mixed-{k}", de.ComposedDpEvent(parts), r, d) for k, (parts, r, d) in enumerate(trees)]


def method(event: de.DpEvent, relation: Relation) -> str:
    comp = exact._directions(event, relation)[0]
    if comp.single() is not None:
        return "closed form, 60 digits"
    if not comp.square and all(isinstance(law, exact.Lattice) for law, _ in comp.laws):
        return "tilted lattice sum, 80 bits"
    return "contour integral, 80 bits"


def row(case: Case) -> dict[str, object]:
    name, event, relation, delta = case
    start = time.process_time()
    value, accuracy = exact.exact_epsilon(event, delta, relation)
    seconds = round(time.process_time() - start, 2)
    return {
        "id": name,
        "event": repr(event),
        "relation": relation.name,
        "delta": delta,
        "epsilon": value,
        "accuracy": accuracy,
        "method": method(event, relation),
        "seconds": seconds,
    }


def main() -> None:
    rows = []
    for case in [*gaussian_cases(), *laplace_cases(), *other_cases(), *mixed_cases()]:
        try:
            rows.append(row(case))
            print(rows[-1]["id"], rows[-1]["epsilon"], rows[-1]["accuracy"], rows[-1]["seconds"], flush=True)
        except ArithmeticError as error:
            print("FAILED", case[0], error, flush=True)
    ids = [r["id"] for r in rows]
    assert len(set(ids)) == len(ids), "duplicate ids"
    source = "comparisons/exact by tests/golden/make_exact_values.py"
    path = pathlib.Path(__file__).with_name("exact_values.json")
    path.write_text(json.dumps({"source": source, "cases": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
