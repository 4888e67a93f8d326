"""The checks behind the findings on curves: Renyi accounting of dp-accounting, and trade-off curves of riskcal."""

from __future__ import annotations

import importlib.util

import numpy as np
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent, dp_event
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from dp_accounting.rdp import RdpAccountant, rdp_privacy_accountant

from comparisons.cases import dp_sgd
from comparisons.checks import Claim, _bound, _exact
from dp_edgeworth import EdgeworthIntervalAccountant
from dp_edgeworth.losses.bounded_range import exponential_mechanism


def rdp_exponential_count() -> list[Claim]:
    """100 exponential mechanisms of 0.1 at 1e-6; the truth is bracketed by a mechanism of the class."""
    orders = np.array(RdpAccountant()._orders)
    once = np.minimum(0.1**2 * orders / 8.0, 0.1)  # what main adds for the event, whatever `count` is
    event_class = getattr(dp_event, "ExponentialMechanismDpEvent", None)
    if event_class is None:
        note, found = "stand-in: main's branch, repeated here", rdp_privacy_accountant.compute_epsilon(orders, once, 1e-6)[0]
    else:
        note, found = "", RdpAccountant().compose(event_class(0.1), 100).get_epsilon(1e-6)
    repaired = rdp_privacy_accountant.compute_epsilon(orders, 100 * once, 1e-6)[0]
    least = _lower_end(100, 1e-6)
    return [_bound("100 x ExponentialMechanism(0.1), delta 1e-6, count ignored", float(found), least, note),
            _bound("the same with `count`", float(repaired), least, "truth: a mechanism of the class")]


def _lower_end(count: int, delta: float) -> float:
    """The largest certified epsilon of the two-atom mechanisms of bounded range 0.1."""
    from dp_edgeworth.search import answers
    from dp_edgeworth.sums.composition import Composition

    members = [Composition({member: count}) for member in exponential_mechanism(0.1).members]
    return float(answers.epsilon_bounds(members, np.array([delta]), 1e-6).lower[0])


def rdp_integer_noise() -> list[Claim]:
    """Poisson(0.01, nine Gaussians of noise 1) a hundred times: noise 1 and noise 1.0 are the same mechanism."""
    claims = []
    for noise, note in ((1, "noise multiplier an int"), (1.0, "noise multiplier a float")):
        event = PoissonSampledDpEvent(0.01, SelfComposedDpEvent(GaussianDpEvent(noise), 9))
        truth = _exact(SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0 / 3.0)), 100), 1e-5)
        claims.append(_bound("Poisson(0.01, 9 x Gaussian(1)) x 100, delta 1e-5", RdpAccountant().compose(event, 100).get_epsilon(1e-5),
                             truth, note))
    return claims


def riskcal_beta() -> list[Claim]:
    """The smallest false negative rate at a false positive rate of 0.01: reporting more than the truth is the unsafe side."""
    truth = EdgeworthIntervalAccountant().compose(dp_sgd(0.01, 0.8, 10_000)).get_tradeoff(0.01)
    shown = f"{truth.lower:.5f}" if round(truth.lower, 5) == round(truth.upper, 5) else f"[{truth.lower:.6f}, {truth.upper:.6f}]"
    if importlib.util.find_spec("riskcal") is None:
        return [Claim("p 0.01, noise 0.8, m 1e4, alpha 0.01", "not installed", shown, "riskcal 1.5.1 is needed")]
    from riskcal.analysis import get_beta_from_pld

    claims = []
    for step in (1e-4, 1e-5):
        pld = from_gaussian_mechanism(0.8, sampling_prob=0.01, value_discretization_interval=step, use_connect_dots=True)
        beta = float(get_beta_from_pld(pld.self_compose(10_000), alpha=0.01))
        claims.append(Claim(f"p 0.01, noise 0.8, m 1e4, alpha 0.01, grid {step:g}", f"{beta:.5f}", shown,
                            "false" if beta > truth.upper else "true"))
    return claims
