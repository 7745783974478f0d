"""How people write thinning down, in Python and on the command line."""

from __future__ import annotations

from fractions import Fraction

from secvm.errors import BadExperimentError, BadInputError
from secvm.learning.arithmetic import exact
from secvm.learning.thinning import Thinning

#: ρ when swift is asked for and thinning is not spoken of.
DEFAULT_RHO = Fraction(3)


def parse_thinning(thinning: str | float | None, descent: str) -> Thinning:
    """None, "none", "auto", ρ as a number or its text, or "q=Q"."""
    if thinning is None or thinning == "none":
        return Thinning()
    if thinning == "auto":
        return Thinning(rho=DEFAULT_RHO) if descent == "swift" else Thinning()
    try:
        if isinstance(thinning, str) and thinning.startswith("q="):
            return Thinning(q=exact(thinning[2:]))
        return Thinning(rho=exact(thinning))
    except BadExperimentError:
        raise
    except BadInputError:
        raise BadInputError("thinning must be a number, q=Q, auto or none") from None
