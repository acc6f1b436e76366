# SPDX-License-Identifier: Apache-2.0
"""Frees most of its memory, and checks the rest for each line of its input."""
import sys

rows = [bytes([number % 251]) * 3000 for number in range(20000)]
rows = rows[::8]
print("ready", flush=True)
for _ in sys.stdin:
    wrong = sum(row != bytes([8 * number % 251]) * 3000 for number, row in enumerate(rows))
    print("well", wrong, flush=True)
