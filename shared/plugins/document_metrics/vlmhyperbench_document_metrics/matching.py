"""Match the items of two lists, each with at most one of the other list."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]


def match(weights: npt.NDArray[np.float64]) -> tuple[IntArray, IntArray]:
    """Return the rows and columns of the pairs with the highest total weight. Shape of `weights`: (rows, columns)."""
    # Importing scipy.optimize takes most of a second, and tables and flat documents do not need it.
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(weights, maximize=True)
    return rows, columns
