"""Quadrature rules against integrals in 40 digits: their error is what `pllr` promises, their density floors are below the density.

A rule's nodes are functions of its inputs, so its quadrature error alone is seen by taking its grid or panels as exact and forming
losses and weights in 40 digits. The promise: E_P[e^{sL}] is off by at most e^{-40} / count of E_P[e^{(Re s) L}], for Re s in
[low, high] and |Im s| <= frequency. The exact values are computed here, by mpmath's own quadrature.
"""

import functools
import itertools
import math
import sys
from typing import NamedTuple

import numpy as np
import pytest
from mpmath import mp, mpc, mpf

from dp_edgeworth.losses.gaussian_noise import GaussianShift, NormalMixture
from dp_edgeworth.losses.laplace_noise import LaplaceInterior, LaplaceShift
from dp_edgeworth.losses.operations import Reversed, Subsampled
from dp_edgeworth.losses.rules import Demand
from dp_edgeworth.losses.sampled_gaussian import SampledReplacement, SampledWithoutReplacement
from dp_edgeworth.losses.trapezoid import cut_point, equispaced
from dp_edgeworth.sums.characteristic import log_characteristic
from dp_edgeworth.sums.composition import Composition

DIGITS = 40


@pytest.fixture(autouse=True)
def precision():
    with mp.workdps(DIGITS):
        yield


class Pair(NamedTuple):
    """A leaf and the same in 40 digits: E_P[e^{sL}] = atoms(s) + int e^{log_base(x)} prod_k u_k(x)^{a_k(s)} dx."""

    leaf: object
    factors: object  # x -> the u_k(x)
    powers: object  # s -> lists of the a_k, one list per term of the integrand
    log_base: object
    atoms: object = lambda s: 0
    ends: tuple = (None, None)  # of the integral, where they are not infinite


with mp.workdps(DIGITS):
    LOG_SQRT_2PI = mp.log(2 * mp.pi) / 2


def normal(x):
    return -x * x / 2 - LOG_SQRT_2PI


def ratio(mu, p):
    """dQ/dP of Poisson sampling, as a function of x."""
    mu, p = mpf(mu), mpf(p)
    return lambda x: 1 - p + p * mp.exp(mu * (x - mu / 2))


def sampled(mu, p):
    u = ratio(mu, p)
    return Pair(Subsampled(GaussianShift(mu), p), lambda x: [u(x)], lambda s: [[s]], normal)


def reversed_sampled(mu, p):
    """E_Q[e^{-sL}] = E_P[e^{(1-s)L}]."""
    u = ratio(mu, p)
    return Pair(Reversed(Subsampled(GaussianShift(mu), p)), lambda x: [u(x)], lambda s: [[1 - s]], normal)


def mixture(shifts, weights, p=1.0):
    leaf, exact_p = NormalMixture(shifts, weights), mpf(p)
    terms = [(mpf(c), mpf(w)) for c, w in zip(shifts, weights, strict=True)]

    def density_ratio(x):
        return 1 - exact_p + exact_p * sum(w * mp.exp(c * (x - c / 2)) for c, w in terms)

    return Pair(leaf if p == 1.0 else Subsampled(leaf, p), lambda x: [density_ratio(x)], lambda s: [[s]], normal)


def replacement(mu, p):
    u = ratio(mu, p)
    return Pair(SampledReplacement(mu, p), lambda x: [u(x), u(-x)], lambda s: [[s, 1 - s]], normal)


def without_replacement(mu, p):
    """Above mu/2 the loss of Poisson sampling and its mirror image; the rest of the mass has no loss."""
    u = ratio(mu, p)
    return Pair(SampledWithoutReplacement(mu, p), lambda x: [u(x)], lambda s: [[s], [1 - s]], normal,
                lambda s: (1 - mpf(p)) * mp.erf(mpf(mu) / mp.sqrt(8)), (mpf(mu) / 2, None))


def laplace(mu, p, backwards=False):
    """Atoms at the ends, and L = 2x - mu with density e^{-x}/2 between."""
    shift, probability = mpf(mu), mpf(p)

    def u(x):
        return 1 - probability + probability * mp.exp(2 * x - shift)

    side = (lambda s: 1 - s) if backwards else (lambda s: s)
    leaf = LaplaceShift(mu) if p == 1.0 else Subsampled(LaplaceShift(mu), p)
    return Pair(Reversed(leaf) if backwards else leaf, lambda x: [u(x)], lambda s: [[side(s)]], lambda x: -x - mp.log(2),
                lambda s: (u(mpf(0)) ** side(s) + mp.exp(-mpf(mu)) * u(mpf(mu)) ** side(s)) / 2, (mpf(0), mpf(mu)))


def interior(mu, p):
    """Laplace noise without its atoms: nothing else has its mass where the integrand is steep."""
    noise = laplace(mu, p)
    leaf = LaplaceInterior(mu) if p == 1.0 else Subsampled(LaplaceInterior(mu), p)
    return noise._replace(leaf=leaf, log_base=lambda x: -x - mp.log(-mp.expm1(-mpf(mu))), atoms=lambda s: 0)


# pair, demand (low, high, frequency, log count), exponents s. The comments say what is hard about a row.
CASES = [
    (sampled(0.134, 0.948), Demand(0.0, 1.0, 0.0, 9.2), [0.5, 1.0]),  # few nodes, so the bound is nearly attained
    (sampled(1.0, 0.01), Demand(0.0, 8.0, 15.0), [8 + 15j, 0.5 + 15j]),
    (sampled(1.0, 1e-12), Demand(0.0, 40.0, 1e3), [40 + 1e3j, 27.0, 1 + 1e3j]),  # tiny p: two separate bulks
    (sampled(0.05, 6e-9), Demand(-3.0, 2000.0, 4e5), [2000 + 4e5j, 347 + 4e5j, -3 + 1e5j]),
    (sampled(12.0, 1e-6), Demand(0.0, 1.1, 0.5), [0.5, 1.1 + 0.5j]),  # s between 0 and 1 with a large shift
    (reversed_sampled(0.227, 8e-10), Demand(-1.0, 1.0, 0.0, 34.5), [0.18, -1.0]),
    (reversed_sampled(1.0, 0.3), Demand(0.0, 20.0, 10.0), [20 + 10j, 0.5 + 10j]),  # secants
    (reversed_sampled(2.0, 1e-4), Demand(0.0, 50.0, 5.0, 9.2), [50 + 5j]),
    (reversed_sampled(1.0, 0.3), Demand(0.0, 100.0, 5e3, 9.2, turning=100.0), [100 + 5e3j, 37.0, 0.5]),  # steep: few losses matter
    (mixture((0.0, 0.5, 2.0), (0.9, 0.09, 0.01)), Demand(0.0, 4.0, 8.0), [4 + 8j, 0.3]),
    (mixture((0.001, 0.0062, 0.04), (0.05, 0.05, 0.9), 1e-3), Demand(0.0, 37.0, 0.0, 34.5), [2.6, 37.0]),
    (replacement(0.157, 1e-9), Demand(0.0, 1.0), [0.0, 1.0]),  # nearly attained
    (replacement(1.0, 0.05), Demand(0.0, 6.0, 8.0), [6 + 8j]),
    (replacement(0.137, 1.5e-11), Demand(0.0, 1.0, 1e7, 9.2), [0.466 + 1e7j]),
    (without_replacement(1.0, 0.05), Demand(0.0, 10.0, 15.0), [10 + 15j, 0.5]),
    (without_replacement(2.5, 0.9), Demand(0.0, 9.0, 3.0), [9 + 3j]),  # steep mirror image
    (laplace(3.0, 1.0), Demand(0.0, 40.0, 10.0), [40 + 10j, 0.5 + 10j]),
    (laplace(2.0, 0.01), Demand(0.0, 300.0, 50.0), [300 + 50j, 0.5]),  # odds below 1
    (laplace(1.0, 1e-4, True), Demand(0.0, 1e4, 100.0), [1e4 + 100j, 0.5 + 100j]),
    (laplace(6.0, 0.6, True), Demand(-5.0, 50.0, 10.0), [50 + 10j, -5.0]),
    (interior(3.0, 1.0), Demand(0.0, 40.0, 10.0), [40 + 10j, 0.5 + 10j]),
    (interior(3.0, 1.0), Demand(0.0, 400.0), [400.0, 0.5]),
    (interior(30.0, 1.0), Demand(0.0, 40.0, 10.0, 0.0, -math.inf, 8.0), [40 + 10j, 8 + 10j]),  # frequencies near the top only
    (interior(2.0, 0.01), Demand(0.0, 300.0, 50.0), [300 + 50j, 0.5]),
    (interior(0.7, 0.1), Demand(-20.0, 21.0, 30.0), [-20 + 30j, 21 + 30j]),
    # one rule for both directions (`leaf_sums`)
    (sampled(0.42, 0.01), Demand(-24.0, 25.0, 30.0, 12.0), [-24 + 30j, 25 + 30j, 0.5 + 30j]),
    (sampled(2.0, 0.3), Demand(-3.0, 2.0, 6.0), [-3 + 6j, 2 + 6j]),
    (mixture((0.0, 0.5, 2.0), (0.9, 0.09, 0.01)), Demand(-5.0, 6.0, 8.0), [-5 + 8j, 6 + 8j]),
    (replacement(1.0, 0.05), Demand(-6.0, 7.0, 8.0), [-6 + 8j, 7 + 8j]),
    (without_replacement(1.0, 0.05), Demand(-9.0, 10.0, 15.0), [-9 + 15j, 10 + 15j]),
    (laplace(0.7, 0.1), Demand(-20.0, 21.0, 30.0), [-20 + 30j, 21 + 30j]),
    (laplace(3.0, 1.0), Demand(-15.0, 16.0, 10.0), [-15 + 10j, 16 + 10j]),
]


# Large shifts: panels are long but near the bends. The last number is the largest shift.
FAR_CASES = [
    (sampled(40.0, 0.01), Demand(0.0, 1.3, 0.5, 9.2), [1.3 + 0.5j, 1.0, 0.97 + 0.1j, 0.01], 40),
    (sampled(120.0, 1e-7), Demand(0.0, 1.1, 0.05), [1.1 + 0.05j, 1.0, 0.5], 120),
    (reversed_sampled(60.0, 0.7), Demand(0.0, 5.0, 3.0), [5 + 3j, 0.02], 60),
    (reversed_sampled(15.0, 1e-3), Demand(0.0, 1e3, 1.0), [1e3 + 1j], 15),
    (mixture((0.0, 10.0, 20.0), (0.984, 0.008, 0.008)), Demand(0.0, 1.2, 0.5), [1.2 + 0.5j, 0.97], 20),
    (mixture((3.0, 15.0), (0.5, 0.5)), Demand(-0.5, 1.2, 0.5), [-0.5], 15),
    (replacement(20.0, 0.05), Demand(0.0, 1.2, 0.5), [1.2 + 0.5j], 20),
    (without_replacement(40.0, 0.05), Demand(0.0, 1.2, 0.5), [1.2 + 0.5j, 0.5], 40),
]


def recorded(monkeypatch, name, store, parts):
    """Lets every module of the package that knows the function `name` note the parts of its arguments or answers that define a rule."""
    for module in [module for key, module in sys.modules.items() if key.startswith("dp_edgeworth.") and hasattr(module, name)]:
        original = getattr(module, name)

        def wrapped(*arguments, original=original, **options):
            result = original(*arguments, **options)
            store.setdefault(name, []).append(parts(arguments, result))
            return result

        monkeypatch.setattr(module, name, wrapped)


@functools.cache
def gauss_legendre(count):
    """Nodes and weights on [-1, 1]: Newton's method in 40 digits."""
    rule = []
    for start in np.polynomial.legendre.leggauss(count)[0]:
        x = mpf(start)
        for _ in range(3):
            before, here = mpf(1), x
            for k in range(2, count + 1):
                before, here = here, ((2 * k - 1) * x * here - (k - 1) * before) / k
            slope = count * (x * here - before) / (x * x - 1)
            x -= here / slope
        rule.append((x, 2 / ((1 - x * x) * slope**2)))
    return rule


def recorded_rule(pair, demand, monkeypatch):
    """The leaf's rule, and what defines its nodes."""
    store = {}
    recorded(monkeypatch, "equispaced", store, lambda arguments, result: (
        float(result[0][0, 0]), float(result[1][0, 0]), result[0].shape[1]))
    recorded(monkeypatch, "panels", store, lambda arguments, result: np.ravel(arguments[0]))
    recorded(monkeypatch, "cut_panels", store, lambda arguments, result: (arguments[:2], *result))
    recorded(monkeypatch, "legendre", store, lambda arguments, result: arguments[0])
    return pair.leaf.rule(demand), store


def nodes_and_weights(store):
    """The rule in 40 digits: equispaced nodes, or Gauss-Legendre panels between the edges."""
    if "legendre" not in store:
        (first, step, count), = store["equispaced"]
        return [(mpf(first) + mpf(step) * j, mpf(step)) for j in range(count)]
    counts = store["legendre"]
    grids = store["panels"] if "panels" in store else [panel_edges(*store["cut_panels"][-1], counts[-1])]
    return [((a + b) / 2 + (b - a) / 2 * x, (b - a) / 2 * w) for grid, count in zip(grids, counts[-len(grids):], strict=True)
            for a, b in itertools.pairwise(map(mpf, grid)) for x, w in gauss_legendre(count)]


def panel_edges(ends, x, w, count):
    """Where the panels meet, from their nodes and weights."""
    centres, halves = x.reshape(-1, count).mean(axis=1), w.reshape(-1, count).sum(axis=1) / 2
    return [ends[0], *(0.5 * ((centres + halves)[:-1] + (centres - halves)[1:])), ends[1]]


def integrand(pair, s):
    def value(x):
        logs, base = [mp.log(u) for u in pair.factors(x)], pair.log_base(x)
        return mp.fsum(mp.exp(base + mp.fsum(a * l for a, l in zip(powers, logs, strict=True))) for powers in pair.powers(s))

    return value


def exact(pair, s, nodes):
    """mpmath's integral over all that counts, in pieces that are short where the integrand turns or bends."""
    low = pair.ends[0] if pair.ends[0] is not None else nodes[0][0] - 3
    high = pair.ends[1] if pair.ends[1] is not None else nodes[-1][0] + 3
    spread = max(mpf("0.25"), (high - low) / 400)
    cuts, shortest = [low], (high - low) / 3000
    while cuts[-1] < high:
        x = cuts[-1]
        rate = max(abs(mp.log(a) - mp.log(b)) for a, b in zip(pair.factors(x), pair.factors(x + spread), strict=True)) / spread
        cuts.append(min(high, x + max(min(mpf(1), 8 / (1 + rate * abs(s) + rate)), shortest)))
    return pair.atoms(s) + mp.quad(integrand(pair, s), cuts, method="gauss-legendre", maxdegree=4)


@pytest.mark.parametrize("pair, demand, exponents", CASES + [case[:3] for case in FAR_CASES])
def test_rule_is_as_accurate_as_it_promises(pair, demand, exponents, monkeypatch):
    _, store = recorded_rule(pair, demand, monkeypatch)
    if "panels" in store:
        grids = store["panels"]
        assert all(end is None or end == edge for end, edge in zip(pair.ends, (grids[0][0], grids[-1][-1]), strict=True))
        assert all(one[-1] == other[0] for one, other in itertools.pairwise(grids))
    check(pair, demand, exponents, nodes_and_weights(store))


def check(pair, demand, exponents, nodes):
    for s in exponents:
        terms, size = integrand(pair, mpc(s)), integrand(pair, mpc(s).real)
        found = pair.atoms(mpc(s)) + mp.fsum(w * terms(x) for x, w in nodes)
        scale = pair.atoms(mpc(s).real) + mp.fsum(w * size(x) for x, w in nodes)
        assert abs(found - exact(pair, mpc(s), nodes)) <= mp.exp(-demand.digits) * scale, s


CUT_CASES = [
    (sampled(1.0, 0.01), Demand(0.0, 30.0, 10.0, 0.0, -25.0), [30 + 10j, 0.5]),
    (mixture((0.0, 0.5, 2.0), (0.9, 0.09, 0.01)), Demand(0.0, 4.0, 8.0, 9.2, -20.0), [4 + 8j]),
    (replacement(1.0, 0.05), Demand(0.0, 20.0, 4.0, 0.0, -20.0), [20 + 4j, 0.5]),
    (without_replacement(1.0, 0.05), Demand(0.0, 20.0, 4.0, 0.0, -20.0), [20 + 4j]),
]


@pytest.mark.parametrize("pair, demand, exponents", CUT_CASES)
def test_rule_without_the_largest_losses(pair, demand, exponents, monkeypatch):
    """As accurate for what is left; what is missing is at most what was allowed, and all there is together with the rest."""
    rule, store = recorded_rule(pair, demand, monkeypatch)
    low, high = store["cut_panels"][-1][0]
    nodes = nodes_and_weights(store)
    check(pair._replace(ends=(mpf(low), mpf(high))), demand, exponents, nodes)
    assert rule.missing[1, 0] <= math.exp(demand.log_tail) * (1 + 1e-9)
    for missing, log_weights in zip(rule.missing[:, 0], (rule.log_weights[0], rule.log_weights[0] + rule.values[0]), strict=True):
        assert math.fsum(np.exp(log_weights)) + missing == pytest.approx(1.0, abs=1e-13)


@pytest.mark.parametrize("pair, demand, exponents, top", [(*case, 0) for case in CASES + CUT_CASES] + FAR_CASES)
def test_density_floor_is_below_the_density(pair, demand, exponents, top):
    """P has the density e^{log_base} prod u^{a(0)} in x, and L(x) = sum (a(1) - a(0)) log u, so L has the density P(x) / |L'(x)|."""
    rule, (powers, with_loss) = pair.leaf.rule(demand), (pair.powers(mpf(0))[0], pair.powers(mpf(1))[0])
    edges, floor = rule.edges[0], rule.cell_log_density[0]

    def logs(x):
        return [mp.log(u) for u in pair.factors(x)]

    def loss(x):
        return mp.fsum((b - a) * l for a, b, l in zip(powers, with_loss, logs(x), strict=True))

    rising, checked = edges[-1] > edges[0], 0
    low, high = pair.ends[0] or mpf(0 if pair.ends[1] is not None else -9), pair.ends[1] or mpf(9 + top)
    for share in np.random.default_rng(1).random(40 if not top else 120):
        x = low + (high - low) * mpf(share)
        cell = int(np.searchsorted(edges if rising else -edges, float(loss(x)) * (1 if rising else -1))) - 1
        if 0 <= cell < len(floor) and abs(edges[cell + 1] - edges[cell]) > 1e-14 * abs(edges[cell]):  # longer than its rounding
            density = pair.log_base(x) + mp.fsum(a * l for a, l in zip(powers, logs(x), strict=True)) - mp.log(abs(mp.diff(loss, x)))
            assert floor[cell] <= density + 1e-9
            checked += 1
    assert checked > 10


@pytest.mark.parametrize("last", [200, 1800])
def test_characteristic_function_is_as_accurate_as_it_claims_where_it_is_small(last):
    """|phi| falls from 1 to below 1e-12: an error of 1e-16 in |phi|^2 is one of 1e-8 in |phi|."""
    tilt, step = 812.0, 26.7
    composition = Composition({Subsampled(GaussianShift(0.0958), 0.0123): 1})
    (block,) = composition.blocks(composition.demand(-1.0, tilt, step * last))
    logs, errors = log_characteristic(block, block.transform(tilt), step, last)
    values = block.rule.values[0].astype(np.longdouble)
    joint = block.rule.log_weights[0] + (tilt + 1.0) * values
    weights = np.exp(joint - joint.max())
    for j in range(1, last, last // 40):
        phase = np.longdouble(step) * j * values
        phi = complex((weights * np.cos(phase)).sum(), (weights * np.sin(phase)).sum()) / float(weights.sum())
        assert abs(np.exp(logs[j]) - phi) <= errors[j] * abs(np.exp(logs[j])), j


@pytest.mark.parametrize("pair, shifts, demand", [
    (sampled(300.0, 0.01), (300,), Demand(0.0, 1.05, 0.05)),
    (sampled(300.0, 0.01), (300,), Demand(0.0, 2.0, 0.02, 0.0, -20.0)),
    (reversed_sampled(300.0, 0.3), (300,), Demand(0.0, 40.0, 0.05)),
    (mixture((0.0, 1.36, 240.0, 700.0), (0.984, 0.008, 0.004, 0.004)), (240, 700), Demand(0.0, 1.02, 0.02)),
])
def test_rule_of_far_humps(pair, shifts, demand):
    """To what rounding of exponents of the size of the largest loss allows."""
    rule = pair.leaf.rule(demand)
    top = mp.inf
    if demand.log_tail > -math.inf:
        top = mpf(cut_point(demand, np.array([0.0, 300.0]), np.array([0.99, 0.01])))
    for s in (0.0, 0.3, 0.5, 0.97, 1.0, demand.high):
        (power,) = pair.powers(mpf(s))[0]
        centres = [c * scale for c in (0, *shifts) for scale in (max(power, 1), mpf(1))]
        cuts = sorted({min(c + k, top) for c in centres for k in range(-14, 15)} | ({top} if top < mp.inf else set()))
        whole = mp.quad(integrand(pair, mpf(s)), cuts, method="gauss-legendre", maxdegree=6)
        found = np.logaddexp.reduce(rule.log_weights[0] + s * rule.values[0])
        assert float(found - mp.log(whole)) == pytest.approx(0.0, abs=1e-14 * max(shifts) ** 2), s


@pytest.mark.parametrize("mu", [0.05, 1.0, 7.3, 60.0, 381.7, 900.0, 1e4])
def test_laplace_rules_are_laws_at_every_tilt(mu):
    """The masses under P and under Q are 1, however steep the tilts and fine the frequencies that the panels were made for."""
    for p, tilt, frequency in itertools.product((0.3, 1e-3, 1e-9), np.geomspace(0.1, 1e4, 20) / mu, (0.0, 3.0)):
        rule = Subsampled(LaplaceShift(mu), p).rule(Demand(0.0, 1.0 + tilt, frequency * tilt))
        for log_weights in (rule.log_weights, rule.log_weights + rule.values):
            assert np.exp(log_weights).sum() == pytest.approx(1.0, abs=1e-12 + 4e-16 * mu)


def test_small_nodes_of_a_long_grid_are_exact():
    """From -1e5 to 10: a node near 0 is off by units in its own last place, not in that of 1e5."""
    nodes, step = equispaced(np.array([[-1e5]]), np.array([[10.0]]), np.array([[0.17]]))
    near = nodes[0, np.abs(nodes[0]) < 1.0]
    gaps = [mpf(float(b)) - mpf(float(a)) - mpf(float(step[0, 0])) for a, b in itertools.pairwise(near)]
    assert max(map(abs, gaps)) < 1e-15
