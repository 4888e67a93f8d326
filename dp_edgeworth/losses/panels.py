"""Composite Gauss-Legendre rules for losses whose integrands are not smooth on the whole line, or are cut off.

    graded_edges, panels    bounded losses with a steep integrand (Laplace), and half-lines
    cut_panels              the line up to a largest loss, panels short only where the loss turns

Accuracy by Bernstein ellipses (Trefethen, Approximation Theory and Practice, Theorem 19.3): if the integrand is analytic and at most
M inside the ellipse of parameter rho around a panel, n nodes are off by at most (64/15) M half rho^{-2n} / (1 - rho^{-2}).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from dp_edgeworth.losses.gaussian_curve import legendre
from dp_edgeworth.losses.rules import Demand, check_size

Function = Callable[[np.ndarray], np.ndarray]
Groups = Callable[[np.ndarray], Iterable[tuple[float, np.ndarray]]]
_RHO = np.geomspace(1.1, 100.0, 60)
_RHO_SUM, _TWICE_LOG_RHO = np.log1p(-(_RHO**-2.0)), 2.0 * np.log(_RHO)
_MOST_ON_A_PANEL = 1024
_FEW_TURNS, _MANY_TURNS = 6.0, 48.0  # half of what L may turn on one panel
_LARGEST_RHO = 3.0  # of `cut_panels`: the ellipse is at most 4/3 as high as half its panel, and overshoots it by 2/3 of that


def graded_edges(width: float, fall: float, rise: float, longest: float, digits: float) -> np.ndarray:
    """Edges of panels on [0, width] for integrands between e^{-fall x} and e^{rise x}.

    Within t0 = 1.5 (digits + 30) / slope of the end where the mass is, panels have slope times length at most 8; beyond, a panel
    is at most as long as its distance t from that end, so that on its Bernstein ellipse of rho <= 3 the integrand is below
    e^{-2 slope t / 3}. For smaller slopes u = slope t the error with n nodes is at most (u/4)^{2n} e^{-u} / (2n)!, which is below
    1e-30 for every u when n >= 24.
    """
    edges: list[np.ndarray] = [np.array([0.0, width])]
    for slope, mirrored in ((rise, True), (fall, False)):
        near = min(1.5 * (digits + 30.0) / slope, width)
        distances: list[np.ndarray] = [np.linspace(0.0, near, check_size(near * max(slope / 8.0, 1.0 / longest) + 2.0))]
        far = near * 2.0 ** np.arange(0, 1 + max(0, math.ceil(math.log2(max(longest / near, 1.0)))))
        start = min(float(far[-1]), width)
        distances += [far, np.linspace(start, width, check_size((width - start) / longest + 2.0))]
        joined = np.concatenate(distances)
        edges.append(width - joined if mirrored else joined)
    found = np.unique(np.clip(np.concatenate(edges), 0.0, width))
    kept = found[np.concatenate([[True], np.diff(found) > 1e-14 * width])]
    kept[-1] = width  # not the one just below it
    return kept


def panels(edges: np.ndarray, demand: Demand, turn: float, odds: float) -> tuple[np.ndarray, np.ndarray]:
    """Composite Gauss-Legendre nodes and weights, error below e^{-digits}; rows of edges give rows of nodes.

    The integrand is analytic for |Im x| < pi / turn and at height b at most exp(b^2/2 + frequency turn odds b)
    sec(turn b/2)^{max(-low exponent, 0)} times its size on the real line.
    """
    half = 0.5 * np.diff(edges, axis=-1)
    nodes = node_count(float(half.max()), demand, turn, odds)
    check_size(float(half.shape[-1]) * nodes)
    x, w = legendre(nodes)
    centres = 0.5 * (edges[..., 1:] + edges[..., :-1])
    shape = (*edges.shape[:-1], -1)
    return (centres[..., None] + half[..., None] * x).reshape(shape), (half[..., None] * w).reshape(shape)


def node_count(half: float, demand: Demand, turn: float, odds: float) -> int:
    """Smallest n >= 28 with (64/15) M half rho^{-2n} / (1 - rho^{-2}) <= e^{-digits} for some Bernstein ellipse rho.

    The 8 in the growth pays for slopes up to 8 over the length of a panel where rho is moderate; for larger rho n >= 28 does:
    e^{4 ((rho + 1/rho)/2 - 1)} rho^{-56} is below e^{-130} at its least. Relative to the integral over its own panel half M is at most
    8 / (2 (1 - e^{-8})) times larger for these slopes: 5 = log(64/15) + log 4 + a reserve of 2.
    """
    height = 0.5 * half * (_RHO - 1.0 / _RHO)
    number = int(np.searchsorted(turn * height, (0.98 if odds == 1.0 else 0.49) * math.pi))
    height = height[:number]
    secant = -np.log(np.cos(0.5 * turn * height))
    if odds < 1.0:
        secant = np.minimum(secant, -np.log1p(-odds * (1.0 - np.cos(turn * height))))
    growth = 8.0 + 0.5 * height**2 + demand.frequency * turn * odds * height + max(-demand.low, 0.0) * secant
    needed = (demand.digits + 5.0 + growth - _RHO_SUM[:number]) / _TWICE_LOG_RHO[:number]
    best = max(28.0, math.ceil(needed.min(initial=math.inf))) if number else math.inf
    return int(check_size(best if best <= _MOST_ON_A_PANEL else math.inf))


def _no_groups(x: np.ndarray) -> Iterable[tuple[float, np.ndarray]]:
    return ()


def _unknown(x: np.ndarray) -> np.ndarray:
    return np.full(x.shape, -np.inf)


def cut_panels(low: float, high: float, demand: Demand, turn: float, slope: Function, groups: Groups = _no_groups,
               losses: Function = _unknown) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [low, high] for e^{-x^2/2 + s L(x)}, s in the demand's range; error below e^{-digits}.

    L is the logarithm of a mixture of exponentials with rates in [0, turn], or a difference of two; `slope` is an increasing bound of
    |L'|. `groups` gives pairs (tau, log-odds at x) for any number of tau: the odds against all terms whose rates are within tau of that
    of the largest term (of both mixtures).

    Length at most 1.5: the ellipse is at most 1 high, where e^{-x^2/2} has grown by e^{1/2}, and overshoots its panel by a third of
    its length. A mixture's modulus is at most its value on the real line, so a positive power of it does not grow at all; and on
    the line the integrand is at most 3 (1 + rate + |s| turn) times its integral: at an end by the rate there, inside because its
    logarithm has a second derivative of at least -1 - |s| turn^2. Only an ellipse that sticks out of [low, high] sees more than
    that: its panel is so short that |s| slope + |x| times half of it is at most 4, which grows by 4 ((rho + 1/rho)/2 - 1).

    Negative powers and phases: either the panel is at most 1/turn long, every term turns by t <= 2/3 on its ellipse, and cos(2/3) >
    1/1.3, so that |Im L| <= 1.3 slope height, and a negative power with posterior probability r grows by at most |s| r 1.3 t^2/2 <=
    2.4 as |s| r turn half <= 4. Or a group of terms is larger than all others together on the whole ellipse, by odds of at most
    w <= 0.08 with |s| w <= 0.5 for the negative s: as log-odds change at a rate of at most turn, this is so within
    (log w - log-odds at x) / turn of x. If the panel is at most 0.6/tau and 2/(tau sqrt|s|) long, the terms of the group turn against
    the largest one by t <= 0.4, t^2 <= 1.8/|s|, so that |mixture| is at least cos t - w times its value on the real line over 1 + w.
    So |L'| <= 1.08 / (cos 0.4 - 0.08) slope <= 1.3 slope, and a negative power grows by at most e^{0.65 |s| t^2 + 2.4 |s| w} <= e^2.4.
    Away from the bends panels are therefore as long as the normal density lets them be.

    Where L > 0, steep negative powers matter no more: on panels that begin where |s| L >= digits + 4 the integrand, and what a rule
    with positive weights makes of it, is at most e^{-digits - 4} of the normal law, of which the integral has more than half (L <= 0
    for x <= 0). These panels need not serve such s, nor frequencies that are asked for with such s only.

    Phases are at most phase (rho - 1/rho)/2; where L turns often, long panels with many nodes need fewer in all.
    """
    size, negative, few = max(abs(demand.low), abs(demand.high)), max(-demand.low, 0.0), check_size((high - low) / 1.5 + 2.0)
    grid = np.linspace(low, high, 1025)
    turns = 1.3 * float((_frequencies(demand, losses(grid)) * slope(grid)).mean()) * (high - low)
    phase = _MANY_TURNS if turns > 50.0 * _MANY_TURNS else _FEW_TURNS

    def longest(left: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The largest length of a panel between these ends."""
        steep, above = slope(x + 0.5), losses(left)
        inside = np.maximum(8.0 / (size * steep + np.abs(x) + 2.5), np.minimum(0.75 * (x - low), 3.0 * (high - x)))
        powers = np.minimum(negative, _steepest(demand, above)) + 1e-300
        bend, turned = np.minimum(1.0 / turn, 8.0 / (powers * steep + 1e-300)), np.minimum(0.6, 2.0 / np.sqrt(powers))
        for tau, log_odds in groups(x):
            alone = np.log(np.minimum(0.08, 0.5 / powers))
            bend = np.maximum(bend, np.minimum(turned / (tau + 1e-300), 0.75 * (alone - log_odds) / turn))
        turning = 2.0 * phase / (1.3 * _frequencies(demand, above) * steep + 1e-300)
        return np.minimum(np.minimum(inside, bend), np.minimum(turning, 1.5))

    edges = np.linspace(low, high, few)
    while True:
        allowed = longest(edges[:-1], edges[1:])
        if not np.all(allowed > 1e-13 * np.abs(edges[1:])):  # panels that could not be told apart from their ends would be too many
            check_size(math.inf)
        pieces = np.clip(np.ceil(np.diff(edges) / allowed - 1e-9), 1.0, 3.0).astype(np.int64)
        check_size(float(pieces.sum()) * 28.0)
        if pieces.max() == 1:
            break
        inside = np.arange(int(pieces.sum())) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        edges = np.append(np.repeat(edges[:-1], pieces) + np.repeat(np.diff(edges) / pieces, pieces) * inside, high)
    half, centres = 0.5 * np.diff(edges), 0.5 * (edges[1:] + edges[:-1])
    rate = size * (float(slope(np.array(high))) + turn) + abs(high)
    x, w = legendre(_cut_node_count(demand.digits + math.log(3.0 * (1.0 + rate) * (high - low)), phase))
    check_size(float(len(half)) * len(x))
    return (centres[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()


def _steepest(demand: Demand, losses: np.ndarray) -> np.ndarray:
    """|s| of the negative powers from which on integrands above these losses do not matter, see `cut_panels`."""
    return (demand.digits + 4.0) / np.maximum(losses, 1e-300)


def _frequencies(demand: Demand, losses: np.ndarray) -> np.ndarray:
    """What is left of the frequencies of the demand above these losses."""
    return np.where(-demand.turned >= _steepest(demand, losses), 0.0, demand.frequency)


def _cut_node_count(digits: float, phase: float) -> int:
    """Smallest n with (64/15) M rho^{-2n} / (1 - rho^{-2}) <= e^{-digits} for some rho, M as in `cut_panels`."""
    rho = np.linspace(1.1, _LARGEST_RHO, 96)
    growth = phase * (rho - 1.0 / rho) / 2.0 + 4.0 * ((rho + 1.0 / rho) / 2.0 - 1.0) + 0.5 + 2.4
    best = np.ceil((digits + 1.5 + growth - np.log1p(-(rho**-2.0))) / (2.0 * np.log(rho))).min()
    return int(check_size(best if best <= _MOST_ON_A_PANEL else math.inf))
