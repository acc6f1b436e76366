# SPDX-License-Identifier: Apache-2.0
# Warning, hardening and sanitizer flags of everything that is flmem's own code.

# Released files contain no path of their build directory: two builds give the same bytes
# (tests/soak/packages.py). Debug builds keep it for debuggers. The last option that matches wins.
if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
	add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.
		-ffile-prefix-map=${PROJECT_BINARY_DIR}=build)
endif()

add_library(flmem_flags INTERFACE)
target_compile_definitions(flmem_flags INTERFACE _GNU_SOURCE)
target_compile_options(flmem_flags INTERFACE
	-Wall -Wextra -Wshadow -Wconversion -Wformat=2 -Wstrict-prototypes -Wmissing-prototypes
	-Wvla -Wundef $<$<BOOL:${FLMEM_WERROR}>:-Werror>)
if(FLMEM_SANITIZE)
	target_compile_options(flmem_flags INTERFACE
		-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
	target_link_options(flmem_flags INTERFACE -fsanitize=address)
	# Trap instead of a message: the source locations of all checks would be two thirds of a program, and
	# 340,000 relocations at each start. AddressSanitizer prints where the trap was (CMakePresets.json).
	target_compile_options(flmem_flags INTERFACE
		$<$<C_COMPILER_ID:GNU>:-fsanitize-undefined-trap-on-error>)
	target_link_options(flmem_flags INTERFACE $<$<NOT:$<C_COMPILER_ID:GNU>>:-fsanitize=undefined>)
else()
	target_compile_options(flmem_flags INTERFACE
		-fstack-protector-strong -fstack-clash-protection
		$<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>)
endif()
if(FLMEM_FUZZ)
	target_compile_options(flmem_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
target_link_options(flmem_flags INTERFACE -Wl,-z,relro,-z,now -Wl,--as-needed)
