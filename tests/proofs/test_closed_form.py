"""Closed forms as curves: Gaussians and single leaves against 40 digits, Laplace noise near its largest loss term by term in 30."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_curves import BY_NAME
from mpmath import mp, mpf

from dp_edgeworth import LaplaceShift
from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.gaussian_noise import GaussianShift, NormalMixture
from dp_edgeworth.losses.operations import Reversed
from dp_edgeworth.proofs.closed_form import closed_forms
from dp_edgeworth.sums.composition import Composition


@given(st.sampled_from(["gaussian", "laplace", "sampled gaussian"]), st.floats(0.0, 30.0))
@settings(max_examples=150, deadline=None)
def test_delta_and_its_complement(name: str, epsilon: float) -> None:
    known = BY_NAME[name]
    forms = closed_forms(known.composition)
    assert forms is not None
    for form in forms:
        bounds = form.bounds(np.array([epsilon]))
        exact = known.log(epsilon, complement=form.complement)
        assert bounds.lower[0] <= exact <= bounds.upper[0] and bounds.lower[0] <= bounds.estimate[0] <= bounds.upper[0]
        if not form.complement and exact > -600:
            assert bounds.upper[0] - bounds.lower[0] <= 1e-10 * max(1.0, -float(exact)) or name != "gaussian" or epsilon > 20.0


@given(st.floats(-9.0, 6.0), st.floats(0.0, 3.0))
@settings(max_examples=150, deadline=None)
def test_any_gaussian(log_mu: float, share: float) -> None:
    """Up to a few deviations above the mean loss, of any size; delta down to where it is no float."""
    mu = math.exp(log_mu)
    epsilon = share * (0.5 * mu * mu + 5.0 * mu)
    forms = closed_forms(Composition({GaussianShift(mu): 1}))
    assert forms is not None
    with mp.workdps(40 + int(epsilon)):
        a = mpf(epsilon) / mpf(mu) - mpf(mu) / 2
        delta = mp.ncdf(-a) - mp.exp(mpf(epsilon)) * mp.ncdf(-a - mpf(mu)) if epsilon < 600.0 else None
        if delta is None:
            return
        for form, exact in zip(forms, (mp.log(delta), mp.log(1 - delta)), strict=True):
            bounds = form.bounds(np.array([epsilon]))
            assert bounds.lower[0] <= exact <= bounds.upper[0]


@pytest.mark.parametrize("scales", [(1.0,) * 2, (1.0,) * 10, (2.0,) * 4 + (0.7,), (0.2,) * 40])
def test_laplace_near_the_top(scales) -> None:
    """The Gamma formula against the mixture over k summed term by term in 30 digits."""
    counts = {LaplaceShift(1 / s): scales.count(s) for s in set(scales)}
    forms = closed_forms(Composition(counts))
    assert forms is not None
    m, top, start = len(scales), math.fsum(1 / s for s in scales), forms[0].start
    for epsilon in np.linspace(start, top, 5)[:-1]:
        with mpmath.workdps(30):
            rest = mpmath.fsum(mpmath.mpf(1 / s) for s in scales) - mpmath.mpf(float(epsilon))

            def payoff(k, rest=rest):
                if k == 0:
                    return -mpmath.expm1(-rest)
                return mpmath.quad(lambda x: x**(k - 1) * mpmath.exp(-x / 2) / (2**k * mpmath.factorial(k - 1))
                                   * -mpmath.expm1(x - rest), [0, rest])

            exact = mpmath.fsum(mpmath.binomial(m, k) * payoff(k) for k in range(m + 1)) / 2**m
            for form, value in zip(forms, (mpmath.log(exact), mpmath.log1p(-exact)), strict=True):
                bounds = form.bounds(np.array([epsilon]))
                assert bounds.lower[0] <= value <= bounds.upper[0]
            assert float(forms[0].bounds(np.array([epsilon])).estimate[0]) == pytest.approx(float(mpmath.log(exact)), abs=1e-12)
    if start == 0.0:
        return
    below = forms[0].bounds(np.array([0.5 * start]))  # there only: at least as much as where the form begins
    assert below.upper[0] == 0.0 and below.lower[0] <= forms[0].bounds(np.array([start])).upper[0]
    assert forms[1].bounds(np.array([0.5 * start])).lower[0] == -math.inf


ATOMS = [
    {Atoms((0.25, 0.5, 0.25), (0.5, 0.125, 0.375)): 4, Atoms((0.25, 0.75), (0.75, 0.25)): 3},  # on no common lattice
    {Atoms((0.25, 0.5, 0.25), (0.25, 0.5, 0.25)): 5, Atoms((0.125, 0.875), (0.375, 0.625)): 2},
    {Atoms((0.25, 0.75, 0.0), (0.5, 0.4375, 0.0625)): 6, Atoms((2.0**-30, 1.0 - 2.0**-30), (0.5, 0.5)): 2},
    {Atoms((0.375, 0.5, 0.125), (0.125, 0.5, 0.375)): 30},  # many sums that are the same
]


def _law(counts) -> dict[Fraction, tuple[Fraction, Fraction]]:
    """Sums of finite losses by the ratio of their masses, which are dyadic: P-mass and Q-mass as fractions."""
    law = {Fraction(1): (Fraction(1), Fraction(1))}
    for atoms, count in counts.items():
        points = [(Fraction(p), Fraction(q)) for p, q in zip(atoms.p_masses, atoms.q_masses, strict=True) if p]
        for _ in range(count):
            new: dict[Fraction, tuple[Fraction, Fraction]] = {}
            for _, (p, q) in law.items():
                for more_p, more_q in points:
                    ratio = (q * more_q) / (p * more_p)
                    before = new.get(ratio, (Fraction(0), Fraction(0)))
                    new[ratio] = before[0] + p * more_p, before[1] + q * more_q
            law = new
    return law


@pytest.mark.parametrize("number", range(len(ATOMS)))
def test_sums_of_atoms(number) -> None:
    """Against sums of fractions: G and 1 - delta between the sums, at them, and next to them."""
    composition, law = Composition(ATOMS[number]), _law(ATOMS[number])
    infinite = 1 - sum(q for _, q in law.values())
    forms = closed_forms(composition)
    assert forms is not None and forms[0].kinks is not None
    losses = np.array(sorted(float(mp.log(mpf(r.numerator) / r.denominator)) for r in law if r > 1))
    assert len(forms[0].kinks) <= len(losses) + 8  # and 0
    points = np.concatenate([[0.0], losses, np.nextafter(losses, 0.0), 0.5 * (losses[1:] + losses[:-1])])
    delta, complement = (form.bounds(points) for form in forms)
    assert np.all(np.diff(forms[0].kinks) > 0.0)
    with mp.workdps(50):
        for i, epsilon in enumerate(points):
            exact = mp.fsum(max(mpf(0), mpf(q.numerator) / q.denominator - mp.exp(mpf(epsilon)) * p.numerator / p.denominator)
                            for p, q in law.values())
            if exact > 0:
                assert delta.lower[i] <= mp.log(exact) <= delta.upper[i], epsilon
            if exact > 1e-12:
                crossing = forms[0].inverse(np.array([float(mp.log(exact))]))
                assert forms[0].bounds(crossing).estimate[0] == pytest.approx(float(mp.log(exact)), abs=1e-9)
            assert delta.upper[i] - delta.lower[i] < 1e-10 or epsilon > losses[-1] * (1.0 - 1e-12)
            exact = 1 - exact - mpf(infinite.numerator) / infinite.denominator
            assert complement.lower[i] <= mp.log(exact) <= complement.upper[i], epsilon


@pytest.mark.parametrize("number", range(len(ATOMS)))
def test_the_table_of_atoms_is_below_the_curve_between_its_points(number) -> None:
    """Chords in e^eps against fractions."""
    law, forms = _law(ATOMS[number]), closed_forms(Composition(ATOMS[number]))
    assert forms is not None
    epsilons, asked = forms[0].table(3.0)
    logs = forms[0].bounds(asked).lower
    assert epsilons[0] == 0.0 and len(epsilons) > 2 and np.all(asked > epsilons)
    with mp.workdps(40):
        for i in range(len(epsilons) - 1):
            left, right = (mp.exp(mpf(float(end))) for end in epsilons[i:i + 2])
            for share in (mpf(0), mpf("0.5"), mpf("0.999")):
                t = left + share * (right - left)
                chord = (1 - share) * mp.exp(mpf(float(logs[i]))) + share * mp.exp(mpf(float(logs[i + 1])))
                exact = mp.fsum(max(mpf(0), mpf(q.numerator) / q.denominator - t * p.numerator / p.denominator)
                                for p, q in law.values())
                assert exact * (1 - mpf("1e-9")) - mpf("1e-20") <= chord <= exact


@pytest.mark.parametrize("counts", [
    {LaplaceShift(1.0): 2000}, {Atoms((0.25, 0.75), (0.75, 0.25)): 1001}, {Atoms((0.25, 0.25, 0.5), (0.5, 0.25, 0.25)): 200},
    {LaplaceShift(1.0): 1, GaussianShift(1.0): 1}])
def test_where_nothing_is_known(counts) -> None:
    assert closed_forms(Composition(counts)) is None


@pytest.mark.parametrize(("pair", "epsilon"), [
    (Reversed(NormalMixture((0.0, 2.0234124375150444e-05, 6.070237312545133e-05), (0.21, 1e-9, 0.789999999))), 0.2178),
    (Reversed(NormalMixture((0.0, 2.41805026686519e-05, 0.0027, 0.0242, 0.0484), (0.2,) * 5)), 0.6836089),
    (NormalMixture((0.0, 5e-4, 8e-4), (0.999999989, 5.5e-9, 5.5e-9)), 4.07e-4)])
def test_a_delta_that_is_no_float_is_not_zero(pair, epsilon: float) -> None:
    """log G is finite wherever some loss is above epsilon; its upper bound was -inf, or off by rounding at -1e8."""
    forms = closed_forms(Composition({pair: 1}))
    assert forms is not None and epsilon < pair.supremum
    bounds = forms[0].bounds(np.array([epsilon]))
    assert bounds.lower[0] == -math.inf and -746.0 <= bounds.upper[0] <= -744.0
