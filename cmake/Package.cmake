# SPDX-License-Identifier: Apache-2.0
# What is installed besides the programs, and the .deb (make deb).
configure_file(cmake/flmem.pc.in flmem.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/flmem.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES completions/flmem.bash RENAME flmem
	DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
include(cmake/ZshDirectory.cmake)
flmem_zsh_directory(${CMAKE_INSTALL_PREFIX} FLMEM_ZSH_DIR)
install(FILES completions/_flmem DESTINATION ${CMAKE_INSTALL_DATADIR}/${FLMEM_ZSH_DIR})
install(FILES completions/flmem.fish
	DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(DIRECTORY docs/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
	FILES_MATCHING PATTERN "*.1")
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN man EXCLUDE) # to which README.md links
install(PROGRAMS docs/slurm/flmem-slurm DESTINATION ${CMAKE_INSTALL_DATADIR}/flmem/slurm)
install(FILES packaging/modulefiles/flmem DESTINATION ${CMAKE_INSTALL_DATADIR}/flmem/modulefiles)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR flmem)
set(CPACK_PACKAGE_CONTACT "flmem developers <flmem@example.org>")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Debian Policy 8.1.1 requires a trigger for ldconfig; CPack generates only scripts.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/debian/shlibs
	CONTENT "libflmem 0 flmem (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/debian/triggers
	${PROJECT_BINARY_DIR}/debian/shlibs)
# Fixed modes, whatever the umask: two builds give the same bytes.
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libncursesw6, libjemalloc2, libmicrohttpd12 | libmicrohttpd12t64, libgnutls30 | libgnutls30t64, libcurl4 | libcurl4t64")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"Names the allocator of a live process, gives its retained memory back to the
kernel without a debugger, a restart or a code change, and starts jobs with
the memory settings that fit their role.")
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian-docs.cmake)
include(CPack)
