# SPDX-License-Identifier: Apache-2.0
"""Faults in what is said of memory over time."""
from faults import Fault

FAULTS = (
    Fault("trend-steps-go-on", "libcore/series/trend.c", "ret_half->step > 0 && total_slope(c, ret_half) >= least",
          "ret_half->step > 0 && total_slope(c, ret_half) >= 10 * least", "steps in the later half of a watch",
          ("unit.test_trend",)),
)
