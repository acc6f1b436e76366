# SPDX-License-Identifier: Apache-2.0
# Faults planted in the safety code that unit tests have to notice; tests/soak/run plants all. It
# compiles and links beside this build, with all processors.
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
include(ProcessorCount)
ProcessorCount(processors)
add_test(NAME mutants.quick COMMAND ${Python3_EXECUTABLE} -B
	${CMAKE_CURRENT_SOURCE_DIR}/mutants/run.py ${PROJECT_BINARY_DIR} --quick)
set_tests_properties(mutants.quick PROPERTIES LABELS mutants SKIP_RETURN_CODE 77 TIMEOUT 1800
	PROCESSORS ${processors})
