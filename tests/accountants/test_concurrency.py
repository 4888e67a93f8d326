"""One accountant read from many threads, and its copies in other processes, answer bit by bit what it answers alone."""

import concurrent.futures
import multiprocessing
import pickle
import sys

import pytest
from cases import BY_NAME, RO, composed, gaussian, laplace, repeated, sampled

from dp_edgeworth import ApproximateEdgeworthAccountant, EdgeworthIntervalAccountant

THREADS = 4
DELTAS, EPSILONS = (1e-8, 1e-3, 0.9), (0.5,)
MIXED = composed(repeated(sampled(0.01, gaussian(1.0)), 100), laplace(5.0), repeated(sampled(0.2, laplace(3.0)), 7))
ACCOUNTANTS = {
    "certified": lambda: EdgeworthIntervalAccountant().compose(MIXED),
    "certified, replace one": lambda: EdgeworthIntervalAccountant(RO).compose(BY_NAME["without replacement"].event, 3),
    "certified, lattice": lambda: EdgeworthIntervalAccountant(RO).compose(BY_NAME["randomized response"].event, 50),
    "adaptive": lambda: EdgeworthIntervalAccountant(bound="adaptive").compose(sampled(0.05, gaussian(1.0)), 200),
    "tilted": lambda: ApproximateEdgeworthAccountant(tilted=True).compose(MIXED),
    "plain": lambda: ApproximateEdgeworthAccountant().compose(MIXED),
}
every_accountant = pytest.mark.parametrize("make", ACCOUNTANTS.values(), ids=ACCOUNTANTS)


def answers(accountant):
    return [accountant.get_epsilon(delta) for delta in DELTAS] + [accountant.get_delta(epsilon) for epsilon in EPSILONS]


def answers_of_pickle(data):
    return answers(pickle.loads(data))


@every_accountant
def test_threads_read_one_accountant(make):
    """A cache that was filled by another thread must not change an answer; threads switch as often as they can."""
    expected, accountant = answers(make()), make()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            found = list(pool.map(lambda _: answers(accountant), range(2 * THREADS)))
    finally:
        sys.setswitchinterval(interval)
    assert found == [expected] * len(found)


def test_threads_compose_accountants_of_their_own():
    """Leaves are shared by a cache of the module."""
    events = [sampled(0.01 * (1 + i % 5), gaussian(1.0 + i % 3)) for i in range(20)]

    def epsilon(event):
        return EdgeworthIntervalAccountant().compose(event, 10).get_epsilon_interval(1e-5)

    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(epsilon, events))
    assert found == [epsilon(event) for event in events]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_copies_in_other_processes(method):
    """Fresh interpreters, with nothing in their caches; "fork" is the same process twice."""
    accountants = [make() for make in ACCOUNTANTS.values()]
    expected = [answers(accountant) for accountant in accountants]
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
        found = list(pool.map(answers_of_pickle, map(pickle.dumps, accountants)))
    assert found == expected
