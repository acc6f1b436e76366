# SPDX-License-Identifier: Apache-2.0
"""average_check.py MODEL CLIENTS ROUND: compares a job's last model with the exact average of what its
clients sent. Prints JSON: elements, those that differ, the largest difference."""
import json
import sys

import torch
from average_client import trained


def average(clients, current_round, name, like):
    """Returns the exact average, computed in 64 bits and rounded once."""
    total = torch.zeros(like.shape, dtype=torch.float64)
    steps = [10 * number for number in range(1, clients + 1)]
    for number, weight in enumerate(steps, 1):
        part = trained(f"site-{number}", current_round, name, torch.empty_like(like))
        total.add_(part.double(), alpha=weight / sum(steps))
    return total.to(like.dtype)


def main():
    path, clients, current_round = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    elements, different, largest = 0, 0, 0.0
    for name, tensor in torch.load(path, map_location="cpu")["model"].items():
        difference = (tensor - average(clients, current_round, name, tensor)).abs()
        elements += tensor.numel()
        different += int((difference > 0).sum())
        largest = max(largest, float(difference.max()))
    print(json.dumps({"elements": elements, "different": different, "largest": largest}))


main()
