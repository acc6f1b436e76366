# SPDX-License-Identifier: Apache-2.0
"""Faults in what is reported about the files and Python of Flower and APPFL."""
from faults import Fault

SIMULATIONS = "libcore/frameworks/flower/flower_simulations.c"

TOML = ("unit.test_toml",)

FAULTS = (
    Fault("flower-false", SIMULATIONS, "return !zero && !flmem_node_is_true(node);",
          "return false;", "num-cpus = false", TOML),
    Fault("flower-list", SIMULATIONS,
          "\tif (federation->kind == FLMEM_NODE_LIST)", "\tif (0)",
          "an array of tables where a federation is expected", TOML),
    Fault("flower-unknown-resources", SIMULATIONS,
          "if (flmem_node_is_kind(resources, FLMEM_NODE_EXPRESSION))\n\t\treturn resources;", "",
          "client_resources that are a variable", TOML),
    Fault("flower-host", SIMULATIONS,
          "if (is_invalid_number(host, i == 1) ||", "if (0 &&",
          "num-cpus of init-args", TOML),
)
