# SPDX-License-Identifier: Apache-2.0
"""Rows of the result: the expected and the measured figure, and whether it is met."""
from dataclasses import asdict, dataclass, field

from harness import report

MS = 1000.0
MIB = 1024.0 * 1024.0
HEADINGS = ["what", "expected", "median", "p99", "runs", "verdict"]


@dataclass
class Row:
    """One figure. The verdict judges the figure that `judged` names: the median or the p99."""

    what: str
    median: float
    p99: float
    runs: int
    unit: str = "ms"
    limit: float = None
    at_least: bool = False
    judged: str = "median"
    values: list = field(default_factory=list)

    @property
    def met(self):
        """Returns whether the figure is met; None when nothing is expected."""
        if self.limit is None:
            return None
        value = self.median if self.judged == "median" else self.p99
        return value >= self.limit if self.at_least else value <= self.limit

    @property
    def expected(self):
        if self.limit is None:
            return ""
        sign = ">=" if self.at_least else "<="
        name = "" if self.judged == "median" else f" ({self.judged})"
        return f"{sign} {self.limit:g} {self.unit}".rstrip() + name

    def cells(self):
        verdict = {None: "", True: "met", False: "MISSED"}[self.met]
        return [self.what, self.expected, show(self.median, self.unit), show(self.p99, self.unit),
                self.runs, verdict]

    def plain(self):
        return dict(asdict(self), met=self.met)


def show(value, unit):
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:.{digits}f} {unit}".rstrip()


def of_values(what, values, **more):
    """Returns a row of values in its unit."""
    return Row(what, report.median(values), report.quantile(values, 0.99), len(values),
               values=[round(v, 4) for v in values], **more)


def difference(what, values, base, **more):
    """Returns a row of how much the median and the p99 of values are above those of base."""
    return Row(what, report.median(values) - report.median(base),
               report.quantile(values, 0.99) - report.quantile(base, 0.99), len(values), **more)


def ratio(what, large, small, **more):
    """Returns a row of the ratio of two values; the column of the p99 compares the p99 of both."""
    return Row(what, report.median(large) / report.median(small),
               report.quantile(large, 0.99) / report.quantile(small, 0.99), len(large),
               unit="x", at_least=True, **more)


def peak(what, timings, **more):
    return of_values(what, [t.peak_bytes / MIB for t in timings], unit="MiB", judged="p99", **more)


def print_table(rows):
    report.table(HEADINGS, [row.cells() for row in rows])
