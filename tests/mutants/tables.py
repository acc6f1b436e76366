# SPDX-License-Identifier: Apache-2.0
"""All faults: the tables of the parts of the library."""
import faults_attach
import faults_candidates
import faults_engine
import faults_exchange
import faults_files
import faults_flower
import faults_launch
import faults_ops
import faults_owners
import faults_reading
import faults_recipes
import faults_registers
import faults_remote
import faults_runtimes
import faults_sampler
import faults_seccomp
import faults_series
import faults_threads

FAULTS = (*faults_registers.FAULTS, *faults_remote.FAULTS, *faults_threads.FAULTS,
          *faults_candidates.FAULTS, *faults_seccomp.FAULTS, *faults_runtimes.FAULTS,
          *faults_files.FAULTS, *faults_ops.FAULTS, *faults_owners.FAULTS, *faults_sampler.FAULTS,
          *faults_attach.FAULTS, *faults_engine.FAULTS, *faults_exchange.FAULTS,
          *faults_reading.FAULTS, *faults_recipes.FAULTS, *faults_launch.FAULTS, *faults_flower.FAULTS,
          *faults_series.FAULTS)
