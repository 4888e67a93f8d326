"""The `CombineFn` in small pipelines on Beam's local runner. Runs where apache_beam is installed (`tests/adapters/run.sh`)."""

import dp_accounting as dpa
import pytest

beam = pytest.importorskip("apache_beam")

from apache_beam.testing.util import assert_that  # noqa: E402

from dp_edgeworth import EdgeworthIntervalAccountant  # noqa: E402
from dp_edgeworth.beam import AccountantCombineFn  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
EVENTS = [dpa.GaussianDpEvent(20.0), dpa.LaplaceDpEvent(50.0), dpa.PoissonSampledDpEvent(0.1, dpa.GaussianDpEvent(4.0))]


def replace_one():
    return EdgeworthIntervalAccountant(dpa.NeighboringRelation.ADD_OR_REMOVE_ONE, tolerance=1e-8)


def expect_epsilon(epsilon):
    def check(found):
        assert len(found) == 1 and abs(found[0] - epsilon) <= 1e-9, (found, epsilon)

    return check


def composed(counts):
    accountant = replace_one()
    for event, count in zip(EVENTS, counts, strict=True):
        accountant.compose(event, count)
    return accountant.get_epsilon(1e-6)


def test_events_of_a_pipeline_become_one_accountant():
    elements = EVENTS * 100
    with beam.Pipeline(runner="DirectRunner") as pipeline:
        found = (pipeline | beam.Create(elements) | beam.Reshuffle() | beam.CombineGlobally(AccountantCombineFn(replace_one))
                 | beam.Map(lambda accountant: accountant.get_epsilon(1e-6)))
        assert_that(found, expect_epsilon(composed((100, 100, 100))))


def test_pairs_with_counts_and_keys():
    elements = [("a", (EVENTS[0], 3)), ("a", EVENTS[1]), ("b", (EVENTS[2], 7)), ("a", (EVENTS[0], 4))]

    def check(found):
        values = dict(found)
        assert set(values) == {"a", "b"}
        assert abs(values["a"] - composed((7, 1, 0 + 1))) > 1e-6  # the third event is not of "a"
        ours = replace_one().compose(EVENTS[0], 7).compose(EVENTS[1]).get_epsilon(1e-6)
        assert abs(values["a"] - ours) <= 1e-9

    with beam.Pipeline(runner="DirectRunner") as pipeline:
        found = (pipeline | beam.Create(elements) | beam.CombinePerKey(AccountantCombineFn(replace_one))
                 | beam.MapTuple(lambda key, accountant: (key, accountant.get_epsilon(1e-6))))
        assert_that(found, check)


def test_what_is_no_event_is_refused():
    with pytest.raises(Exception, match="must be events or"), beam.Pipeline(runner="DirectRunner") as pipeline:
        pipeline | beam.Create([1.0]) | beam.CombineGlobally(AccountantCombineFn(replace_one))
