# SPDX-License-Identifier: Apache-2.0
# Documentation as Debian Policy requires: compressed man pages (12.1), a copyright file that refers to
# the common licence instead of repeating it (12.5), and a changelog in Debian's form (12.7).
file(GLOB_RECURSE PAGES ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/flmem*.1)
foreach(page ${PAGES})
	execute_process(COMMAND gzip -9nf ${page} COMMAND_ERROR_IS_FATAL ANY)
endforeach()

file(GLOB_RECURSE LICENCE ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/share/doc/flmem/LICENSE
	${CPACK_TEMPORARY_INSTALL_DIRECTORY}/LICENSE)
foreach(file ${LICENCE})
	cmake_path(GET file PARENT_PATH directory)
	file(REMOVE ${file})
	file(WRITE ${directory}/copyright
"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: flmem

Files: *
Copyright: 2026 The flmem authors
License: Apache-2.0
 On Debian systems the full text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
")

	string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC) # of SOURCE_DATE_EPOCH where that is set
	file(WRITE ${directory}/changelog
"flmem (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * What is new stands in CHANGELOG.md in this directory.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
	execute_process(COMMAND gzip -9nf ${directory}/changelog COMMAND_ERROR_IS_FATAL ANY)

	cmake_path(SET overrides NORMALIZE ${directory}/../../lintian/overrides)
	file(MAKE_DIRECTORY ${overrides})
	file(COPY_FILE ${CMAKE_CURRENT_LIST_DIR}/debian/lintian-overrides ${overrides}/flmem)
endforeach()
