# SPDX-License-Identifier: Apache-2.0
"""Faults in what is said of memory over time."""
from faults import Fault

FAULTS = (
    Fault("teeth-few", "libcore/series/trend.c", "else if (teeth.count < 2 ||", "else if (0 &&",
          "few low points of a sawtooth that rise", ("unit.test_trend",)),
    Fault("teeth-two", "libcore/series/trend.c", "if (steps->height[i] < 0 && is_same_tooth(y, steps, f, i))", "if (0)",
          "a fall to the level before the rise", ("unit.test_trend_sweep",)),
    Fault("teeth-two-lower", "libcore/series/trend.c", "high[1] <= high[0] + FLAT_SHARE * f->level;", "true;",
          "growth behind a fall near the beginning", ("unit.test_trend_sweep", "unit.test_trend")),
    Fault("teeth-again", "libcore/series/trend.c", "*ret_again = true;\n\t\t\t\tcontinue;", "*ret_again = true;",
          "the later half within one tooth", ("unit.test_trend_sweep",)),
    Fault("teeth-regular", "libcore/series/teeth.c", "if (teeth->at[i] - teeth->at[i - 1] != distance)", "if (1)",
          "collections every second round", ("unit.test_trend",)),
    Fault("teeth-runs", "libcore/series/teeth.c", "return fabs(rises - steps / 2) >=", "return fabs(rises) >=",
          "noise that is no sawtooth", ("unit.test_trend",)),
    Fault("trend-steps-go-on", "libcore/series/trend.c", "ret_half->step > 0 && total_slope(c, ret_half) >= least",
          "ret_half->step > 0 && total_slope(c, ret_half) >= 10 * least", "steps in the later half of a watch",
          ("unit.test_trend",)),
    Fault("teeth-of-many-rounds", "libcore/series/trend.c", "\t\texamine_thinned_teeth(points, count, &f);", "\t\t(void)examine_thinned_teeth;",
          "growth below teeth that thinning averages", ("unit.test_trend_sweep",)),
    Fault("teeth-lowest-of-group", "libcore/series/trend.c", ">= c->bytes[c->count - 1])\n\t\t\tcontinue;", "< c->bytes[c->count - 1])\n\t\t\tcontinue;",
          "the lowest of a group of low points", ("unit.test_trend_sweep",)),
    Fault("auto-unchecked", "libcore/ops/watch/auto_trim.c", "trim_state->policy.checked_us || watched->rounds.any)", "1)",
          "an end before the first check", ("cli.watch_auto/without rounds a condition",)),
    Fault("arena-in-force", "libcore/rules/live_rules.c", "&& !has_limit_in_force(process);", ";",
          "a limit that malloc itself has read", ("unit.test_live_rules",)),
    Fault("arena-until-2-38", "libcore/allocators/glibc/glibc_arena_max.c", "return behind < '0' || behind > '9';", "return true;",
          "numbers above 32 bits", ("unit.test_env_values",)),
    Fault("log-huge-line", "libcore/ops/watch/log_tail.c", "(skips ? SKIP_COST : 1)", "1", "the end of a huge line", ("unit.test_log_tail",)),
)
