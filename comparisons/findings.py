"""`findings`: the peers' wrong answers, reproduced live against the exact value and explained fairly."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rich.markup import escape
from rich.table import Table

from comparisons import checks, curve_checks, report
from comparisons.checks import Claim
from comparisons.methods import pick
from comparisons.run import positive
from comparisons.runner import OK, Limits
from comparisons.workers import limited


class Finding(NamedTuple):
    """A check and what explains its outcome."""

    title: str
    check: Callable[[], list[Claim]]
    explanation: str


FINDINGS: dict[str, Finding] = {
    "pld-small-delta": Finding(
        "PLDAccountant reports less than the truth at small delta",
        checks.pld_small_delta,
        "Its convolution is an FFT in double precision, which leaves noise of about 1e-16 in every cell, "
        "of either sign. Where delta is not far above (number of cells) x 1e-16, noise is taken for "
        "probability. The bound is proved for exact arithmetic; from about delta 1e-10 on (sooner for "
        "large m) it does not hold for what is computed. At other settings the same noise makes it loose.",
    ),
    "pld-randomized-response": Finding(
        "PLDAccountant ignores `count` for RandomizedResponseDpEvent",
        checks.pld_randomized_response,
        "The branch for randomized response composes its distribution once, whatever `count` is; every "
        "other branch calls self_compose(count). Unrolling the event by hand gives the right answer, and "
        "that is what our PLD rows do.",
    ),
    "prv-figure-5": Finding(
        "prv-accountant 0.2.0 returns negative epsilons in the paper's Figure 5",
        checks.prv_figure_5,
        "The paper calls this a numerical instability of the FFT. It is a labelling error of the released "
        "code: the lattice is shifted by s < dt/2 to match the mean, the m-fold result is labelled with m "
        "s, and once |m s| is comparable to the period of the FFT the label is off by whole periods. "
        "Re-aligning by whole cells (`checks._realigned`) repairs it: the released code fails here, the "
        "method does not. Mind m1 = 3e4, where the interval looks sound and is false.",
    ),
    "prv-small-delta": Finding(
        "prv-accountant's interval misses the truth at delta 1e-14 (the paper's Figure 2)",
        checks.prv_small_delta,
        "The paper says that FFT_UPP explodes at very small delta. What 0.2.0 does is worse at 1e-14, "
        "where the upper end is below the truth, and better below, where it refuses. Its guard assumes "
        "the precision of long doubles, which only the sampled Gaussian uses; the masses of a plain "
        "Gaussian are doubles, so the FFT leaves noise of 1e-16. Made long doubles, they give a true "
        "interval.",
    ),
    "prv-cost": Finding(
        "prv-accountant's time grows with m and with 1 / eps_error",
        checks.prv_cost,
        "Not wrong, but worth knowing: the mesh shrinks like eps_error / sqrt(m), and a mesh of long "
        "doubles is held in memory.",
    ),
    "pld-power": Finding(
        "PLDAccountant spends its time on one integer at large m",
        checks.pld_power,
        "For at most 1,000 points, SparsePLDPmf.self_compose evaluates size**num_times as an exact "
        "integer, with millions of digits, only to compare it with a threshold; the composition itself "
        "takes milliseconds. A comparison of logarithms would do.",
    ),
    "pld-large-m": Finding(
        "PLDAccountant turns loose where one step loses less than its interval",
        checks.pld_large_m,
        "True, but worth knowing: a loss that lies between two grid points is replaced by a mixture of both, which "
        "has more spread. The excess of one step is tiny, that of m steps is not once the loss "
        "of a step is far below the interval. A finer interval repairs it, at the price of time and memory.",
    ),
    "pld-small-noise": Finding(
        "PLDAccountant asks for petabytes at small noise",
        checks.pld_small_noise,
        "The grid reaches over all losses, about 1 / noise^2, in steps of the interval. Calibration that starts its "
        "search at small noise can meet this; the truth is one closed formula.",
    ),
    "rdp-replace-one": Finding(
        "RdpAccountant under REPLACE_ONE lacks the factor 2 of the sensitivity",
        checks.rdp_replace_one,
        "google/differential-privacy#378: replacing a record moves a sum by twice what adding one does. "
        "PLDAccountant has it right.",
    ),
    "rejected-event": Finding(
        "A rejected compose leaves the bad event in dp-accounting's ledger",
        checks.rejected_event,
        "Values are checked when they are used, after the ledger was written; only event types are "
        "checked before.",
    ),
    "gdp-e-rounding": Finding(
        "GDP-E is 1 to 2 off, and 15 off where alpha is formed as 1 - F0",
        checks.gdp_e_rounding,
        "A number near 30 for m = 1e5 is rounding, not what [ZDLS] gives: at epsilon 45 the curve is "
        "needed at alpha near 1e-20, and 1 - F0 in double precision is noise below 1e-15. Our row keeps "
        "alpha as a survival function, which is fairer to the method.",
    ),
    "afa-quadrature": Finding(
        "autodp's Analytical Fourier Accountant is right for Gaussians, wrong for Laplace and for large m",
        checks.afa_quadrature,
        "Its inversion uses 700 fixed nodes on the whole line. A Laplace loss has atoms, so its "
        "characteristic function does not decay and no fixed rule can follow it. For sampled Gaussians "
        "the error of its inner quadrature shows, the more the larger m. Besides, release 0.2.3.1 calls "
        "scipy.integrate.quadrature, gone since SciPy 1.14, and hands minimize_scalar bounds that current "
        "SciPy obeys; the adapter mends both.",
    ),
    "rdp-exponential-count": Finding(
        "RdpAccountant on dp-accounting's main branch ignores `count` for ExponentialMechanismDpEvent",
        curve_checks.rdp_exponential_count,
        "The branch adds the Renyi curve of one use, whatever `count` is; the branches beside it multiply. Where the installed "
        "dp-accounting lacks the event, what its branch does is repeated here. With `count` the bound is true.",
    ),
    "rdp-integer-noise": Finding(
        "RdpAccountant drops sampled compositions of Gaussians whose noise multiplier is no Python float",
        curve_checks.rdp_integer_noise,
        "The noise of Gaussians inside one sample is combined by a function that returns either a float or the event it cannot take, "
        "and tells them apart by isinstance(noise, float). An int, or a numpy integer, comes back as it is: the count and the "
        "Gaussians beside it are lost (0.4.3 to main).",
    ),
    "riskcal-beta": Finding(
        "riskcal 1.5.1 reports a false negative rate above the truth, more so on finer grids",
        curve_checks.riskcal_beta,
        "Both laws of the loss are read from the masses of a privacy loss distribution that dp-accounting composed by FFT, as if these "
        "were exact; what the FFT rounds and the tails it cuts are charged to nobody. A finer grid has more cells and more of both, "
        "so refining it makes the answer worse.",
    ),
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which findings, and limits for each."""
    parser.add_argument("finding", nargs="*", help=f"some of: {', '.join(FINDINGS)}; none: all")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="for findings.csv (default: out)")
    parser.add_argument("--timeout", type=positive, default=120.0, metavar="S", help="seconds per finding (default: 120)")
    parser.add_argument("--memory", type=positive, default=4.0, metavar="GB", help="gigabytes per finding (default: 4)")
    parser.add_argument("--resume", action="store_true", help="keep the findings of DIR's CSV, check the missing ones")


def run(arguments: argparse.Namespace) -> int:
    """Each finding as a table and a paragraph; all claims in `findings.csv`."""
    names = pick("FINDING", arguments.finding, FINDINGS) or list(FINDINGS)
    path = report.prepare(arguments.out) / "findings.csv"
    done = {line["finding"] for line in report.read_table(path)} if arguments.resume else set()
    limits = Limits(arguments.timeout, arguments.memory)
    screen = report.console()
    with (
        report.table_file(path, ["finding", *Claim._fields], arguments.resume) as write,
        report.progress(len(names)) as (tell, advance),
    ):
        for name in (name for name in names if name not in done):
            tell(name)
            claims = _claims(FINDINGS[name], limits)
            for claim in claims:
                write({"finding": name, **claim._asdict()})
            advance()
            screen.print(f"[bold]{name}[/bold]: {FINDINGS[name].title}", _table(claims), sep="\n")
            screen.print(FINDINGS[name].explanation + "\n")
    screen.print(f"rows: {path}")
    return 0


def _claims(finding: Finding, limits: Limits) -> list[Claim]:
    """What the check returns; one that does not end is a claim that says how."""
    outcome = limited(finding.check, (), limits)
    return outcome.value if outcome.status == OK else [Claim("", "", "", f"{outcome.status}: {outcome.note}")]


def _table(claims: list[Claim]) -> Table:
    table = Table("asked", "peer", "exact", "verdict")
    for claim in claims:
        table.add_row(*map(escape, claim))
    return table
