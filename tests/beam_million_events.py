"""A million events through Beam's local runner: `python tests/beam_million_events.py` (needs the extra `beam`).

Not collected by pytest, because Beam is a large install; the numbers it prints are in docs/scale.md.
"""

import sys
import time

import apache_beam as beam
import dp_accounting as dpa
from apache_beam.testing.util import assert_that

import dp_edgeworth
from dp_edgeworth.beam import AccountantCombineFn


def event(i: int) -> dpa.DpEvent:
    """Half of the events are one repeated leaf, the others one of a thousand distinct ones."""
    noise = 1.0 if i % 2 else 10.0 + (i // 2 % 1000) / 1000.0
    return dpa.PoissonSampledDpEvent(0.001, dpa.GaussianDpEvent(noise))


def main(total: int = 1_000_000) -> None:
    expected = dp_edgeworth.EdgeworthIntervalAccountant().compose(event(1), total // 2)
    for i in range(0, 2000, 2):
        expected.compose(event(i), total // 2000)
    want = expected.get_epsilon(1e-6)

    def check(found: list) -> None:
        assert len(found) == 1 and abs(found[0].get_epsilon(1e-6) - want) <= 1e-12 * want, (found, want)

    start = time.perf_counter()
    with beam.Pipeline(runner="BundleBasedDirectRunner") as pipeline:
        accountant = (pipeline | beam.Create(range(total)) | beam.Map(event)
                      | beam.CombineGlobally(AccountantCombineFn(dp_edgeworth.EdgeworthIntervalAccountant)))
        assert_that(accountant, check)
    print(f"{total} events, epsilon {want:.9f} at delta 1e-6, {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
