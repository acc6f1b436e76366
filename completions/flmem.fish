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

# Prints where the command line begins that the command takes; behind the last word when it
# has not begun. $__flmem_valued_COMMAND are the options that take the next word.
function __flmem_line_begin
	set -l words (commandline -opc)
	set -l valued __flmem_valued_$argv[1]
	set -l at 3
	while test $at -le (count $words)
		if test $words[$at] = --
			set at (math $at + 1)
			break
		else if contains -- $words[$at] $$valued
			set at (math $at + 2)
		else if string match -q -- '-*' $words[$at]
			set at (math $at + 1)
		else
			break
		end
	end
	echo $at
end

# True while flmem's own options may come.
function __flmem_before_line
	__flmem_is $argv[1]; or return
	set -l words (commandline -opc)
	test (__flmem_line_begin $argv[1]) -gt (count $words); and not contains -- -- $words
end

function __flmem_line
	set -l words (commandline -opc)
	set -l begin (__flmem_line_begin $argv[1])
	set -l word (commandline -ct)
	if test $begin -gt (math (count $words) + 1)
		return
	else if test $begin -gt (count $words)
		string match -q -- '-*' $word; and return
		complete "-C$word"
	else
		complete "-C"(string join -- ' ' (string escape -- $words[$begin..-1]) $word)
	end
end

complete -c flmem -f
complete -c flmem -n '__flmem_is' -a detect -d 'tells the allocators, memory, settings and roles of live processes, and a verdict'
complete -c flmem -n '__flmem_is' -a trim -d 'gives retained memory of live processes back'
complete -c flmem -n '__flmem_is' -a env -d 'memory settings for a role, printed for a shell or another launcher'
complete -c flmem -n '__flmem_is' -a start -d 'runs a command with the settings of its role, and proves them'
complete -c flmem -n '__flmem_is' -a watch -d 'follows processes over time and by round: trend and forecast'
complete -c flmem -n '__flmem_is' -a recommend -d 'findings about the memory settings of jobs, with what to write instead'
complete -c flmem -n '__flmem_is' -a help -d 'explains a command, or the exit codes'
complete -c flmem -n '__flmem_is' -l help -s h -d 'list the commands'
complete -c flmem -n '__flmem_is' -l version -s V -d 'print the version'

complete -c flmem -n '__flmem_is detect' -l pid -s p -x -a '(__fish_complete_pids)' -d 'this process; may be given several times, or as a list with commas'
complete -c flmem -n '__flmem_is detect' -l name -x -d 'every process whose command line matches'
complete -c flmem -n '__flmem_is detect' -l all -s a -d 'every process that you may read'
complete -c flmem -n '__flmem_is detect' -l tree -x -a '(__fish_complete_pids)' -d 'this process and all its descendants'
complete -c flmem -n '__flmem_is detect' -l role -x -a 'server server-job client client-job trainer simulator-server simulator-client' -d 'of these, only those with this role; server and client stand for all their kinds'
complete -c flmem -n '__flmem_is detect' -l min-rss -s m -x -d 'of these, only those with at least this much resident memory'
complete -c flmem -n '__flmem_is detect' -l no-heap -d 'do not read the state of the heap, and give no verdict'
complete -c flmem -n '__flmem_is detect' -l budget -x -d 'read the heap of a process for at most this long (default 1s, and 2s for all that were looked for)'
complete -c flmem -n '__flmem_is detect' -l ask-runtime -d 'also let allocators and PyTorch tell what cannot be read from outside; borrows a thread for well under a millisecond'
complete -c flmem -n '__flmem_is detect' -l timeout -x -d 'with --ask-runtime, wait this long for a thread to borrow (default 2s)'
complete -c flmem -n '__flmem_is detect' -l assume-seccomp -d 'with --ask-runtime, if the seccomp filters of the target cannot be read, assume that they allow the calls; if they do not, the target may be killed'
complete -c flmem -n '__flmem_is detect' -l json -d 'print one JSON object'
complete -c flmem -n '__flmem_is detect' -l help -s h -d 'show this text'

complete -c flmem -n '__flmem_is trim' -l pid -s p -x -a '(__fish_complete_pids)' -d 'this process; may be given several times, or as a list with commas'
complete -c flmem -n '__flmem_is trim' -l name -x -d 'every process whose command line matches'
complete -c flmem -n '__flmem_is trim' -l all -s a -d 'every process that you may read'
complete -c flmem -n '__flmem_is trim' -l tree -x -a '(__fish_complete_pids)' -d 'this process and all its descendants'
complete -c flmem -n '__flmem_is trim' -l role -x -a 'server server-job client client-job trainer simulator-server simulator-client' -d 'of these, only those with this role; server and client stand for all their kinds'
complete -c flmem -n '__flmem_is trim' -l min-rss -s m -x -d 'of these, only those with at least this much resident memory'
complete -c flmem -n '__flmem_is trim' -l gc -d 'first run the garbage collector of the target\'s Python (CPython 3.8 to 3.14)'
complete -c flmem -n '__flmem_is trim' -l cuda -d 'then empty PyTorch\'s caches of CUDA device memory and of pinned host memory'
complete -c flmem -n '__flmem_is trim' -l full -d 'the same as --gc --cuda, but a process without a Python is no failure'
complete -c flmem -n '__flmem_is trim' -l python -r -F -d 'before all else run this Python code in the target, up to 64 KiB'
complete -c flmem -n '__flmem_is trim' -l dry-run -d 'say what would be called and on which thread, touch nothing'
complete -c flmem -n '__flmem_is trim' -l timeout -x -d 'wait this long for a safe moment, and again for the call (default 5s)'
complete -c flmem -n '__flmem_is trim' -l assume-seccomp -d 'if the seccomp filters of the target cannot be read, assume that they allow the calls of flmem and of finalisers; if they do not, the target may be killed'
complete -c flmem -n '__flmem_is trim' -l settle -x -d 'wait this long before RSS is read again (default 0)'
complete -c flmem -n '__flmem_is trim' -l every -x -d 'trim repeatedly at this interval; with --when, check the condition at this interval (default 5s)'
complete -c flmem -n '__flmem_is trim' -l when -x -d 'trim while this holds, for example \'rss > 8G and trimmable > 20%\' (see \'flmem help conditions\')'
complete -c flmem -n '__flmem_is trim' -l cool-down -x -d 'minimum time between two trims of a process (default 1m with --when)'
complete -c flmem -n '__flmem_is trim' -l count -x -d 'end after this many trims of each process'
complete -c flmem -n '__flmem_is trim' -l min-release -x -d 'a trim that releases less counts as ineffective (default 1MiB)'
complete -c flmem -n '__flmem_is trim' -l max-ineffective -x -d 'stop trimming a process after this many ineffective trims in a row; each one doubles the pause (default 3)'
complete -c flmem -n '__flmem_is trim' -l json -d 'print one JSON object'
complete -c flmem -n '__flmem_is trim' -l no-predict -d 'with --json or --dry-run: do not read the heap first to predict the release'
complete -c flmem -n '__flmem_is trim' -l help -s h -d 'show this text'

complete -c flmem -n '__flmem_is env' -l role -s r -x -a 'server client trainer' -d 'what the process does in the federation; needed'
complete -c flmem -n '__flmem_is env' -l parallelism -x -a 'normal high' -d 'high: a server with many clients at work at once gets 8 arenas'
complete -c flmem -n '__flmem_is env' -l allocator -s a -x -a 'glibc jemalloc auto' -d 'allocator to set up (default glibc); auto takes jemalloc where it is installed'
complete -c flmem -n '__flmem_is env' -l jemalloc-library -r -F -d 'jemalloc to preload, instead of the one that is found'
complete -c flmem -n '__flmem_is env' -l framework -s f -x -a 'nvflare appfl flower' -d 'whose variables to add (default nvflare)'
complete -c flmem -n '__flmem_is env' -l framework-version -x -d 'leave out what this version does not read (2.8, 2.9.0)'
complete -c flmem -n '__flmem_is env' -l gpu -d 'the client uses a GPU (default: this machine has one)'
complete -c flmem -n '__flmem_is env' -l no-gpu -d 'the client uses no GPU'
complete -c flmem -n '__flmem_is env' -l force -d 'replace values that are set already; without it they stand'
complete -c flmem -n '__flmem_is env' -l format -x -a 'sh fish csh dotenv systemd docker k8s json' -d 'who reads it (default sh)'
complete -c flmem -n '__flmem_is env' -l explain -d 'add reason and source of every line, what is left out, and the settings of the job that belong to it, as comments'
complete -c flmem -n '__flmem_is env' -l json -d 'the same as --format=json'
complete -c flmem -n '__flmem_is env' -l help -s h -d 'show this text'

set -g __flmem_valued_start --role -r --parallelism --allocator -a --jemalloc-library --framework -f --framework-version --workspace -w --wait --grace --emit -e --output -o --site --org --image
complete -c flmem -n '__flmem_before_line start' -l role -s r -x -a 'server client trainer' -d 'what the process does in the federation; needed'
complete -c flmem -n '__flmem_before_line start' -l parallelism -x -a 'normal high' -d 'high: a server with many clients at work at once gets 8 arenas'
complete -c flmem -n '__flmem_before_line start' -l allocator -s a -x -a 'glibc jemalloc auto' -d 'allocator to set up (default glibc); auto takes jemalloc where it is installed'
complete -c flmem -n '__flmem_before_line start' -l jemalloc-library -r -F -d 'jemalloc to preload, instead of the one that is found'
complete -c flmem -n '__flmem_before_line start' -l framework -s f -x -a 'nvflare appfl flower' -d 'whose variables to add (default nvflare)'
complete -c flmem -n '__flmem_before_line start' -l framework-version -x -d 'leave out what this version does not read (2.8, 2.9.0)'
complete -c flmem -n '__flmem_before_line start' -l gpu -d 'the client uses a GPU (default: this machine has one)'
complete -c flmem -n '__flmem_before_line start' -l no-gpu -d 'the client uses no GPU'
complete -c flmem -n '__flmem_before_line start' -l jemalloc -s j -d 'preload jemalloc, once a probe has shown that it loads: --allocator=jemalloc'
complete -c flmem -n '__flmem_before_line start' -l no-inherit-preload -d 'children of the command start without the preloaded jemalloc'
complete -c flmem -n '__flmem_before_line start' -l force -d 'replace values that are set already; without it they stand. With --output: replace the file'
complete -c flmem -n '__flmem_before_line start' -l dry-run -d 'prove, and print what would be started, as a shell script'
complete -c flmem -n '__flmem_before_line start' -l json -d 'with --dry-run: print one JSON object'
complete -c flmem -n '__flmem_before_line start' -l supervise -s s -d 'keep the command alive, by NVFlare\'s control files in the workspace: pid.fl, daemon_pid.fl, shutdown.fl, restart.fl'
complete -c flmem -n '__flmem_before_line start' -l workspace -s w -x -a '(__fish_complete_directories)' -d 'where the control files are; with --emit the job\'s directory'
complete -c flmem -n '__flmem_before_line start' -l wait -x -d 'time that the command has to end by itself, once its end is requested, before SIGTERM (default 10s when it runs NVFlare, which has no handler for SIGTERM, else 0)'
complete -c flmem -n '__flmem_before_line start' -l grace -x -d 'time from SIGTERM to SIGKILL (default 10s)'
complete -c flmem -n '__flmem_before_line start' -l emit -s e -x -a 'snippet sub_start systemd slurm pbs docker k8s' -d 'start nothing, print what starts this role elsewhere: the memory block of a start script, a whole one, a unit, a batch script, a compose service, a pod'
complete -c flmem -n '__flmem_before_line start' -l output -s o -r -F -d 'with --emit: write this file; one that exists is kept unless --force is given'
complete -c flmem -n '__flmem_before_line start' -l site -x -d 'with --emit: NVFlare name of the client (default site-1, in sub_start that of the kit\'s directory)'
complete -c flmem -n '__flmem_before_line start' -l org -x -d 'with --emit: NVFlare organisation'
complete -c flmem -n '__flmem_before_line start' -l image -x -d 'with --emit=docker and k8s: container image'
complete -c flmem -n '__flmem_before_line start' -l help -s h -d 'show this text'
complete -c flmem -n '__flmem_is start' -x -a '(__flmem_line start)'

complete -c flmem -n '__flmem_is watch' -l pid -s p -x -a '(__fish_complete_pids)' -d 'this process; may be given several times, or as a list with commas'
complete -c flmem -n '__flmem_is watch' -l name -x -d 'every process whose command line matches'
complete -c flmem -n '__flmem_is watch' -l all -s a -d 'every process that you may read'
complete -c flmem -n '__flmem_is watch' -l tree -x -a '(__fish_complete_pids)' -d 'this process and all its descendants'
complete -c flmem -n '__flmem_is watch' -l role -x -a 'server server-job client client-job trainer simulator-server simulator-client' -d 'of these, only those with this role; server and client stand for all their kinds'
complete -c flmem -n '__flmem_is watch' -l min-rss -s m -x -d 'of these, only those with at least this much resident memory'
complete -c flmem -n '__flmem_is watch' -l interval -s i -x -d 'take a sample this often (default 1s, at least 10ms)'
complete -c flmem -n '__flmem_is watch' -l duration -s d -x -d 'end after this long (default: when the processes have ended)'
complete -c flmem -n '__flmem_is watch' -l log -s l -r -F -d 'log of the job that tells of its rounds (NVFlare, also as JSON, APPFL, Flower); may be given several times; a process that writes one of several has its rounds from that one'
complete -c flmem -n '__flmem_is watch' -l rounds -x -d 'end after so many complete rounds of the log'
complete -c flmem -n '__flmem_is watch' -l round-regex -x -d 'a round starts at each line of the log that matches; the first group is its number'
complete -c flmem -n '__flmem_is watch' -l record -r -F -d 'append all samples and rounds to this recording'
complete -c flmem -n '__flmem_is watch' -l replay -r -F -d 'show a recording again, instead of live processes'
complete -c flmem -n '__flmem_is watch' -l listen -x -d 'serve metrics for Prometheus at http://ADDRESS:PORT/metrics; port 0 takes one that is free and says which'
complete -c flmem -n '__flmem_is watch' -l report -r -F -d 'at the end write one HTML page with figures of it all and what recommend finds, which needs nothing else'
complete -c flmem -n '__flmem_is watch' -l fail-above -x -d 'exit with status 1 when a process had more resident memory'
complete -c flmem -n '__flmem_is watch' -l fail-growth -x -d 'exit with status 1 when a process climbs faster, as 10MiB/round or 1GiB/h'
complete -c flmem -n '__flmem_is watch' -l auto -d 'return retained memory to the kernel: after each round on clients, each fifth round on servers, less often while memory is flat, at once under memory pressure'
complete -c flmem -n '__flmem_is watch' -l gc -d 'with --auto: also run the garbage collector of a process\'s Python'
complete -c flmem -n '__flmem_is watch' -l cuda -d 'with --auto: also empty PyTorch\'s caches of CUDA device memory and of pinned host memory'
complete -c flmem -n '__flmem_is watch' -l full -d 'the same as --gc --cuda'
complete -c flmem -n '__flmem_is watch' -l every-rounds -x -d 'with --auto: after every N rounds, whatever the role and trend'
complete -c flmem -n '__flmem_is watch' -l when -x -d 'with --auto: also whenever this holds (default \'trimmable > 20%\' where no round is known; see \'flmem help conditions\')'
complete -c flmem -n '__flmem_is watch' -l cool-down -x -d 'with --auto: minimum time between two trims of a process (default 1s) and between two checks of the condition (default 30s)'
complete -c flmem -n '__flmem_is watch' -l min-release -x -d 'with --auto: a trim that releases less counts as ineffective (default 1MiB)'
complete -c flmem -n '__flmem_is watch' -l max-ineffective -x -d 'with --auto: pause trims of a process after this many ineffective ones in a row, until it grows or memory is short (default 3)'
complete -c flmem -n '__flmem_is watch' -l assume-seccomp -d 'with --auto: if the seccomp filters of a target cannot be read, assume that they allow the calls; if they do not, the target may be killed'
complete -c flmem -n '__flmem_is watch' -l timeout -x -d 'with --auto: wait at most this long for a safe moment (default 2s); sampling continues meanwhile'
complete -c flmem -n '__flmem_is watch' -l quiet -s q -d 'print the summary only'
complete -c flmem -n '__flmem_is watch' -l json -d 'print one JSON object per line, the summary last'
complete -c flmem -n '__flmem_is watch' -l help -s h -d 'show this text'

complete -c flmem -n '__flmem_is recommend' -l pid -s p -x -a '(__fish_complete_pids)' -d 'this process; may be given several times, or as a list with commas'
complete -c flmem -n '__flmem_is recommend' -l name -x -d 'every process whose command line matches'
complete -c flmem -n '__flmem_is recommend' -l all -s a -d 'every process that you may read'
complete -c flmem -n '__flmem_is recommend' -l tree -x -a '(__fish_complete_pids)' -d 'this process and all its descendants'
complete -c flmem -n '__flmem_is recommend' -l fail-on -x -a 'error warning info' -d 'exit with status 1 when there is a finding as bad as this, or worse (default: findings do not count)'
complete -c flmem -n '__flmem_is recommend' -l framework-version -x -d 'version of the framework that will run it (2.8, 2.9.0); without it, rules that need to know the version are left out'
complete -c flmem -n '__flmem_is recommend' -l format -x -a 'text json sarif github junit' -d 'form of the findings (default text): SARIF 2.1.0 for code scanning, annotations of a GitHub workflow, or JUnit\'s XML'
complete -c flmem -n '__flmem_is recommend' -l role -s r -x -a 'server client trainer' -d 'without paths: print what this role should be set to; with --troubleshoot: take this role\'s list'
complete -c flmem -n '__flmem_is recommend' -l model -r -F -d 'plan for this model: a .safetensors file or a PyTorch checkpoint, a folder of them, or llama-3.1-8b, -70b, -405b, llama-3.2-1b, -3b'
complete -c flmem -n '__flmem_is recommend' -l params -x -d 'plan for a model of so many parameters: 350M, 8B, 1.5B, all decimal'
complete -c flmem -n '__flmem_is recommend' -l dtype -x -d 'type of its numbers: fp32, fp16, bf16, fp8-e4m3, int8 and others (default: the model\'s own, fp32 with --params)'
complete -c flmem -n '__flmem_is recommend' -l clients -x -d 'clients that take part in a round of the plan'
complete -c flmem -n '__flmem_is recommend' -l framework -s f -x -a 'nvflare appfl flower' -d 'what the plan, or the role, is for (default nvflare)'
complete -c flmem -n '__flmem_is recommend' -l node-memory -x -d 'memory of the smallest node; the plan uses nine tenths of it'
complete -c flmem -n '__flmem_is recommend' -l optimizer -x -a 'none sgd momentum adam' -d 'what a client that trains in host memory keeps besides the model and the gradients (default none: training is not counted, as on a GPU)'
complete -c flmem -n '__flmem_is recommend' -l troubleshoot -d 'walk the guide\'s list for high memory of a server, of a client, or for OOM errors: what is done of each step, for processes, recordings and the kernel\'s log of a kill'
complete -c flmem -n '__flmem_is recommend' -l diff -d 'print what --fix would change, as a difference that patch takes, and change nothing'
complete -c flmem -n '__flmem_is recommend' -l fix -d 'write the proposed values that need no decision, keep each old file as FILE.orig, and print what is left to do'
complete -c flmem -n '__flmem_is recommend' -l json -d 'the same as --format=json'
complete -c flmem -n '__flmem_is recommend' -l help -s h -d 'show this text'
complete -c flmem -n '__flmem_is recommend' -F

complete -c flmem -n '__flmem_is help' -l help -s h -d 'show this text'
complete -c flmem -n '__flmem_is help' -a detect -d 'tells the allocators, memory, settings and roles of live processes, and a verdict'
complete -c flmem -n '__flmem_is help' -a trim -d 'gives retained memory of live processes back'
complete -c flmem -n '__flmem_is help' -a env -d 'memory settings for a role, printed for a shell or another launcher'
complete -c flmem -n '__flmem_is help' -a start -d 'runs a command with the settings of its role, and proves them'
complete -c flmem -n '__flmem_is help' -a watch -d 'follows processes over time and by round: trend and forecast'
complete -c flmem -n '__flmem_is help' -a recommend -d 'findings about the memory settings of jobs, with what to write instead'
complete -c flmem -n '__flmem_is help' -a help -d 'explains a command, or the exit codes'
complete -c flmem -n '__flmem_is help' -a exit-codes -d 'the exit status of every command'
complete -c flmem -n '__flmem_is help' -a conditions -d 'what \'flmem trim --when\' takes'
