"""`truth`: random events of every regime, the certified interval against the exact value.

Case i of a seed is the same whatever N is, and every case is a row of the CSV as soon as it is judged, so a run can be
stopped and continued. Both questions are asked: epsilon at a delta, and delta at an epsilon near it. One case in four
asks for a tolerance of 1e-11, where a bound that forgot a rounding error has no slack to hide it in.

  ok          the interval contains the exact value, widened by the oracle's own accuracy
  VIOLATION   it does not; or it is NaN, or out of order
  no oracle   the oracle gave no answer in time; width and time are still recorded
  error, timeout, out of memory   the accountant itself
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from dp_accounting import NeighboringRelation as Relation
from dp_accounting import dp_event as de
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from comparisons import report
from comparisons.random_events import EVERY, LEAVES, RandomCase, random_event
from comparisons.runner import OK, Limits, Outcome, limited

VIOLATION, NO_ORACLE = "VIOLATION", "no oracle"
TOLERANCE, TIGHT = 1e-6, 1e-11
_ULP = 2.3e-16
Generator = np.random.Generator


# the cases ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TruthCase:
    """A random event with what is asked of it. `factor`: the epsilon asked for, in units of epsilon(delta)."""

    index: int
    regime: str
    event: de.DpEvent
    relation: Relation
    delta: float
    tolerance: float
    factor: float


def _between(rng: Generator, low: float, high: float) -> float:
    """Log-uniform."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def _times(event: de.DpEvent, count: float) -> de.DpEvent:
    return de.SelfComposedDpEvent(event, max(1, round(count)))


def _leaf(rng: Generator, names: tuple[str, ...] = tuple(LEAVES)) -> tuple[de.DpEvent, Relation]:
    make, relations = LEAVES[names[int(rng.integers(len(names)))]]
    return make(rng), relations[int(rng.integers(len(relations)))]


def _of(most: float, *names: str) -> Callable[[Generator], RandomCase]:
    """A leaf of one of these kinds, composed 1..most times."""

    def case(rng: Generator) -> RandomCase:
        event, relation = _leaf(rng, names or tuple(LEAVES))
        return RandomCase(_times(event, _between(rng, 1, most)), relation, _between(rng, 1e-14, 0.3))

    return case


def _dp_sgd(rng: Generator) -> RandomCase:
    sampled = de.PoissonSampledDpEvent(_between(rng, 1e-4, 0.1), de.GaussianDpEvent(_between(rng, 0.5, 5)))
    return RandomCase(_times(sampled, _between(rng, 50, 1e6)), Relation.ADD_OR_REMOVE_ONE, _between(rng, 1e-10, 1e-2))


def _small_delta(rng: Generator) -> RandomCase:
    event, relation, _ = random_event(rng, "any")
    return RandomCase(event, relation, 10 ** -rng.uniform(14, 300))


def _large_delta(rng: Generator) -> RandomCase:
    event, relation, _ = random_event(rng, "any")
    return RandomCase(event, relation, float(rng.uniform(0.3, 0.999)))


def _huge(rng: Generator) -> RandomCase:
    """1e6..1e12 steps, sampled so that epsilon stays between about 0.01 and 1000."""
    count = _between(rng, 1e6, 1e12)
    noise = _between(rng, 0.5, 20)
    p = min(0.5, _between(rng, 0.02, 20) * noise / math.sqrt(count))
    relation = EVERY[int(rng.integers(len(EVERY)))]
    return RandomCase(
        _times(de.PoissonSampledDpEvent(p, de.GaussianDpEvent(noise)), count), relation, _between(rng, 1e-12, 1e-2)
    )


def _huge_atoms(rng: Generator) -> RandomCase:
    """The same with weak mechanisms instead of sampling: losses of about 1 / sqrt(count)."""
    count = _between(rng, 1e6, 1e12)
    loss = _between(rng, 0.05, 10) / math.sqrt(count)
    kind = int(rng.integers(4))
    if kind == 0:
        return RandomCase(_times(de.RandomizedResponseDpEvent(1 - loss, 2), count), Relation.REPLACE_ONE, 1e-6)
    event = (de.DiscreteLaplaceDpEvent(loss, 1), de.LaplaceDpEvent(1 / loss), de.GaussianDpEvent(1 / loss))[kind - 1]
    return RandomCase(_times(event, count), Relation.ADD_OR_REMOVE_ONE, _between(rng, 1e-12, 1e-2))


def _rare(rng: Generator) -> RandomCase:
    """Sampling probabilities from 1e-9, noise small enough for a hit to matter."""
    p = _between(rng, 1e-9, 1e-5)
    inner = (
        de.GaussianDpEvent(_between(rng, 0.3, 2)) if rng.random() < 0.7 else de.LaplaceDpEvent(_between(rng, 0.2, 2))
    )
    count = _between(rng, 1, 1e3 / p)
    return RandomCase(
        _times(de.PoissonSampledDpEvent(p, inner), count),
        Relation.ADD_OR_REMOVE_ONE,
        _between(rng, 1e-12, 1) * min(0.3, p * count),
    )


def _replace_one(rng: Generator) -> RandomCase:
    names = tuple(name for name, (_, relations) in LEAVES.items() if Relation.REPLACE_ONE in relations)
    event, _ = _leaf(rng, names)
    return RandomCase(_times(event, _between(rng, 1, 1e5)), Relation.REPLACE_ONE, _between(rng, 1e-14, 0.3))


def _extreme(rng: Generator) -> RandomCase:
    """Noise 1e-4..1e4: shifts so large that densities underflow, and losses so small that they are rounding."""
    noise, p = _between(rng, 1e-4, 1e4), 1.0 if rng.random() < 0.3 else _between(rng, 1e-4, 1)
    inner: de.DpEvent = (
        de.GaussianDpEvent(noise),
        de.LaplaceDpEvent(noise),
        de.DiscreteLaplaceDpEvent(1 / noise, 1),
        de.MixtureOfGaussiansDpEvent(noise, [0.2, 0.5, 1.0], [0.5, 0.25, 0.25]),
    )[int(rng.integers(4))]
    return RandomCase(
        _times(de.PoissonSampledDpEvent(p, inner), _between(rng, 1, 100)),
        Relation.ADD_OR_REMOVE_ONE,
        _between(rng, 1e-14, 0.3),
    )


REGIMES: dict[str, Callable[[Generator], RandomCase]] = {
    "dp-sgd": _dp_sgd,
    "hard": lambda rng: random_event(rng, "hard"),
    "small m": _of(50),
    "m = 1": _of(1),
    "laplace": _of(1e5, "laplace", "subsampled_laplace"),
    "discrete": _of(1e5, "discrete_laplace", "subsampled_discrete_laplace"),
    "randomized response": _of(1e6, "randomized_response"),
    "mixed": lambda rng: random_event(rng, "mixed"),
    "tiny delta": _small_delta,
    "large delta": _large_delta,
    "huge m": _huge,
    "huge m, weak": _huge_atoms,
    "tiny p": _rare,
    "replace one": _replace_one,
    "without replacement": _of(1e5, "without_replacement"),
    "truncated": _of(1e5, "truncated"),
    "gaussian mixture": _of(1e5, "mixture", "subsampled_mixture"),
    "extreme noise": _extreme,
}


def truth_case(seed: int, index: int) -> TruthCase:
    """Case `index` of a seed; the regimes take turns.

    >>> truth_case(0, 1).regime
    'hard'
    """
    rng = np.random.default_rng([seed, index])
    regime = list(REGIMES)[index % len(REGIMES)]
    event, relation, delta = REGIMES[regime](rng)
    tolerance = TIGHT if rng.random() < 0.25 else TOLERANCE
    return TruthCase(
        index, regime, event, relation, min(max(delta, 1e-300), 0.999), tolerance, float(rng.uniform(0.5, 1.1))
    )


# one case -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TruthRow:
    """A judged case: `epsilon_*` at delta, `delta_*` at `at_epsilon`."""

    index: int
    regime: str
    event: str
    relation: str
    delta: float
    tolerance: float
    status: str
    epsilon_exact: float | None
    epsilon_accuracy: float | None
    epsilon_lower: float | None
    epsilon_upper: float | None
    at_epsilon: float | None
    delta_exact: float | None
    delta_accuracy: float | None
    delta_lower: float | None
    delta_upper: float | None
    wide: str
    seconds: float | None
    oracle_seconds: float | None
    note: str

    @property
    def width(self) -> float | None:
        """Of the epsilon interval, relative above 1."""
        if self.epsilon_lower is None or self.epsilon_upper is None:
            return None
        if self.epsilon_lower == self.epsilon_upper:
            return 0.0
        return (self.epsilon_upper - self.epsilon_lower) / max(1.0, self.epsilon_lower)


def ask(case: TruthCase) -> tuple[tuple[float, ...], float, tuple[float, ...], float]:
    """The epsilon interval, the epsilon asked next, the delta interval, and the CPU seconds of composing and the first."""
    from dp_edgeworth import EdgeworthIntervalAccountant

    spent: list[float] = []
    while len(spent) < 2:  # the first has the lazy imports in it
        start = time.process_time()
        accountant = EdgeworthIntervalAccountant(case.relation, tolerance=case.tolerance).compose(case.event)
        epsilon = accountant.get_epsilon_interval(case.delta)
        spent.append(time.process_time() - start)
        if spent[0] > 2:
            break
    at = case.factor * epsilon.estimate
    if not 0 < at < 1e300:
        at = case.factor
    return tuple(epsilon), float(at), tuple(accountant.get_delta_interval(at)), min(spent)


def truth_epsilon(case: TruthCase) -> tuple[float, float, float]:
    """Exact epsilon, its accuracy, CPU seconds."""
    from comparisons.exact import exact_epsilon

    start = time.process_time()
    return (*exact_epsilon(case.event, case.delta, case.relation), time.process_time() - start)


def truth_delta(case: TruthCase, epsilon: float) -> tuple[float, float]:
    """Exact delta and its accuracy."""
    from comparisons.exact import exact_delta

    return tuple(exact_delta(case.event, epsilon, case.relation))  # type: ignore[return-value]


def contains(interval: tuple[float, ...], exact: float, accuracy: float) -> str:
    """Empty if lower <= exact <= upper up to the accuracy of `exact` and its last digit; otherwise what is wrong.

    >>> contains((1.0, 1.5, 2.0), 2.0 + 1e-12, 1e-11)
    ''
    >>> contains((1.0, 1.5, 2.0), 2.1, 1e-11)
    'upper 2 < exact 2.1'
    """
    if disorder(interval):
        return disorder(interval)
    lower, _, upper = interval
    slack = max(accuracy, _ULP) * abs(exact)
    if exact == math.inf:
        return "" if upper == math.inf else f"upper {upper:.17g} < exact inf"
    if upper < exact - slack:
        return f"upper {upper:.17g} < exact {exact:.17g}"
    return f"lower {lower:.17g} > exact {exact:.17g}" if lower > exact + slack else ""


def disorder(interval: tuple[float, ...]) -> str:
    """Empty if 0 <= lower <= estimate <= upper, which also rules out NaN."""
    lower, estimate, upper = interval
    return "" if 0 <= lower <= estimate <= upper else f"not an interval: {lower!r}, {estimate!r}, {upper!r}"


def judge(case: TruthCase, limits: Limits) -> TruthRow:
    """Accountant and oracle, each in a child process with limits; then the verdict."""
    blank: dict[str, Any] = {field.name: None for field in fields(TruthRow)}
    blank |= {
        "index": case.index,
        "regime": case.regime,
        "event": repr(case.event),
        "relation": case.relation.name,
        "delta": case.delta,
        "tolerance": case.tolerance,
        "wide": "",
        "note": "",
    }
    answer = limited(ask, (case,), limits)
    if answer.status != OK:
        return TruthRow(**(blank | {"status": answer.status, "note": answer.note}))
    epsilon, at, delta, seconds = answer.value
    blank |= {
        "epsilon_lower": epsilon[0],
        "epsilon_upper": epsilon[2],
        "at_epsilon": at,
        "delta_lower": delta[0],
        "delta_upper": delta[2],
        "seconds": seconds,
        "wide": too_wide(case, epsilon),
    }
    first = limited(truth_epsilon, (case,), limits)
    second = limited(truth_delta, (case, at), limits) if first.status == OK else Outcome(first.status)
    faults, notes = [], []
    if first.status != OK:  # no truth, but an interval must still be one
        faults.append("; ".join(filter(None, (disorder(epsilon), disorder(delta)))))
    if first.status == OK:
        blank |= {"epsilon_exact": first.value[0], "epsilon_accuracy": first.value[1], "oracle_seconds": first.value[2]}
        faults.append(contains(epsilon, *first.value[:2]))
    else:
        notes.append(f"epsilon: {first.status} {first.note}")
    if second.status == OK:
        blank |= {"delta_exact": second.value[0], "delta_accuracy": second.value[1]}
        faults.append(contains(delta, *second.value))
    elif first.status == OK:
        notes.append(f"delta: {second.status} {second.note}")
    wrong = "; ".join(f"{name} {fault}" for name, fault in zip(("epsilon", "delta"), faults, strict=False) if fault)
    status = VIOLATION if wrong else OK if first.status == OK else NO_ORACLE
    return TruthRow(**(blank | {"status": status, "note": "; ".join([wrong, *notes]).strip("; ")}))


def too_wide(case: TruthCase, epsilon: tuple[float, ...]) -> str:
    """What the interval should have been narrower than, where it is not (default tolerance only).

    1e-6 (relative above 1) where a leaf without atoms is used 50 times or expected to sample 5; otherwise 1e-3 relative.
    """
    lower, _, upper = epsilon
    if case.tolerance != TOLERANCE or lower == upper:
        return ""
    uses = list(_uses(case.event, 1, 1.0))
    smooth = any(not atoms and (count >= 50 or count * p >= 5) for count, p, atoms in uses)
    if smooth:
        return "" if upper - lower <= 1e-6 * max(1.0, lower) else "1e-6"
    return "" if upper - lower <= max(1e-3 * lower, 1e-6) else "1e-3"


def _uses(event: de.DpEvent, count: int, p: float) -> Iterator[tuple[int, float, bool]]:
    """(count, sampling probability, whether the loss has atoms) of every leaf."""
    if isinstance(event, de.SelfComposedDpEvent):
        yield from _uses(event.event, count * int(event.count), p)
    elif isinstance(event, de.ComposedDpEvent):
        for part in event.events:
            yield from _uses(part, count, p)
    elif isinstance(event, de.PoissonSampledDpEvent):
        yield from _uses(event.event, count, p * event.sampling_probability)
    elif isinstance(event, de.SampledWithoutReplacementDpEvent):
        yield count, p * event.sample_size / event.source_dataset_size, True
    elif isinstance(event, de.TruncatedSubsampledGaussianDpEvent):
        yield count, p * event.sampling_probability, False
    else:
        smooth = (de.GaussianDpEvent, de.MixtureOfGaussiansDpEvent, de.SingleEpochTreeAggregationDpEvent)
        yield count, p, not isinstance(event, smooth)


# the campaign ---------------------------------------------------------------------------------------------------------


_LIMITS = Limits(60.0)


def campaign(
    cases: int, seed: int, path: Path, limits: Limits = _LIMITS, regimes: tuple[str, ...] = (), jobs: int = 1
) -> list[TruthRow]:
    """Judges cases 0..cases - 1 of the seed that are not in the file yet; returns the rows of all of them."""
    if path.exists():  # a line that was cut short is judged again
        text = path.read_text()
        path.write_text(text[: text.rfind("\n") + 1])
    done = {row.index: row for row in read_rows(path)} if path.exists() else {}
    wanted = [i for i in range(cases) if not regimes or list(REGIMES)[i % len(REGIMES)] in regimes]
    screen = report.console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    names = [field.name for field in fields(TruthRow)]
    with (
        path.open("a", newline="") as file,
        Progress(*columns, console=screen, disable=not screen.is_terminal) as progress,
    ):
        writer = csv.DictWriter(file, names, lineterminator="\n")
        if not file.tell():
            writer.writeheader()
        open_cases = [truth_case(seed, i) for i in wanted if i not in done]
        task = progress.add_task("", total=len(wanted), completed=len(wanted) - len(open_cases))
        for row in _judged(open_cases, limits, jobs):
            done[row.index] = row
            writer.writerow(
                {k: "" if v is None else repr(v) if isinstance(v, float) else v for k, v in asdict(row).items()}
            )
            file.flush()
            bad = sum(row.status == VIOLATION for row in done.values())
            progress.update(task, advance=1, description=f"violations: {bad}  {row.regime}")
    return [done[index] for index in wanted]


def _judged(cases: list[TruthCase], limits: Limits, jobs: int) -> Iterator[TruthRow]:
    """Rows in the order in which they are finished; the threads only wait for their child processes."""
    with ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(judge, case, limits) for case in cases]
        try:
            yield from (future.result() for future in as_completed(waiting))
        finally:  # stopped by hand: what has not begun need not
            pool.shutdown(wait=False, cancel_futures=True)


def read_rows(path: Path) -> list[TruthRow]:
    """The rows of a CSV that `campaign` wrote, empty cells as None; a last line cut short is dropped."""
    rows = []
    kinds = {field.name: str(field.type) for field in fields(TruthRow)}
    with path.open(newline="") as file:
        for line in csv.DictReader(file):
            if None in line.values():
                continue
            values = {
                name: (float(line[name]) if line[name] else None) if "float" in kind else line[name]
                for name, kind in kinds.items()
            }
            rows.append(TruthRow(**(values | {"index": int(line["index"])})))  # type: ignore[arg-type]
    return rows


def summary(rows: list[TruthRow]) -> Table:
    """One line per regime."""
    table = Table(
        title=f"{len(rows)} cases, {sum(r.status == VIOLATION for r in rows)} violations", title_justify="left"
    )
    for name in ("regime", "cases", "violations", "no oracle", "failed", "too wide", "median width", "largest width",
                 "median ms", "largest ms"):  # fmt: skip
        table.add_column(name, justify="left" if name == "regime" else "right", no_wrap=True)
    for regime in [*REGIMES, "all"]:
        part = [row for row in rows if regime in (row.regime, "all")]
        if not part:
            continue
        plain = [row for row in part if row.tolerance == TOLERANCE]
        widths = [row.width for row in plain if row.width is not None]
        times = [1e3 * row.seconds for row in plain if row.seconds is not None]
        known = (OK, VIOLATION, NO_ORACLE)
        table.add_row(
            regime,
            str(len(part)),
            str(sum(r.status == VIOLATION for r in part)),
            str(sum(r.status == NO_ORACLE for r in part)),
            str(sum(r.status not in known for r in part)),
            str(sum(bool(r.wide) for r in part)),
            *(f"{value:.2g}" for value in (*_spread(widths), *_spread(times))),
        )
    return table


def _spread(values: list[float]) -> tuple[float, float]:
    return (statistics.median(values), max(values)) if values else (math.nan, math.nan)


def _listed(title: str, rows: list[TruthRow], *columns: tuple[str, Callable[[TruthRow], str]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for name, _ in (("case", None), ("regime", None), *columns):
        table.add_column(name)
    for row in rows:
        table.add_row(str(row.index), row.regime, *(show(row) for _, show in columns))
    return table


def _question(row: TruthRow) -> str:
    return f"{row.event} {row.relation} delta={row.delta:.17g} tolerance={row.tolerance:g}".replace("DpEvent", "")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How many cases, which, and limits for each."""
    parser.add_argument("--cases", type=int, default=500, metavar="N", help="how many (default: 500)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="which sequence of cases (default: 0)")
    parser.add_argument("--out", type=Path, default=None, metavar="FILE", help="CSV (default: out/truth-SEED.csv)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="cases at a time (default: 1)")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S", help="seconds per answer (default: 60)")
    parser.add_argument("--memory", type=float, default=4.0, metavar="GB", help="gigabytes per answer (default: 4)")
    parser.add_argument(
        "--regime",
        nargs="+",
        default=[],
        choices=list(REGIMES),
        metavar="NAME",
        help=f"only these of: {', '.join(REGIMES)}",
    )


def run(arguments: argparse.Namespace) -> int:
    """The campaign and its tables; exit code 1 if there is a violation."""
    path = arguments.out or Path("out") / f"truth-{arguments.seed}.csv"
    report.prepare(path.parent)
    rows = campaign(
        arguments.cases, arguments.seed, path, Limits(arguments.timeout, arguments.memory), tuple(arguments.regime),
        max(1, arguments.jobs),
    )
    screen = report.console()
    bad = [row for row in rows if row.status == VIOLATION]
    failed = [row for row in rows if row.status not in (OK, VIOLATION, NO_ORACLE)]
    wide = sorted((row for row in rows if row.wide), key=lambda row: -(row.width or 0))
    slow = sorted((row for row in rows if row.seconds), key=lambda row: -(row.seconds or 0))[:10]
    lists = (("violations", bad, [("what", lambda r: r.note)]), ("failed", failed, [("status", lambda r: f"{r.status} {r.note}")]),
             ("too wide", wide[:25], [("limit", lambda r: r.wide), ("lower", lambda r: f"{r.epsilon_lower:.9g}"),
                                      ("upper", lambda r: f"{r.epsilon_upper:.9g}")]),
             ("slowest", slow, [("CPU ms", lambda r: f"{1e3 * r.seconds:.0f}")]))  # fmt: skip
    for title, chosen, columns in lists:
        if chosen:
            screen.print(_listed(title, chosen, *columns, ("event", _question)))
    screen.print(summary(rows))
    screen.print(f"rows: {path}")
    return 1 if bad else 0
