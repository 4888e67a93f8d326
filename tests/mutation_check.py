# ruff: noqa: E501  (texts of the package, as they are)
"""Does a test notice when an error term of the certificate is missing? Removes each in turn and runs the tests of the certificate.

    python tests/mutation_check.py                the table, in Markdown
    python tests/mutation_check.py --only cut     only the terms whose name contains "cut"
    python tests/mutation_check.py --quick        without the slow tests (default: they run where the others have noticed nothing)

A mutation is a replacement of text in a temporary copy of the package; text that is not found exactly as often as stated is an
error, so that a term that was rewritten is not forgotten here. Exit code 1 if a removed term goes unnoticed. Not a test module.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ("tests/proofs", "tests/search", "tests/losses/test_profile_pair.py", "tests/losses/test_rules.py", "tests/losses/test_cells.py", "tests/accountants/test_extremes.py::test_the_largest_loss_of_rare_samples_in_50_digits")


class Mutation(NamedTuple):
    """One error term: `old`, which occurs once in the package, becomes `new`."""

    name: str
    old: str
    new: str


MUTATIONS = (
    Mutation("aliases, all", "up, down, middle = total + error, total - error - alias, total", "up, down, middle = total + error, total - error, total"),
    Mutation("aliases, right", "return np.logaddexp(*(np.where(side, logs, np.inf).min(axis=1) for side in (self._right, self._left)))",
             "return np.where(self._left, logs, np.inf).min(axis=1)"),
    Mutation("aliases, left", "return np.logaddexp(*(np.where(side, logs, np.inf).min(axis=1) for side in (self._right, self._left)))",
             "return np.where(self._right, logs, np.inf).min(axis=1)"),
    Mutation("rounding of K(c') in the aliases", "bounds = log_kappa(others) + rungs.log_mgf + rungs.error",
             "bounds = log_kappa(others) + rungs.log_mgf"),
    Mutation("additions", " + added * EPSILON * float(weights @ np.exp(logs))", ""),
    Mutation("reduction: the mass that is left out", "upper = np.logaddexp(moved.upper, log_mass) + 1e-15", "upper = moved.upper"),
    Mutation("reduction: the shift", "self.curve.bounds(eps - shift - _RELATIVE * (np.abs(eps) + shift))", "here"),
    Mutation("lattice: aliases", " + np.log1p(-np.exp(np.minimum(self.aliases(y) + base_error - lower, 0.0)))", ""),
    Mutation("trade-off: what the hull is above", "lowered = 1.0 - max(side, 0.0) * self.above", "lowered = 1.0"),
    Mutation("trade-off: rounded to a side", "factor, choice = 1.0 - 4.0 * side * _EPS, ", "factor, choice = 1.0, "),
    Mutation("table of a rounded lattice: moved down", "math.expm1(min(8.0 * off, law.step))", "math.expm1(min(0.0 * off, law.step))"),
    Mutation("table of atoms: moved down", "return epsilons, epsilons + 2.0 * down", "return epsilons, epsilons"),
    Mutation("closed form: the shift", "_UNIT * (np.abs(eps) + self.scale)", "0.0 * (np.abs(eps) + self.scale)"),
    Mutation("the add direction is a conjugate", "modulus + 1j * (-angle if mirrored else angle)", "modulus + 1j * angle"),
    Mutation("ends: slack above", "above, below = b.upper[count:] <= targets - slack", "above, below = b.upper[count:] <= targets + 1.0 + slack"),
    Mutation("rounded lattice: what is infinite", "np.logaddexp(self.above.upper(eps) + off, log_infinite), self.below.lower(eps) - off",
             "self.above.upper(eps) + off, self.below.lower(eps) - off"),
    Mutation("rounded lattice: errors of masses", "np.logaddexp(self.above.upper(eps) + off, log_infinite), self.below.lower(eps) - off",
             "np.logaddexp(self.above.upper(eps), log_infinite), self.below.lower(eps)"),
    Mutation("rounded lattice: copies from above", "np.log(np.maximum(values - self.error - right, 0.0))", "np.log(np.maximum(values - self.error, 0.0))"),
    Mutation("rounded lattice: copies from below", "lower = lower + np.log1p(-np.exp(np.minimum(-self.tilt * period - copies + _ROOM - lower, 0.0)))",
             "lower = lower + 0.0"),
    Mutation("rounded lattice: tails of heavy leaves", "np.logaddexp(np.log(self.masses), self.log_moments - heights[:, None, None] * self.rates[:, None])",
             "self.log_moments - heights[:, None, None] * self.rates[:, None]"),
    Mutation("rounded lattice: the error grows with the count", "* (1.1 * count * (eta + 8.0 * EPSILON))", "* (eta + 8.0 * EPSILON)"),
    Mutation("one large loss: two of them", "np.logaddexp.reduce([b.upper, np.full(len(eps), self.log_more), *(part[1] for part in parts)])",
             "np.logaddexp.reduce([b.upper, *(part[1] for part in parts)])"),
    Mutation("one large loss: errors of masses from above", "*(part[1] for part in parts)]) + self.log_error", "*(part[1] for part in parts)])"),
    Mutation("one large loss: errors of masses from below", "*(part[0] for part in parts)]) - self.log_error", "*(part[0] for part in parts)])"),
    Mutation("one large loss: losses outwards, above", "u = eps[:, None] - high - _OUTWARD * (np.abs(eps)[:, None] + finite)", "u = eps[:, None] - high"),
    Mutation("one large loss: losses outwards, below", "self._least(jumps, eps[:, None] - low + off)", "self._least(jumps, eps[:, None] - low)"),
    Mutation("one large loss: what has no bound", "share = np.where(bounded & (high > low), np.expm1(low - mean) / np.where(high > low, np.expm1(low - high), 1.0), 1.0)",
             "share = np.where(bounded & (high > low), np.expm1(low - mean) / np.where(high > low, np.expm1(low - high), 1.0), 0.0)"),
    Mutation("one large loss: differences from all of the mass", "rates, axis=1) * (1.0 - 8.0 * EPSILON), 1.0) + _DIFFERENCE)", "rates, axis=1) * 1.01, 1.0))"),
    Mutation("one large loss: cells that are hardly a float, above", "cells.q + cells.q_error + _NO_FLOAT\n", "cells.q + cells.q_error\n"),
    Mutation("one large loss: cells that are hardly a float, below", "np.where((q > _NO_FLOAT) & np.isfinite(low), q, 0.0)", "np.where(np.isfinite(low), q, 0.0)"),
    Mutation("one large loss: cells of the others that are hardly a float", "math.log(0.5 * total * total + lost)", "math.log(0.5 * total * total)"),
    Mutation("cells: masses of subsampled ones", "(1.0 - p) * self.p_error + p * self.q_error", "0.0 * self.p_error"),
    Mutation("cells: masses of mixed ones", "weight * part[i] for weight, part in parts", "weight * part[i] * (i < 6) for weight, part in parts"),
    Mutation("random allocation: rounding", "errors[part] = sizes @ self.errors[nodes] + np.abs(some) * (sizes @ self.per_excess[nodes]) + rest", "errors[part] = rest"),
    Mutation("pairs above: ends of profiles", "_largest_end(nodes, values) * (1.0 + 8.0 * EPSILON)", "1.0"),
    Mutation("pairs below: ends of profiles", "_largest_end(used, values) * (1.0 - 8.0 * EPSILON)", "1.0"),
    Mutation("one large loss: what is left of the others", "composition.log_finite + math.log1p(-share) - 1e-15)", "1.0)"),
    Mutation("allocation: panels", "for logs in (self.panels.logs(excess), cuts)) + self.start", "for logs in (cuts,)) + self.start"),
    Mutation("allocation: cut-off", "for logs in (self.panels.logs(excess), cuts)) + self.start", "for logs in (self.panels.logs(excess),)) + self.start"),
    Mutation("allocation: before the first point", "for logs in (self.panels.logs(excess), cuts)) + self.start", "for logs in (self.panels.logs(excess), cuts))"),
    Mutation("allocation: terms that are left out", "(sizes @ self.per_excess[nodes]) + rest", "(sizes @ self.per_excess[nodes])"),
    Mutation("allocation: errors of phi", "errors = np.expm1(np.minimum(powers.errors, _LARGEST)) + _UNITS", "errors = _UNITS"),
    Mutation("allocation: end of the turned path", "cuts.append((ray.corner.real - ray.turned[-1], -math.log(math.pi * ray.turned[-1])))", "pass"),
    Mutation("allocation: ellipses in both ends", "return ((np.multiply.outer(self.ends, excess) + self.end_logs[(...,) + (None,) * np.ndim(excess)]).max(axis=0)",
             "return ((np.multiply.outer(self.ends, excess) + self.end_logs[(...,) + (None,) * np.ndim(excess)]).min(axis=0)"),
    Mutation("allocation: trapezoid rule of phi", "doubts = [rule + lift * (", "doubts = [lift * ("),
    Mutation("allocation: tails of the rule of phi", "doubts = [rule + lift * (", "doubts = [rule + 0.0 * ("),
    Mutation("allocation: the edges of the strip", "np.where(allowed, np.minimum(plain, second), np.inf)", "np.minimum(plain, second)"),
    Mutation("allocation: the edges of the strip, phi itself", "np.where(allowed, doubts[0], np.inf)", "np.full(len(q), doubts[0])"),
    Mutation("allocation: t times the error of log phi", "steps * -np.log1p(-np.minimum(relative, 0.5))", "-np.log1p(-np.minimum(relative, 0.5))"),
    Mutation("allocation: the turn of a line of the transform", "np.logaddexp(turned, log_tail)", "log_tail"),
    Mutation("allocation: the line of the transform beyond its turn", "np.logaddexp(turned, log_tail)", "turned"),
    Mutation("allocation: growth on a rotated line", "(0.5 * (angles / self.shift) ** 2 + self.log_laplace(", "(self.log_laplace("),
    Mutation("allocation: the rest is larger than b", "changed, np.inf), rest.log_tails[chosen]", "changed, np.inf), np.full(len(chosen), -np.inf)"),
    Mutation("allocation: large terms of the rest", "cut.logs - cut.rates * (size * (1.0 - 1e-14)), cut.log_tails)", "cut.logs - cut.rates * (size * (1.0 - 1e-14)), -np.inf)"),
    Mutation("allocation: large terms in Chernoff's bound", "np.logaddexp((logs - cut.rates * strike).min(axis=0), rest)", "(logs - cut.rates * strike).min(axis=0)"),
    Mutation("allocation: the large term under Q", "rest = np.logaddexp(special.log_ndtr(0.5 * shift - np.log(cut.limits) / shift) + 1e-11, cut.log_tails)",
             "rest = cut.log_tails"),
    Mutation("allocation: distance from the sum", "np.logaddexp(log_unsampled(shift / math.sqrt(steps) * (1.0 + 1e-14), epsilon), rest + np.maximum(epsilon, 0.0))",
             "log_unsampled(shift / math.sqrt(steps) * (1.0 + 1e-14), epsilon)"),
    Mutation("allocation: how far below the strike all are", "found = np.log(-np.expm1(-gaps)) + steps *", "found = steps *"),
    Mutation("rounding: shares obey", "np.where(wanted > allowed, allowed / wanted, 1.0)", "1.0"),
    Mutation("rounding: outwards", "gaps = losses - offset - _OUTWARD * (np.abs(losses) + abs(offset) + step)", "gaps = losses - offset"),
    Mutation("mirror: rounding", "off = 8.0 * EPSILON * (1.0 + np.exp(small))", "off = 0.0 * small"),
    Mutation("largest loss: rounded up", "gap * (1.0 + 1e-14) + np.where(gap > 0.0, _TINY, 0.0)", "0.5 * gap"),
    Mutation("cut-off of G", "error = sum_error(self.log_terms, self.term_errors, over) + cut",
             "error = sum_error(self.log_terms, self.term_errors, over)"),
    Mutation("cut-off of the density", "sum_error(self.log_terms, self.term_errors, weights) + cut / self.tau2",
             "sum_error(self.log_terms, self.term_errors, weights)"),
    Mutation("price of smoothing, c > 0", "down, middle = down - price, middle", "down, middle = down, middle"),
    Mutation("price of smoothing, c < 0", "up, middle = up + price, middle", "up, middle = up, middle"),
    Mutation("errors of the density", "density + fixed.density_error + np.abs(eps)", "density + np.abs(eps)"),
    Mutation("rounded phases of the density", " + np.abs(eps) * fixed.density_phase_error", ""),
    Mutation("errors of the terms", "return float(weights @ growth) + _RULE_ERROR", "return _RULE_ERROR"),
    Mutation("rounding of one term", "relative = errors + EPSILON * (8.0 + 2.0 * np.abs(log_terms))", "relative = errors"),
    Mutation("quadrature rules", "_RULE_ERROR * float(weights.sum()) + ", ""),
    Mutation("rounded phases of G", "error = fixed.error + np.abs(eps) * fixed.phase_error", "error = fixed.error"),
    Mutation("rounding of K(c)",
             "base_error = self.log_mgf_error + 4.0 * EPSILON * (np.abs(self.log_mgf) + np.abs(self.tilt * eps))",
             "base_error = 4.0 * EPSILON * (np.abs(self.log_mgf) + np.abs(self.tilt * eps))"),
    Mutation("rounding of K(c) - c eps",
             "base_error = self.log_mgf_error + 4.0 * EPSILON * (np.abs(self.log_mgf) + np.abs(self.tilt * eps))",
             "base_error = self.log_mgf_error + 0.0 * eps"),
    Mutation("rounding of c eps alone", "(np.abs(self.log_mgf) + np.abs(self.tilt * eps))", "np.abs(self.log_mgf)"),
    Mutation("quadrature rules, steep powers", "return (demand.digits + 4.0) / np.maximum(losses, 1e-300)", "return 0.2 * (demand.digits + 4.0) / np.maximum(losses, 1e-300)"),
    Mutation("missing masses in the control variate", "(0.0 if rule.missing is None else rule.missing)", "0.0"),
    Mutation("characteristic function: products and sums", "(growth + 20.0) * np.minimum(4.0, phase) + ", ""),
    Mutation("characteristic function: phases", " + 4.0 * phase + tilted", " + tilted"),
    Mutation("characteristic function: tilted weights", " + 4.0 * phase + tilted", " + 4.0 * phase"),
    Mutation("characteristic function: FFT", "tilted) + extra", "tilted)"),
    Mutation("characteristic function: size of the FFT error", "_FFT_ERROR = 2.0e-14", "_FFT_ERROR = 2.0e-16"),
    Mutation("characteristic function: relative to its modulus", "2.0 * error * np.exp(-modulus)", "2.0 * error"),
    Mutation("log-MGF: sums", "EPSILON * (_SUM_ERROR * scale + 4.0 * exponent_error", "EPSILON * (4.0 * exponent_error"),
    Mutation("log-MGF: exponents", "_SUM_ERROR * scale + 4.0 * exponent_error", "_SUM_ERROR * scale"),
    Mutation("log-MGF: the rounded tilt", "where(near[..., None] & (exponents < 1.0), weights * off, blurred)",
             "where(near[..., None] & (exponents < 1.0), 0.0, blurred)"),
    Mutation("cumulant generating function: the rounded tilt", "(8.0 * np.abs(exponents) + 4.0 * _units_off(tilts[:, None], exponents)) * np.sqrt(square)",
             "8.0 * np.abs(exponents) * np.sqrt(square)"),
    Mutation("aliases: rounding of c eps", "logs = self._logs - shifts + 8.0 * EPSILON * np.abs(shifts)", "logs = self._logs - shifts"),
    Mutation("aliases: rounding of their bounds", " + 1e-6 + 8.0 * EPSILON * (np.abs(log_bounds) + abs(log_mgf))", " + 1e-6"),
    Mutation("cumulant generating function: rounding", "EPSILON * rounding]", "0.0 * rounding]"),
    Mutation("cumulant generating function: exponents", "(8.0 * np.abs(exponents) + 4.0 * _units_off(tilts[:, None], exponents)) * np.sqrt(square)",
             "4.0 * _units_off(tilts[:, None], exponents) * np.sqrt(square)"),
    Mutation("sums: what rounding loses", "low + ((high - (total - part)) + (new - part))", "low"),
    Mutation("convolution: losses moved outwards", "losses = losses + shift if self.up else losses - shift", "pass"),
    Mutation("convolution: masses of many terms", "_ULP * (4.0 * terms * self.step + 8.0 *", "_ULP * (8.0 *"),
    Mutation("convolution: numbers of bins", " + 8.0 * float(np.abs(np.arcsinh((ends - centre) / scale)).max())", ""),
    Mutation("convolution: V of the last step", " * (1.0 - 2.0 * _ULP * (numbers[kept] + 4))", ""),
    Mutation("cells: losses of atoms", "Cells(ends - error, ends + error, ends,", "Cells(ends, ends, ends,"),
    Mutation("convolution: light pairs", "b.infinite * a.masses.sum() + ignored", "b.infinite * a.masses.sum()"),
    Mutation("convolution: infinite masses", "a.infinite * (b.masses.sum() + b.infinite) + b.infinite * a.masses.sum()", "0.0"),
    Mutation("convolution: unbounded cells above", "infinite = float((leaf.q + leaf.q_error)[np.isinf(leaf.high) & np.isfinite(leaf.low)].sum())",
             "infinite = 0.0"),
    Mutation("convolution: unbounded cells below", "lifted = (leaf.p + leaf.p_error)[bottom] * np.exp(np.minimum(leaf.high[bottom], 700.0))",
             "lifted = 0.0 * leaf.p[bottom]"),
    Mutation("convolution: errors of means, up", "mean = np.minimum((leaf.mean + leaf.error)[bounded], high)",
             "mean = np.minimum(leaf.mean[bounded], high)"),
    Mutation("convolution: errors of means, down", "np.maximum((leaf.mean - leaf.error)[bounded], low)",
             "np.maximum(leaf.mean[bounded], low)"),
    Mutation("convolution: errors of masses", "q = leaf.q[bounded] + off if self.up else np.maximum(leaf.q[bounded] - off, 0.0)", "q = leaf.q[bounded]"),
    Mutation("rounding: errors of masses, up", "losses, more = np.concatenate([low, high, lifted]), q + off", "losses, more = np.concatenate([low, high, lifted]), q"),
    Mutation("rounding: errors of masses, down", "np.maximum(q - off, 0.0), offset, step)", "q, offset, step)"),
    Mutation("one jump: errors of masses, up", "low, high, q = cells.low, cells.high, cells.q + cells.q_error + _NO_FLOAT", "low, high, q = cells.low, cells.high, cells.q + _NO_FLOAT"),
    Mutation("one jump: errors of masses, down", "q, low = cells.q - cells.q_error, np.where(", "q, low = cells.q, np.where("),
    Mutation("convolution: sums of masses", "self.log_error += 2.0 * _ULP * (terms + 4) * self.uses / uses", "pass"),
    Mutation("convolution: error of the ends", "upper, lower = np.log(above) + self.log_error, np.log(below) - self.log_error",
             "upper, lower = np.log(above), np.log(below)"),
    Mutation("cells: normal masses", "return mass, error[:-1] + error[1:] + ", "return mass, 0.0 * error[1:] + "),
)


def copied(source: pathlib.Path, directory: pathlib.Path) -> None:
    """The package and the tests."""
    for name in ("dp_edgeworth", "comparisons", "tests"):
        shutil.copytree(source / name, directory / name, ignore=shutil.ignore_patterns("__pycache__", "*.png", "*.svg"))
    shutil.copy(source / "pyproject.toml", directory)


def module_of(mutation: Mutation, root: pathlib.Path) -> pathlib.Path:
    """The one module that contains the text."""
    texts = {path: path.read_text().count(mutation.old) for path in (root / "dp_edgeworth").rglob("*.py")}
    found = [path for path, times in texts.items() if times]
    if sum(texts.values()) != 1:
        names = [path.name for path in found]
        raise SystemExit(f"{mutation.name}: the package must contain the text once. Found it in {names}: {mutation.old}")
    return found[0]


def first_failure(whole: pathlib.Path, mutation: Mutation | None, which: str) -> str:
    """The name of the first test that fails, or ""; `which`: "slow", "not slow", or "" for all tests."""
    with tempfile.TemporaryDirectory(prefix="mutation_") as scratch:
        copied(whole, pathlib.Path(scratch))
        if mutation is not None:
            path = module_of(mutation, pathlib.Path(scratch))
            path.write_text(path.read_text().replace(mutation.old, mutation.new))
        variables = {**os.environ, "PYTHONPATH": scratch, "PYTHONDONTWRITEBYTECODE": "1"}
        ignored = ["-W", "ignore:mypy_extensions:DeprecationWarning"]  # of what hypothesis imports when it reports a failure
        command = [sys.executable, "-m", "pytest", "-x", "-n", "0", "-p", "no:cacheprovider", *ignored, *TESTS, "-m", which]
        done = subprocess.run(command, cwd=scratch, env=variables, capture_output=True, text=True, check=False)
    failed = re.findall(r"^FAILED \S+::(\w+)", done.stdout, re.MULTILINE)
    if done.returncode == 5:  # no test of this kind
        return ""
    if done.returncode not in (0, 1) or (done.returncode == 1 and not failed):
        raise SystemExit(f"the tests did not run: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return failed[0] if failed else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="only terms whose name contains this")
    parser.add_argument("--quick", action="store_true", help="leave the slow tests out")
    arguments = parser.parse_args()
    chosen = [mutation for mutation in MUTATIONS if arguments.only in mutation.name]
    with tempfile.TemporaryDirectory(prefix="mutation_whole_") as scratch:
        whole = pathlib.Path(scratch)
        copied(ROOT, whole)  # so that all mutations are of the same sources
        return table(whole, chosen, ("not slow",) if arguments.quick else ("not slow", "slow"))


def table(whole: pathlib.Path, chosen: list[Mutation], rounds: tuple[str, ...]) -> int:
    """Prints a row per mutation; 1 if one was not noticed."""
    modules = {mutation: module_of(mutation, whole).name for mutation in chosen}  # all are found before any test runs
    if failed := next(filter(None, (first_failure(whole, None, which) for which in rounds)), ""):
        raise SystemExit(f"{failed} fails without any mutation")
    print("| removed term | module | noticed by |\n|---|---|---|", flush=True)
    unnoticed = 0
    for mutation in chosen:
        failed = next(filter(None, (first_failure(whole, mutation, which) for which in rounds)), "")
        unnoticed += not failed
        print(f"| {mutation.name} | `{modules[mutation]}` | {f'`{failed}`' if failed else '**nothing**'} |", flush=True)
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
