# SPDX-License-Identifier: Apache-2.0
# Targets of another Debian release in separate namespaces: the release that is unpacked fastest;
# tests/soak/run uses all. It is downloaded at the first use.
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
if(NOT FLMEM_TESTS_BESIDE) # takes too long for make check
	add_test(NAME world.trixie COMMAND ${Python3_EXECUTABLE} -B
		${CMAKE_CURRENT_SOURCE_DIR}/worlds/run.py ${PROJECT_BINARY_DIR} trixie)
	set_tests_properties(world.trixie PROPERTIES LABELS world SKIP_RETURN_CODE 77 TIMEOUT 900)
endif()

# Compares flmem's prediction for the release of heaps with the release: on this system and in the
# other.
add_test(NAME world.heaps COMMAND ${Python3_EXECUTABLE} -B
	${CMAKE_CURRENT_SOURCE_DIR}/worlds/heaps.py ${PROJECT_BINARY_DIR} here trixie)
set_tests_properties(world.heaps PROPERTIES LABELS world SKIP_RETURN_CODE 77 TIMEOUT 900)
