#!/usr/bin/env bash
# The adapters inside the real libraries, each in a virtual environment of its own: too heavy for .ci/run.
#
#     tests/adapters/run.sh                    all of them
#     tests/adapters/run.sh opacus beam        some
#     ADAPTERS=/some/directory tests/adapters/run.sh    keeps the environments there, and uses them again
#
# torch is installed first, because its CPU build has another version name than the one that Opacus would choose.
set -euo pipefail
cd "$(dirname "$0")/../.."
directory=${ADAPTERS:-$(mktemp -d)}
[ -n "${ADAPTERS:-}" ] || trap 'rm -rf "$directory"' EXIT
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

pages=tests/test_documentation.py

# The library's own tests with our accountants in place of its own (in_place.py). Left out are those that compare with a number of a
# looser accountant: of a grid of 1e-2 or 1e-4 in jax_privacy, of Renyi divergences and other grids in Opacus.
own_tests() {  # name, tests that are left out, pytest's arguments
    local name=$1 left_out=$2
    shift 2
    echo "== $name: its own tests"
    PYTHONPATH=tests/adapters "$directory/$name/bin/python" -m pytest -q -p in_place -p no:cacheprovider -c /dev/null \
        --import-mode=importlib -k "not ($left_out)" "$@"
}

job() {  # name, first package (or -), packages, arguments of pytest
    local environment="$directory/$1" name=$1
    if [ ! -x "$environment/bin/python" ]; then
        python3 -m venv "$environment"
        [ "$2" = - ] || "$environment/bin/pip" install --quiet "$2"
        # shellcheck disable=SC2086
        "$environment/bin/pip" install --quiet $3 pytest
        "$environment/bin/pip" install --quiet --editable .
    fi
    echo "== $1: $("$environment/bin/pip" freeze --exclude-editable | grep -iE '^(opacus|torch|jax[_-]privacy|apache-beam|pipeline-dp|pfl|riskcal|dp-accounting|numpy)[=@ ]' | tr '\n' ' ')"
    # A job must run something: all tests skipped is a failure.
    shift 3
    "$environment/bin/python" -m pytest -q -rs -p no:cacheprovider "$@" | tee "$directory/$name.log"
    grep -qE '[0-9]+ passed|^\.' "$directory/$name.log"
}

for name in "${@:-opacus jax_privacy beam pipeline_dp pfl riskcal}"; do
    for one in $name; do
        case "$one" in
            opacus)
                job opacus "${TORCH:-torch}" "opacus hypothesis" tests/adapters/test_opacus.py $pages -k opacus
                own_tests opacus "test_rdp_accountant or test_gdp or test_prv or epochs or steps or multiplier_gdp or test_accountant_load" \
                    --pyargs opacus.tests.accountants_test opacus.tests.accounting_noise_multiplier_test ;;
            jax_privacy)
                job jax_privacy - jax-privacy tests/adapters/test_jax_privacy.py $pages -k jax
                library=$("$directory/jax_privacy/bin/python" -c "import jax_privacy, pathlib; print(pathlib.Path(jax_privacy.__file__).parents[1])")
                own_tests jax_privacy "via_pld or truncated or user_level or (UserLevel and fixed_batch_size)" "$library"/tests/accounting \
                    "$library"/tests/experimental/accounting_test.py "$library"/tests/experimental/execution_plan_test.py ;;
            beam) job beam - apache-beam tests/adapters/test_beam.py ;;
            pipeline_dp) job pipeline_dp - "pipeline-dp dp-accounting" tests/adapters/test_pld_face.py $pages \
                -k "pipeline_dp or loss-distribution" ;;
            pfl) job pfl - pfl tests/adapters/test_pld_face.py -k pfl ;;
            riskcal) job riskcal - riskcal tests/adapters/test_pld_face.py -k riskcal ;;
            *) echo "unknown: $one" >&2; exit 2 ;;
        esac
    done
done
