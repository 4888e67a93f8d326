"""Draws the pictures of the tutorials: python docs/pictures/make.py. The picture of the report needs Chromium, too."""

import pathlib
import shutil
import subprocess
import tempfile

import dp_accounting as dpa
import matplotlib

import dp_edgeworth

HERE = pathlib.Path(__file__).resolve().parent


def save(axes: object, name: str) -> None:
    figure = (axes[0] if isinstance(axes, tuple) else axes).figure  # type: ignore[attr-defined]
    figure.savefig(HERE / name, dpi=90)


def report() -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        return
    with tempfile.TemporaryDirectory() as directory:
        page = pathlib.Path(directory) / "report.html"
        dp_edgeworth.from_history([(1.1, 256 / 60_000, 2_344)]).report(page)
        subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars",
                        f"--user-data-dir={directory}/profile", "--window-size=900,1500", f"--screenshot={HERE / 'report.png'}",
                        page.as_uri()], check=True, capture_output=True)


def main() -> None:
    matplotlib.use("Agg")
    schedule = dp_edgeworth.from_history([(2.0 * 0.9 ** k, 0.01, 200) for k in range(10)])
    save(schedule.explain(target_delta=1e-5).plot(), "noise-schedule.png")
    training = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.0)), 1_000)
    mixed = [training, dpa.SelfComposedDpEvent(dpa.LaplaceDpEvent(4.0), 2), dpa.dp_event.DiscreteLaplaceDpEvent(0.3, 1)]
    save(dp_edgeworth.curves(dpa.ComposedDpEvent(mixed)).plot(), "mixed-releases.png")
    grid = dp_edgeworth.sweep(batch_size=[128, 256, 512, 1024], dataset_size=60_000, noise_multiplier=[0.8, 1.0, 1.5, 2.0], epochs=10,
                              target_delta=1e-6, certified=True)
    save(grid.plot(), "tuning.png")
    report()


if __name__ == "__main__":
    main()
