# SPDX-License-Identifier: Apache-2.0
# Generated from the option tables; 'make generate' renews it.

# True when the given command (none: no command yet) is being completed.
function __flmem_is
	set -l words (commandline -opc)
	if test (count $argv) -eq 0
		test (count $words) -eq 1
	else
		test (count $words) -ge 2; and test $words[2] = $argv[1]
	end
end

# Completes the command line behind flmem's own options; the arguments are those of them
# that take their value from the next word.
function __flmem_line
	set -l words (commandline -opc)
	set -l at 3
	while test $at -le (count $words)
		if test $words[$at] = --
			set at (math $at + 1)
			break
		else if contains -- $words[$at] $argv
			set at (math $at + 2)
		else if string match -q -- '-*' $words[$at]
			set at (math $at + 1)
		else
			break
		end
	end
	if test $at -gt (math (count $words) + 1)
		return
	end
	complete -C (string join -- ' ' (string escape -- $words[$at..-1]) (commandline -ct))
end

complete -c flmem -f
complete -c flmem -n '__flmem_is' -a help -d 'explains a command, or the exit codes'
complete -c flmem -n '__flmem_is' -l help -s h -d 'list the commands'
complete -c flmem -n '__flmem_is' -l version -s V -d 'print the version'

complete -c flmem -n '__flmem_is help' -l help -s h -d 'show this text'
complete -c flmem -n '__flmem_is help' -a help -d 'explains a command, or the exit codes'
complete -c flmem -n '__flmem_is help' -a exit-codes -d 'the exit status of every command'
