"""Each error term of the certificate (header of `contour.py`) on its own: made large, it must widen the interval and keep the truth.

Exact values come from `comparisons.exact` (80 bits, nothing shared with the package), `mpmath` or `fractions`.
"""

import dataclasses
import functools
import math
from fractions import Fraction

import dp_accounting as dpa
import numpy as np
import pytest
from cases import gaussian, repeated, sampled
from scipy import optimize, stats

from dp_edgeworth import AdditiveNoiseDpEvent, EdgeworthIntervalAccountant
from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.gaussian_noise import GaussianShift
from dp_edgeworth.losses.laplace_noise import LaplaceShift
from dp_edgeworth.losses.operations import subsample
from dp_edgeworth.losses.rules import EPSILON, Rule
from dp_edgeworth.proofs.aliases import AliasBound, log_kappa
from dp_edgeworth.proofs.contour import contour as contour_of
from dp_edgeworth.proofs.contour import sum_error
from dp_edgeworth.search import contours
from dp_edgeworth.search.contours import sufficient_frequency
from dp_edgeworth.search.ladder import place_at_epsilon
from dp_edgeworth.sums import characteristic
from dp_edgeworth.sums.blocks import COUNT_ERROR, Block
from dp_edgeworth.sums.characteristic import log_characteristic
from dp_edgeworth.sums.composition import Composition

mpmath = pytest.importorskip("mpmath")
from comparisons.exact.answers import _delta_of, directions  # noqa: E402

REMOVE = EdgeworthIntervalAccountant().neighboring_relation
STEP, COUNT = sampled(0.05, gaussian(1.0)), 200


def composition(event):
    """The "remove" direction alone."""
    return EdgeworthIntervalAccountant().compose(event)._compositions()[0]


@functools.lru_cache
def exact_log_delta(event, epsilon):
    return math.log(_delta_of(directions(event, REMOVE)[0], epsilon).value)


def planned(sums, epsilon, *, period=1.0, highest=1.0, tau2=None):
    """The contour that the package would choose, with its period, its highest frequency or its smoothing changed."""
    place = place_at_epsilon(sums, epsilon)
    choice = contours.plan(place, 1e-6, place.slope, 0.0)
    need, turns = choice.loss - choice.log_relative + 9.0, choice.period * period / (2.0 * math.pi)
    envelope = sums.spectral(choice.tilt, choice.period * period, 8).envelope
    if tau2 is None:  # as little as makes a sum of bearable length
        tau2 = 0.0 if sufficient_frequency(envelope, need) * turns <= 4_000 else 1e-6
    last = max(3, math.ceil(sufficient_frequency(envelope.smoothed(tau2), need) * turns * highest))
    return contour_of(sums, choice.tilt, choice.period * period, last, tau2, choice.others)


def contour(event, epsilon, **changes):
    return planned(composition(event), epsilon, **changes)


def interval(event, epsilon, **changes):
    """(lower, exact, upper) of log delta."""
    found = contour(event, epsilon, **changes).bounds(np.array([epsilon]))
    return float(found.lower[0]), exact_log_delta(event, epsilon), float(found.upper[0])


as_planned = functools.lru_cache(interval)


def width(bounds):
    return bounds[2] - bounds[0]


EVENTS = [(repeated(STEP, COUNT), 3.0), (repeated(sampled(0.01, gaussian(0.8)), 10_000), 9.0),
          (repeated(sampled(0.3, dpa.LaplaceDpEvent(2.0)), 30), 2.0)]
every_event = pytest.mark.parametrize(("event", "epsilon"), EVENTS, ids=["small", "large", "laplace"])


@every_event
@pytest.mark.parametrize("change", [
    {}, {"period": 0.7}, {"period": 0.5}, {"period": 0.3}, {"highest": 0.7}, {"highest": 0.5}, {"highest": 0.3}, {"highest": 0.1},
    {"tau2": 1e-4}, {"tau2": 1e-2}, {"tau2": 1.0}, {"period": 0.5, "highest": 0.5, "tau2": 1e-2}], ids=str)
def test_a_coarse_contour_is_wider_and_still_true(event, epsilon, change):
    fine, coarse = as_planned(event, epsilon), interval(event, epsilon, **change)
    slack = 1e-11
    assert coarse[0] - slack <= coarse[1] <= coarse[2] + slack
    if change and min(change.values()) < 0.6:
        assert width(coarse) >= width(fine) * (1 - 1e-9)


@pytest.mark.parametrize(("pllr", "count", "tilt", "step", "last"), [
    (subsample(GaussianShift(1.0), 0.01), 10**6, 5.0, 0.01, 3000),
    (subsample(GaussianShift(50.0), 0.5), 2, 0.1, 0.01, 100),
    (LaplaceShift(1.0), 2, 5.0, 0.5, 4000),
    (Atoms((0.3, 0.7), (0.7, 0.3)), 100, 1.0, 0.05, 20_000),
    (Atoms((1e-30, 1 - 1e-30), (1 - 1e-10, 1e-10)), 5, 0.5, 0.5, 20_000),
], ids=["sampled", "sampled, large losses", "laplace", "atoms", "atoms, large losses"])
def test_rounding_of_the_characteristic_function_is_within_its_bound(pllr, count, tilt, step, last):
    sums = Composition({pllr: count})
    (block,) = sums.blocks(sums.demand(-1.0, 1.01 * tilt, step * last))
    logs, bounds = log_characteristic(block, block.transform(tilt), step, last)
    with mpmath.workdps(40):
        values = [mpmath.mpf(float(v)) for v in block.rule.values[0]]
        weights = [mpmath.exp((mpmath.mpf(tilt) + 1) * v + mpmath.mpf(float(w)))
                   for v, w in zip(values, block.rule.log_weights[0], strict=True)]
        total = mpmath.fsum(weights)
        for j in (3, last // 5, last // 2, last - 1):
            y = mpmath.mpf(j) * mpmath.mpf(step)
            exact = count * mpmath.log(mpmath.fsum(w * mpmath.expj(y * v) for w, v in zip(weights, values, strict=True)) / total)
            off = mpmath.mpc(complex(logs[j])) - exact
            off = mpmath.mpc(off.real, off.imag - 2 * mpmath.pi * mpmath.nint(off.imag / (2 * mpmath.pi)))
            # |prod phi~ - prod phi| / |prod phi~| <= e^x - 1 is what the certificate uses
            assert abs(1 - mpmath.exp(-off)) <= mpmath.expm1(bounds[j] + EPSILON * (8.0 + 2.0 * abs(logs[j]))), j


@pytest.mark.parametrize("n", [5, 6, 7, 13, 30])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_bounded_noise_uniform(n, count):
    """Uniform noise of width n, sensitivity 1: losses are 0 or infinite, the infinite mass is 1 - (1 - 1/n)^count."""
    accountant = EdgeworthIntervalAccountant().compose(AdditiveNoiseDpEvent("uniform", {"scale": float(n)}), count)
    exact = 1 - (1 - Fraction(1, n)) ** count
    lower, _, upper = accountant.get_delta_interval(1.0)
    assert Fraction(lower) <= exact <= Fraction(upper)
    for delta in (float(exact) * (1 - 1e-3), float(exact) * (1 + 1e-4), float(exact) * 1.1):
        lower, _, upper = accountant.get_epsilon_interval(delta)
        assert lower <= (math.inf if Fraction(delta) < exact else 0.0) <= upper


@pytest.mark.parametrize(("name", "parameters"), [("semicircular", {"scale": 3.0}), ("cosine", {"scale": 2.0}),
                                                  ("beta", {"a": 2.0, "b": 2.0, "scale": 4.0}), ("triang", {"c": 0.5, "scale": 5.0})])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_bounded_noise_of_other_shapes(name, parameters, epsilon):
    law = getattr(stats, name)(**parameters)
    low, high = law.support()  # the loss increases, so the payoff begins at one point
    start = optimize.brentq(lambda x: law.pdf(x - 1.0) - math.exp(epsilon) * law.pdf(x), low + 1.0 - 1e-12, high, xtol=1e-15)
    exact = law.sf(start - 1.0) - math.exp(epsilon) * law.sf(start)
    lower, _, upper = EdgeworthIntervalAccountant().compose(AdditiveNoiseDpEvent(name, parameters)).get_delta_interval(epsilon)
    assert lower - 1e-11 <= exact <= upper + 1e-11


# Terms that are small beside others in real use: made large by hand, so that only the term in question can pay for what was changed.

CHANGE = 1e-6


def pushed(terms, turn, direction):
    """The terms of a sum, each changed by the relative amount CHANGE so that the real part of the sum moves in one direction."""
    return terms * np.exp(direction * CHANGE * np.sign((turn * terms).real))


@every_event
@pytest.mark.parametrize("tau2", [None, 1e-2])
@pytest.mark.parametrize("direction", [-1.0, 1.0])
def test_errors_of_the_terms_are_paid_for_in_both_sums(event, epsilon, tau2, direction):
    """`term_errors` = x allows every term to be off by e^x - 1: of G, and of the density that the smoothing is charged by."""
    exact_one = contour(event, epsilon, tau2=tau2)
    off = dataclasses.replace(exact_one, term_errors=np.full(len(exact_one.log_terms), CHANGE))
    turn = np.exp(-1j * epsilon * exact_one.frequencies)
    sums = [("terms", "error")] + ([("densities", "density_error")] if tau2 else [])
    for terms, error in sums:
        right = getattr(exact_one._fixed, terms)
        moved = (turn * (pushed(right, turn, direction) - right)).real.sum()
        assert 0.0 < abs(moved) <= getattr(off._fixed, error)


def test_errors_of_the_rules_are_paid_for_where_nothing_else_is():
    """Terms that are computed as 0 may be e^-40 of the amplitude: that is all a rule promises."""
    weights = np.full(100, 0.01)
    assert sum_error(np.full(100, -900.0 + 0j), np.zeros(100), weights) >= math.exp(-40.0)


@pytest.mark.parametrize("size", [10, 1000, 100_000])
def test_additions_are_paid_for(size):
    """At most 16 + log2(n/128) additions touch a term, half a unit in the last place each; and the product with the weights."""
    terms, weights = np.zeros(size, complex), np.full(size, 1.0 / size)
    without = sum_error(terms, np.zeros(size), weights, added=0.0)
    assert without >= 8.0 * EPSILON * (1.0 - 1e-9)  # the exponential, the kernel and the weight of one term
    assert sum_error(terms, np.zeros(size), weights) - without >= 0.5 * EPSILON * (16 + math.log2(max(size / 128, 1)))


@every_event
@pytest.mark.parametrize("tau2", [None, 1e-2])
def test_rounded_phases_are_paid_for(event, epsilon, tau2):
    """y eps is off by one unit in the last place of itself: each term turns by |y eps| units."""
    found = contour(event, epsilon, tau2=tau2)
    angle = epsilon * found.frequencies
    for terms, error in [("terms", "phase_error")] + ([("densities", "density_phase_error")] if tau2 else []):
        row = np.abs(getattr(found._fixed, terms))
        assert 0.0 < float(row @ (EPSILON * angle)) <= epsilon * getattr(found._fixed, error)


@every_event
@pytest.mark.parametrize("tau2", [1e-3, 1e-2, 1.0])
@pytest.mark.parametrize("highest", [0.02, 0.05, 0.1, 0.3])
def test_cut_off_covers_what_was_cut(event, epsilon, tau2, highest):
    """All frequencies beyond the last one, added up by their moduli, for G and for the density."""
    whole, part = contour(event, epsilon, tau2=tau2, highest=1.5), contour(event, epsilon, tau2=tau2, highest=highest)
    kept = len(part.log_terms)
    for terms, error in (("terms", "error"), ("densities", "density_error")):
        rest = np.abs(getattr(whole._fixed, terms)[kept:]).sum()
        assert rest <= getattr(part._fixed, error)


@every_event
def test_an_error_of_the_log_mgf_moves_both_ends(event, epsilon):
    found = contour(event, epsilon)
    exact = exact_log_delta(event, epsilon)
    for change in (-CHANGE, CHANGE):
        off = dataclasses.replace(found, log_mgf=found.log_mgf + change, log_mgf_error=found.log_mgf_error + CHANGE)
        bound = off.bounds(np.array([epsilon]))
        assert bound.lower[0] <= exact + 1e-11 and exact - 1e-11 <= bound.upper[0]


def test_rounding_of_the_amplitude_is_paid_for():
    """K(c) - c eps, two numbers of size 1e9, is off by 1e-7: all of it must be in the interval."""
    found = contour(*EVENTS[0])
    epsilon = EVENTS[0][1]
    large = dataclasses.replace(found, log_mgf=1e9)
    bound = large.bounds(np.array([epsilon]))
    assert bound.upper[0] - bound.lower[0] >= 2.0 * EPSILON * 1e9
    far = dataclasses.replace(found, tilt=found.tilt * 1e9)
    total = float((np.exp(-1j * epsilon * far.frequencies) * far._fixed.terms).sum().real)
    without = far.log_mgf - far.tilt * epsilon + math.log(total + far._fixed.error)
    assert far.bounds(np.array([epsilon])).upper[0] >= without + EPSILON * far.tilt * epsilon


# 1 - delta at 2 of fifty sampled Gaussians: below the mean loss, where the planner takes a negative tilt
COMPLEMENT = Composition({subsample(GaussianShift(1.0), 0.5): 50}), 2.0


@pytest.mark.parametrize("change", [{"tau2": 1e-3}, {"tau2": 0.1}, {"tau2": 1.0}, {"tau2": None, "period": 0.4},
                                    {"tau2": None, "highest": 0.3}, {"tau2": 0.1, "period": 0.4, "highest": 0.3}], ids=str)
def test_coarse_contours_of_the_complement(change):
    """Smoothing lowers 1 - delta, so its price is on the other side; a fine contour, checked against c > 0, is the measure."""
    sums, epsilon = COMPLEMENT
    fine, coarse = planned(sums, epsilon), planned(sums, epsilon, **change)
    assert fine.complement and coarse.complement
    fine, coarse = (found.bounds(np.array([epsilon])) for found in (fine, coarse))
    assert fine.upper[0] - fine.lower[0] < 1e-6
    assert coarse.lower[0] <= fine.upper[0] and fine.lower[0] <= coarse.upper[0]
    other = contour_of(sums, 0.05, 400.0, 2_000, 0.0, np.array([0.02, 0.1, 0.2])).bounds(np.array([epsilon]))
    assert other.upper[0] - other.lower[0] < 1e-6
    assert np.exp(other.lower[0]) + np.exp(fine.lower[0]) <= 1.0 <= np.exp(other.upper[0]) + np.exp(fine.upper[0])


def test_aliases_include_the_rounding_of_their_own_bounds(monkeypatch):
    """The bounds of the aliases carry the rounding of K(c'): ten orders of magnitude more of it must be seen."""
    event, epsilon = EVENTS[0]
    found = contour(event, epsilon, period=0.3)
    sums = composition(event)
    plain = sums.rungs
    monkeypatch.setattr(sums, "rungs", lambda tilts: plain(tilts)._replace(error=plain(tilts).error + 1.0))
    place = place_at_epsilon(composition(event), epsilon)
    more = contour_of(sums, found.tilt, 2.0 * math.pi / found.step, len(found.log_terms) - 1, found.tau2, place.rungs.tilts)
    assert more.bounds(np.array([epsilon])).lower[0] < found.bounds(np.array([epsilon])).lower[0]
    assert more.bounds(np.array([epsilon])).upper[0] == pytest.approx(found.bounds(np.array([epsilon])).upper[0], abs=1e-12)
    rungs = plain(place.rungs.tilts)
    assert (rungs.error > 0).all() and (log_kappa(rungs.tilts) + rungs.log_mgf < place.log_bounds).all()


@pytest.mark.parametrize("direction", [-1.0, 1.0])
def test_errors_of_the_tilted_weights_reach_the_characteristic_function(direction):
    sums = Composition({subsample(GaussianShift(1.0), 0.3): 1})
    (block,) = sums.blocks(sums.demand(-1.0, 3.0, 20.0))
    transform = block.transform(2.0)
    signs = direction * np.sign(np.cos(3.0 * block.rule.values))
    moved = transform.weights * (1.0 + CHANGE * signs)
    units = CHANGE / EPSILON * np.ones(1)
    off = dataclasses.replace(transform, weights=moved / moved.sum(), weight_error=2.0 * units,
                              weighted_loss_error=2.0 * units * (transform.weights * np.abs(block.rule.values)).sum(axis=1))
    right, _ = log_characteristic(block, transform, 0.1, 160)  # to where the modulus is 1e-3 and less
    logs, bounds = log_characteristic(block, off, 0.1, 160)
    assert np.abs(logs - right).max() > 0.1 * CHANGE
    assert (np.abs(np.expm1(right - logs)) <= np.expm1(bounds + 64.0 * EPSILON)).all()


def test_error_of_the_fast_transform_is_that_of_its_theorem():
    """Dutt and Rokhlin: the two terms of the header of `characteristic.py`, per unit of weight."""
    scale, cells, spread = characteristic._LAMBDA, characteristic._OVERSAMPLING, characteristic._SPREAD
    tails = sum(math.exp(-scale * l * l) for l in range(spread, spread + 60))
    theorem = 2.1 * math.exp(-(math.pi**2 / scale) * (1 - 1 / cells)) + 2.1 * math.sqrt(scale / math.pi) * math.exp(
        math.pi**2 / (4 * cells**2 * scale)) * tails
    values, weights = np.linspace(-3.0, 40.0, 5000), np.full(5000, 1.0 / 5000)
    gain, error = characteristic._non_uniform_fft(values, weights, 0.5, 2000)
    y = 0.5 * np.arange(2001)[::97]
    direct = (characteristic._turned(values[None], y) * weights).sum(axis=-1)[0]
    assert (np.abs(gain[::97] - direct) <= error + 4.0 * EPSILON * y * np.abs(values).mean()).all()  # phases are charged elsewhere
    assert error >= 0.9 * theorem
    block = Block(np.ones(1), Rule(values[None], np.log(weights)[None], np.zeros(1), np.zeros(1)))
    transform = block.transform(-1.0)
    assert log_characteristic(block, transform, 0.5, 2000)[1][0] >= error  # at frequency 0 nothing else has an error


def exact_log_mgf(block, tilt):
    with mpmath.workdps(50):
        terms = [mpmath.exp((mpmath.mpf(tilt) + 1) * mpmath.mpf(float(v)) + mpmath.mpf(float(w)))
                 for v, w in zip(block.rule.values[0], block.rule.log_weights[0], strict=True)]
        return mpmath.log(mpmath.fsum(terms))


@pytest.mark.parametrize("loss", [1e-3, 1.0, 30.0, 300.0])
@pytest.mark.parametrize("tilt", [-0.5, 0.7, 12.3, 400.0])
def test_rounding_of_the_log_mgf_is_within_its_bound(loss, tilt):
    """Exponents of size t are rounded by t units in the last place: the bound must grow with them."""
    low = -math.log1p(0.01 * math.expm1(min(loss, 300.0)))
    rule = Rule(np.array([[loss, 0.3 * loss, low]]), np.log(np.array([[1e-5, 1e-3, 0.99899]])), np.zeros(1), np.zeros(1))
    block = Block(np.ones(1), rule)
    largest = (tilt + 1.0) * loss
    exact, found = exact_log_mgf(block, tilt), block.cgf(np.array([tilt]))[:, 0]
    assert abs(mpmath.mpf(float(found[0])) - exact) <= float(found[3])
    assert float(found[3]) >= EPSILON * max(16.0, largest)
    if largest > 2.0:  # otherwise the control variate assumes E_P[e^L] = 1, which holds for no three numbers
        transform = block.transform(tilt)
        assert abs(mpmath.mpf(float(transform.log_mgf[0])) - exact) <= float(transform.rounding[0])
        assert float(transform.rounding[0]) >= EPSILON * max(16.0, largest)
    transform = block.transform(tilt)
    sizes = np.abs(rule.log_weights) + (tilt + 1.0) * np.abs(rule.values)
    assert float(transform.weight_error[0]) >= float((transform.weights * sizes).sum())
    assert float(transform.weighted_loss_error[0]) >= float((transform.weights * sizes * np.abs(rule.values)).sum())


@pytest.mark.parametrize(("field", "tau2", "factor"), [
    ("error", None, lambda epsilon, tau2: 1.0), ("phase_error", None, lambda epsilon, tau2: epsilon),
    ("density_error", 1e-2, lambda epsilon, tau2: tau2), ("density_phase_error", 1e-2, lambda epsilon, tau2: tau2 * epsilon)])
def test_every_sum_of_errors_moves_the_lower_end(field, tau2, factor):
    """An error of x more, relative to the amplitude A, lowers the lower end by as much: by tau^2 x for the density."""
    event, epsilon = EVENTS[0]
    found, off = (contour(event, epsilon, tau2=tau2) for _ in range(2))
    before = found.bounds(np.array([epsilon])).lower[0]
    amplitude = found.log_mgf - found.tilt * epsilon
    more = 0.01 * math.exp(before - amplitude)
    off.__dict__["_fixed"] = off._fixed._replace(**{field: getattr(off._fixed, field) + more})
    after = off.bounds(np.array([epsilon])).lower[0]
    assert math.exp(before - amplitude) - math.exp(after - amplitude) >= 0.99 * more * factor(epsilon, tau2)


def without_weight_errors(block, tilt):
    nothing = np.zeros(len(block.counts))
    return dataclasses.replace(block.transform(tilt), weight_error=nothing, weighted_loss_error=nothing)


@pytest.mark.parametrize(("step", "last", "units"), [
    (0.01, 6000, lambda j, phase: 30.0 * np.minimum(1.0, phase)),  # sums of 60 real products of matrices, in any order
    (50.0, 20, lambda j, phase: phase),  # a phase of size t is rounded by t units
    (0.01, 50, lambda j, phase: 16.0 * np.minimum(1.0, phase)),  # sums in pairs
], ids=["products", "phases", "sums"])
def test_rounding_of_the_characteristic_function_in_the_standard_model(step, last, units):
    """What the model allows each operation to lose, whether or not these numbers lose it."""
    losses, log_weights = np.tile(np.linspace(-3.0, 5.0, 30), (2, 1)), np.full((2, 30), -math.log(30.0))
    block = Block(np.ones(2), Rule(losses, log_weights, np.zeros(2), np.zeros(2)))
    transform = without_weight_errors(block, -1.0)
    logs, bounds = log_characteristic(block, transform, step, last)
    modulus = np.exp(0.5 * logs.real[1:])  # of one of the two leaves: bounds are relative to it
    j = np.arange(1, last + 1)
    phase = step * j * float((transform.weights * np.abs(losses)).sum(axis=1)[0])
    assert (modulus * bounds[1:] >= EPSILON * units(j, phase)).all()


@pytest.mark.parametrize("loss", [20.0, 200.0, 600.0])
def test_exponents_are_paid_for_where_the_log_mgf_is_small(loss):
    """w = e^-t and v = t: the exponent t - t is 0, and off by 1.5 t units in the last place (t + 1, its product, the sum)."""
    sums = Composition({Atoms((math.exp(-loss), 1.0 - math.exp(-loss)), (1.0 - math.exp(-loss), math.exp(-loss))): 1})
    (block,) = sums.blocks(sums.demand(-1.0, 1.0))
    for tilt in (0.0, 0.011):  # with the control variate, and without
        assert float(block.cgf(np.array([tilt]))[3, 0]) >= 1.5 * EPSILON * loss
        assert float(block.transform(tilt).rounding[0]) >= 1.5 * EPSILON * loss
        assert float(block.transform(tilt).weight_error[0]) >= 1.5 * loss


@pytest.mark.parametrize("tilt", [-0.5, 0.1, 1.0])
def test_sums_of_the_log_mgf_are_paid_for(tilt):
    """16 units in the last place of its terms, whose sum is at least the log-MGF: additions in pairs."""
    sums = Composition({Atoms((0.45, 0.55), (0.55, 0.45)): 1})
    (block,) = sums.blocks(sums.demand(-1.0, 2.0))
    transform = block.transform(tilt)
    assert float(transform.rounding[0]) >= (16.0 + COUNT_ERROR) * EPSILON * abs(float(transform.log_mgf[0]))  # over leaves too
    assert float(block.cgf(np.array([tilt]))[3, 0]) >= 16.0 * EPSILON


@pytest.mark.parametrize("tilt", [1e-9, 0.1, 1.7])
@pytest.mark.parametrize("atoms", [Atoms((0.45, 0.55), (0.55, 0.45)), Atoms((1.0 - 1e-270, 1e-270), (1.0 - 1e-9, 1e-9))],
                         ids=["near", "far"])
def test_the_rounded_tilt_is_paid_for(atoms, tilt):
    """s = tilt + 1 is off by d, so K by d K'; the tilt s - 1 has the same s, and nothing to pay for."""
    sums, exact = Composition({atoms: 1}), (tilt + 1.0) - 1.0
    (block,) = sums.blocks(sums.demand(-1.0, 4.0))
    off = abs(exact - tilt)
    assert off > 0.0
    rounded, known = (block.cgf(np.array([t]))[[1, 3], 0] for t in (tilt, exact))
    assert rounded[1] - known[1] >= off * abs(rounded[0])
    rounded, known = (block.transform(t) for t in (tilt, exact))
    assert rounded.rounding[0] - known.rounding[0] >= off * abs(rounded.mean[0])


@pytest.mark.parametrize(("log_bound", "log_mgf", "epsilon"), [(1e14, 0.0, 0.0), (0.0, -1e14, 0.0), (0.0, 0.0, 1e14)])
def test_aliases_of_huge_numbers_are_rounded_up(log_bound, log_mgf, epsilon):
    """A number of 1e14 is rounded by 0.01; period 50, tilts 1 away on either side."""
    found = AliasBound(np.array([0.0, 2.0]), np.full(2, log_bound), 1.0, log_mgf, 50.0)(np.array([epsilon]))
    assert found[0] >= 1e14 - 50.0 + 0.05
