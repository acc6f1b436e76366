# SPDX-License-Identifier: Apache-2.0
"""A model of PEAKS_TENSORS equal tensors of PEAKS_MIB_EACH; nothing is computed with it. NVFlare
creates it by its name alone, so the environment passes the size."""
import os

import torch


class Weights(torch.nn.Module):
    def __init__(self):
        super().__init__()
        tensors, mib_each = (int(os.environ[name]) for name in ("PEAKS_TENSORS", "PEAKS_MIB_EACH"))
        self.layers = torch.nn.ParameterList(
            torch.nn.Parameter(torch.ones(mib_each << 18)) for _ in range(tensors))
