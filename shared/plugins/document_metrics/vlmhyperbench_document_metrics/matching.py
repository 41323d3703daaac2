"""Match the items of two lists one to one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]


def match(weights: npt.NDArray[np.float64]) -> tuple[IntArray, IntArray]:
    """Return the rows and columns of the pairs with the highest total weight. Shape of `weights`: (rows, columns)."""
    # scipy.optimize takes most of a second to import, which tables and flat documents need not pay.
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(weights, maximize=True)
    return rows, columns
