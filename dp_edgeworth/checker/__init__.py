"""The checker: proves or refuses a privacy claim in ball arithmetic. It imports the standard library and `flint`, and nothing else.

    balls         exact numbers, proved comparisons            transforms    M(s) of a leaf by quadrature, error proved
    certificate   the file, the event tree                     decay         how M decays along a line
    laws          a pair: point masses and densities           contour       delta(eps) from transforms on a line
    pairs         which pair each event is                     checking      the claim
    classes       pairs that dominate classes of mechanisms

It works as `dp_edgeworth.checker`, as a top-level package wherever its folder is put on the path, and as a program: `python checker
certificate.json`. Trusted are these files, python-flint with FLINT, and Python. Hints in a certificate make a proof quick; a wrong
hint can only make it fail. A change here can make a false claim look proved: tests/checker holds what guards against that.

May import: the standard library and python-flint, nothing of ours.
"""

from .balls import InputError, UndecidedError
from .certificate import MOST_BYTES, Claim, read
from .checking import PROVED, REFUTED, UNDECIDED, Verification, verify

VERSION = "2"

__all__ = ["MOST_BYTES", "PROVED", "REFUTED", "UNDECIDED", "VERSION", "Claim", "InputError", "UndecidedError", "Verification", "read",
           "verify"]
