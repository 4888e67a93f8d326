"""Bounds with deliberately bad hints: each is so coarse that one remainder carries it, and the exact value must lie inside.

Exact values are those of `comparisons.exact` (another computation: quadrature in mpmath, other contours) or closed forms.
tests/checker/mutations.py removes every remainder in turn; a test of this file must then fail.
"""

import functools

import dp_accounting as dpa
import mpmath as mp
import pytest
from flint import acb, arb
from lines import lively_pieces, transform_of

from comparisons import exact
from dp_edgeworth.checker import contour, decay, laws, pairs
from dp_edgeworth.checker.balls import ball, working_bits
from dp_edgeworth.checker.transforms import finite, validated

EVENT = {
    "type": "SelfComposedDpEvent",
    "count": 5,
    "event": {
        "type": "PoissonSampledDpEvent",
        "sampling_probability": 0.3,
        "event": {"type": "GaussianDpEvent", "noise_multiplier": 1.0},
    },
}
FINE = {"c": 1.5, "step": 0.2, "last": 200, "low": 0.0, "high": 4.0, "reach": 9.0, "nodes": 40, "digits": 60.0}


@functools.cache
def exact_delta(epsilon=2.0):
    event = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.3, dpa.GaussianDpEvent(1.0)), 5)
    return exact.exact_delta(event, epsilon).value


def bounds(**hints):
    with working_bits(128):
        leaves = pairs.composition(EVENT, "ADD_OR_REMOVE_ONE")
        low, high = contour.delta_bounds(leaves, validated({**FINE, **hints}), [arb(2)])[0]
        return float(low), float(high)


COARSE = {
    "nothing": {"cells": 24},
    "cut, the sum too small": {"last": 3},
    "cut, the sum too large": {"last": 5},
    "aliases on the left": {"c": 0.3, "step": 0.6, "last": 100, "cells": 24},
    "aliases on the right": {"c": 4.0, "high": 8.0, "step": 0.6, "last": 100, "cells": 24},
    "price of smoothing": {"tau": 0.3},
    "tail": {"reach": 3.0, "cells": 24},
    "calm outcomes": {"split": 0.8, "rare": True, "calm": 3.0},
    "cut of a split": {"split": 0.1, "rare": True, "calm": 3.0, "last": 8},
    "cut of a split on the other side": {"split": 0.1, "below": True, "last": 5, "turn": 0.5},
    "cut of a piece that is lively as it is": {"split": -5.0, "last": 3},
    "cut of a piece that is lively as it is, on the other side": {"split": 50.0, "below": True, "last": 5},
    "aliases of a split": {"split": 0.1, "rare": True, "calm": 3.0, "c": 0.3, "step": 0.6, "last": 100},
}


@pytest.mark.parametrize("name", COARSE)
def test_the_exact_value_is_inside(name):
    low, high = bounds(**COARSE[name])
    assert low <= exact_delta() <= high


@pytest.mark.parametrize(
    "hints", [{"cells": 24, "last": 2000}, {"split": 0.02, "rare": True, "calm": 4.0}, {"tau": 0.03, "last": 1500}]
)
def test_good_hints_give_narrow_bounds(hints):
    low, high = bounds(**hints)
    assert low <= exact_delta() <= high < low * 1.01


def test_chernoff_has_its_tail():
    """Of one leaf that is cut off at once, the tail is nearly all."""
    with working_bits(128):
        leaves = pairs.composition(EVENT, "ADD_OR_REMOVE_ONE")
        for reach, c in ((9.0, 2.0), (1.0, 8.0)):
            line = validated({**FINE, "last": 0, "c": c, "high": 2 * c, "reach": reach})
            assert float(contour.delta_bounds(leaves, line, [arb(2)])[0][1]) >= exact_delta()


def inside(low, value, high):
    """Up to the digits of mpmath."""
    number, slack = arb(mp.nstr(value, 28)), arb("1e-26")
    return low <= number + slack and number - slack <= high


def sampled(direction="remove"):
    leaf = pairs.leaf_of(EVENT["event"], "ADD_OR_REMOVE_ONE")
    return leaf if direction == "remove" else leaf.reversed()


def moment(s, weight=lambda x: 1, low=-12, high=13):
    ratio = lambda x: mp.mpf(0.7) + mp.mpf(0.3) * mp.exp(x - mp.mpf(1) / 2)  # noqa: E731
    return mp.quad(lambda x: mp.npdf(x) * ratio(x) ** s * weight(x), mp.linspace(low, high, 26))


@pytest.mark.parametrize("nodes", [8, 9, 10, 12])
def test_a_coarse_rule_knows_its_error(nodes):
    """A few nodes on wide panels: the sum alone is wrong in the 6th digit, the ball contains the integral."""
    with working_bits(128), mp.workdps(30):
        line = validated({**FINE, "step": 1.0, "last": 2, "reach": 10.0, "nodes": nodes, "digits": 8.0})
        transform = transform_of(sampled(), line, -0.5)
        for tilt in (1.5, -0.5):
            assert transform.real(tilt).contains(arb(mp.nstr(moment(mp.mpf(tilt) + 1, low=-10, high=11), 25)))
        for j, value in enumerate(transform.values()):
            wanted = moment(mp.mpc(2.5, j), low=-10, high=11)
            assert value.real.overlaps(arb(mp.nstr(wanted.real, 25))) and value.imag.overlaps(arb(mp.nstr(wanted.imag, 25)))


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("reach", [2.0, 9.0])
def test_the_lively_part_is_below_its_bound(direction, below, reach):
    """|lively part| in mpmath at y and beyond; with a short reach the cut edges carry it."""
    with working_bits(128):
        leaf, split = sampled(direction), 0.1 if direction == "remove" else 0.2
        for y in (2.0, 10.0, 40.0):
            line = validated({**FINE, "reach": reach, "split": split, "below": below, "turn": 0.8, "step": y, "last": 1})
            (part,) = lively_pieces(leaf, line)
            bound = float(decay.lively(part, 0.8, arb(2.5), ball(y), line.progress))
            for v in (y, 1.3 * y, 3.0 * y):
                assert lively(part, direction, v) <= bound


def lively(part, direction, v):
    """|int n(x) R(x)^s w(x) dx|, R = 0.7 + 0.3 e^{x - 1/2} ("add": R(-x)^{1 - s}), by acb.integral."""
    sign = 1 if direction == "remove" else -1
    power = acb(2.5, v) if sign > 0 else acb(-1.5, -v)

    def integrand(x, analytic):
        ratio = ball(0.7) + ball(0.3) * (sign * x - arb(1) / 2).exp()
        weight = ((part.step[0] - x) / part.step[1] / arb(2).sqrt()).erfc() / 2
        return (-x * x / 2).exp() / (2 * arb.pi()).sqrt() * ratio.pow(power, analytic) * weight

    return float(abs(acb.integral(integrand, acb(part.low), acb(part.high), rel_tol=arb("1e-12"), abs_tol=arb("1e-22"))).lower())


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("cells", [9, 14, 24])
def test_cells_bound_the_transform(direction, cells):
    with working_bits(128):
        leaf = sampled(direction)
        for y in (0.5, 2.0, 6.0, 20.0):
            line = validated({**FINE, "step": y, "last": 1, "cells": cells})
            pieces = finite(leaf, line)[0].pieces
            top = transform_of(leaf, line).real(line.c)
            bound = (top - sum((decay.spread(piece, cells, arb(2.5), ball(y), line.progress) for piece in pieces), arb(0))).upper()
            assert bound < top
            for v in (y, 1.1 * y, 2.0 * y, 5.0 * y):
                one = transform_of(leaf, validated({**FINE, "step": v, "last": 1})).values()[1]
                assert one.abs_lower() <= bound


def test_the_supremum_of_sinc():
    for u in (1e-3, 0.3, 0.9, 1.0, 1.5, 2.9, 3.3, 4.5, 10.0):
        top = max(abs(mp.sin(v) / v) for v in mp.linspace(u, u + 12, 4000))
        assert float(decay.sinc_sup(ball(u))) >= top


def of_atoms(leaf, count, epsilon, hint):
    return contour.delta_bounds([(leaf, count)], validated(hint), [ball(epsilon)])[0]


@pytest.mark.parametrize(
    ("step", "tau"), [(1.0, 0.05), (0.5, 0.05), (0.25, 0.05), (0.02, 0.05), (1.5, 0.0), (1.0, 0.0), (0.6, 0.0), (0.25, 0.0)]
)
@pytest.mark.parametrize("c", [0.05, 0.5, 2.0])
def test_atoms_smoothed_or_not_know_their_aliases(step, tau, c):
    """Randomised response, eight times: the multinomial sum in exact order. Without smoothing the sum is cut off so late that aliases
    count."""
    event = {"type": "RandomizedResponseDpEvent", "noise_parameter": 0.5, "num_buckets": 3}
    with working_bits(128), mp.workdps(30):
        leaf = pairs.leaf_of(event, "REPLACE_ONE")
        last = int((250 if tau else 5000) / step)
        low, high = of_atoms(leaf, 8, 1.0, {"c": c, "high": 2 * c + 1, "tau": tau, "step": step, "last": last})
        own, other = mp.mpf(2) / 3, mp.mpf(1) / 6
        loss, total = mp.log(4), mp.mpf(0)
        for i in range(9):
            for j in range(9 - i):
                mass = mp.factorial(8) / mp.factorial(i) / mp.factorial(j) / mp.factorial(8 - i - j) * own**i * other ** (8 - i)
                total += mass * max(0, 1 - mp.exp(1 - (i - j) * loss))
        assert inside(low, total, high)
        assert step > 0.02 or c < 0.1 or float(high) - float(low) < 1e-6


def test_infinite_masses_are_added_to_both_ends():
    """(epsilon, delta) twice with epsilon 0.1, at epsilon 0.05: 1 - (1 - d)^2 and the three sums of two losses."""
    event = {"type": "EpsilonDeltaDpEvent", "epsilon": 0.1, "delta": 0.25}
    with working_bits(128), mp.workdps(30):
        leaf = pairs.leaf_of(event, "ADD_OR_REMOVE_ONE")
        low, high = of_atoms(leaf, 2, 0.05, {"c": 2.0, "high": 5.0, "tau": 0.005, "step": 0.5, "last": 4000})
        up = mp.exp(mp.mpf(0.1)) / (1 + mp.exp(mp.mpf(0.1)))
        wanted = 1 - mp.mpf(9) / 16 + mp.mpf(9) / 16 * up**2 * (1 - mp.exp(mp.mpf(0.05) - mp.mpf(0.2)))
        assert inside(low, wanted, high) and float(high) < float(low) + 1e-9


SINGLES = [
    ({"type": "GaussianDpEvent", "noise_multiplier": 0.7}, "ADD_OR_REMOVE_ONE"),
    (
        {"type": "PoissonSampledDpEvent", "sampling_probability": 0.2, "event": {"type": "GaussianDpEvent", "noise_multiplier": 0.7}},
        "REPLACE_ONE",
    ),
    (
        {"type": "PoissonSampledDpEvent", "sampling_probability": 0.2, "event": {"type": "LaplaceDpEvent", "noise_multiplier": 0.7}},
        "REPLACE_SPECIAL",
    ),
]


@pytest.mark.parametrize(("event", "relation"), SINGLES)
@pytest.mark.parametrize("epsilon", [0.125, 0.75])
def test_one_mechanism_is_its_integral(event, relation, epsilon):
    """Closed forms against int (q - e^eps p)_+ from the definition of the pieces, by acb.integral between the crossing and far away."""
    with working_bits(96):
        leaf = pairs.leaf_of(event, relation)
        if not leaf.variance.is_zero():
            leaf = laws.Leaf(pieces=(laws.density(leaf.variance),))
        for one in (leaf, leaf.reversed()):
            found, total = laws.delta_of_one(one, ball(epsilon)), one.infinite
            for p, q in one.atoms:
                total += arb(0).max(q - ball(epsilon).exp() * p)
            for piece in one.pieces:
                total += _integral(piece, epsilon)
            assert abs(found - total) < arb("1e-12")


def _integral(piece, epsilon):
    low = float(piece.low) if piece.low is not None else -14.0
    high = float(piece.high) if piece.high is not None else 16.0

    def excess(x, analytic=False):
        above, below = (sum(((a + b * x).exp() for a, b in terms), acb(0)) for terms in (piece.q, piece.p))
        return piece.log_base(x).exp() * (above - ball(epsilon).exp() * below)

    places = [low + (high - low) * k / 4000 for k in range(4001)]
    start = next((x for x in places if float(piece.loss(acb(x)).real.mid()) > epsilon), None)
    if start is None:
        return arb(0)
    lower, upper = max(low, start - (high - low) / 4000), start
    for _ in range(60):
        middle = (lower + upper) / 2
        lower, upper = (lower, middle) if float(piece.loss(acb(middle)).real.mid()) > epsilon else (middle, upper)
    return acb.integral(excess, acb(upper), acb(high)).real


@pytest.mark.parametrize("reach", [1.5, 3.0])
def test_what_is_cut_off_is_counted_on_both_sides(reach):
    """Q = 0.7 N(0, 1) + 0.3 N(1, 1) outside the ends of the rule."""
    with working_bits(128), mp.workdps(30):
        leaf, missing = finite(sampled(), validated({**FINE, "reach": reach}))
        low, high = mp.mpf(float(leaf.pieces[0].low)), mp.mpf(float(leaf.pieces[0].high))
        parts = [(mp.mpf(0.3), 1), (1 - mp.mpf(0.3), 0)]
        wanted = mp.fsum(w * (mp.ncdf(low - shift) + mp.ncdf(shift - high)) for w, shift in parts)
        assert abs(missing - arb(mp.nstr(wanted, 28))) < arb("1e-25")


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("low", "high"), [(-3.0, 0.0), (-1.0, 2.0), (0.5, 4.0)])
def test_the_floor_of_a_cell_is_below_its_density(direction, low, high):
    """The density of the tilted loss, r / l', in mpmath at many points of the cell."""
    with working_bits(128), mp.workdps(20):
        piece, sign = sampled(direction).pieces[0], 1 if direction == "remove" else -1
        floor = float(decay.floor(piece, ball(low), ball(high), arb(2.5)))
        ratio = lambda x: mp.mpf(0.7) + mp.mpf(0.3) * mp.exp(sign * x - mp.mpf(1) / 2)  # noqa: E731
        power = mp.mpf(2.5) if sign > 0 else mp.mpf(-1.5)
        slope = lambda x: mp.mpf(0.3) * mp.exp(sign * x - mp.mpf(1) / 2) / ratio(x)  # noqa: E731
        assert 0 < floor <= min(mp.npdf(x) * ratio(x) ** power / slope(x) for x in mp.linspace(low, high, 101))
