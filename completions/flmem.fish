# SPDX-License-Identifier: Apache-2.0
# Generated from the option tables by 'make generate'.

# True when the given command (none: no command yet) is being completed. $__flmem_verbs lists
# the commands of two words.
function __flmem_is
	set -l words (commandline -opc)
	set -e words[1]
	if test (count $argv) -eq 0
		test (count $words) -eq 0
	else if contains -- "$words[1..2]" $__flmem_verbs
		test "$words[1..2]" = "$argv"
	else
		test "$words[1]" = "$argv"
	end
end

# True directly after the given words.
function __flmem_after
	set -l words (commandline -opc)
	set -e words[1]
	test "$words" = "$argv"
end

# Prints the index of the first word of the command line, one past the last word if it has
# not begun. $__flmem_valued_COMMAND lists the options whose value is the next word.
function __flmem_line_begin
	set -l words (commandline -opc)
	set -l valued __flmem_valued_(string join _ $argv)
	set -l at (math 2 + (count $argv))
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

# True while options of flmem may follow.
function __flmem_before_line
	__flmem_is $argv; or return
	set -l words (commandline -opc)
	test (__flmem_line_begin $argv) -gt (count $words); and not contains -- -- $words
end

function __flmem_line
	set -l words (commandline -opc)
	set -l begin (__flmem_line_begin $argv)
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
set -g __flmem_verbs 'profile run' 'profile attach' 'profile detach' 'profile round' 'profile stats' 'profile summary' 'profile table' 'profile tree' 'profile leaks' 'profile flamegraph' 'profile diff' 'profile analyze' 'profile export' 'aggregate inspect' 'aggregate diff' 'aggregate convert' 'aggregate generate' 'exchange serve' 'exchange push' 'exchange pull' 'exchange status' 'exchange wait'
complete -c flmem -n '__flmem_is' -a detect -d 'reports the allocators, memory, settings and roles of live processes, and a verdict'
complete -c flmem -n '__flmem_is' -a trim -d 'returns retained memory of live processes to the kernel'
complete -c flmem -n '__flmem_is' -a env -d 'prints the memory settings of a role for a shell or another launcher'
complete -c flmem -n '__flmem_is' -a start -d 'runs a command with the settings of its role and verifies them'
complete -c flmem -n '__flmem_is' -a watch -d 'watches memory over time and by round: trend and forecast'
complete -c flmem -n '__flmem_is' -a recommend -d 'checks the memory settings of jobs and proposes values'
complete -c flmem -n '__flmem_is' -a profile -d 'samples the heap of a process with Python and native stacks'
complete -c flmem -n '__flmem_is' -a aggregate -d 'averages models on disk in memory that does not grow with the model'
complete -c flmem -n '__flmem_is' -a exchange -d 'moves models in chunks between a server and its clients'
complete -c flmem -n '__flmem_is' -a help -d 'explains a command or a topic'
complete -c flmem -n '__flmem_is' -l help -s h -d 'list the commands'
complete -c flmem -n '__flmem_is' -l version -s V -d 'print the version; with --json also how it was built'

complete -c flmem -n '__flmem_is detect' -l pid -s p -x -a '(__fish_complete_pids)' -d 'this process; may be repeated, or a comma-separated list of PIDs'
complete -c flmem -n '__flmem_is detect' -l name -x -d 'all processes whose command line matches this regular expression'
complete -c flmem -n '__flmem_is detect' -l all -s a -d 'all processes that this user may read'
complete -c flmem -n '__flmem_is detect' -l tree -x -a '(__fish_complete_pids)' -d 'this process and its descendants'
complete -c flmem -n '__flmem_is detect' -l role -x -a 'server server-job client client-job trainer simulator-server simulator-client' -d 'of the selected processes, only those with this role; \'server\' and \'client\' include their variants'
complete -c flmem -n '__flmem_is detect' -l min-rss -s m -x -d 'of the selected processes, only those with at least this much resident memory (RSS)'
complete -c flmem -n '__flmem_is detect' -l no-heap -d 'skip the heap analysis; no verdict is given'
complete -c flmem -n '__flmem_is detect' -l budget -x -d 'time limit for reading the heap of one process (default 1s; 2s in total with --name, --all and --tree)'
complete -c flmem -n '__flmem_is detect' -l ask-runtime -d 'also query allocators and PyTorch for figures that cannot be read from outside; borrows a thread for well under a millisecond'
complete -c flmem -n '__flmem_is detect' -l timeout -x -d 'with --ask-runtime: wait at most this long for a thread to borrow (default 2s)'
complete -c flmem -n '__flmem_is detect' -l assume-seccomp -d 'with --ask-runtime: if the seccomp filters of the target cannot be read, assume that they allow the calls; if they do not, the kernel may kill the target'
complete -c flmem -n '__flmem_is detect' -l json -d 'print one JSON object'
complete -c flmem -n '__flmem_is detect' -l help -s h -d 'print this help'

complete -c flmem -n '__flmem_is trim' -l pid -s p -x -a '(__fish_complete_pids)' -d 'this process; may be repeated, or a comma-separated list of PIDs'
complete -c flmem -n '__flmem_is trim' -l name -x -d 'all processes whose command line matches this regular expression'
complete -c flmem -n '__flmem_is trim' -l all -s a -d 'all processes that this user may read'
complete -c flmem -n '__flmem_is trim' -l tree -x -a '(__fish_complete_pids)' -d 'this process and its descendants'
complete -c flmem -n '__flmem_is trim' -l role -x -a 'server server-job client client-job trainer simulator-server simulator-client' -d 'of the selected processes, only those with this role; \'server\' and \'client\' include their variants'
complete -c flmem -n '__flmem_is trim' -l min-rss -s m -x -d 'of the selected processes, only those with at least this much resident memory (RSS)'
complete -c flmem -n '__flmem_is trim' -l gc -d 'run Python\'s garbage collector in the target first (CPython 3.8 to 3.15)'
complete -c flmem -n '__flmem_is trim' -l cuda -d 'also empty PyTorch\'s and CuPy\'s caches of CUDA device memory and pinned host memory, and CUDA\'s own pools'
complete -c flmem -n '__flmem_is trim' -l full -d 'same as --gc --cuda, but skip these steps in a process without Python'
complete -c flmem -n '__flmem_is trim' -l python -r -F -d 'first run the Python code in this file (at most 64 KiB) in the target'
complete -c flmem -n '__flmem_is trim' -l dry-run -d 'check everything, print the calls and the thread that would make them; change nothing (may stop that thread for less than 1 ms)'
complete -c flmem -n '__flmem_is trim' -l timeout -x -d 'time limit for finding a safe moment, and again for the calls (default 5s)'
complete -c flmem -n '__flmem_is trim' -l assume-seccomp -d 'if the seccomp filters of the target cannot be read, assume that they allow the calls of flmem and of finalisers; if they do not, the kernel may kill the target'
complete -c flmem -n '__flmem_is trim' -l settle -x -d 'wait this long before RSS is read again after the trim (default 0)'
complete -c flmem -n '__flmem_is trim' -l every -x -d 'trim repeatedly at this interval; with --when, check the condition at this interval (default 5s)'
complete -c flmem -n '__flmem_is trim' -l when -x -d 'trim whenever this condition holds, for example \'rss > 8G and trimmable > 20%\' (see \'flmem help conditions\')'
complete -c flmem -n '__flmem_is trim' -l cool-down -x -d 'minimum time between two trims of a process (default 1m with --when)'
complete -c flmem -n '__flmem_is trim' -l count -x -d 'with --every or --when: end after this many trims of each process'
complete -c flmem -n '__flmem_is trim' -l min-release -x -d 'with --every or --when: a trim that releases less counts as ineffective (default 1MiB)'
complete -c flmem -n '__flmem_is trim' -l max-ineffective -x -d 'stop trimming a process after this many ineffective trims in a row; each one doubles the pause (default 3)'
complete -c flmem -n '__flmem_is trim' -l json -d 'print one JSON object; with --every or --when one line of JSON for each event'
complete -c flmem -n '__flmem_is trim' -l no-predict -d 'with --json or --dry-run: skip the heap analysis that predicts how much memory the trim will release'
complete -c flmem -n '__flmem_is trim' -l help -s h -d 'print this help'

complete -c flmem -n '__flmem_is env' -l role -s r -x -a 'server client trainer' -d 'role of the process in the federation (required)'
complete -c flmem -n '__flmem_is env' -l parallelism -x -a 'normal high' -d 'for a server: normal sets 4 malloc arenas (default); high sets 8, for a server that works on many clients at once'
complete -c flmem -n '__flmem_is env' -l allocator -s a -x -a 'glibc jemalloc auto' -d 'allocator whose settings are printed or set (default glibc); auto selects jemalloc if it is installed'
complete -c flmem -n '__flmem_is env' -l jemalloc-library -r -F -d 'jemalloc library to preload (default: the installed one)'
complete -c flmem -n '__flmem_is env' -l framework -s f -x -a 'nvflare appfl flower' -d 'framework whose variables are added (default nvflare)'
complete -c flmem -n '__flmem_is env' -l framework-version -x -d 'version of the framework that will run, for example 2.8 or 2.9.0: omit settings that it does not read'
complete -c flmem -n '__flmem_is env' -l job -r -F -d 'folder of the NVFlare job that will run: if its external trainers have no memory_gc_rounds, add the variables for them (such variables override the job\'s values, so they are omitted without --job)'
complete -c flmem -n '__flmem_is env' -l gpu -d 'the client uses a GPU (default: if this machine has one)'
complete -c flmem -n '__flmem_is env' -l no-gpu -d 'the client uses no GPU'
complete -c flmem -n '__flmem_is env' -l force -d 'replace values that are already set (default: keep them)'
complete -c flmem -n '__flmem_is env' -l format -x -a 'sh fish csh dotenv systemd docker k8s nvflare-docker nvflare-slurm json' -d 'output format (default sh)'
complete -c flmem -n '__flmem_is env' -l explain -d 'add comments: reason and source of every line, omitted settings, and the related settings of the job'
complete -c flmem -n '__flmem_is env' -l json -d 'the same as --format=json'
complete -c flmem -n '__flmem_is env' -l help -s h -d 'print this help'

set -g __flmem_valued_start --role -r --parallelism --allocator -a --jemalloc-library --framework -f --framework-version --job --workspace -w --wait --grace --emit -e --output -o --site --org --image --command --tasks
complete -c flmem -n '__flmem_before_line start' -l role -s r -x -a 'server client trainer' -d 'role of the process in the federation (required)'
complete -c flmem -n '__flmem_before_line start' -l parallelism -x -a 'normal high' -d 'for a server: normal sets 4 malloc arenas (default); high sets 8, for a server that works on many clients at once'
complete -c flmem -n '__flmem_before_line start' -l allocator -s a -x -a 'glibc jemalloc auto' -d 'allocator whose settings are printed or set (default glibc); auto selects jemalloc if it is installed'
complete -c flmem -n '__flmem_before_line start' -l jemalloc-library -r -F -d 'jemalloc library to preload (default: the installed one)'
complete -c flmem -n '__flmem_before_line start' -l framework -s f -x -a 'nvflare appfl flower' -d 'framework whose variables are added (default nvflare)'
complete -c flmem -n '__flmem_before_line start' -l framework-version -x -d 'version of the framework that will run, for example 2.8 or 2.9.0: omit settings that it does not read'
complete -c flmem -n '__flmem_before_line start' -l job -r -F -d 'folder of the NVFlare job that will run: if its external trainers have no memory_gc_rounds, add the variables for them (such variables override the job\'s values, so they are omitted without --job)'
complete -c flmem -n '__flmem_before_line start' -l gpu -d 'the client uses a GPU (default: if this machine has one)'
complete -c flmem -n '__flmem_before_line start' -l no-gpu -d 'the client uses no GPU'
complete -c flmem -n '__flmem_before_line start' -l jemalloc -s j -d 'preload jemalloc after a probe has shown that it loads; same as --allocator=jemalloc'
complete -c flmem -n '__flmem_before_line start' -l no-inherit-preload -d 'start children of the command without the preloaded jemalloc'
complete -c flmem -n '__flmem_before_line start' -l profile-ready -d 'preload the sampler of \'flmem profile\', inactive until \'flmem profile attach\', which then need not load it'
complete -c flmem -n '__flmem_before_line start' -l profile-socket -d 'as --profile-ready, and give each program that the command executes a socket and one thread more: \'flmem profile attach\' then need not trace it. Only the same user and root may use the socket'
complete -c flmem -n '__flmem_before_line start' -l assume-seccomp -d 'with --profile-socket: create the socket also under seccomp filters, as in containers; if they do not allow it, the kernel may kill the command'
complete -c flmem -n '__flmem_before_line start' -l force -d 'replace values that are already set (default: keep them); with --output: replace an existing file'
complete -c flmem -n '__flmem_before_line start' -l dry-run -d 'do not start the command: run the probe of jemalloc, and print the start as a shell script'
complete -c flmem -n '__flmem_before_line start' -l json -d 'with --dry-run: print one JSON object'
complete -c flmem -n '__flmem_before_line start' -l supervise -s s -d 'restart the command when it ends, and obey NVFlare\'s control files in --workspace: pid.fl, daemon_pid.fl, shutdown.fl, restart.fl'
complete -c flmem -n '__flmem_before_line start' -l workspace -s w -x -a '(__fish_complete_directories)' -d 'with --supervise: directory of the control files; with --emit: directory of the job'
complete -c flmem -n '__flmem_before_line start' -l wait -x -d 'with --supervise: time between a stop request and SIGTERM, for the command to exit by itself (default 10s if it runs NVFlare, which has no handler for SIGTERM, else 0)'
complete -c flmem -n '__flmem_before_line start' -l grace -x -d 'with --supervise: time between SIGTERM and SIGKILL (default 10s)'
complete -c flmem -n '__flmem_before_line start' -l emit -s e -x -a 'snippet sub_start systemd slurm pbs docker k8s' -d 'start nothing; print a file that starts this role elsewhere: the memory block of a start script, a whole start script of NVFlare, a systemd unit, a batch script, a Compose service, a Kubernetes pod'
complete -c flmem -n '__flmem_before_line start' -l output -s o -r -F -d 'with --emit: write this file; an existing file is kept unless --force is given'
complete -c flmem -n '__flmem_before_line start' -l site -x -d 'with --emit: NVFlare name of the client (default site-1; sub_start: name of the kit\'s directory)'
complete -c flmem -n '__flmem_before_line start' -l org -x -d 'with --emit: NVFlare organisation'
complete -c flmem -n '__flmem_before_line start' -l image -x -d 'with --emit=docker or k8s: container image'
complete -c flmem -n '__flmem_before_line start' -l command -x -a 'aggregate' -d 'with --emit: the command is \'flmem aggregate\' with the arguments after --'
complete -c flmem -n '__flmem_before_line start' -l tasks -x -d 'with --emit=slurm or pbs: start the command in N processes of an MPI job; with --command=aggregate they share the work (default 1)'
complete -c flmem -n '__flmem_before_line start' -l help -s h -d 'print this help'
complete -c flmem -n '__flmem_is start' -x -a '(__flmem_line start)'

complete -c flmem -n '__flmem_is watch' -l pid -s p -x -a '(__fish_complete_pids)' -d 'this process; may be repeated, or a comma-separated list of PIDs'
complete -c flmem -n '__flmem_is watch' -l name -x -d 'all processes whose command line matches this regular expression'
complete -c flmem -n '__flmem_is watch' -l all -s a -d 'all processes that this user may read'
complete -c flmem -n '__flmem_is watch' -l tree -x -a '(__fish_complete_pids)' -d 'this process and its descendants'
complete -c flmem -n '__flmem_is watch' -l role -x -a 'server server-job client client-job trainer simulator-server simulator-client' -d 'of the selected processes, only those with this role; \'server\' and \'client\' include their variants'
complete -c flmem -n '__flmem_is watch' -l min-rss -s m -x -d 'of the selected processes, only those with at least this much resident memory (RSS)'
complete -c flmem -n '__flmem_is watch' -l interval -s i -x -d 'sampling interval (default 1s, at least 10ms)'
complete -c flmem -n '__flmem_is watch' -l duration -s d -x -d 'stop after this time (default: when the processes have exited)'
complete -c flmem -n '__flmem_is watch' -l log -s l -r -F -d 'log file of the job, in which the rounds are found: of NVFlare (text or JSON), APPFL or Flower; may be repeated: a process that writes to one of several logs uses the rounds of that log'
complete -c flmem -n '__flmem_is watch' -l rounds -x -d 'stop after this many complete rounds in the log'
complete -c flmem -n '__flmem_is watch' -l round-regex -x -d 'for other logs: a line that matches starts a round; the first group is the round number'
complete -c flmem -n '__flmem_is watch' -l record -r -F -d 'append all samples and rounds to this file, for --replay and flmem recommend'
complete -c flmem -n '__flmem_is watch' -l replay -r -F -d 'replay a recording instead of watching live processes'
complete -c flmem -n '__flmem_is watch' -l listen -x -d 'serve metrics for Prometheus at http://ADDRESS:PORT/metrics; port 0 selects a free port and prints it'
complete -c flmem -n '__flmem_is watch' -l report -r -F -d 'write a self-contained HTML page at the end, with the figures and the findings of \'flmem recommend\'; \'-\' is standard output'
complete -c flmem -n '__flmem_is watch' -l profile -r -F -d 'with --report: add this heap profile of \'flmem profile\' to the page, which then shows which code holds the memory; may be repeated'
complete -c flmem -n '__flmem_is watch' -l fail-above -x -d 'exit with status 1 if the RSS of a process exceeded this size'
complete -c flmem -n '__flmem_is watch' -l fail-growth -x -d 'exit with status 1 if the memory of a process grew faster, for example 10MiB/round or 1GiB/h; with status 9 if the watch was too short to decide that'
complete -c flmem -n '__flmem_is watch' -l auto -d 'also trim: return retained memory to the kernel after each round on clients, after each fifth round on servers, less often while memory is flat, and at once under memory pressure'
complete -c flmem -n '__flmem_is watch' -l gc -d 'with --auto: also run Python\'s garbage collector in processes that use Python'
complete -c flmem -n '__flmem_is watch' -l cuda -d 'with --auto: also empty PyTorch\'s and CuPy\'s caches of CUDA device memory and pinned host memory, and CUDA\'s own pools'
complete -c flmem -n '__flmem_is watch' -l full -d 'the same as --gc --cuda'
complete -c flmem -n '__flmem_is watch' -l every-rounds -x -d 'with --auto: after every N rounds, whatever the role and trend'
complete -c flmem -n '__flmem_is watch' -l when -x -d 'with --auto: also whenever this holds (default \'trimmable > 20%\' where no round is known; see \'flmem help conditions\')'
complete -c flmem -n '__flmem_is watch' -l cool-down -x -d 'with --auto: minimum time between two trims of a process (default 1s) and between two checks of the condition (default 30s)'
complete -c flmem -n '__flmem_is watch' -l min-release -x -d 'with --auto: a trim that releases less counts as ineffective (default 1MiB)'
complete -c flmem -n '__flmem_is watch' -l max-ineffective -x -d 'with --auto: pause trims of a process after this many ineffective ones in a row, until it grows or memory is short (default 3)'
complete -c flmem -n '__flmem_is watch' -l assume-seccomp -d 'with --auto: if the seccomp filters of a target cannot be read, assume that they allow the calls; if they do not, the kernel may kill the target'
complete -c flmem -n '__flmem_is watch' -l timeout -x -d 'with --auto: wait at most this long for a safe moment (default 2s); sampling continues meanwhile'
complete -c flmem -n '__flmem_is watch' -l exact-peaks -d 'with --log: use the kernel\'s own peak of each round instead of the highest sample; this resets the peak that the processes themselves see (VmHWM, ru_maxrss)'
complete -c flmem -n '__flmem_is watch' -l wait -d 'with --name or --all: wait until a process matches'
complete -c flmem -n '__flmem_is watch' -l quiet -s q -d 'print the summary only'
complete -c flmem -n '__flmem_is watch' -l json -d 'print one JSON object per line, the summary last'
complete -c flmem -n '__flmem_is watch' -l help -s h -d 'print this help'

complete -c flmem -n '__flmem_is recommend' -l pid -s p -x -a '(__fish_complete_pids)' -d 'this process; may be repeated, or a comma-separated list of PIDs'
complete -c flmem -n '__flmem_is recommend' -l name -x -d 'all processes whose command line matches this regular expression'
complete -c flmem -n '__flmem_is recommend' -l all -s a -d 'all processes that this user may read'
complete -c flmem -n '__flmem_is recommend' -l tree -x -a '(__fish_complete_pids)' -d 'this process and its descendants'
complete -c flmem -n '__flmem_is recommend' -l fail-on -x -a 'error warning info' -d 'exit with status 1 for a finding of this severity or worse (default: findings do not change the status)'
complete -c flmem -n '__flmem_is recommend' -l framework-version -x -d 'version of the framework that runs the job (2.8, 2.9.0); without it, findings name the versions that they apply to'
complete -c flmem -n '__flmem_is recommend' -l format -x -a 'text json sarif github junit' -d 'format of the findings (default text): SARIF 2.1.0 for code scanning, GitHub workflow annotations, or JUnit XML'
complete -c flmem -n '__flmem_is recommend' -l role -s r -x -a 'server client trainer' -d 'without paths: print the recommended settings of this role; with --troubleshoot: use the list of this role'
complete -c flmem -n '__flmem_is recommend' -l model -r -F -d 'plan for this model: a .safetensors file, a PyTorch checkpoint, a folder of either, or llama-3.1-8b, -70b, -405b, llama-3.2-1b, -3b'
complete -c flmem -n '__flmem_is recommend' -l params -x -d 'plan for a model with this many parameters: 350M, 8B, 1.5B (decimal)'
complete -c flmem -n '__flmem_is recommend' -l dtype -x -d 'data type of the parameters: fp32, fp16, bf16, fp8-e4m3, int8 and others (default: that of the model, fp32 with --params)'
complete -c flmem -n '__flmem_is recommend' -l clients -x -d 'with a plan (--model or --params): number of clients per round'
complete -c flmem -n '__flmem_is recommend' -l framework -s f -x -a 'nvflare appfl flower' -d 'framework of the plan or of the role (default nvflare)'
complete -c flmem -n '__flmem_is recommend' -l node-memory -x -d 'with a plan: memory of the smallest node; the plan uses 90 % of it'
complete -c flmem -n '__flmem_is recommend' -l simulator -x -d 'the plan is for a simulator on one node that runs N clients at once (NVFlare: --threads; Flower: concurrent ClientApps)'
complete -c flmem -n '__flmem_is recommend' -l optimizer -x -a 'none sgd momentum adam' -d 'optimizer of clients that train in host memory (default none: training is not counted, as on a GPU)'
complete -c flmem -n '__flmem_is recommend' -l filter -x -d 'plan for clients that filter their results: percentile, svt or float16 of NVFlare, clipping or local-dp of Flower'
complete -c flmem -n '__flmem_is recommend' -l troubleshoot -d 'go through NVFlare\'s troubleshooting list for high memory of a server or client, or for OOM errors, and report the state of each step, for processes, recordings, the kernel\'s log of a kill, and a job\'s log with CUDA out of memory'
complete -c flmem -n '__flmem_is recommend' -l diff -d 'print the changes of --fix as a patch, write nothing'
complete -c flmem -n '__flmem_is recommend' -l fix -d 'write the proposed values that need no decision, keep each old file as FILE.orig, and print the remaining findings'
complete -c flmem -n '__flmem_is recommend' -l json -d 'the same as --format=json'
complete -c flmem -n '__flmem_is recommend' -l help -s h -d 'print this help'
complete -c flmem -n '__flmem_is recommend' -F

complete -c flmem -n '__flmem_is profile' -l help -s h -d 'print this help'
complete -c flmem -n '__flmem_after profile' -a run -d 'runs a command and samples its heap'
complete -c flmem -n '__flmem_after profile' -a attach -d 'starts to sample the heap of a running Python process'
complete -c flmem -n '__flmem_after profile' -a detach -d 'ends the sampling of a running process'
complete -c flmem -n '__flmem_after profile' -a round -d 'announces the round to a profile of a running process'
complete -c flmem -n '__flmem_after profile' -a stats -d 'shows the totals of a heap profile and its largest lines of code'
complete -c flmem -n '__flmem_after profile' -a summary -d 'shows functions by what they and their callees allocated'
complete -c flmem -n '__flmem_after profile' -a table -d 'lists the lines of code that allocated, with all measures'
complete -c flmem -n '__flmem_after profile' -a tree -d 'shows the largest stacks as a tree, callers first'
complete -c flmem -n '__flmem_after profile' -a leaks -d 'finds the stacks whose live bytes keep growing'
complete -c flmem -n '__flmem_after profile' -a flamegraph -d 'draws a heap profile as a page with a flame graph'
complete -c flmem -n '__flmem_after profile' -a diff -d 'compares two heap profiles function by function'
complete -c flmem -n '__flmem_after profile' -a analyze -d 'compares all heap profiles of a folder'
complete -c flmem -n '__flmem_after profile' -a export -d 'converts a heap profile for other tools'

set -g __flmem_valued_profile_run --output -o --interval -i --limit
complete -c flmem -n '__flmem_before_line profile run' -l output -s o -r -F -d 'the profile to write (required)'
complete -c flmem -n '__flmem_before_line profile run' -l interval -s i -x -d 'average number of bytes allocated between samples (default 512KiB, and up to 8MiB while samples would take much time); smaller is more exact and costs more'
complete -c flmem -n '__flmem_before_line profile run' -l limit -x -d 'size of the profile, from 1MiB to 4GiB, allocated at the start (default 64MiB)'
complete -c flmem -n '__flmem_before_line profile run' -l native -s n -d 'record the native frames inside and between Python frames, too, as far as the code has unwind tables (on x86-64) or frame pointers'
complete -c flmem -n '__flmem_before_line profile run' -l python-allocators -d 'sample Python\'s small objects individually: sets PYTHONMALLOC=malloc, which makes Python slower (default: sample its arenas of 256 KiB or 1 MiB)'
complete -c flmem -n '__flmem_before_line profile run' -l follow-children -d 'sample child processes, too, each in its own FILE.PID (default: only the process that is started)'
complete -c flmem -n '__flmem_before_line profile run' -l force -s f -d 'replace an existing file'
complete -c flmem -n '__flmem_before_line profile run' -l help -s h -d 'print this help'
complete -c flmem -n '__flmem_is profile run' -x -a '(__flmem_line profile run)'

complete -c flmem -n '__flmem_is profile attach' -l pid -s p -x -a '(__fish_complete_pids)' -d 'the process (required)'
complete -c flmem -n '__flmem_is profile attach' -l engine -x -a 'sampler jemalloc' -d 'the sampler to use: that of flmem (default), or the process\'s own jemalloc, if it was started with MALLOC_CONF=prof:true,prof_active:false'
complete -c flmem -n '__flmem_is profile attach' -l output -s o -r -F -d 'the profile to write (required, except with --engine jemalloc), where the process may create files; in a container /proc/PID/root/tmp/NAME'
complete -c flmem -n '__flmem_is profile attach' -l interval -s i -x -d 'average number of bytes allocated between samples (default 512KiB, and up to 8MiB while samples would take much time)'
complete -c flmem -n '__flmem_is profile attach' -l limit -x -d 'size of the profile, from 1MiB to 4GiB, allocated at the start (default 64MiB)'
complete -c flmem -n '__flmem_is profile attach' -l native -s n -d 'record the native frames inside and between Python frames, too, as far as the code has unwind tables (on x86-64) or frame pointers'
complete -c flmem -n '__flmem_is profile attach' -l force -s f -d 'replace an existing file'
complete -c flmem -n '__flmem_is profile attach' -l dry-run -d 'check everything, print the thread that would be borrowed; change nothing'
complete -c flmem -n '__flmem_is profile attach' -l timeout -x -d 'time limit for finding a safe moment, and again for the code (default 5s)'
complete -c flmem -n '__flmem_is profile attach' -l assume-seccomp -d 'if the seccomp filters of the target cannot be read, assume that they allow the calls of flmem; if they do not, the kernel may kill the target'
complete -c flmem -n '__flmem_is profile attach' -l json -d 'print one JSON object'
complete -c flmem -n '__flmem_is profile attach' -l help -s h -d 'print this help'

complete -c flmem -n '__flmem_is profile detach' -l pid -s p -x -a '(__fish_complete_pids)' -d 'the process (required)'
complete -c flmem -n '__flmem_is profile detach' -l engine -x -a 'sampler jemalloc' -d 'the sampler, as given to \'flmem profile attach\' (default sampler)'
complete -c flmem -n '__flmem_is profile detach' -l output -s o -r -F -d 'with --engine jemalloc: the dump to write first, where the process may create files; in a container /proc/PID/root/tmp/NAME'
complete -c flmem -n '__flmem_is profile detach' -l force -s f -d 'replace an existing file'
complete -c flmem -n '__flmem_is profile detach' -l dry-run -d 'check everything, print the thread that would be borrowed; change nothing'
complete -c flmem -n '__flmem_is profile detach' -l timeout -x -d 'time limit for finding a safe moment, and again for the code (default 5s)'
complete -c flmem -n '__flmem_is profile detach' -l assume-seccomp -d 'if the seccomp filters of the target cannot be read, assume that they allow the calls of flmem; if they do not, the kernel may kill the target'
complete -c flmem -n '__flmem_is profile detach' -l json -d 'print one JSON object'
complete -c flmem -n '__flmem_is profile detach' -l help -s h -d 'print this help'

complete -c flmem -n '__flmem_is profile round' -l help -s h -d 'print this help'
complete -c flmem -n '__flmem_is profile round' -F

complete -c flmem -n '__flmem_is profile stats' -l by -s b -x -a 'live peak allocated freed' -d 'measure: bytes that are live at the end, that were live at the peak of the process, or that were allocated or freed in total (default peak; with --round allocated, for a dump of jemalloc live)'
complete -c flmem -n '__flmem_is profile stats' -l stack -s s -x -a 'mixed python native' -d 'frames to include: all, Python only or native only (default: Python if the file has such frames, else native; for flame graphs and exports all)'
complete -c flmem -n '__flmem_is profile stats' -l import-frames -d 'keep the frames of Python\'s import system (importlib) between a line that imports and the module'
complete -c flmem -n '__flmem_is profile stats' -l round -s r -x -d 'only rounds A to B: bytes that were allocated and freed during them, and the allocated bytes that are still live; a single number selects one round'
complete -c flmem -n '__flmem_is profile stats' -l limit -s n -x -d 'show at most this many of the largest lines of code (default 5)'
complete -c flmem -n '__flmem_is profile stats' -l json -d 'print one JSON object'
complete -c flmem -n '__flmem_is profile stats' -l help -s h -d 'print this help'
complete -c flmem -n '__flmem_is profile stats' -F

complete -c flmem -n '__flmem_is profile summary' -l by -s b -x -a 'live peak allocated freed' -d 'measure: bytes that are live at the end, that were live at the peak of the process, or that were allocated or freed in total (default peak; with --round allocated, for a dump of jemalloc live)'
complete -c flmem -n '__flmem_is profile summary' -l stack -s s -x -a 'mixed python native' -d 'frames to include: all, Python only or native only (default: Python if the file has such frames, else native; for flame graphs and exports all)'
complete -c flmem -n '__flmem_is profile summary' -l import-frames -d 'keep the frames of Python\'s import system (importlib) between a line that imports and the module'
complete -c flmem -n '__flmem_is profile summary' -l round -s r -x -d 'only rounds A to B: bytes that were allocated and freed during them, and the allocated bytes that are still live; a single number selects one round'
complete -c flmem -n '__flmem_is profile summary' -l limit -s n -x -d 'show at most this many functions (default 30)'
complete -c flmem -n '__flmem_is profile summary' -l json -d 'print one JSON object'
complete -c flmem -n '__flmem_is profile summary' -l help -s h -d 'print this help'
complete -c flmem -n '__flmem_is profile summary' -F

complete -c flmem -n '__flmem_is profile table' -l by -s b -x -a 'live peak allocated freed' -d 'measure: bytes that are live at the end, that were live at the peak of the process, or that were allocated or freed in total (default peak; with --round allocated, for a dump of jemalloc live)'
complete -c flmem -n '__flmem_is profile table' -l stack -s s -x -a 'mixed python native' -d 'frames to include: all, Python only or native only (default: Python if the file has such frames, else native; for flame graphs and exports all)'
complete -c flmem -n '__flmem_is profile table' -l import-frames -d 'keep the frames of Python\'s import system (importlib) between a line that imports and the module'
complete -c flmem -n '__flmem_is profile table' -l round -s r -x -d 'only rounds A to B: bytes that were allocated and freed during them, and the allocated bytes that are still live; a single number selects one round'
complete -c flmem -n '__flmem_is profile table' -l limit -s n -x -d 'show at most this many lines of code (default 50)'
complete -c flmem -n '__flmem_is profile table' -l json -d 'print one JSON object'
complete -c flmem -n '__flmem_is profile table' -l help -s h -d 'print this help'
complete -c flmem -n '__flmem_is profile table' -F

complete -c flmem -n '__flmem_is profile tree' -l by -s b -x -a 'live peak allocated freed' -d 'measure: bytes that are live at the end, that were live at the peak of the process, or that were allocated or freed in total (default peak; with --round allocated, for a dump of jemalloc live)'
complete -c flmem -n '__flmem_is profile tree' -l stack -s s -x -a 'mixed python native' -d 'frames to include: all, Python only or native only (default: Python if the file has such frames, else native; for flame graphs and exports all)'
complete -c flmem -n '__flmem_is profile tree' -l import-frames -d 'keep the frames of Python\'s import system (importlib) between a line that imports and the module'
complete -c flmem -n '__flmem_is profile tree' -l round -s r -x -d 'only rounds A to B: bytes that were allocated and freed during them, and the allocated bytes that are still live; a single number selects one round'
complete -c flmem -n '__flmem_is profile tree' -l limit -s n -x -d 'show at most this many stacks, the largest (default 20)'
complete -c flmem -n '__flmem_is profile tree' -l json -d 'print one JSON object'
complete -c flmem -n '__flmem_is profile tree' -l help -s h -d 'print this help'
complete -c flmem -n '__flmem_is profile tree' -F

complete -c flmem -n '__flmem_is profile leaks' -l fail-on -x -a 'grows may-grow' -d 'exit with status 1 where the live bytes of a stack grow with the rounds; with may-grow also where that is less certain: without rounds, or where RSS does not grow (default: what is found does not change the status)'
complete -c flmem -n '__flmem_is profile leaks' -l stack -s s -x -a 'mixed python native' -d 'frames to include: all, Python only or native only (default: Python if the file has such frames, else native; for flame graphs and exports all)'
complete -c flmem -n '__flmem_is profile leaks' -l import-frames -d 'keep the frames of Python\'s import system (importlib) between a line that imports and the module'
complete -c flmem -n '__flmem_is profile leaks' -l limit -s n -x -d 'show at most this many (default 10)'
complete -c flmem -n '__flmem_is profile leaks' -l json -d 'print one JSON object'
complete -c flmem -n '__flmem_is profile leaks' -l help -s h -d 'print this help'
complete -c flmem -n '__flmem_is profile leaks' -F

complete -c flmem -n '__flmem_is profile flamegraph' -l output -s o -r -F -d 'file for the page (default: FILE.html); a page of flmem is replaced, another file is not'
complete -c flmem -n '__flmem_is profile flamegraph' -l by -s b -x -a 'live peak allocated freed' -d 'measure: bytes that are live at the end, that were live at the peak of the process, or that were allocated or freed in total (default peak; with --round allocated, for a dump of jemalloc live)'
complete -c flmem -n '__flmem_is profile flamegraph' -l stack -s s -x -a 'mixed python native' -d 'frames to include: all, Python only or native only (default: Python if the file has such frames, else native; for flame graphs and exports all)'
complete -c flmem -n '__flmem_is profile flamegraph' -l import-frames -d 'keep the frames of Python\'s import system (importlib) between a line that imports and the module'
complete -c flmem -n '__flmem_is profile flamegraph' -l round -s r -x -d 'only rounds A to B: bytes that were allocated and freed during them, and the allocated bytes that are still live; a single number selects one round'
complete -c flmem -n '__flmem_is profile flamegraph' -l help -s h -d 'print this help'
complete -c flmem -n '__flmem_is profile flamegraph' -F

complete -c flmem -n '__flmem_is profile diff' -l html -r -F -d 'write a page with a flame graph in two colours, too: orange for more, blue for less; a page of flmem is replaced, another file is not'
complete -c flmem -n '__flmem_is profile diff' -l by -s b -x -a 'live peak allocated freed' -d 'measure: bytes that are live at the end, that were live at the peak of the process, or that were allocated or freed in total (default peak; with --round allocated, for a dump of jemalloc live)'
complete -c flmem -n '__flmem_is profile diff' -l stack -s s -x -a 'mixed python native' -d 'frames to include: all, Python only or native only (default: Python if the file has such frames, else native; for flame graphs and exports all)'
complete -c flmem -n '__flmem_is profile diff' -l import-frames -d 'keep the frames of Python\'s import system (importlib) between a line that imports and the module'
complete -c flmem -n '__flmem_is profile diff' -l round -s r -x -d 'only rounds A to B: bytes that were allocated and freed during them, and the allocated bytes that are still live; a single number selects one round'
complete -c flmem -n '__flmem_is profile diff' -l limit -s n -x -d 'show at most this many of the largest changes (default 30)'
complete -c flmem -n '__flmem_is profile diff' -l json -d 'print one JSON object'
complete -c flmem -n '__flmem_is profile diff' -l help -s h -d 'print this help'
complete -c flmem -n '__flmem_is profile diff' -F

complete -c flmem -n '__flmem_is profile analyze' -l baseline -r -F -d 'compare the others with this file, given by its name in the folder or by a path (default: the first one with \'original\', \'baseline\' or \'before\' in its name, else the first one)'
complete -c flmem -n '__flmem_is profile analyze' -l by -s b -x -a 'live peak allocated freed' -d 'measure: bytes that are live at the end, that were live at the peak of the process, or that were allocated or freed in total (default peak; with --round allocated, for a dump of jemalloc live)'
complete -c flmem -n '__flmem_is profile analyze' -l stack -s s -x -a 'mixed python native' -d 'frames to include: all, Python only or native only (default: Python if the file has such frames, else native; for flame graphs and exports all)'
complete -c flmem -n '__flmem_is profile analyze' -l import-frames -d 'keep the frames of Python\'s import system (importlib) between a line that imports and the module'
complete -c flmem -n '__flmem_is profile analyze' -l limit -s n -x -d 'show at most this many of the largest changes of each (default 3)'
complete -c flmem -n '__flmem_is profile analyze' -l json -d 'print one JSON object'
complete -c flmem -n '__flmem_is profile analyze' -l help -s h -d 'print this help'
complete -c flmem -n '__flmem_is profile analyze' -F

complete -c flmem -n '__flmem_is profile export' -l format -s f -x -a 'pprof collapsed speedscope json' -d 'pprof (compressed), collapsed stacks of flamegraph.pl, speedscope, or JSON with all stacks (required)'
complete -c flmem -n '__flmem_is profile export' -l output -s o -r -F -d 'write to a file, which must not exist (default: standard output)'
complete -c flmem -n '__flmem_is profile export' -l by -s b -x -a 'live peak allocated freed' -d 'measure: bytes that are live at the end, that were live at the peak of the process, or that were allocated or freed in total (default peak; with --round allocated, for a dump of jemalloc live)'
complete -c flmem -n '__flmem_is profile export' -l stack -s s -x -a 'mixed python native' -d 'frames to include: all, Python only or native only (default: Python if the file has such frames, else native; for flame graphs and exports all)'
complete -c flmem -n '__flmem_is profile export' -l round -s r -x -d 'only rounds A to B: bytes that were allocated and freed during them, and the allocated bytes that are still live; a single number selects one round'
complete -c flmem -n '__flmem_is profile export' -l help -s h -d 'print this help'
complete -c flmem -n '__flmem_is profile export' -F

complete -c flmem -n '__flmem_is aggregate' -l output -s o -r -F -d 'file to write (required); an existing file is replaced only when the new one is complete. Its suffix decides the format: .npz for an archive of NumPy, .pt, .pth, .bin or .ckpt for a copy of the first input, a PyTorch checkpoint, with the resulting tensors, any other for safetensors; \'verify:\' writes nothing'
complete -c flmem -n '__flmem_is aggregate' -l weights -x -d 'one number per input, for example counts of samples: 600,1200,200; they are divided by their sum (default: all equal)'
complete -c flmem -n '__flmem_is aggregate' -l weights-from -r -F -d 'file with a JSON object that has a count of samples for each input: {"client-1": 600, ...}; a key is the path of the input, its file name, or its file name without suffix'
complete -c flmem -n '__flmem_is aggregate' -l client-weights -x -a 'equal sample_size' -d 'equal: all inputs count the same; sample_size: by the counts of --weights-from, which is then required'
complete -c flmem -n '__flmem_is aggregate' -l base -r -F -d 'the model that the clients started from; required in the first round of an algorithm with a state. For norm-clipped-mean: clip the differences from it (default: the inputs are updates)'
complete -c flmem -n '__flmem_is aggregate' -l state -r -F -d 'for fedavgm, fedadam, fedyogi and fedadagrad: safetensors file with their state between rounds; the first round creates it'
complete -c flmem -n '__flmem_is aggregate' -l shard-size -x -d 'make the output a new folder of safetensors files with at most SIZE bytes of tensors each, and a model.safetensors.index.json'
complete -c flmem -n '__flmem_is aggregate' -l algorithm -s a -x -a 'fedavg fedavgm fedadam fedyogi fedadagrad median trimmed-mean sum norm-clipped-mean krum multi-krum bulyan' -d 'how elements are combined: weighted mean (default), a step of the server\'s optimizer, sum of masked integers, or a method that limits the influence of single inputs'
complete -c flmem -n '__flmem_is aggregate' -l trim -x -d 'for trimmed-mean: share of the inputs to drop at each end, for each element (default 0.2)'
complete -c flmem -n '__flmem_is aggregate' -l server-rate -x -d 'for algorithms with a state: learning rate of the server (default 1 for fedavgm, 0.1 for the others)'
complete -c flmem -n '__flmem_is aggregate' -l beta1 -x -d 'for algorithms with a state: decay of the momentum (default 0.9, 0 for fedadagrad)'
complete -c flmem -n '__flmem_is aggregate' -l beta2 -x -d 'for fedadam and fedyogi: decay of the variance (default 0.99)'
complete -c flmem -n '__flmem_is aggregate' -l tau -x -d 'for fedadam, fedyogi and fedadagrad: constant added to the square root of the variance (default 0.001)'
complete -c flmem -n '__flmem_is aggregate' -l clip-norm -x -d 'for norm-clipped-mean: the largest L2 norm of an update (default: the median of their norms)'
complete -c flmem -n '__flmem_is aggregate' -l hostile -x -d 'for krum, multi-krum and bulyan: how many inputs may be hostile (default: the most that their number allows)'
complete -c flmem -n '__flmem_is aggregate' -l keep -x -d 'for multi-krum: how many inputs to average (default: all but the hostile ones and two)'
complete -c flmem -n '__flmem_is aggregate' -l key -x -d 'for PyTorch checkpoints: the dict that has the tensors, for example state_dict (default: the top level)'
complete -c flmem -n '__flmem_is aggregate' -l nan -x -a 'reject skip-client propagate' -d 'a NaN or an infinity in an input: fail, average without that input, or compute with it (default reject)'
complete -c flmem -n '__flmem_is aggregate' -l non-float -x -a 'equal first round' -d 'integer and other tensors: must be equal, are copied from the first input, or are averaged and rounded (default equal)'
complete -c flmem -n '__flmem_is aggregate' -l header -x -d 'for addresses: \'Name: value\' to send to their hosts, or @FILE with one on each line, which keeps secrets off the command line; may be repeated'
complete -c flmem -n '__flmem_is aggregate' -l cacert -r -F -d 'for https:// addresses: certificates of authorities to trust, as PEM (default: $SSL_CERT_FILE, else those of the system)'
complete -c flmem -n '__flmem_is aggregate' -l retries -x -d 'for addresses: number of retries after a temporary failure (default 5; 0: never)'
complete -c flmem -n '__flmem_is aggregate' -l timeout -x -d 'for addresses: time limit for a server to accept a connection, and for a transfer below 1 KiB per second (default 30s)'
complete -c flmem -n '__flmem_is aggregate' -l resume -d 'continue a run of the same inputs and options that was stopped or killed; if there is none, start a new one'
complete -c flmem -n '__flmem_is aggregate' -l mpi -d 'share the work with the other processes that mpirun or srun started with the same command: each writes a range of the output, or shards of it'
complete -c flmem -n '__flmem_is aggregate' -l chunk -x -d 'unit of reading ahead, writing and resuming (default 4MiB)'
complete -c flmem -n '__flmem_is aggregate' -l threads -x -d 'threads that read, compute and write (default: two per processor, at most 8)'
complete -c flmem -n '__flmem_is aggregate' -l quiet -s q -d 'print nothing on success, and no progress'
complete -c flmem -n '__flmem_is aggregate' -l json -d 'print the result as one JSON object'
complete -c flmem -n '__flmem_is aggregate' -l help -s h -d 'print this help'
complete -c flmem -n '__flmem_after aggregate' -a inspect -d 'lists the tensors of models with checksums and statistics'
complete -c flmem -n '__flmem_after aggregate' -a diff -d 'compares two models tensor by tensor'
complete -c flmem -n '__flmem_after aggregate' -a convert -d 'writes a model in another format or type'
complete -c flmem -n '__flmem_after aggregate' -a generate -d 'writes a model with the tensors of a known one and generated values'
complete -c flmem -n '__flmem_is aggregate' -F

complete -c flmem -n '__flmem_is aggregate inspect' -l key -x -d 'for PyTorch checkpoints: the dict that has the tensors, for example state_dict (default: the top level)'
complete -c flmem -n '__flmem_is aggregate inspect' -l header -x -d 'for addresses: \'Name: value\' to send to their hosts, or @FILE with one on each line, which keeps secrets off the command line; may be repeated'
complete -c flmem -n '__flmem_is aggregate inspect' -l cacert -r -F -d 'for https:// addresses: certificates of authorities to trust, as PEM (default: $SSL_CERT_FILE, else those of the system)'
complete -c flmem -n '__flmem_is aggregate inspect' -l retries -x -d 'for addresses: number of retries after a temporary failure (default 5; 0: never)'
complete -c flmem -n '__flmem_is aggregate inspect' -l timeout -x -d 'for addresses: time limit for a server to accept a connection, and for a transfer below 1 KiB per second (default 30s)'
complete -c flmem -n '__flmem_is aggregate inspect' -l headers-only -d 'read no data, so print no checksums: fast for any size of model'
complete -c flmem -n '__flmem_is aggregate inspect' -l stats -d 'print for each tensor the smallest, largest and mean finite element, the L2 norm and how many elements are NaN or infinite'
complete -c flmem -n '__flmem_is aggregate inspect' -l threads -x -d 'threads that read and compute (default: two per processor, at most 8)'
complete -c flmem -n '__flmem_is aggregate inspect' -l json -d 'print one JSON object'
complete -c flmem -n '__flmem_is aggregate inspect' -l help -s h -d 'print this help'
complete -c flmem -n '__flmem_is aggregate inspect' -F

complete -c flmem -n '__flmem_is aggregate diff' -l key -x -d 'for PyTorch checkpoints: the dict that has the tensors, for example state_dict (default: the top level)'
complete -c flmem -n '__flmem_is aggregate diff' -l header -x -d 'for addresses: \'Name: value\' to send to their hosts, or @FILE with one on each line, which keeps secrets off the command line; may be repeated'
complete -c flmem -n '__flmem_is aggregate diff' -l cacert -r -F -d 'for https:// addresses: certificates of authorities to trust, as PEM (default: $SSL_CERT_FILE, else those of the system)'
complete -c flmem -n '__flmem_is aggregate diff' -l retries -x -d 'for addresses: number of retries after a temporary failure (default 5; 0: never)'
complete -c flmem -n '__flmem_is aggregate diff' -l timeout -x -d 'for addresses: time limit for a server to accept a connection, and for a transfer below 1 KiB per second (default 30s)'
complete -c flmem -n '__flmem_is aggregate diff' -l tolerance -x -d 'accept differences of elements up to this (default 0)'
complete -c flmem -n '__flmem_is aggregate diff' -l threads -x -d 'threads that read and compute (default: two per processor, at most 8)'
complete -c flmem -n '__flmem_is aggregate diff' -l json -d 'print one JSON object, with all tensors that differ'
complete -c flmem -n '__flmem_is aggregate diff' -l help -s h -d 'print this help'
complete -c flmem -n '__flmem_is aggregate diff' -F

complete -c flmem -n '__flmem_is aggregate convert' -l output -s o -r -F -d 'file to write (required); its suffix decides the format: .npz for an archive of NumPy, .pt, .pth, .bin or .ckpt for a copy of a checkpoint, any other for safetensors'
complete -c flmem -n '__flmem_is aggregate convert' -l dtype -x -a 'bf16 f16 f32 f64 fp16 fp32 fp64' -d 'type of all floating-point tensors in the output, rounded to nearest (default: as they are)'
complete -c flmem -n '__flmem_is aggregate convert' -l key -x -d 'for PyTorch checkpoints: the dict that has the tensors, for example state_dict (default: the top level)'
complete -c flmem -n '__flmem_is aggregate convert' -l shard-size -x -d 'make the output a new folder of safetensors files with at most SIZE bytes of tensors each, and a model.safetensors.index.json'
complete -c flmem -n '__flmem_is aggregate convert' -l header -x -d 'for addresses: \'Name: value\' to send to their hosts, or @FILE with one on each line, which keeps secrets off the command line; may be repeated'
complete -c flmem -n '__flmem_is aggregate convert' -l cacert -r -F -d 'for https:// addresses: certificates of authorities to trust, as PEM (default: $SSL_CERT_FILE, else those of the system)'
complete -c flmem -n '__flmem_is aggregate convert' -l retries -x -d 'for addresses: number of retries after a temporary failure (default 5; 0: never)'
complete -c flmem -n '__flmem_is aggregate convert' -l timeout -x -d 'for addresses: time limit for a server to accept a connection, and for a transfer below 1 KiB per second (default 30s)'
complete -c flmem -n '__flmem_is aggregate convert' -l resume -d 'continue a run of the same input and options that was stopped or killed; if there is none, start a new one'
complete -c flmem -n '__flmem_is aggregate convert' -l json -d 'print the result as one JSON object'
complete -c flmem -n '__flmem_is aggregate convert' -l quiet -s q -d 'print nothing on success, and no progress'
complete -c flmem -n '__flmem_is aggregate convert' -l help -s h -d 'print this help'
complete -c flmem -n '__flmem_is aggregate convert' -F

complete -c flmem -n '__flmem_is aggregate generate' -l output -s o -r -F -d 'safetensors file to write (required); it appears when it is complete'
complete -c flmem -n '__flmem_is aggregate generate' -l shape -x -a 'resnet18 llama-3.2-1b llama-3.2-3b llama-3.1-8b llama-3.1-70b llama-3.1-405b' -d 'published model whose tensor names, shapes and types are used (required)'
complete -c flmem -n '__flmem_is aggregate generate' -l seed -x -d 'seed of the generated values (default 0)'
complete -c flmem -n '__flmem_is aggregate generate' -l client -x -d 'a variation of the model of that seed, as after a client\'s training (default 0: the model itself)'
complete -c flmem -n '__flmem_is aggregate generate' -l dtype -x -d 'type of its floating-point tensors: fp32, bf16, fp16, fp64, fp8-e4m3, fp8-e5m2 (default: that of the published model)'
complete -c flmem -n '__flmem_is aggregate generate' -l threads -x -d 'threads that generate and write values (default: two per processor, at most 8)'
complete -c flmem -n '__flmem_is aggregate generate' -l resume -d 'resume an earlier call with the same options'
complete -c flmem -n '__flmem_is aggregate generate' -l quiet -s q -d 'print nothing on success, and no progress'
complete -c flmem -n '__flmem_is aggregate generate' -l json -d 'print the result as one JSON object'
complete -c flmem -n '__flmem_is aggregate generate' -l help -s h -d 'print this help'

complete -c flmem -n '__flmem_is exchange' -l help -s h -d 'print this help'
complete -c flmem -n '__flmem_after exchange' -a serve -d 'serves a model by rounds, receives and combines the clients\' updates'
complete -c flmem -n '__flmem_after exchange' -a push -d 'sends an update to the server of an exchange'
complete -c flmem -n '__flmem_after exchange' -a pull -d 'fetches a published model from the server of an exchange'
complete -c flmem -n '__flmem_after exchange' -a status -d 'prints the state of an exchange'
complete -c flmem -n '__flmem_after exchange' -a wait -d 'waits until a round of an exchange is published'

complete -c flmem -n '__flmem_is exchange serve' -l model -s m -r -F -d 'the initial model: a file, a folder of shards with its index, or a generated model, such as generate:resnet18 (required)'
complete -c flmem -n '__flmem_is exchange serve' -l clients -s n -x -d 'updates per round: a round ends when this many are complete (required)'
complete -c flmem -n '__flmem_is exchange serve' -l rounds -x -d 'number of rounds to serve (default 1)'
complete -c flmem -n '__flmem_is exchange serve' -l listen -x -d 'address to listen on; port 0 selects a free port (default 127.0.0.1:8477)'
complete -c flmem -n '__flmem_is exchange serve' -l state -x -a '(__fish_complete_directories)' -d 'directory for uploads, models and the state of the server (required); after a kill the same command continues from it'
complete -c flmem -n '__flmem_is exchange serve' -l algorithm -s a -x -a 'fedavg fedavgm fedadam fedyogi fedadagrad median trimmed-mean sum norm-clipped-mean krum multi-krum bulyan' -d 'how elements are combined: weighted mean (default), a step of the server\'s optimizer, sum of masked integers, or a method that limits the influence of single inputs'
complete -c flmem -n '__flmem_is exchange serve' -l trim -x -d 'for trimmed-mean: share of the inputs to drop at each end, for each element (default 0.2)'
complete -c flmem -n '__flmem_is exchange serve' -l server-rate -x -d 'for algorithms with a state: learning rate of the server (default 1 for fedavgm, 0.1 for the others)'
complete -c flmem -n '__flmem_is exchange serve' -l beta1 -x -d 'for algorithms with a state: decay of the momentum (default 0.9, 0 for fedadagrad)'
complete -c flmem -n '__flmem_is exchange serve' -l beta2 -x -d 'for fedadam and fedyogi: decay of the variance (default 0.99)'
complete -c flmem -n '__flmem_is exchange serve' -l tau -x -d 'for fedadam, fedyogi and fedadagrad: constant added to the square root of the variance (default 0.001)'
complete -c flmem -n '__flmem_is exchange serve' -l clip-norm -x -d 'for norm-clipped-mean: the largest L2 norm of an update (default: the median of their norms)'
complete -c flmem -n '__flmem_is exchange serve' -l hostile -x -d 'for krum, multi-krum and bulyan: how many inputs may be hostile (default: the most that their number allows)'
complete -c flmem -n '__flmem_is exchange serve' -l keep -x -d 'for multi-krum: how many inputs to average (default: all but the hostile ones and two)'
complete -c flmem -n '__flmem_is exchange serve' -l key -x -d 'for PyTorch checkpoints: the dict that has the tensors, for example state_dict (default: the top level)'
complete -c flmem -n '__flmem_is exchange serve' -l nan -x -a 'reject skip-client propagate' -d 'a NaN or an infinity in an input: fail, average without that input, or compute with it (default skip-client; reject in lockstep)'
complete -c flmem -n '__flmem_is exchange serve' -l non-float -x -a 'equal first round' -d 'integer and other tensors: must be equal, are copied from the first input, or are averaged and rounded (default first: with equal one client could end the exchange)'
complete -c flmem -n '__flmem_is exchange serve' -l mode -x -a 'staged lockstep' -d 'staged: updates are kept on disk until a round ends (default); lockstep: they are combined while they arrive, and a client waits for the others'
complete -c flmem -n '__flmem_is exchange serve' -l verify -x -d 'once for each client, with --mode lockstep: do not write the new model, but compare the update of CLIENT with the generated MODEL, and the average with the exact one'
complete -c flmem -n '__flmem_is exchange serve' -l quorum -x -d 'with --deadline: number of updates that are sufficient at the deadline (default: all)'
complete -c flmem -n '__flmem_is exchange serve' -l deadline -x -d 'a round ends after this time if --quorum updates are complete; with fewer the exchange fails (default: none)'
complete -c flmem -n '__flmem_is exchange serve' -l chunk -x -d 'size of the requests that the server proposes to clients (default 2MiB)'
complete -c flmem -n '__flmem_is exchange serve' -l max-request -x -d 'refuse requests with a larger body; set it to the limit of a reverse proxy in front of the server (default: no limit)'
complete -c flmem -n '__flmem_is exchange serve' -l quota -x -d 'bytes that a client may upload in a round (default: twice the model and 16MiB)'
complete -c flmem -n '__flmem_is exchange serve' -l reserve -x -d 'disk space that stays free in addition to uploads and the next model (default 256MiB)'
complete -c flmem -n '__flmem_is exchange serve' -l expire -x -d 'remove unfinished uploads without progress for this long (default 24h)'
complete -c flmem -n '__flmem_is exchange serve' -l idle-timeout -x -d 'close connections that are idle, or transfer less than 1 KiB per second, for this long (default 60s)'
complete -c flmem -n '__flmem_is exchange serve' -l settle -x -d 'exit this long after the last request once the last round is published (default 5s)'
complete -c flmem -n '__flmem_is exchange serve' -l connections -x -d 'simultaneous connections (default 512)'
complete -c flmem -n '__flmem_is exchange serve' -l address-connections -x -d 'simultaneous connections of one address; all clients of a proxy have the same address (default 300)'
complete -c flmem -n '__flmem_is exchange serve' -l tls-cert -r -F -d 'certificate of the server and its chain, PEM: turns on TLS'
complete -c flmem -n '__flmem_is exchange serve' -l tls-key -r -F -d 'key of the certificate, PEM'
complete -c flmem -n '__flmem_is exchange serve' -l client-ca -r -F -d 'clients need a certificate of these authorities, PEM; its CN is the client\'s name'
complete -c flmem -n '__flmem_is exchange serve' -l authorised-clients -r -F -d 'with --client-ca: file that lists the accepted certificates, in lines \'NAME CN=TEXT\' or \'NAME sha256:FINGERPRINT\''
complete -c flmem -n '__flmem_is exchange serve' -l token-file -r -F -d 'file with the tokens of the clients, in lines \'NAME TOKEN\'; each request then needs one'
complete -c flmem -n '__flmem_is exchange serve' -l insecure -d 'allow plain HTTP on addresses other than loopback'
complete -c flmem -n '__flmem_is exchange serve' -l json-log -d 'write the log on standard error as JSON objects, one per line'
complete -c flmem -n '__flmem_is exchange serve' -l quiet -s q -d 'log warnings only'
complete -c flmem -n '__flmem_is exchange serve' -l json -d 'print one JSON object at the end'
complete -c flmem -n '__flmem_is exchange serve' -l help -s h -d 'print this help'

complete -c flmem -n '__flmem_is exchange push' -l client -s c -x -d 'name of this client; may be omitted if a token or a certificate contains it'
complete -c flmem -n '__flmem_is exchange push' -l round -s r -x -d 'the round of the model from which the update was made (default: the current round)'
complete -c flmem -n '__flmem_is exchange push' -l weight -s w -x -d 'weight of the update, for example its count of samples (default 1)'
complete -c flmem -n '__flmem_is exchange push' -l chunk -x -d 'bytes to send in one request, at most what the server accepts (default: as the server proposes)'
complete -c flmem -n '__flmem_is exchange push' -l sha256 -d 'have the server compare the SHA-256 of each whole file, too; takes longer, since both read it once more'
complete -c flmem -n '__flmem_is exchange push' -l replace -d 'delete the unfinished upload that an earlier push of this client and round began with another file or weight'
complete -c flmem -n '__flmem_is exchange push' -l token-file -r -F -d 'file whose first line is the token of this client'
complete -c flmem -n '__flmem_is exchange push' -l cert -r -F -d 'certificate of this client, as PEM'
complete -c flmem -n '__flmem_is exchange push' -l key -r -F -d 'its key, as PEM (default: in the file of --cert)'
complete -c flmem -n '__flmem_is exchange push' -l ca -r -F -d 'certificates of authorities to trust, as PEM (default: $SSL_CERT_FILE, else those of the system)'
complete -c flmem -n '__flmem_is exchange push' -l insecure -d 'send the token over http:// to hosts other than this one, too'
complete -c flmem -n '__flmem_is exchange push' -l retries -x -d 'number of retries after temporary failures without progress between them (default 10; 0: never)'
complete -c flmem -n '__flmem_is exchange push' -l timeout -x -d 'time limit for the server to accept a connection, and for a transfer below 1 KiB per second (default 30s)'
complete -c flmem -n '__flmem_is exchange push' -l quiet -s q -d 'print nothing on success, and no progress'
complete -c flmem -n '__flmem_is exchange push' -l json -d 'print the result as one JSON object'
complete -c flmem -n '__flmem_is exchange push' -l help -s h -d 'print this help'
complete -c flmem -n '__flmem_is exchange push' -F

complete -c flmem -n '__flmem_is exchange pull' -l output -s o -r -F -d 'file or folder to write (required); a model of several files is written to a folder, which is created; verify: writes nothing, and compares the SHA-256 of what is received'
complete -c flmem -n '__flmem_is exchange pull' -l round -s r -x -d 'the round whose model is fetched (default: latest)'
complete -c flmem -n '__flmem_is exchange pull' -l token-file -r -F -d 'file whose first line is the token of this client'
complete -c flmem -n '__flmem_is exchange pull' -l cert -r -F -d 'certificate of this client, as PEM'
complete -c flmem -n '__flmem_is exchange pull' -l key -r -F -d 'its key, as PEM (default: in the file of --cert)'
complete -c flmem -n '__flmem_is exchange pull' -l ca -r -F -d 'certificates of authorities to trust, as PEM (default: $SSL_CERT_FILE, else those of the system)'
complete -c flmem -n '__flmem_is exchange pull' -l insecure -d 'send the token over http:// to hosts other than this one, too'
complete -c flmem -n '__flmem_is exchange pull' -l retries -x -d 'number of retries after temporary failures without progress between them (default 10; 0: never)'
complete -c flmem -n '__flmem_is exchange pull' -l timeout -x -d 'time limit for the server to accept a connection, and for a transfer below 1 KiB per second (default 30s)'
complete -c flmem -n '__flmem_is exchange pull' -l quiet -s q -d 'print nothing on success, and no progress'
complete -c flmem -n '__flmem_is exchange pull' -l json -d 'print the result as one JSON object'
complete -c flmem -n '__flmem_is exchange pull' -l help -s h -d 'print this help'

complete -c flmem -n '__flmem_is exchange status' -l token-file -r -F -d 'file whose first line is the token of this client'
complete -c flmem -n '__flmem_is exchange status' -l cert -r -F -d 'certificate of this client, as PEM'
complete -c flmem -n '__flmem_is exchange status' -l key -r -F -d 'its key, as PEM (default: in the file of --cert)'
complete -c flmem -n '__flmem_is exchange status' -l ca -r -F -d 'certificates of authorities to trust, as PEM (default: $SSL_CERT_FILE, else those of the system)'
complete -c flmem -n '__flmem_is exchange status' -l insecure -d 'send the token over http:// to hosts other than this one, too'
complete -c flmem -n '__flmem_is exchange status' -l retries -x -d 'number of retries after temporary failures without progress between them (default: never)'
complete -c flmem -n '__flmem_is exchange status' -l timeout -x -d 'time limit for the server to accept a connection, and for a transfer below 1 KiB per second (default 30s)'
complete -c flmem -n '__flmem_is exchange status' -l json -d 'print the result as one JSON object'
complete -c flmem -n '__flmem_is exchange status' -l help -s h -d 'print this help'

complete -c flmem -n '__flmem_is exchange wait' -l round -s r -x -d 'wait until the model of this round is published (required)'
complete -c flmem -n '__flmem_is exchange wait' -l timeout -x -d 'end after this time with exit status 9 (default: none)'
complete -c flmem -n '__flmem_is exchange wait' -l token-file -r -F -d 'file whose first line is the token of this client'
complete -c flmem -n '__flmem_is exchange wait' -l cert -r -F -d 'certificate of this client, as PEM'
complete -c flmem -n '__flmem_is exchange wait' -l key -r -F -d 'its key, as PEM (default: in the file of --cert)'
complete -c flmem -n '__flmem_is exchange wait' -l ca -r -F -d 'certificates of authorities to trust, as PEM (default: $SSL_CERT_FILE, else those of the system)'
complete -c flmem -n '__flmem_is exchange wait' -l insecure -d 'send the token over http:// to hosts other than this one, too'
complete -c flmem -n '__flmem_is exchange wait' -l retries -x -d 'number of retries after temporary failures without progress between them (default 10; 0: never)'
complete -c flmem -n '__flmem_is exchange wait' -l quiet -s q -d 'print nothing on success'
complete -c flmem -n '__flmem_is exchange wait' -l json -d 'print the state at the end as one JSON object'
complete -c flmem -n '__flmem_is exchange wait' -l help -s h -d 'print this help'

complete -c flmem -n '__flmem_is help' -l help -s h -d 'print this help'
complete -c flmem -n '__flmem_after help' -a detect -d 'reports the allocators, memory, settings and roles of live processes, and a verdict'
complete -c flmem -n '__flmem_after help' -a trim -d 'returns retained memory of live processes to the kernel'
complete -c flmem -n '__flmem_after help' -a env -d 'prints the memory settings of a role for a shell or another launcher'
complete -c flmem -n '__flmem_after help' -a start -d 'runs a command with the settings of its role and verifies them'
complete -c flmem -n '__flmem_after help' -a watch -d 'watches memory over time and by round: trend and forecast'
complete -c flmem -n '__flmem_after help' -a recommend -d 'checks the memory settings of jobs and proposes values'
complete -c flmem -n '__flmem_after help' -a profile -d 'samples the heap of a process with Python and native stacks'
complete -c flmem -n '__flmem_after help' -a aggregate -d 'averages models on disk in memory that does not grow with the model'
complete -c flmem -n '__flmem_after help' -a exchange -d 'moves models in chunks between a server and its clients'
complete -c flmem -n '__flmem_after help' -a help -d 'explains a command or a topic'
complete -c flmem -n '__flmem_after help' -a exit-codes -d 'the exit status of every command'
complete -c flmem -n '__flmem_after help' -a conditions -d 'the conditions of --when'
complete -c flmem -n '__flmem_after help' -a values -d 'how to write sizes, times and other values'
complete -c flmem -n '__flmem_after help' -a environment -d 'the environment variables that flmem reads'
complete -c flmem -n '__flmem_after help profile' -a run -d 'runs a command and samples its heap'
complete -c flmem -n '__flmem_after help profile' -a attach -d 'starts to sample the heap of a running Python process'
complete -c flmem -n '__flmem_after help profile' -a detach -d 'ends the sampling of a running process'
complete -c flmem -n '__flmem_after help profile' -a round -d 'announces the round to a profile of a running process'
complete -c flmem -n '__flmem_after help profile' -a stats -d 'shows the totals of a heap profile and its largest lines of code'
complete -c flmem -n '__flmem_after help profile' -a summary -d 'shows functions by what they and their callees allocated'
complete -c flmem -n '__flmem_after help profile' -a table -d 'lists the lines of code that allocated, with all measures'
complete -c flmem -n '__flmem_after help profile' -a tree -d 'shows the largest stacks as a tree, callers first'
complete -c flmem -n '__flmem_after help profile' -a leaks -d 'finds the stacks whose live bytes keep growing'
complete -c flmem -n '__flmem_after help profile' -a flamegraph -d 'draws a heap profile as a page with a flame graph'
complete -c flmem -n '__flmem_after help profile' -a diff -d 'compares two heap profiles function by function'
complete -c flmem -n '__flmem_after help profile' -a analyze -d 'compares all heap profiles of a folder'
complete -c flmem -n '__flmem_after help profile' -a export -d 'converts a heap profile for other tools'
complete -c flmem -n '__flmem_after help aggregate' -a inspect -d 'lists the tensors of models with checksums and statistics'
complete -c flmem -n '__flmem_after help aggregate' -a diff -d 'compares two models tensor by tensor'
complete -c flmem -n '__flmem_after help aggregate' -a convert -d 'writes a model in another format or type'
complete -c flmem -n '__flmem_after help aggregate' -a generate -d 'writes a model with the tensors of a known one and generated values'
complete -c flmem -n '__flmem_after help exchange' -a serve -d 'serves a model by rounds, receives and combines the clients\' updates'
complete -c flmem -n '__flmem_after help exchange' -a push -d 'sends an update to the server of an exchange'
complete -c flmem -n '__flmem_after help exchange' -a pull -d 'fetches a published model from the server of an exchange'
complete -c flmem -n '__flmem_after help exchange' -a status -d 'prints the state of an exchange'
complete -c flmem -n '__flmem_after help exchange' -a wait -d 'waits until a round of an exchange is published'
