#!/usr/bin/env bash
# Builds wheel and source distribution, installs the wheel into an empty environment, and tries it from there: import, README, command line,
# and the tests of the source distribution that are about the surface. With --all: every test of the source distribution.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
unset PYTHONPATH
python3 -m venv "$scratch/build"
"$scratch/build/bin/pip" install --quiet build
"$scratch/build/bin/python" -m build --quiet --outdir "$scratch/dist" .
ls "$scratch/dist"
python3 -m venv "$scratch/empty"
"$scratch/empty/bin/pip" install --quiet "$scratch"/dist/*.whl
cd "$scratch"
"$scratch/empty/bin/python" -c "import dp_edgeworth; print(dp_edgeworth.__version__, dp_edgeworth.__file__)"
"$scratch/empty/bin/dp-edgeworth" --version
"$scratch/empty/bin/dp-edgeworth" epsilon --sampling 0.01 --noise 0.8 --steps 1e4 --target-delta 1e-5
"$scratch/empty/bin/dp-edgeworth" report --noise 2 --target-delta 1e-5 --out "$scratch/report.html"
"$scratch/empty/bin/python" -m dp_edgeworth curve --noise 2 --points 11
tar xzf dist/*.tar.gz
rm -rf dp_edgeworth-*/dp_edgeworth  # so that the wheel is tested
cd dp_edgeworth-*/
"$scratch/empty/bin/pip" install --quiet pytest pytest-xdist hypothesis mpmath python-flint rich matplotlib
if [ "${1:-}" = "--all" ]; then
    "$scratch/empty/bin/python" -m pytest -q -n 2 -m "" tests
else
    "$scratch/empty/bin/python" -m pytest -q tests/test_readme.py tests/accountants/test_conformance.py tests/analysis tests/cli tests/test_documentation.py
fi
