# SPDX-License-Identifier: Apache-2.0
# The directory below DATADIR from which zsh loads the completions of a prefix: vendor-completions is
# Debian's, for packages below /usr only; every zsh searches site-functions below /usr/local.
function(flmem_zsh_directory prefix ret)
	if(prefix STREQUAL "/usr")
		set(${ret} zsh/vendor-completions PARENT_SCOPE)
	else()
		set(${ret} zsh/site-functions PARENT_SCOPE)
	endif()
endfunction()
