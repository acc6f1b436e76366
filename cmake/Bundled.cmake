# SPDX-License-Identifier: Apache-2.0
# cJSON, libyaml and zlib from sources that -DFLMEM_BUNDLED=DIRECTORY names, as static libraries
# with hidden symbols under the names that pkg-config's targets have elsewhere; for builds that
# run on other systems than this one (`make wheels`). The headers of the libraries that are loaded on
# use are in DIRECTORY/include, with an empty file .PREFIX for each. What is compiled here is listed in scripts/wheels/sources.py.
function(flmem_bundle target name definitions include)
	file(GLOB sources CONFIGURE_DEPENDS ${ARGN})
	if(NOT sources)
		message(FATAL_ERROR "FLMEM_BUNDLED: there are no sources of ${name} in ${FLMEM_BUNDLED}")
	endif()
	add_library(${name} STATIC ${sources})
	target_include_directories(${name} SYSTEM PUBLIC ${include})
	target_compile_definitions(${name} PRIVATE ${definitions})
	target_compile_options(${name} PRIVATE -w -fstack-protector-strong
		-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
	add_library(PkgConfig::${target} ALIAS ${name})
endfunction()

# The folder above that of cJSON.h, since <cjson/cJSON.h> is included.
flmem_bundle(CJSON flmem_cjson "CJSON_HIDE_SYMBOLS" ${FLMEM_BUNDLED} ${FLMEM_BUNDLED}/cjson/cJSON.c)
flmem_bundle(YAML flmem_yaml
	"YAML_VERSION_MAJOR=0;YAML_VERSION_MINOR=2;YAML_VERSION_PATCH=5;YAML_VERSION_STRING=\"0.2.5\""
	${FLMEM_BUNDLED}/libyaml/include ${FLMEM_BUNDLED}/libyaml/src/*.c)
flmem_bundle(ZLIB flmem_zlib "HAVE_HIDDEN;HAVE_UNISTD_H;HAVE_STDARG_H" ${FLMEM_BUNDLED}/zlib
	${FLMEM_BUNDLED}/zlib/*.c)

# In place of pkg-config's: what is linked in, and the headers of what is loaded on use.
include_directories(SYSTEM ${FLMEM_BUNDLED}/include)
macro(pkg_check_modules prefix)
	set(${prefix}_WANTED ${ARGN}) # ARGN is not a variable in a macro
	set(${prefix}_FOUND FALSE)
	if(TARGET PkgConfig::${prefix} OR EXISTS ${FLMEM_BUNDLED}/include/.${prefix})
		set(${prefix}_FOUND TRUE)
	elseif("REQUIRED" IN_LIST ${prefix}_WANTED)
		message(FATAL_ERROR "FLMEM_BUNDLED: ${prefix} is not in ${FLMEM_BUNDLED}")
	endif()
endmacro()
