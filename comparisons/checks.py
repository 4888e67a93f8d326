"""The checks behind `findings`: each one asks a peer live and returns what it said beside the truth."""

from __future__ import annotations

import functools
import math
import warnings
from typing import NamedTuple

import numpy as np
from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SelfComposedDpEvent,
    get_epsilon_gaussian,
)
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from dp_accounting.rdp import RdpAccountant

from comparisons import gaussian_limit, peers
from comparisons.cases import CASES, dp_sgd
from comparisons.runner import peak_mb
from comparisons.timing import cpu_seconds

AR, RO = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE


class Claim(NamedTuple):
    """One question: what the peer said, what is true, and a word on it."""

    setting: str
    peer: str
    truth: str
    verdict: str


def _exact(event: DpEvent, delta: float, relation: NeighboringRelation = AR) -> float:
    from comparisons.exact import exact_epsilon

    return float(exact_epsilon(event, delta, relation).value)


def _bound(setting: str, peer: float, truth: float, note: str = "") -> Claim:
    """A claim about an upper bound."""
    verdict = "false" if peer < truth * (1.0 - 1e-8) else "infinite" if peer == math.inf else "true"
    if verdict == "true" and peer > 1.05 * truth:
        verdict = "true, loose"
    return Claim(setting, f"{peer:.6f}", f"{truth:.6f}", ", ".join(filter(None, (verdict, note))))


def pld_small_delta() -> list[Claim]:
    claims = []
    for p, noise, steps, deltas in (
        (0.05, 1.0, 200, (1e-8, 1e-10, 1e-12, 1e-14, 1e-15)),
        (0.001, 0.6, 10**6, (1e-10, 1e-12)),
        (0.01, 0.8, 10**5, (1e-10, 1e-12, 1e-14)),
        (0.01, 0.8, 10**4, (1e-14,)),
    ):
        event = dp_sgd(p, noise, steps)
        accountant = PLDAccountant().compose(event)
        for delta in deltas:
            setting = f"p {p:g}, noise {noise:g}, m {steps:g}, delta {delta:g}"
            claims.append(_bound(setting, accountant.get_epsilon(delta), _exact(event, delta)))
    return claims


def pld_randomized_response() -> list[Claim]:
    event = SelfComposedDpEvent(RandomizedResponseDpEvent(0.5, 2), 10)
    truth = _exact(event, 1e-6, RO)
    original, unrolled = PLDAccountant(RO).compose(event), peers.UnrolledPldAccountant(RO).compose(event)
    return [
        _bound("RR(0.5, 2) ten times, delta 1e-6", original.get_epsilon(1e-6), truth),
        _bound("the same, composed one by one", unrolled.get_epsilon(1e-6), truth),
    ]


def prv_figure_5() -> list[Claim]:
    claims = []
    for size in (10**4, 3 * 10**4, 10**5, 10**6):
        event = CASES["paper-figure-5"].build(size)
        truth = _exact(event, 0.1)
        accountant = peers.PrvAccountant().compose(event)
        claims.append(_interval(f"m1 {size:g}, as released", accountant.get_epsilon_interval(0.1), truth))
        with _realigned():
            claims.append(_interval(f"m1 {size:g}, re-aligned", accountant.get_epsilon_interval(0.1), truth))
    return claims


def _interval(setting: str, ends: tuple[float, float, float], truth: float) -> Claim:
    """A claim about an interval."""
    lower, _, upper = ends
    verdict = "true" if lower <= truth <= upper else "false"
    return Claim(setting, f"[{lower:.4f}, {upper:.4f}]", f"{truth:.6f}", verdict)


class _realigned:
    """prv-accountant with the label of an m-fold composition reduced by whole cells, and the masses rolled to match."""

    def __enter__(self) -> None:
        from prv_accountant import composers

        original = self._original = composers.Fourier.compute_composition

        def compute_composition(composer: object, counts: list[int]) -> object:
            result = original(composer, counts)
            domain = result.domain
            cells = round(domain.shifts() / domain.dt())
            result.pmf = np.roll(result.pmf, cells)
            result.domain = domain.shift_left(cells * domain.dt())
            return result

        composers.Fourier.compute_composition = compute_composition

    def __exit__(self, *_: object) -> None:
        from prv_accountant import composers

        composers.Fourier.compute_composition = self._original


def prv_small_delta() -> list[Claim]:
    event = SelfComposedDpEvent(GaussianDpEvent(80.0), 1500)
    accountant = peers.PrvAccountant().compose(event)
    claims = []
    for delta in (1e-10, 1e-12, 1e-13, 1e-14):
        setting = f"1500 x Gaussian(80), delta {delta:g}"
        claims.append(_interval(setting, accountant.get_epsilon_interval(delta), _exact(event, delta)))
    with _long_masses():
        setting = "delta 1e-14, masses made long doubles"
        claims.append(_interval(setting, accountant.get_epsilon_interval(1e-14), _exact(event, 1e-14)))
    try:
        accountant.get_epsilon_interval(1e-16)
    except ValueError:
        claims.append(Claim("delta 1e-16", "ValueError", f"{_exact(event, 1e-16):.6f}", "refused"))
    return claims


class _long_masses:
    """prv-accountant with the masses of every cell as long doubles, so that its FFT runs in that precision."""

    def __enter__(self) -> None:
        from prv_accountant.privacy_random_variables import PrivacyRandomVariableTruncated as Truncated

        original = self._original = Truncated.probability
        Truncated.probability = lambda prv, a, b: np.asarray(original(prv, a, b), np.longdouble)

    def __exit__(self, *_: object) -> None:
        from prv_accountant.privacy_random_variables import PrivacyRandomVariableTruncated as Truncated

        Truncated.probability = self._original


def prv_cost() -> list[Claim]:
    claims = []
    for steps, error in ((10**3, 0.1), (10**4, 0.1), (10**5, 0.1), (10**4, 0.01)):
        accountant = peers.PrvAccountant(eps_error=error).compose(dp_sgd(0.01, 0.8, steps))
        seconds = cpu_seconds(functools.partial(accountant.get_epsilon, 1e-5))
        setting = f"p 0.01, noise 0.8, m {steps:g}, eps_error {error:g}"
        claims.append(Claim(setting, f"{seconds:.2f} CPU s", "", f"peak so far {peak_mb():.0f} MB"))
    return claims


def pld_power() -> list[Claim]:
    """Self-composition of a mass function of a few hundred points, as it is and made dense first."""
    mass = from_gaussian_mechanism(1.0, sampling_prob=1e-6, value_discretization_interval=1e-4)._pmf_remove
    claims = []
    for steps in (10**5, 10**6, 3 * 10**6):
        sparse = cpu_seconds(functools.partial(mass.self_compose, steps))
        dense = cpu_seconds(functools.partial(mass.to_dense_pmf().self_compose, steps))
        truth = f"made dense first: {dense:.3f} CPU s"
        claims.append(Claim(f"p 1e-6, noise 1, m {steps:g}", f"{sparse:.2f} CPU s", truth, "slow"))
    return claims


def pld_large_m() -> list[Claim]:
    """Losses of one step far below the discretization interval, at the paper's p = 0.4 / sqrt m."""
    claims = []
    for steps, interval in ((10**6, 1e-4), (10**8, 1e-3), (10**8, 1e-4), (10**10, 1e-4)):
        event = dp_sgd(0.4 / math.sqrt(steps), 0.8, steps)
        accountant = PLDAccountant(value_discretization_interval=interval).compose(event)
        setting = f"p 0.4 / sqrt m, noise 0.8, m {steps:g}, interval {interval:g}, delta 1e-5"
        claims.append(_bound(setting, accountant.get_epsilon(1e-5), _exact(event, 1e-5)))
    return claims


def pld_small_noise() -> list[Claim]:
    claims = []
    for noise in (0.1, 1e-6):
        truth = get_epsilon_gaussian(noise, 1e-5)
        try:
            answer = f"{PLDAccountant().compose(GaussianDpEvent(noise)).get_epsilon(1e-5):.6g}"
        except MemoryError as error:
            answer = f"MemoryError: {error}"[:40]
        verdict = "no answer" if answer.startswith("Memory") else "true"
        claims.append(Claim(f"Gaussian({noise:g}), delta 1e-5", answer, f"{truth:.6g}", verdict))
    return claims


def rdp_replace_one() -> list[Claim]:
    event = GaussianDpEvent(1.0)
    truth = _exact(event, 1e-5, RO)
    answers = {"RDP": RdpAccountant(neighboring_relation=RO), "PLD": PLDAccountant(RO)}
    return [
        _bound(f"Gaussian(1), REPLACE_ONE, delta 1e-5, {name}", accountant.compose(event).get_epsilon(1e-5), truth)
        for name, accountant in answers.items()
    ]


def rejected_event() -> list[Claim]:
    accountant = PLDAccountant()
    bad = PoissonSampledDpEvent(1.5, GaussianDpEvent(1.0))
    try:
        accountant.compose(bad)
        return [Claim("compose(PoissonSampled(1.5, ...))", "accepted", "ValueError", "false")]
    except ValueError:
        verdict = "false" if accountant.ledger == bad else "true"
        return [Claim("ledger after the ValueError", str(accountant.ledger)[:48], "NoOpDpEvent()", verdict)]


def gdp_e_rounding() -> list[Claim]:
    """alpha = 1 - F0(t) instead of the survival function, as in the authors' code."""
    claims = []
    for steps in (10**4, 10**5):
        noises = [gaussian_limit.Noise("gaussian", 0.8, 0.01, steps)]
        truth = f"{_exact(dp_sgd(0.01, 0.8, steps), 1e-5):.6f}"
        value = gaussian_limit.gdp_e_epsilon(1e-5, noises)
        under_p, under_q = gaussian_limit.loss_cumulants(noises[0])
        rounded = _rounded_epsilon(steps * under_q, steps * under_p, 1e-5)
        setting = f"p 0.01, noise 0.8, m {steps:g}, delta 1e-5"
        claims.append(Claim(f"{setting}, alpha kept small", f"{value:.4f}", truth, "an estimate"))
        claims.append(Claim(f"{setting}, alpha = 1 - F0", f"{rounded:.4f}", truth, "an estimate"))
    return claims


def _rounded_epsilon(null: np.ndarray, alternative: np.ndarray, delta: float) -> float:
    t = np.linspace(null[0], alternative[0] + 14.0 * math.sqrt(alternative[1]), 40001)
    alpha = 1.0 - (1.0 - gaussian_limit.edgeworth_survival(t, null))
    power = gaussian_limit.edgeworth_survival(t, alternative)
    noise = np.flatnonzero((np.diff(alpha) >= 0.0) | (alpha[1:] <= 0.0))
    end = noise[0] + 1 if noise.size else t.size
    keep = power[:end] > delta
    return float(np.max(np.log((power[:end][keep] - delta) / alpha[:end][keep])))


def afa_quadrature() -> list[Claim]:
    claims = []
    for name, event in (
        ("1500 x Gaussian(80)", SelfComposedDpEvent(GaussianDpEvent(80.0), 1500)),
        ("10 x Laplace(5)", SelfComposedDpEvent(LaplaceDpEvent(5.0), 10)),
        ("p 0.01, noise 0.8, m 10,000", dp_sgd(0.01, 0.8, 10_000)),
        ("p 4e-6, noise 0.8, m 1e10", dp_sgd(4e-6, 0.8, 10**10)),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = peers.FourierAccountant().compose(event).get_epsilon(1e-5)
        truth = _exact(event, 1e-5)
        close = "near" if abs(value - truth) < 1e-3 * truth else f"off by {value - truth:+.3f}"
        claims.append(Claim(f"{name}, delta 1e-5", f"{value:.6f}", f"{truth:.6f}", close))
    return claims
