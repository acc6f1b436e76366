# SPDX-License-Identifier: Apache-2.0
# Plants faults in the safety code that unit tests must detect; tests/soak/run plants all of them. It compiles
# and links in a separate directory. Parts of these tests skip on a sanitised build, so `make check` runs it on
# the packaged one. Its tests wait half of the time, so it begins first and runs at the same time as others.
if(FLMEM_TESTS_BESIDE)
	return()
endif()
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
execute_process(COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/mutants/run.py
	${PROJECT_BINARY_DIR} --quick --tests OUTPUT_VARIABLE MUTANTS_TESTS
	OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" MUTANTS_TESTS "${MUTANTS_TESTS}")
file(GLOB tables CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/mutants/*.py)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${tables})
add_test(NAME mutants.quick COMMAND ${Python3_EXECUTABLE} -B
	${CMAKE_CURRENT_SOURCE_DIR}/mutants/run.py ${PROJECT_BINARY_DIR} --quick)
set_tests_properties(mutants.quick PROPERTIES LABELS mutants SKIP_RETURN_CODE 77 TIMEOUT 1800 COST 500)
