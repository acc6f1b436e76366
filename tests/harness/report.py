# SPDX-License-Identifier: Apache-2.0
"""Tables and statistics."""
import statistics


def table(headings, rows):
    """Prints rows of texts and numbers; numbers are right-aligned."""
    lines = [headings] + [[str(cell) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headings))]
    numeric = [all(isinstance(row[i], (int, float)) for row in rows) for i in range(len(headings))]
    for number, line in enumerate(lines):
        cells = [cell.rjust(width) if right else cell.ljust(width)
                 for cell, width, right in zip(line, widths, numeric)]
        print("  ".join(cells).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))
    print(flush=True)


def quantile(values, share):
    """Nearest-rank quantile: a value that was measured."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values):
    return statistics.median(values)
