"""Hints for the checker: where to evaluate transforms so that a proof is quick. Doubles, guesses; believed by nobody.

For one direction of a composition: a line Re z = c near the saddle point, a step for which aliases are small, and the cheapest way
to cut the sum off: the Gaussian leaves, the lively part of each loss (with or without the outcomes in which all losses are calm),
or smoothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from dp_edgeworth.analysis.certificate_densities import Density, log_base, log_sum

if TYPE_CHECKING:  # python-flint is an extra
    from dp_edgeworth.checker.laws import Leaf

_TURNS = (0.25, 0.5, 1.0, 1.6)
_MOST_FREQUENCIES = 60_000
_LARGEST_TILT = 4e14


class Sketch:
    """One direction of a composition in doubles."""

    def __init__(self, leaves: list[tuple[Leaf, int]], reach: float, epsilon: float):
        self.variance, self.reach = math.fsum(count * float(leaf.variance.mid()) for leaf, count in leaves), reach
        variance, leaves = self.variance, [(leaf, count) for leaf, count in leaves if leaf.variance.is_zero()]
        self.curves = [leaf.curve for leaf, _ in leaves]
        self.counts = np.array([float(count) for _, count in leaves])
        self.densities = [[Density.of(piece, reach) for piece in leaf.pieces] for leaf, _ in leaves]
        self.atoms = [
            np.array([[float(p.log().mid()), float((q / p).log().mid())] for p, q in leaf.atoms]).reshape(-1, 2)
            for leaf, _ in leaves
        ]
        self.rules = [
            (np.concatenate([atoms[:, 0], *(d.log_weight for d in parts)]), np.concatenate([atoms[:, 1], *(d.loss for d in parts)]))
            for atoms, parts in zip(self.atoms, self.densities, strict=True)
        ]
        bounded = not variance and not any(self.curves) and all(part.lean for parts in self.densities for part in parts)
        self.top = (
            sum(count * float(losses.max()) for count, (_, losses) in zip(self.counts, self.rules, strict=True))
            if bounded
            else math.inf
        )
        self.scale = max(epsilon, self._spread(), 1e-12)
        tilts = np.geomspace(1e-3, 3e3, 120) if self.top == math.inf else np.geomspace(1e-3, 1e13, 260)
        self.tilts = np.unique(np.minimum(tilts / min(1.0, self.scale), _LARGEST_TILT))
        self.log_mgfs = self._log_mgf(self.tilts)
        parts = [part for parts in self.densities for part in parts if not part.lean]
        self.sides = [
            side
            for side, terms in ((1.0, [part.q for part in parts]), (-1.0, [part.p for part in parts]))
            if any(len(some) > 1 for some in terms)
        ]

    def _spread(self) -> float:
        """Standard deviation of the whole loss under Q."""
        total = self.variance
        for count, (weights, losses) in zip(self.counts, self.rules, strict=True):
            mass = np.exp(weights + losses)
            total += 0.0 if not len(mass) else count * float(mass @ (losses - mass @ losses / mass.sum()) ** 2)
        return math.sqrt(total)

    def _log_mgf(self, tilts: np.ndarray) -> np.ndarray:
        tilts = np.atleast_1d(tilts)
        total = 0.5 * self.variance * (tilts * tilts + tilts)
        for count, (weights, losses) in zip(self.counts, self.rules, strict=True):
            total = total + count * special.logsumexp(weights + (tilts[:, None] + 1.0) * losses, axis=1)
        return total

    def chernoff(self, epsilon: float) -> tuple[float, float]:
        """The best tilt, and the log of its bound, with Renyi curves where they are smaller."""
        tilts = self.tilts
        for points in (33, 33, 0):
            logs = log_kappa(tilts) + 0.5 * self.variance * (tilts**2 + tilts) - tilts * epsilon
            for count, (weights, losses), curve in zip(self.counts, self.rules, self.curves, strict=True):
                found = special.logsumexp(weights + (tilts[:, None] + 1.0) * losses, axis=1) if len(losses) else math.inf
                logs = logs + count * np.minimum(found, math.inf if curve is None else np.array([curve_value(curve, c) for c in tilts]))
            best = int(np.argmin(logs))
            if not points or not any(self.curves):
                break
            tilts = np.geomspace(tilts[max(best - 1, 0)], tilts[min(best + 1, len(tilts) - 1)], points)
        return float(tilts[best]), float(logs[best])

    def log_mgf(self, tilt: float) -> float:
        return float(self._log_mgf(np.array([tilt]))[0])

    def saddle(self, epsilon: float) -> float:
        heights = self.log_mgfs - self.tilts * epsilon - np.log(self.tilts * (self.tilts + 1.0))
        best = int(np.argmin(heights))
        grid = np.geomspace(self.tilts[max(best - 1, 0)], self.tilts[min(best + 1, len(self.tilts) - 1)], 15)
        return float(grid[np.argmin(self._log_mgf(grid) - grid * epsilon - np.log(grid * (grid + 1.0)))])

    def period(
        self, c: float, epsilon: float, log_target: float, square: float, main: tuple[np.ndarray, np.ndarray] | None
    ) -> tuple[float, float, float]:
        """T for which both aliases are below e^{log_target}, with the tilts (low, high) that show it; `main`: tilts and log-MGF
        without calm outcomes."""
        tilts, logs = (np.append(self.tilts, 0.0), np.append(self.log_mgfs, 0.0)) if main is None else main
        sizes = log_kappa(tilts) + logs + 0.5 * square * (tilts**2 + tilts) - tilts * epsilon
        left, right = tilts < 0.99 * c, (tilts > 1.01 * c) & (tilts < (20.0 if self.top == math.inf else 1e9) * c)
        if not right.any() or not left.any():
            return math.inf, 0.0, 2.0 * c
        below = (sizes[left] - log_target + 0.1) / (c - tilts[left])
        above = (sizes[right] - log_target + 0.1) / (tilts[right] - c)
        high, right_period = float(tilts[right][np.argmin(above)]), float(above.min())
        return max(float(below.min()), right_period, 0.1 / c), float(tilts[left][np.argmin(below)]), high

    def lattice(self, epsilon: float) -> tuple[float, float]:
        """Spacing of the sums where they are on a lattice, otherwise 0; how far epsilon is from the nearest one."""
        losses = np.unique(self.rules[0][1].round(12)) if len(self.rules) == 1 and not self.densities[0] else np.zeros(1)
        gap = float(np.diff(losses).min(initial=math.inf))
        if len(losses) < 2 or np.abs((losses - losses[0]) / gap % 1.0 - 0.5).min() < 0.5 - 1e-6:
            return 0.0, 0.0
        place = (epsilon - self.counts[0] * losses[0]) / gap
        return gap, gap * abs(place - round(place))

    def spread(self, c: float, cells: int, ys: np.ndarray) -> np.ndarray:
        """log of prod (M - D)^m / M^m at every frequency, in the checker's notation."""
        total = np.zeros(len(ys))
        for count, (weights, losses), parts in zip(self.counts, self.rules, self.densities, strict=True):
            log_mass, loss = special.logsumexp(weights + (c + 1.0) * losses), np.zeros(len(ys))
            for part in parts:
                edges = np.linspace(part.low, part.high, 4 * cells + 1)
                above, below = log_sum(part.q, edges), log_sum(part.p, edges)
                length = np.diff((above - below)[::4])
                slope = np.abs(np.gradient(above - below, edges)) + 1e-300
                logs = log_base(part.lean, edges) + below + (c + 1.0) * (above - below) - np.log(slope)
                drop = np.minimum(np.minimum(logs[:-1], logs[1:]) - 0.1 * np.abs(np.diff(logs)), np.inf)
                floors = np.exp(drop.reshape(cells, 4).min(axis=1) - log_mass) * length
                u = 0.5 * np.abs(length) * ys[:, None]
                loss += (1.0 - np.where(u < 1.0, 1.0 - u**2 / 6.0 + np.minimum(u, 1.0) ** 4 / 120.0, 1.0 / np.maximum(u, 1.0))) @ floors
            total += count * np.log1p(-np.minimum(0.7 * loss, 0.999))
        return total

    def splits(self, c: float, epsilon: float) -> np.ndarray:
        """Losses to try: fractions of epsilon, and quantiles of the tilted laws."""
        found = [self.scale * np.geomspace(3e-3, 0.7, 7)]
        for (weights, losses), parts in list(zip(self.rules, self.densities, strict=True))[:4]:
            if parts:
                order = np.argsort(losses)
                mass = np.cumsum(np.exp((weights + (c + 1.0) * losses)[order] - (weights + (c + 1.0) * losses).max()))
                places = np.searchsorted(mass / mass[-1], (0.02, 0.2, 0.5, 0.8, 0.95))
                found.append(losses[order][np.minimum(places, len(losses) - 1)])
        return np.unique(np.concatenate(found))

    def calm_and_lively(self, c: float, split: float, turn: float, side: float, tilts: np.ndarray) -> tuple[Any, Any]:
        """Per leaf: log of the calm part at every tilt + 1, and (sizes, angles) of the lively part at c."""
        calm, lively = [], []
        for (_, parts), (atoms, _) in zip(
            zip(self.rules, self.densities, strict=True), zip(self.atoms, self.rules, strict=True), strict=True
        ):
            logs = [atoms[:, 0] + (tilts[:, None] + 1.0) * atoms[:, 1]]
            found: list[tuple[np.ndarray, np.ndarray]] = []
            for part in parts:
                below = np.zeros(len(part.x))
                on_lively_side = side * (part.loss[[0, -1]] - split) > 0.0
                if not part.lean and on_lively_side.any():
                    height = turn / max(np.abs(part.q[:, 1]).max(), np.abs(part.p[:, 1]).max())
                    centre = -side * 1e9 if on_lively_side.all() else float(np.interp(split, part.loss, part.x))
                    below = special.log_ndtr(side * (centre - part.x) / height)
                    found.append(_boxes(part, c + 1.0, height, centre, height, side))
                logs.append(part.log_weight + below + (tilts[:, None] + 1.0) * part.loss)
            calm.append(special.logsumexp(np.concatenate(logs, axis=1), axis=1))
            lively.append(found)
        return np.array(calm), lively


def _boxes(part: Density, sigma: float, height: float, centre: float, width: float, side: float) -> tuple[np.ndarray, np.ndarray]:
    """log sizes and angles on the shifted line and, without decay, on both ends."""
    steep = max(np.abs(part.q[:, 1]).max(), np.abs(part.p[:, 1]).max())
    boxes = min(max(64, math.ceil(6.0 * steep * (part.high - part.low))), 2000)
    edges = np.linspace(part.low, part.high, boxes + 1)
    x, half = 0.5 * (edges[:-1] + edges[1:]), 0.5 * (edges[1] - edges[0])
    z = np.concatenate([x + 1j * height, edges[[0, -1]] + 0.5j * height])
    above, below = log_sum(part.q, z), log_sum(part.p, z)
    wide = np.append(np.full(boxes, half), [0.0, 0.0])
    logs = (log_base(part.lean, z) + below + sigma * (above - below)).real
    slopes = np.abs(np.gradient((sigma * above).real[:-2], x)) + np.abs(np.gradient(((sigma + 1.0) * below).real[:-2], x)) + np.abs(x)
    size = logs + wide * np.append(slopes, [0.0, 0.0])
    size += 0.5 * (height / width) ** 2 + special.log_ndtr((side * (z.real - centre) + wide) / width)
    size += np.log(np.append(2.0 * np.full(boxes, half), [height, height]))
    angle = np.maximum(np.sin(above.imag) - np.sin(below.imag), 0.0) * math.exp(-min(2.0 * half * steep, 5.0))
    return size, np.where(wide > 0.0, angle, 0.0)


def log_delta(leaves: list[tuple[Leaf, int]], epsilon: float, delta: float) -> float:
    """About log delta(epsilon), by the saddle point; `delta` says about where."""
    sketch = Sketch(leaves, math.sqrt(2.0 * (3.0 - math.log(delta))) + 2.0, epsilon)
    c = sketch.saddle(epsilon)
    low, middle, high = (sketch.log_mgf(tilt) - tilt * epsilon - math.log(tilt * (tilt + 1.0)) for tilt in (0.98 * c, c, 1.02 * c))
    return middle - 0.5 * math.log(2.0 * math.pi * max(low - 2.0 * middle + high, 1e-300) / (0.02 * c) ** 2)


def log_kappa(c: np.ndarray) -> np.ndarray:
    return special.xlogy(c, c) - (1.0 + c) * np.log1p(c)


def curve_value(curve: Any, c: float) -> float:
    from dp_edgeworth.checker import UndecidedError
    from dp_edgeworth.checker.balls import ball

    try:
        return float(curve(ball(c)))
    except (UndecidedError, ArithmeticError, ValueError):
        return math.inf


def hint(leaves: list[tuple[Leaf, int]], epsilon: float, log_delta: float, slack: float) -> dict[str, Any] | None:
    """What the checker needs to bound delta(epsilon) to within e^{log_delta} times slack; None where nothing was found."""
    uses = max(1.0, math.fsum(float(count) for _, count in leaves))
    reach = _reach(log_delta + math.log(0.05 * slack / uses))
    sketch = Sketch(leaves, reach, epsilon)
    best = line(sketch, epsilon, log_delta, slack)
    if best is None:
        return None
    depth = max(sketch.log_mgf(best["c"]) - best["c"] * epsilon - log_delta, 0.0)
    digits = (math.log(uses) - math.log(slack) + depth) / math.log(2.0) + 8.0
    turning = (
        best["step"]
        * best["last"]
        * max((float(np.ptp(d.loss)) / (d.high - d.low) for parts in sketch.densities for d in parts), default=0.0)
    )
    nodes = int(min(16.0 + 0.45 * digits + 4.0 * math.sqrt(turning), 250.0))
    return {"reach": reach, "nodes": nodes, "digits": digits, **best}


def _reach(log_mass: float) -> float:
    """Standard deviations beyond which a normal law has that mass."""
    return max(-float(special.ndtri_exp(log_mass)), 1.0)


def chernoff_hint(
    leaves: list[tuple[Leaf, int]], epsilons: tuple[float, float], log_delta: float, margin: float
) -> dict[str, Any] | None:
    """A tilt at which Chernoff's bound is below delta at both epsilons, if there is one: this direction is not the larger one then."""
    uses = max(1.0, math.fsum(float(count) for _, count in leaves))
    reach = _reach(log_delta + math.log(0.1 * max(margin, 1e-14) / uses))
    sketch = Sketch(leaves, reach, epsilons[1])
    c, log_bound = sketch.chernoff(epsilons[1])
    if not log_bound < log_delta - margin or not sketch.chernoff(epsilons[0])[1] < log_delta:
        return None
    digits = math.log2(uses) + 16.0
    return {"c": c, "high": 2.0 * c, "reach": reach, "nodes": int(16.0 + 0.45 * digits), "digits": digits}


def line(sketch: Sketch, epsilon: float, log_delta: float, slack: float) -> dict[str, Any] | None:
    """A line whose bounds are within e^{log_delta} times slack of delta(epsilon); None where none was found."""
    c = sketch.saddle(epsilon)
    log_target = log_delta + math.log(slack) - 2.0
    best: dict[str, Any] | None = None
    cost = math.inf
    for shrink in (1.0, 0.8, 0.6, 0.4, 0.25):
        tilt = c * shrink
        for plan in _cuts(sketch, tilt, epsilon, log_target, slack):
            period, low, high = sketch.period(tilt, epsilon, log_target, plan.get("tau", 0.0) ** 2, plan.pop("main", None))
            if not period < math.inf:
                continue
            last = math.ceil(plan.pop("y") * period / (2.0 * math.pi)) + 1
            work = last * (last + 60.0 * period) * (2.0 if plan.get("rare") else 1.0)
            if last <= _MOST_FREQUENCIES and work < cost:
                cost, best = work, {"c": tilt, "step": 2.0 * math.pi / period, "last": last, "low": low, "high": high, **plan}
    return best


def _cuts(sketch: Sketch, c: float, epsilon: float, log_target: float, slack: float) -> list[dict[str, Any]]:
    """Ways to cut the sum off, each with the frequency `y` at which it may end."""
    height = sketch.log_mgf(c) - c * epsilon
    depth = max(height - log_target, 1.0)
    plans: list[dict[str, Any]] = []
    if sketch.variance > 0.0:
        plans.append({"y": math.sqrt(2.0 * depth / sketch.variance)})
    curvature = (sketch.log_mgf(1.1 * c) - 2.0 * sketch.log_mgf(c) + sketch.log_mgf(0.9 * c)) / (0.1 * c) ** 2
    log_density = height - 0.5 * math.log(2.0 * math.pi * max(curvature, 1e-300))
    tau = math.exp(0.5 * min(math.log(0.15) + log_target + 2.0 - log_density, 0.0))  # the price is tau^2 times the density
    gap, distance = sketch.lattice(epsilon)
    if gap:  # smoothing does not reach from the nearest possible sums to epsilon
        tau = max(tau, distance / math.sqrt(2.0 * max(log_density + math.log(gap) - log_target, 1.0) + 2.0))
    plans.append({"y": math.sqrt(2.0 * (depth + 2.0) / (tau * tau + sketch.variance)), "tau": tau})
    ys = np.geomspace(1.0, 1e7, 200) / sketch.scale
    for cells in (4, 6, 9, 14, 24, 48):
        logs = height - np.log(math.pi * ys) - 0.5 * sketch.variance * ys * ys + sketch.spread(c, cells, ys)
        if (logs <= log_target).any():
            plans.append({"y": float(ys[np.argmax(logs <= log_target)]), "cells": cells})
    for turn in _TURNS:
        for split in sketch.splits(c, epsilon):
            for side in sketch.sides:
                plans += _split_plans(sketch, c, epsilon, log_target, float(split), turn, side, ys)
    return plans


def _split_plans(
    sketch: Sketch, c: float, epsilon: float, log_target: float, split: float, turn: float, side: float, ys: np.ndarray
) -> list[dict[str, Any]]:
    tilts = np.concatenate([sketch.tilts[::5], [0.0, c]])
    calm, lively = sketch.calm_and_lively(c, split, turn, side, tilts)
    outside = 0.5 * sketch.variance * (c * c + c) - c * epsilon - 0.5 * sketch.variance * ys * ys - np.log(math.pi * ys)
    log_calm, log_all = np.zeros(len(ys)), np.zeros(len(ys))
    for count, base, parts in zip(sketch.counts, calm[:, -1] if len(calm) else [], lively, strict=True):
        logs = [special.logsumexp(size - ys[:, None] * angle, axis=1) for size, angle in parts]
        log_calm += count * base
        log_all += count * np.logaddexp.reduce([np.full(len(ys), base), *logs])
    common: dict[str, Any] = {"split": split, "turn": turn, **({"below": True} if side < 0.0 else {})}
    plans = []
    good = np.flatnonzero(outside + log_all <= log_target)
    if len(good):
        plans.append({"y": float(ys[good[0]]), **common})
    with np.errstate(divide="ignore"):
        rare = np.flatnonzero(outside + log_all + np.log(-np.expm1(np.minimum(log_calm - log_all, -1e-17))) <= log_target)
    if len(rare):
        bound = log_kappa(tilts) + sketch.counts @ calm + 0.5 * sketch.variance * (tilts**2 + tilts) - tilts * epsilon
        if bound.min() <= log_target:
            whole, rest = sketch._log_mgf(tilts), sketch.counts @ calm + 0.5 * sketch.variance * (tilts**2 + tilts)
            with np.errstate(divide="ignore", invalid="ignore"):
                main = whole + np.log(-np.expm1(np.minimum(rest - whole, -1e-17)))
            calmest: dict[str, Any] = {"calm": float(tilts[np.argmin(bound)]), "main": (tilts, main), **common}
            plans.append({"y": float(ys[rare[0]]), "rare": True, **calmest})
    return plans


def slope(leaves: list[tuple[Leaf, int]], epsilon: float, delta: float) -> float:
    """About -d log delta / d epsilon: the saddle point."""
    return Sketch(leaves, math.sqrt(2.0 * (3.0 - math.log(delta))) + 2.0, epsilon).saddle(epsilon)
