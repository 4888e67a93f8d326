"""Every leaf's M(s) against mpmath in 40 digits, written from its definition E_P[(dQ/dP)^s], in every relation and both directions."""

import mpmath as mp
import pytest
from flint import arb
from lines import transform_of

from dp_edgeworth.checker import pairs
from dp_edgeworth.checker.balls import working_bits
from dp_edgeworth.checker.transforms import validated

mp.mp.dps = 40  # the parameters below are made when this file is imported
AR, RO, RS = "ADD_OR_REMOVE_ONE", "REPLACE_ONE", "REPLACE_SPECIAL"
LINE = validated({"c": 1.25, "step": 0.75, "last": 12, "low": 0.0, "high": 3.0, "reach": 14.0, "nodes": 64, "digits": 100.0})


def gaussian(noise):
    return {"type": "GaussianDpEvent", "noise_multiplier": noise}


def laplace(noise):
    return {"type": "LaplaceDpEvent", "noise_multiplier": noise}


def poisson(p, event):
    return {"type": "PoissonSampledDpEvent", "sampling_probability": p, "event": event}


def discrete_laplace(a, s):
    return {"type": "DiscreteLaplaceDpEvent", "noise_parameter": a, "sensitivity": s}


MIXTURE = {
    "type": "MixtureOfGaussiansDpEvent",
    "standard_deviation": 0.8,
    "sensitivities": [0.0, 0.5, 1.0],
    "sampling_probs": [0.5, 0.3, 0.2],
}


def normal(mu):
    return lambda x: mp.exp(-((x - mu) ** 2) / 2) / mp.sqrt(2 * mp.pi)


def mixed(*parts):
    return lambda x: mp.fsum(w * density(x) for w, density in parts)


def moment(p, q, s, edges=None):
    """E_P[(dQ/dP)^s] for densities."""
    edges = mp.linspace(-16, 16, 33) if edges is None else edges
    return mp.quad(lambda x: mp.exp((1 - s) * mp.log(p(x)) + s * mp.log(q(x))), edges)


def atoms_moment(pairs, s):
    return mp.fsum(p * (q / p) ** s for p, q in pairs)


def sampled_gaussian(mu, p):
    return lambda s: moment(normal(0), mixed((1 - p, normal(0)), (p, normal(mu))), s)


def replaced_gaussian(mu, p):
    return lambda s: moment(mixed((1 - p, normal(0)), (p, normal(-mu))), mixed((1 - p, normal(0)), (p, normal(mu))), s)


def laplace_pair(t, p):
    """Noise around 0 against (1 - p) around 0 + p around t."""
    density = lambda centre: lambda x: mp.exp(-abs(x - centre)) / 2  # noqa: E731
    edges = [-90, -40, -10, 0, t / 2, t, t + 10, t + 40, t + 90]
    return lambda s: moment(density(0), mixed((1 - p, density(0)), (p, density(t))), s, edges)


def without_replacement(mu, p):
    """Above 0 the losses of sampling, below 0 their mirror image, the rest at 0."""

    def value(s):
        ratio = lambda x: 1 - p + p * mp.exp(mu * x - mu * mu / 2)  # noqa: E731
        edges = mp.linspace(mu / 2, 18, 20)
        above = mp.quad(lambda x: normal(0)(x) * ratio(x) ** s, edges)
        below = mp.quad(lambda x: normal(0)(x) * ratio(x) ** (1 - s), edges)
        rest = 1 - mp.quad(lambda x: normal(0)(x) * (1 + ratio(x)), edges)
        return above + below + rest

    return value


def truncated(n, p, batch, noise, relation):
    """Binomial probabilities as sums of exact terms."""
    tail = lambda k, n: mp.fsum(mp.binomial(n, j) * p**j * (1 - p) ** (n - j) for j in range(k, n + 1))  # noqa: E731
    full = tail(batch, n - 1)
    conditional = tail(batch + 1, n) * batch / full / n
    displaced = replaced_gaussian(2 / noise, conditional)
    plain = replaced_gaussian(1 / noise, p) if relation == RO else sampled_gaussian(1 / noise, p)
    return lambda s: full * displaced(s) + (1 - full) * plain(s)


def discrete_pairs(a, s, p):
    mass = lambda x: mp.tanh(a / 2) * mp.exp(-a * abs(x))  # noqa: E731
    reach = range(-400, 401)
    return [(mass(x), (1 - p) * mass(x) + p * mass(x - s)) for x in reach]


def response_pairs(noise, k, relation):
    other = noise / k
    own = 1 - noise + other
    if relation == RO:
        return [(other, own), (own, other), *[(other, other)] * (k - 2)]
    return [(mp.mpf(1) / k, own), *[(mp.mpf(1) / k, other)] * (k - 1)]


def f(x):
    """The double itself."""
    return mp.mpf(x)


CASES = {
    "sampled gaussian": (poisson(0.01, gaussian(0.8)), AR, sampled_gaussian(1 / f(0.8), f(0.01))),
    "sampled gaussian, special": (poisson(0.3, gaussian(2.0)), RS, sampled_gaussian(1 / f(2), f(0.3))),
    "sampled gaussian, replaced": (poisson(0.1, gaussian(1.5)), RO, replaced_gaussian(1 / f(1.5), f(0.1))),
    "sampled composition": (
        poisson(0.1, {"type": "ComposedDpEvent", "events": [gaussian(2.0), gaussian(1.0)]}),
        AR,
        sampled_gaussian(mp.sqrt(f(1.25)), f(0.1)),
    ),
    "sampled twice": (poisson(0.5, poisson(0.25, gaussian(1.0))), AR, sampled_gaussian(f(1), f(0.125))),
    "laplace": (laplace(2.0), AR, laplace_pair(f(0.5), f(1))),
    "laplace, replaced": (laplace(2.0), RO, laplace_pair(f(1), f(1))),
    "permute and flip": ({"type": "PermuteAndFlipDpEvent", "epsilon": 0.5}, AR, laplace_pair(f(0.5), f(1))),
    "sampled laplace": (poisson(0.2, laplace(0.8)), AR, laplace_pair(1 / f(0.8), f(0.2))),
    "mixture": (
        MIXTURE,
        AR,
        lambda s: moment(normal(0), mixed((f(0.5), normal(0)), (f(0.3), normal(f(0.5) / f(0.8))), (f(0.2), normal(1 / f(0.8)))), s),
    ),
    "sampled mixture": (
        poisson(0.25, MIXTURE),
        RS,
        lambda s: moment(
            normal(0),
            mixed((f(0.75) + f(0.125), normal(0)), (f(0.3) / 4, normal(f(0.5) / f(0.8))), (f(0.2) / 4, normal(1 / f(0.8)))),
            s,
        ),
    ),
    "without replacement": (
        {"type": "SampledWithoutReplacementDpEvent", "source_dataset_size": 10, "sample_size": 3, "event": gaussian(1.5)},
        RO,
        without_replacement(2 / f(1.5), f(3) / 10),
    ),
    "truncated": (
        {
            "type": "TruncatedSubsampledGaussianDpEvent",
            "dataset_size": 30,
            "sampling_probability": 0.25,
            "truncated_batch_size": 9,
            "noise_multiplier": 3.0,
        },
        AR,
        truncated(30, f(0.25), 9, f(3), AR),
    ),
    "truncated, replaced": (
        {
            "type": "TruncatedSubsampledGaussianDpEvent",
            "dataset_size": 30,
            "sampling_probability": 0.25,
            "truncated_batch_size": 9,
            "noise_multiplier": 3.0,
        },
        RO,
        truncated(30, f(0.25), 9, f(3), RO),
    ),
    "discrete laplace": (discrete_laplace(0.3, 2), AR, lambda s: atoms_moment(discrete_pairs(f(0.3), 2, f(1)), s)),
    "sampled discrete laplace": (
        poisson(0.1, discrete_laplace(0.5, 3)),
        AR,
        lambda s: atoms_moment(discrete_pairs(f(0.5), 3, f(0.1)), s),
    ),
    "randomized response": (
        {"type": "RandomizedResponseDpEvent", "noise_parameter": 0.4, "num_buckets": 5},
        RO,
        lambda s: atoms_moment(response_pairs(f(0.4), 5, RO), s),
    ),
    "randomized response, special": (
        {"type": "RandomizedResponseDpEvent", "noise_parameter": 0.4, "num_buckets": 5},
        RS,
        lambda s: atoms_moment(response_pairs(f(0.4), 5, RS), s),
    ),
    "epsilon delta": (
        {"type": "EpsilonDeltaDpEvent", "epsilon": 0.7, "delta": 0.125},
        AR,
        lambda s: f(0.875) * (mp.exp((s - 1) * f(0.7)) + mp.exp(-s * f(0.7))) / (1 + mp.exp(-f(0.7))),
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_transform_in_thirty_digits(name, direction):
    """The ball contains the value of mpmath to within 1e-28, and is that small."""
    event, relation, exact = CASES[name]
    with mp.workdps(40), working_bits(192):
        leaf = pairs.leaf_of(event, relation)
        leaf = leaf if direction == "remove" else leaf.reversed()
        transform = transform_of(leaf, LINE)
        for j, value in list(enumerate(transform.values()))[::8]:
            s = mp.mpc(LINE.c + 1, j * LINE.step)
            wanted = exact(s) if direction == "remove" else exact(1 - s)
            for part, reference in ((value.real, wanted.real), (value.imag, wanted.imag)):
                assert abs(part - arb(mp.nstr(reference, 38))) < arb("1e-28")


@pytest.mark.parametrize(
    ("event", "relation", "square"),
    [
        (gaussian(0.5), AR, 4),
        (gaussian(0.5), RO, 16),
        (gaussian(0.5), RS, 4),
        (poisson(1.0, gaussian(0.5)), RO, 16),
        (poisson(1, gaussian(0.5)), AR, 4),
        ({"type": "SingleEpochTreeAggregationDpEvent", "noise_multiplier": 0.5, "step_counts": [3, 8]}, RS, 16),
        ({"type": "SampledWithoutReplacementDpEvent", "source_dataset_size": 5, "sample_size": 5, "event": gaussian(2.0)}, RO, 1),
        ({"type": "MixtureOfGaussiansDpEvent", "standard_deviation": 2.0, "sensitivities": [1.0], "sampling_probs": [1.0]}, AR, 0.25),
    ],
)
def test_gaussian_leaves(event, relation, square):
    assert (pairs.leaf_of(event, relation).variance - arb(square)).is_zero()


def test_a_rule_knows_how_large_an_integral_at_the_end_of_a_piece_is():
    """A tilt of 10^8: all of the integral is next to the upper end, so its size must not be taken from points inside."""
    line = validated({"c": 1e8, "high": 2e8, "nodes": 200, "digits": 34.0})
    with working_bits(128):
        transform = transform_of(pairs.leaf_of(poisson(0.002, laplace(3.6)), AR), line)
        found = transform.real(1e8)
        assert len(transform.panels) < 500 and float(found.rad() / found.mid()) < 1e-6
