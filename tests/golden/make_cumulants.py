"""Writes cumulants.json: cumulants 1 to 6 of X1 and Y1 of (sub)sampled Gaussians and Laplaces, to 30 digits and more.

Independent of dp_edgeworth: composite Gauss-Legendre quadrature in mpmath at 70 digits of the definitions in
formulas.md section 2,

    L(x) = log(1 - p + p l(x)),  X1 = L(x) for x ~ P,  Y1 = L(x) for x ~ (1-p) P + p Q,
    Gaussian: l = e^{mu x - mu^2/2}, x ~ N(0, 1);  Laplace: l = e^{|x| - |x - mu|}, x ~ Laplace(0, 1);  mu = 1 / noise,

on panels of two widths. A row is written only if both agree to 30 digits.
Run: python tests/golden/make_cumulants.py (one minute).
"""

import functools
import json
import pathlib

from mpmath import mp

PROBABILITIES = [1e-6, 1e-3, 0.05, 0.5, 0.999, 1.0]
NOISES = {"gaussian": [0.3, 1.0, 10.0, 100.0], "laplace": [0.1, 1.0, 10.0, 100.0]}
FILE = pathlib.Path(__file__).with_name("cumulants.json")
ORDER = 6


@functools.cache
def unit_rule(nodes=44):
    """Gauss-Legendre nodes and weights on [-1, 1]: Newton's method from the Chebyshev guess."""
    rule = []
    for i in range(nodes):
        x = mp.cos(mp.pi * (i + mp.mpf(3) / 4) / (nodes + mp.mpf(1) / 2))
        for _ in range(8):
            below, value = mp.mpf(1), x
            for n in range(2, nodes + 1):
                below, value = value, ((2 * n - 1) * x * value - (n - 1) * below) / n
            slope = nodes * (x * value - below) / (x * x - 1)
            x -= value / slope
        rule.append((x, 2 / ((1 - x * x) * slope**2)))
    return rule


def panels(low, high, width):
    count = int(mp.ceil((high - low) / width))
    half = (high - low) / count / 2
    for i in range(count):
        for x, weight in unit_rule():
            yield low + half * (2 * i + 1 + x), half * weight


def gaussian_law(mu, width):
    """(l, weight under P) such that E_P[g(l)] = sum weight g(l)."""
    for x, weight in panels(mp.mpf(-20), 20 + 7 * mu, width):
        yield mp.exp(mu * x - mu * mu / 2), weight * mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def laplace_law(mu, width):
    yield mp.exp(-mu), mp.mpf(1) / 2
    yield mp.exp(mu), mp.exp(-mu) / 2
    for x, weight in panels(mp.mpf(0), mu, width):
        yield mp.exp(2 * x - mu), weight * mp.exp(-x) / 2


LAWS = {"gaussian": gaussian_law, "laplace": laplace_law}


def cumulants(points):
    """kappa_1..kappa_6 of a law given as (value, weight): by way of the central moments."""
    mean = mp.fsum(weight * value for value, weight in points)
    centred = [(value - mean, weight) for value, weight in points]
    moments = [mp.mpf(1), mp.mpf(0)] + [mp.fsum(w * v**r for v, w in centred) for r in range(2, ORDER + 1)]
    kappa = [mp.mpf(0)]
    for n in range(1, ORDER + 1):
        kappa.append(moments[n] - mp.fsum(mp.binomial(n - 1, k - 1) * kappa[k] * moments[n - k] for k in range(1, n)))
    return [mean, *kappa[2:]]


def x_and_y_cumulants(kind, probability, noise, width):
    """Cumulants of X1 and of Y1."""
    p, mu = mp.mpf(probability), 1 / mp.mpf(noise)
    under_p = [(mp.log(1 - p + p * ratio), weight, 1 - p + p * ratio) for ratio, weight in LAWS[kind](mu, width)]
    return cumulants([(v, w) for v, w, _ in under_p]), cumulants([(v, w * r) for v, w, r in under_p])


def row(kind, probability, noise, widths=("0.4", "0.31")):
    coarse, fine = (x_and_y_cumulants(kind, probability, noise, mp.mpf(width)) for width in widths)
    for x, y in zip(coarse, fine, strict=True):
        for r, (a, b) in enumerate(zip(x, y, strict=True), 1):
            scale = abs(b) if r <= 2 else max(abs(b), y[1] ** (mp.mpf(r) / 2))
            assert abs(a - b) <= mp.mpf(10) ** -30 * scale, (kind, probability, noise, r, mp.nstr(abs(a - b) / scale))
    return {
        "kind": kind,
        "p": probability,
        "noise": noise,
        "x": [mp.nstr(v, 40) for v in fine[0]],
        "y": [mp.nstr(v, 40) for v in fine[1]],
    }


def main():
    with mp.workdps(70):
        rows = [row(kind, p, noise) for kind, noises in NOISES.items() for noise in noises for p in PROBABILITIES]
    source = "tests/golden/make_cumulants.py: mpmath, 70 digits, two panel widths that agree to 30 digits"
    FILE.write_text(json.dumps({"source": source, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
