"""The ends of every range: an answer, finite or inf, no warning, bounded memory; and the closed form inside it where there is one.

Closed forms are evaluated by mpmath in 80 digits at the exact values of the floats. The grid runs in a child process whose memory
is limited, with warnings as errors; DP_EDGEWORTH_LONG=1 runs all of it instead of a Latin square.
"""

import decimal
import fractions
import itertools
import math
import os
import pathlib
import subprocess
import sys
import warnings

import dp_accounting as dpa
import mpmath
import numpy as np
import pytest
from cases import AR, BY_NAME, RELATIONS, RO, RS, composed, gaussian, laplace, repeated, sampled
from dp_accounting import dp_event

import dp_edgeworth
from dp_edgeworth import EdgeworthIntervalAccountant

LONG = os.environ.get("DP_EDGEWORTH_LONG") == "1"
GIGABYTES = 4
ALMOST_ONE = 1 - 1e-16
NOISES = (1e-12, 1e-7, 1e-3, 0.3, 1.0, 30.0, 1e6, 1e12)
PROBABILITIES = (1e-12, 1e-6, 1e-2, 0.5, ALMOST_ONE, 1.0)
COUNTS = (1, 2, 100, 10**7, 10**11, 10**15)
DELTAS = (1e-300, 1e-100, 1e-16, 1e-5, 0.3, 0.999, ALMOST_ONE)
EPSILONS = (0.0, 1e-12, 1e-3, 1.0, 30.0, 1e3, 1e6)


# the grid ------------------------------------------------------------------------------------------------------------


def leaf_events(noise, p):
    """Leaves of every kind with this noise and sampling probability, and the relation for each."""
    relation = AR if noise < 1.0 else RS
    return [
        (sampled(p, gaussian(noise)), relation),
        (sampled(p, gaussian(noise)), RO),
        (sampled(p, laplace(noise)), relation),
        (laplace(noise), RO),
        (sampled(p, dp_event.DiscreteLaplaceDpEvent(1.0 / noise, 2)), relation),
        (sampled(p, dp_event.MixtureOfGaussiansDpEvent(noise, [0.0, 1e-9, 1.0], [0.25, 0.5, 0.25])), relation),
        (dpa.TruncatedSubsampledGaussianDpEvent(1000, p, 500, noise), relation),
        (dpa.RandomizedResponseDpEvent(p, 3), RO),
        (dpa.SingleEpochTreeAggregationDpEvent(noise, [10**15]), RS),
        (dpa.SampledWithoutReplacementDpEvent(10**12, max(1, int(p * 10**12)), gaussian(noise)), RO),
        (dp_edgeworth.AdditiveNoiseDpEvent("logistic", {"scale": noise}), relation),
    ]


def grid():
    """(event, relation, count): the leaf kinds take turns over a Latin square of noise, probability and count."""
    turn = 0
    for (i, noise), (j, p), (k, count) in itertools.product(*map(enumerate, (NOISES, PROBABILITIES, COUNTS))):
        kinds = leaf_events(noise, p)
        if LONG:
            yield from ((event, relation, count) for event, relation in kinds)
        elif (i + j + k) % 6 == 0:
            yield (*kinds[turn % len(kinds)], count)
            turn += 1


def problem(event, relation, count):
    """What is wrong with the answers, or "". Single answers and a whole array take different ways."""
    accountant = EdgeworthIntervalAccountant(relation).compose(event, count)
    for ask, targets, most in ((accountant.get_epsilon_interval, DELTAS, math.inf), (accountant.get_delta_interval, EPSILONS, 1.0)):
        for target in (np.array(targets), *(targets if LONG else (targets[0], targets[-1]))):
            lower, estimate, upper = map(np.asarray, ask(target))
            if not np.all((lower >= 0.0) & (lower <= estimate) & (estimate <= upper) & (upper <= most)):
                return f"{ask.__name__}({target}): {lower} {estimate} {upper}"
    return ""


def run_part(part, parts):
    """Runs inside the child process; prints what failed."""
    import resource

    limit = GIGABYTES << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    warnings.simplefilter("error")
    for number, (event, relation, count) in enumerate(grid()):
        if number % parts == part:
            try:
                found = problem(event, relation, count)
            except Exception as error:  # every failure is listed, not only the first
                found = repr(error)
            if found:
                print(f"{event} {relation.name} x {count}: {found}", flush=True)


@pytest.mark.parametrize("part", range(4))
def test_grid_of_extremes(part):
    tests = pathlib.Path(__file__).parents[1]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": f"{tests}{os.pathsep}{tests.parent}"}
    done = subprocess.run([sys.executable, __file__, str(part), "4"], env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr[-2000:]


# closed forms --------------------------------------------------------------------------------------------------------


def exact(value):
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.dps = 80
    return mpmath.mpf(value)


def gaussian_delta(variance, epsilon):
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), arXiv:1805.06530 Theorem 8."""
    import mpmath

    mu = mpmath.sqrt(variance)
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def laplace_delta(mu, epsilon):
    """1 - e^{(eps - mu)/2} below mu."""
    import mpmath

    return -mpmath.expm1((epsilon - mu) / 2) if epsilon < mu else mpmath.mpf(0)


def sampled_delta(delta, p, epsilon):
    """The larger of p H(1 + (e^eps - 1)/p) and (1 - e^eps (1-p)) H(eps'), for a pair that is its own mirror image."""
    import mpmath

    growth = mpmath.expm1(epsilon)
    remove = p * delta(mpmath.log1p(growth / p))
    rest = 1 - mpmath.exp(epsilon) * (1 - p)
    return max(remove, rest * delta(mpmath.log(mpmath.exp(epsilon) * p / rest))) if rest > 0 else remove


def check(accountant, delta_of, epsilons=EPSILONS, deltas=DELTAS):
    """delta(eps) lies in its interval; delta falls from above the target at the lower end of epsilon to below it at the upper."""
    for epsilon in epsilons:
        found = accountant.get_delta_interval(epsilon)
        assert exact(found.lower) <= delta_of(exact(epsilon)) <= exact(found.upper), epsilon
    for delta in deltas:
        found = accountant.get_epsilon_interval(delta)
        if found.lower > 0.0:
            assert delta_of(exact(found.lower)) >= exact(delta), delta
        if found.upper < math.inf:
            assert delta_of(exact(found.upper)) <= exact(delta), delta


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.name)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("count", [1, 3, 10**15])
def test_gaussians_contain_the_closed_form(noise, count, relation):
    variance = count * (exact(2 if relation is RO else 1) / exact(noise)) ** 2
    check(EdgeworthIntervalAccountant(relation).compose(gaussian(noise), count), lambda e: gaussian_delta(variance, e))


def test_compositions_of_gaussians_contain_the_closed_form():
    parts = [(noise, count) for noise, count in zip(NOISES[3:], COUNTS, strict=False)]
    variance = sum(count / exact(noise) ** 2 for noise, count in parts)
    event = composed(*(repeated(gaussian(noise), count) for noise, count in parts))
    check(EdgeworthIntervalAccountant().compose(event), lambda e: gaussian_delta(variance, e))


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.name)
@pytest.mark.parametrize("noise", [*NOISES, 1e-300, 1e300])
def test_laplace_contains_the_closed_form(noise, relation):
    mu = exact(2 if relation is RO else 1) / exact(noise)
    accountant = EdgeworthIntervalAccountant(relation).compose(laplace(noise))
    check(accountant, lambda e: laplace_delta(mu, e))
    lower, _, upper = accountant.get_epsilon_interval(0.0)
    assert exact(lower) <= mu <= exact(upper) or upper == math.inf


@pytest.mark.parametrize("p", PROBABILITIES[:-1])
@pytest.mark.parametrize("noise", [0.01, 0.3, 1.0, 30.0, 1e6])
def test_one_sampled_event_contains_the_closed_form(noise, p):
    mu = 1 / exact(noise)
    for event, delta_of in ((gaussian(noise), lambda e: gaussian_delta(mu * mu, e)), (laplace(noise), lambda e: laplace_delta(mu, e))):
        accountant = EdgeworthIntervalAccountant().compose(sampled(p, event))
        check(accountant, lambda e, delta_of=delta_of: sampled_delta(delta_of, exact(p), e), EPSILONS[:-2])


@pytest.mark.parametrize("noise", [1e-300, 1e-12, 0.3, 0.999, ALMOST_ONE])
@pytest.mark.parametrize("buckets", [2, 3, 10**9])
def test_randomized_response_contains_the_closed_form(noise, buckets):
    other = exact(noise) / buckets
    own = 1 - exact(noise) + other
    import mpmath

    accountant = EdgeworthIntervalAccountant(RO).compose(dpa.RandomizedResponseDpEvent(noise, buckets))
    check(accountant, lambda e: max(own - mpmath.exp(e) * other, mpmath.mpf(0)), EPSILONS[:-2])


# types of numbers ----------------------------------------------------------------------------------------------------

SCALARS = {"float64": np.float64, "float32": np.float32, "0-d": np.array, "0-d float32": lambda v: np.array(v, np.float32),
           "float16": np.float16, "longdouble": np.longdouble, "Fraction": fractions.Fraction, "Decimal": decimal.Decimal}
every_scalar = pytest.mark.parametrize("scalar", SCALARS.values(), ids=SCALARS)


@every_scalar
def test_targets_of_every_type(scalar):
    """0.125 and 1.5 are the same number in every type."""
    accountant = EdgeworthIntervalAccountant().compose(BY_NAME["sampled gaussian, m 200"].event)
    assert accountant.get_epsilon(scalar(0.125)) == accountant.get_epsilon(0.125)
    assert accountant.get_delta_interval(scalar(1.5)) == accountant.get_delta_interval(1.5)


@every_scalar
def test_fields_of_every_type(scalar):
    events = [
        (lambda s: dp_event.DiscreteLaplaceDpEvent(s(0.5), 2), AR),
        (lambda s: dp_event.MixtureOfGaussiansDpEvent(s(1.5), [s(0.5), s(1.0)], [s(0.25), s(0.75)]), AR),
        (lambda s: dpa.TruncatedSubsampledGaussianDpEvent(100, s(0.25), 30, s(1.5)), RO),
        (lambda s: dpa.RandomizedResponseDpEvent(s(0.5), 3), RO),
        (lambda s: dpa.SingleEpochTreeAggregationDpEvent(s(1.5), 5), RS),
        (lambda s: dpa.SampledWithoutReplacementDpEvent(8, 2, gaussian(s(1.5))), RO),
        (lambda s: dp_edgeworth.AdditiveNoiseDpEvent("logistic", {"scale": s(1.5)}, s(0.5)), AR),
    ]
    for make, relation in events:
        found = [EdgeworthIntervalAccountant(relation).compose(make(kind)).get_epsilon_interval(1e-5) for kind in (scalar, float)]
        assert found[0] == found[1], make(scalar)


@pytest.mark.parametrize("integer", [np.int64, np.uint8, np.uint64, np.array], ids=["int64", "uint8", "uint64", "0-d"])
def test_integer_fields_of_every_type(integer):
    events = [
        (lambda i: dpa.TruncatedSubsampledGaussianDpEvent(i(100), 0.25, i(30), 1.5), AR),
        (lambda i: dpa.RandomizedResponseDpEvent(0.5, i(3)), RO),
        (lambda i: dpa.SingleEpochTreeAggregationDpEvent(1.5, i(5)), RS),
        (lambda i: dpa.SingleEpochTreeAggregationDpEvent(1.5, [i(5), i(9)]), RS),
        (lambda i: dpa.SampledWithoutReplacementDpEvent(i(8), i(2), gaussian(i(2))), RO),
        (lambda i: composed(repeated(gaussian(i(2)), i(200))), AR),  # by itself the ledger refuses it
    ]
    for make, relation in events:
        found = [EdgeworthIntervalAccountant(relation).compose(make(kind)).get_epsilon_interval(1e-5) for kind in (integer, int)]
        assert found[0] == found[1], make(integer)


if __name__ == "__main__":
    run_part(int(sys.argv[1]), int(sys.argv[2]))


def test_the_largest_loss_of_rare_samples_in_50_digits() -> None:
    """log(1 + p (e^l - 1)) is off by l times the rounding of l = 1/b; mpmath 1.3, 50 digits, from the floats p and 1/b."""
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.dps = 50
    rng = np.random.default_rng(3)
    for _ in range(60):
        loss = float(rng.uniform(50.0, 600.0))
        p = math.exp(-loss - rng.uniform(0.0, 30.0))
        noise = 1.0 / loss
        exact = mpmath.log1p(mpmath.mpf(p) * mpmath.expm1(1 / mpmath.mpf(noise)))
        event = dp_event.PoissonSampledDpEvent(p, dp_event.LaplaceDpEvent(noise))
        lower, _, upper = EdgeworthIntervalAccountant().compose(event).get_epsilon_interval(0.0)
        assert lower <= exact <= upper and upper - lower <= 1e-11 * upper


def test_a_delta_below_the_normal_floats() -> None:
    """Its reciprocal overflows."""
    accountant = EdgeworthIntervalAccountant().compose(gaussian(1.0))
    delta = accountant.get_delta_interval(38.5)
    assert 0.0 <= delta.lower <= delta.upper < 1e-308 and delta.upper > 0.0
    lower, _, upper = accountant.get_epsilon_interval(delta.upper)
    assert lower <= 38.5 and upper < math.inf


def test_a_few_unlike_leaves_in_any_order() -> None:
    events = [gaussian(20.085536923187668), sampled(0.25, gaussian(1.0)), laplace(1.0)]
    found = {tuple(EdgeworthIntervalAccountant().compose(composed(*order)).get_epsilon_interval(math.exp(-2.0)))
             for order in itertools.permutations(events)}
    assert len(found) == 1


@pytest.mark.parametrize("shifts", [(9.8e-170, 1.1e-308), (1e-200, 1.0), (5e-324, 1e-300)])
def test_mixtures_of_tiny_shifts(shifts: tuple[float, float]) -> None:
    """Where the loss would be reached is beyond the floats, and so is delta."""
    event = dp_event.MixtureOfGaussiansDpEvent(1.0, list(shifts), [0.5, 0.5])
    accountant = EdgeworthIntervalAccountant().compose(event)
    for epsilon in (0.0, 1e-12, 1.0):
        lower, estimate, upper = accountant.get_delta_interval(epsilon)
        assert 0.0 <= lower <= estimate <= upper <= 1.0
    lower, _, upper = accountant.get_epsilon_interval(1e-5)
    assert 0.0 <= lower <= upper < 10.0


def test_upper_ends_where_floats_are_sparse():
    """One Gaussian of noise 1: delta(eps) = Phi(1/2 - eps) - e^eps Phi(-1/2 - eps) in 60 digits, down to the smallest float."""
    mpmath = pytest.importorskip("mpmath")
    accountant = EdgeworthIntervalAccountant().compose(gaussian(1.0))
    with mpmath.workdps(60):
        for epsilon in np.linspace(37.3, 38.9, 161):
            found, eps = accountant.get_delta_interval(float(epsilon)), mpmath.mpf(float(epsilon))
            exact = mpmath.ncdf(mpmath.mpf(0.5) - eps) - mpmath.exp(eps) * mpmath.ncdf(-mpmath.mpf(0.5) - eps)
            assert mpmath.mpf(found.lower) <= exact <= mpmath.mpf(found.upper)


@pytest.mark.parametrize("event", [
    repeated(sampled(1e-310, gaussian(0.01)), 10), repeated(laplace(1e-6), 10**20),
    dp_event.MixtureOfGaussiansDpEvent(0.5, [0.0, 1.0, 10.0], [1.0, 1e-60, 1e-260])], ids=repr)
def test_no_warnings_at_the_ends_of_the_floats(event):
    accountant = EdgeworthIntervalAccountant().compose(event)
    for delta, epsilon in ((0.5, 1e-3), (1e-5, 0.0), (1e-300, 1e6)):
        assert 0.0 <= accountant.get_epsilon(delta) and 0.0 <= accountant.get_delta(epsilon) <= 1.0


@pytest.mark.parametrize("delta", [1e-9, 0.3, 0.7, 0.999])
@pytest.mark.parametrize(("event", "mean", "deviation"), [
    # L = 10 - D, D = 0 or Exp(1/2) up to 20 with probability 1/2: mean 9 + 2 e^-10 ..., variance 3 less about 1e-3
    (laplace(0.1), 9.0 + 1.0e-4, math.sqrt(3.0)), (laplace(0.01), 99.0, math.sqrt(3.0)),
    # a coin: log p + N(mu^2/2, mu^2) or log(1 - p), mu = 1000
    (sampled(0.5, gaussian(0.001)), 2.5e5 - math.log(2.0), math.sqrt(0.5 * 1e6 + 0.25 * 5e5**2)),
], ids=repr)
def test_huge_counts_have_two_ends(event, mean, deviation, delta):
    """1e15 uses: epsilon is within ten deviations, and a relative 1e-4, of the mean loss; K is rounded by too much for a contour."""
    found = EdgeworthIntervalAccountant().compose(event, 10**15).get_epsilon_interval(delta)
    assert found.lower <= 1e15 * mean * (1.0 + 1e-4) + 1e8 * 3.2 * deviation and found.upper >= 1e15 * mean * (1.0 - 1e-4)
    assert found.upper - found.lower <= 1e-2 * found.lower


def test_the_curve_without_sampling_is_an_upper_end():
    found = EdgeworthIntervalAccountant().compose(sampled(0.5, gaussian(1e-12)), 10**15).get_epsilon(1e-5)
    assert found <= EdgeworthIntervalAccountant().compose(gaussian(1e-12), 10**15).get_epsilon(1e-5) * (1.0 + 1e-9)


# one use, on every scale -----------------------------------------------------------------------------------------------


def normal_mixture_delta(p_law, q_law, epsilon):
    """max_x Q(> x) - e^eps P(> x) of two mixtures of N(c, 1), lists of (weight, c) with the same N(0, 1) part left out, as -expm1."""
    def excess(x):  # log-likelihood ratio less epsilon; 1 + sum w (e^{c x - c^2/2} - 1) loses no digit of a tiny weight
        logs = [mpmath.log1p(mpmath.fsum(w * mpmath.expm1(c * x - c * c / 2) for w, c in law)) for law in (q_law, p_law)]
        return logs[0] - logs[1] - epsilon

    low, high = mpmath.mpf(0), mpmath.asinh(mpmath.mpf(10) ** 25)
    for _ in range(160):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(mpmath.sinh(middle)) < 0 else (low, middle)
    x = mpmath.sinh(high)
    rest, moved = mpmath.ncdf(-x), [mpmath.fsum(w * (mpmath.ncdf(c - x) - mpmath.ncdf(-x)) for w, c in law) for law in (q_law, p_law)]
    return moved[0] - moved[1] - mpmath.expm1(epsilon) * (rest + moved[1])


@pytest.mark.parametrize("noise", [0.2, 1.0, 1e6, 9962363447102586.0])
@pytest.mark.parametrize("p", [0.01, 1.0878156786593e-12, 1e-27, 1e-290])
@pytest.mark.parametrize("kind", ["replacement", "mixture"])
def test_one_use_in_80_digits(kind, p, noise):
    """The x where the loss is epsilon is found on every scale: 60 Newton steps from log(1/p)/mu did not reach it."""
    with mpmath.workdps(80):
        rare, mu = mpmath.mpf(p), 1 / mpmath.mpf(noise)
        if kind == "replacement":
            event, relation, laws = sampled(p, gaussian(noise)), RO, ([(rare, -mu)], [(rare, mu)])
        else:
            inner = dp_event.MixtureOfGaussiansDpEvent(noise, [1.0, 0.25], [0.5, 0.5])
            event, relation, laws = sampled(p, inner), AR, ([], [(rare / 2, mu), (rare / 2, mu / 4)])
        accountant = EdgeworthIntervalAccountant(relation).compose(event)
        for epsilon in (0.0, 0.3 * p / noise, p / noise):
            lower, _, upper = accountant.get_delta_interval(epsilon)
            exact = normal_mixture_delta(*laws, mpmath.mpf(epsilon))
            assert lower <= exact <= upper, (epsilon, float(exact))
            assert accountant.get_epsilon(float(exact) / 2) > 0.0
        assert accountant.get_delta(0.0) <= (1 + 1e-11) * normal_mixture_delta(*laws, mpmath.mpf(0))


def test_products_of_small_numbers_in_a_slope():
    """p mu = 1e-350 is no float; delta is at most 2 p mu per use."""
    accountant = EdgeworthIntervalAccountant(RO).compose(sampled(1e-200, gaussian(1e150)), 2)
    assert accountant.get_epsilon(1e-5) <= 1e-6


# products and ratios that are no floats ----------------------------------------------------------------------------------


UNDERFLOWS = [
    (sampled(1e-200, sampled(1e-200, gaussian(1.0))), AR),
    (sampled(1e-200, sampled(1e-200, gaussian(1.0))), RO),
    (sampled(1e-200, gaussian(1e139)), RO),
    (dp_edgeworth.AdditiveNoiseDpEvent("norm", {"scale": 1e300}, 1e-300), AR),
    (dp_edgeworth.AdditiveNoiseDpEvent("logistic", {"scale": 1e300}, 1e-300), AR),
    (dp_event.MixtureOfGaussiansDpEvent(1e300, [1e-300], [1.0]), AR),
    (dp_event.MixtureOfGaussiansDpEvent(1e200, [0, 1e-200, 2e-200], [0.5, 0.25, 0.25]), AR),
    (sampled(5e-324, dp_event.MixtureOfGaussiansDpEvent(1.0, [1.0, 2.0], [0.5, 0.5])), AR),
    (sampled(1e-200, sampled(1e-200, laplace(1.0))), AR),
    (sampled(1e-200, laplace(1e200)), AR),
]


@pytest.mark.parametrize(("event", "relation"), UNDERFLOWS, ids=str)
@pytest.mark.parametrize("count", [1, 3])
def test_a_loss_that_underflows_is_not_none(event, relation, count):
    """The exact delta(0) is positive and below 1e-300; the exact epsilon(0) is infinite, for Laplace and logistic noise positive."""
    accountant = EdgeworthIntervalAccountant(relation).compose(event, count)
    epsilon, delta = accountant.get_epsilon_interval(0.0), accountant.get_delta_interval(0.0)
    bounded = "Laplace" in str(event) or "logistic" in str(event)
    assert epsilon.upper > 0.0 if bounded else epsilon.upper == math.inf
    assert delta.lower <= 1e-300 and 0.0 < delta.upper < 1e-5
    assert accountant.get_epsilon(1e-5) <= 1e-6


def test_sampling_of_the_non_private_is_non_private_however_rare():
    assert EdgeworthIntervalAccountant().compose(sampled(1e-200, sampled(1e-200, dpa.NonPrivateDpEvent()))).get_delta(1.0) == 1.0


HUGE = [  # which delta(epsilon) is within 1e-100 of, for every epsilon up to 1e50
    (sampled(1e-6, gaussian(1e-200)), AR, 1e-6),
    (sampled(1e-6, gaussian(1e-200)), RO, 1e-6),
    (sampled(1e-6, gaussian(1e-310)), AR, 1e-6),
    (sampled(0.01, laplace(1e-310)), AR, 0.01),
    (dp_event.MixtureOfGaussiansDpEvent(1.0, [0.0, 1e200], [0.75, 0.25]), AR, 0.25),
    (dp_event.MixtureOfGaussiansDpEvent(1e-160, [0, 1, 2], [0.75, 0.125, 0.125]), AR, 0.25),
    (dpa.SampledWithoutReplacementDpEvent(10**6, 1, gaussian(1e-200)), RO, 1e-6),
    (dpa.TruncatedSubsampledGaussianDpEvent(10**6, 1e-6, 100, 1e-200), AR, 1e-6),
    (gaussian(1e-200), AR, 1.0),
    (laplace(1e-310), AR, 1.0),
]


@pytest.mark.parametrize(("event", "relation", "delta"), HUGE, ids=str)
def test_a_sample_without_noise_to_speak_of_is_still_a_sample(event, relation, delta):
    """1 - (1 - delta)^m, whether anything was sampled, at every epsilon; only noise 0 itself is non-private."""
    for count in (1, 3):
        accountant = EdgeworthIntervalAccountant(relation).compose(event, count)
        once = -math.expm1(count * math.log1p(-delta)) if delta < 1.0 else 1.0
        for epsilon in (1.0, 1e3, 1e40):
            found = accountant.get_delta_interval(epsilon)
            assert found.lower <= once * (1 + 1e-12) and once * (1 - 1e-12) <= found.upper
            if count == 1 and found.lower > 0.0:
                assert once * (1 - 1e-10) <= found.lower and found.upper <= once * (1 + 1e-9)
        assert accountant.get_epsilon(1.0) == 0.0


def test_mixtures_with_one_shift_that_is_no_float():
    """Half the time a shift of 1e200: delta(eps) = 1/2 + 1/2 delta_N(1)(eps + log 2)."""
    accountant = EdgeworthIntervalAccountant().compose(dp_event.MixtureOfGaussiansDpEvent(1.0, [1.0, 1e200], [0.5, 0.5]))
    for epsilon in (0.0, 0.5, 3.0):
        delta = 0.5 + 0.5 * float(gaussian_delta(1.0, exact(epsilon) + mpmath.log(2)))
        found = accountant.get_delta_interval(epsilon)
        assert found.lower <= delta <= found.upper < delta + 0.1


def test_samples_of_almost_everything_without_replacement():
    """(10^17 - 1) / 10^17 is 1 as a float: bounded by the whole, a Gaussian of shift 2 sqrt(10)."""
    event = dpa.SampledWithoutReplacementDpEvent(10**17, 10**17 - 1, gaussian(1.0))
    found = EdgeworthIntervalAccountant(RO).compose(event, 10).get_delta_interval(40.0)
    delta = float(gaussian_delta(40.0, exact(40.0)))
    assert delta * (1 - 1e-5) <= found.lower <= delta * (1 + 1e-9) and delta * (1 - 1e-9) <= found.upper <= delta * (1 + 1e-5)
    dp_edgeworth.explain(repeated(event, 10), target_delta=1e-5, neighboring_relation=RO)
