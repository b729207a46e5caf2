"""The confidence of mentions that are found in running text, from that of the same words given as a mention.

Whoever gives a mention has found it; a text has words that only look like one. A logistic curve over the log-odds,
fitted on the development abstracts of HPO GSC+ (docs/results/annotation.md).
"""

from __future__ import annotations

import math

SLOPE, INTERCEPT = 0.42, 0.08
# Log-odds are finite within.
NEAREST_TO_CERTAIN = 1e-6


def of_found(given: float) -> float:
    """Return the probability, 0 to 1, that a mention found in a text has its concept; `given`: if it were given."""
    share = min(max(given, NEAREST_TO_CERTAIN), 1 - NEAREST_TO_CERTAIN)
    return round(1 / (1 + math.exp(-SLOPE * math.log(share / (1 - share)) - INTERCEPT)), 6)
