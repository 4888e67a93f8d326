"""A training log becomes an accountant, a statement and a report.

    python docs/examples/training_run.py
"""

import csv
import io
import pathlib

import dp_edgeworth

LOG = """noise_multiplier,sampling_probability,steps
1.2,0.004,1000
1.0,0.004,1500
0.9,0.008,500
"""


def main() -> None:
    rows = [(float(row["noise_multiplier"]), float(row["sampling_probability"]), int(row["steps"]))
            for row in csv.DictReader(io.StringIO(LOG))]
    accountant = dp_edgeworth.from_history(rows)
    print(accountant.statement(target_delta=1e-6))
    print(accountant.explain(target_delta=1e-6))
    accountant.report("training_run.html", target_delta=1e-6)
    print(f"written to {pathlib.Path('training_run.html').resolve()}")


if __name__ == "__main__":
    main()
