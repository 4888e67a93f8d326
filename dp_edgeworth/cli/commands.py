"""What each command does: from options to an answer and an exit code."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth.accountants.accountant import EdgeworthIntervalAccountant, NotAGuaranteeWarning
from dp_edgeworth.analysis import budgets, curves, explanation, html_report, planning, sampling, statement, sweeps
from dp_edgeworth.analysis.subject import subject_of
from dp_edgeworth.cli import certificates
from dp_edgeworth.cli.inputs import given, subject
from dp_edgeworth.cli.output import ANSWERED, answer, code, draw, known, state, write
from dp_edgeworth.events.description import rounded_up

_BUDGET = ("target_epsilon", "target_delta", "target_advantage", "target_true_positive_rate", "false_positive_rate")


def epsilon(options: argparse.Namespace) -> int:
    """The statement at a delta."""
    return _stated(options, statement.epsilon_statement, options.target_delta)


def delta(options: argparse.Namespace) -> int:
    """The statement at an epsilon."""
    return _stated(options, statement.delta_statement, options.target_epsilon)


def _stated(options: argparse.Namespace, make: Callable[..., statement.PrivacyStatement], target: float) -> int:
    asked = subject(options)
    claim = make(asked, target, options.neighboring_relation, tolerance=options.tolerance, group_size=options.group_size)
    return certificates.state_verified(options, claim, asked) if options.verify else state(options, claim)


def calibrate(options: argparse.Namespace) -> int:
    """Solves for the one of noise multiplier, steps and sampling probability that was not given."""
    relation = options.neighboring_relation or NeighboringRelation.ADD_OR_REMOVE_ONE
    budget = budgets.budget_of(**given(options, *_BUDGET))
    if options.verify and options.target_delta is None:
        raise ValueError("`--verify` must be given with `--target-epsilon` and `--target-delta`: others have no certificate.")
    found, values = _solved(options, {**given(options, *_BUDGET), "neighboring_relation": relation})
    if not values[found] and found != "noise_multiplier":  # without noise everything may be within the budget
        raise budgets.BudgetError(f"No positive `{found}` is within the budget.")
    event = planning.sampled_gaussian(values["sampling_probability"], values["noise_multiplier"], values["steps"])
    if options.target_delta is None:
        accountant = EdgeworthIntervalAccountant(relation).compose(event)
        data = {"solved_for": found, **values, "advantage": accountant.get_advantage(), "neighboring_relation": relation.name}
        answer(options, data, f"{found} = {values[found]!r}\ncertified to be within {budget} ({relation.name})\n"
               f"advantage <= {rounded_up(data['advantage'])}")
        return ANSWERED
    claim = statement.epsilon_statement(event, options.target_delta, relation, tolerance=options.tolerance)
    before, data = f"{found} = {values[found]!r}\n", {"solved_for": found, **values}
    if options.verify:
        return certificates.state_verified(options, claim, event, before, data)
    answer(options, {**data, "statement": claim.to_dict()}, f"{before}{claim}")
    return code(claim.certified)


def _solved(options: argparse.Namespace, budget: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Which parameter was left out, and all three."""
    batches = given(options, "batch_size", "dataset_size")
    sampled = any(value is not None for value in (options.sampling_probability, *batches.values()))
    probability, noise, steps = options.sampling_probability, options.noise_multiplier, options.steps
    if noise is None:
        found, probability = "noise_multiplier", planning.sampling(probability, **batches)
        steps = planning.number_of_steps(probability, steps, options.epochs)
        noise = planning.calibrate_noise(sampling_probability=probability, steps=steps, **budget)
    elif steps is None and options.epochs is None:
        found, probability = "steps", planning.sampling(probability, **batches)
        steps = planning.max_steps(noise_multiplier=noise, sampling_probability=probability, **budget)
    elif not sampled and steps is not None:
        found = "sampling_probability"
        probability = planning.max_sampling_probability(noise_multiplier=noise, steps=steps, **budget)
    else:
        raise ValueError("One of `noise_multiplier`, `steps` and `sampling_probability` must be left out: it is solved for.")
    return found, {"sampling_probability": probability, "noise_multiplier": noise, "steps": steps}


def sweep(options: argparse.Namespace) -> int:
    """A grid, as a table and as a picture."""
    relation = options.neighboring_relation or NeighboringRelation.ADD_OR_REMOVE_ONE
    names = ("sampling_probability", "noise_multiplier", "steps", "batch_size", "dataset_size", "epochs", "target_delta", "certified")
    tolerance = {} if options.tolerance is None else {"tolerance": options.tolerance}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotAGuaranteeWarning)  # said in a line of its own
        result = sweeps.sweep(**given(options, *names), neighboring_relation=relation, **tolerance)
    table = result.to_csv(options.csv)
    draw(result, options.png)
    written = ", ".join(str(name) for name in (options.csv, options.png) if name)
    answer(options, result.to_dict(), f"{result.epsilon.size} points written to {written}" if written else table.rstrip())
    if not options.certified and not options.json:
        write("estimates, not guarantees: leave out --estimates for proved bounds\n", sys.stderr)
    return ANSWERED if result.lower is None else code(np.all(np.isfinite(result.epsilon) | (result.lower == np.inf)))


def explain(options: argparse.Namespace) -> int:
    """The tree with its shares."""
    found = explanation.explain(subject(options), **given(options, "target_delta", "limit", "neighboring_relation", "tolerance"))
    draw(found, options.png)
    answer(options, found.to_dict() if options.json else {}, str(found))
    return code(known(found.interval))


def curve(options: argparse.Namespace) -> int:
    """Both curves: a table, and a picture."""
    found = curves.curves(subject(options), **given(options, "neighboring_relation", "points", "tolerance"))
    draw(found, options.png)
    answer(options, found.to_dict(), str(found) + (f"\nwritten to {options.png}" if options.png else ""))
    return code(np.any(found.delta.upper < 1.0) or np.all(found.delta.lower >= 1.0))


def report(options: argparse.Namespace) -> int:
    """The HTML page."""
    asked = subject_of(subject(options), options.neighboring_relation, options.tolerance)
    html_report.html_report(asked.accountant, options.out, target_delta=options.target_delta, title=options.title)
    claim = statement.epsilon_statement(asked.accountant, options.target_delta)
    answer(options, {"written": options.out, "statement": claim.to_dict()}, f"{claim.claim}\nwritten to {options.out}")
    return code(claim.certified)


def compare_sampling(options: argparse.Namespace) -> int:
    """One recipe under every way to draw its batches."""
    names = ("batch_size", "dataset_size", "epochs", "target_delta", "noise_multiplier", "target_epsilon", "truncated_batch_size")
    found = sampling.compare_sampling(**given(options, *names))
    found.to_csv(options.csv)
    draw(found, options.png)
    answer(options, found.to_dict(), str(found))
    return code(all(known(row.interval) for row in found.rows))
