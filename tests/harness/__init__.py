# SPDX-License-Identifier: Apache-2.0
"""Shared by the safety tests, the soak tests and the benchmarks. Python 3.9, standard library
only."""

SKIPPED = 77  # SKIP_RETURN_CODE of every test in tests/CMakeLists.txt


def skip(reason):
    """Ends the program as a skipped test."""
    print(f"SKIP: {reason}")
    raise SystemExit(SKIPPED)
