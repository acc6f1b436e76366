# SPDX-License-Identifier: Apache-2.0
# The target programs of the safety tests, and the short forms of these tests. Targets are built
# without sanitizers: they are what flmem is used on, not what is checked for its own faults.
set(SAFE_SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/victims)
set(SAFE_OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/victims)
set(SAFE_FLAGS -O1 -g -Wall -Wextra -Wshadow -Wconversion -Wformat=2 -Wstrict-prototypes
	-Wmissing-prototypes -Wvla -Wundef $<$<BOOL:${FLMEM_WERROR}>:-Werror>)
set(SAFE_BLOCKED safe_cases.c safe_cases_fd.c safe_cases_process.c safe_cases_send.c
	safe_cases_rare.c safe_probe.c safe_probe_aarch64.c)
find_package(Threads REQUIRED)

# flmem_safe_victim(name source... [LINK what...]): safe_common.c and these sources.
function(flmem_safe_victim name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINK")
	list(TRANSFORM arg_UNPARSED_ARGUMENTS PREPEND ${SAFE_SOURCES}/)
	add_executable(${name} ${arg_UNPARSED_ARGUMENTS} ${SAFE_SOURCES}/safe_common.c)
	target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
	target_compile_options(${name} PRIVATE ${SAFE_FLAGS})
	target_link_libraries(${name} PRIVATE Threads::Threads ${arg_LINK})
	# Binds all symbols at the start: the first call of a function would otherwise use kilobytes
	# of a nearly full stack.
	target_link_options(${name} PRIVATE -Wl,-z,now -Wl,--no-as-needed)
	set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${SAFE_OUTPUT})
endfunction()

# Links the allocator instead of preloading it; prints a message where it is absent.
function(flmem_safe_linked name library)
	find_library(SAFE_${name} NAMES ${library})
	if(SAFE_${name})
		flmem_safe_victim(safe_threads_${name} safe_threads.c LINK ${SAFE_${name}} ${ARGN})
	else()
		message(WARNING "no ${library}: safe_threads_${name} is not built")
	endif()
endfunction()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|aarch64")
	flmem_safe_victim(safe_blocked safe_blocked.c ${SAFE_BLOCKED})
	flmem_safe_victim(safe_blocked_static safe_blocked.c ${SAFE_BLOCKED} LINK -static)
	flmem_safe_victim(safe_trap safe_trap.c)
endif()
foreach(name bare break overwritten registered threads signals fork exec coroutine keys seccomp strict userfault
		notified refiltered supervisor tracer world world_locked)
	flmem_safe_victim(safe_${name} safe_${name}.c)
endforeach()
flmem_safe_victim(safe_threads_static safe_threads.c LINK -static)
flmem_safe_linked(jemalloc jemalloc)
flmem_safe_linked(tcmalloc tcmalloc_minimal)
flmem_safe_linked(mimalloc mimalloc)
flmem_safe_linked(jemalloc_static libjemalloc.a m)

# Builds victims with plain commands: by other compilers or for another machine.
function(flmem_safe_command name source)
	set(output ${SAFE_OUTPUT}/${name})
	add_custom_command(OUTPUT ${output}
		COMMAND ${ARGN} -D_GNU_SOURCE -O1 -g -o ${output} ${SAFE_SOURCES}/${source}
		DEPENDS ${SAFE_SOURCES}/${source} ${SAFE_SOURCES}/safe_common.c
			${SAFE_SOURCES}/safe_common.h
		VERBATIM)
	add_custom_target(${name} ALL DEPENDS ${output})
endfunction()

find_program(MUSL_GCC musl-gcc)
if(MUSL_GCC)
	flmem_safe_command(safe_threads_musl safe_threads.c
		${MUSL_GCC} ${SAFE_SOURCES}/safe_common.c)
	flmem_safe_command(safe_threads_musl_static safe_threads.c
		${MUSL_GCC} -static ${SAFE_SOURCES}/safe_common.c)
else()
	message(WARNING "no musl-gcc: the musl victims are not built")
endif()
if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
	flmem_safe_command(safe_ia32 safe_ia32.c ${CMAKE_C_COMPILER}
		-m32 -nostdlib -static -fno-pic -fno-stack-protector)
endif()

# Programs under which the tests run flmem: one kills it at an exact place, one refuses it system
# calls.
foreach(name killat deny)
	add_executable(${name} soak/${name}.c)
	target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
	target_compile_options(${name} PRIVATE ${SAFE_FLAGS})
endforeach()

if(FLMEM_TESTS_BESIDE)
	return()
endif()
# The short variants; tests/soak/run has the long ones.
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
function(flmem_safety_test name script)
	add_test(NAME safety.${name} COMMAND ${Python3_EXECUTABLE} -B
		${CMAKE_CURRENT_SOURCE_DIR}/${script} ${PROJECT_BINARY_DIR} ${ARGN})
	set_tests_properties(safety.${name} PROPERTIES LABELS safety SKIP_RETURN_CODE 77 TIMEOUT 900)
endfunction()

# Targets that compute take processors from other tests: they run one at a time, and at low
# priority. At equal priority they would delay flmem beyond its limits; tests/soak/run tests that.
flmem_safety_test(blocked soak/matrix.py --groups blocked --together 3)
flmem_safety_test(busy soak/matrix.py --groups busy,linked --together 1 --behind)
flmem_safety_test(traps soak/matrix.py --groups traps --together 3)
flmem_safety_test(pythons soak/matrix.py --groups pythons --together 3)
flmem_safety_test(code soak/matrix.py --groups code --together 1 --behind)
flmem_safety_test(privileges soak/privileges.py)
flmem_safety_test(kill soak/kill.py --runs 40 --stops 20 --jobs 3)
flmem_safety_test(kill_dry soak/kill.py --dry-run --runs 14 --stops 8 --jobs 3)
flmem_safety_test(kill_code soak/kill.py --targets interpreters --runs 16 --stops 1 --late 4 --behind --jobs 4)
flmem_safety_test(stop soak/stop.py --stops 8 --late 8)
flmem_safety_test(exchange soak/exchange.py --kills 10)
flmem_safety_test(attach soak/attach.py --cycles 14 --kills 14)
flmem_safety_test(exec soak/exec.py --stops 24)
# These tests mostly wait, so several run at the same time.
flmem_safety_test(sampled soak/sampled.py --short --jobs 6 --behind)

# The longest tests begin first: a test that begins last is waited for alone.
set_tests_properties(safety.stop PROPERTIES COST 450)
set_tests_properties(safety.kill_code PROPERTIES COST 400)
set_tests_properties(safety.kill safety.code PROPERTIES COST 300)
