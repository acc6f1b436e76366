# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Generated from the option tables by 'make generate'.

# _flmem_offer WORD COMPGEN-ARGUMENTS: completions of compgen that start with the word
_flmem_offer()
{
	local word=$1
	shift
	mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen "$@" -- "$word")
}

_flmem_pids()
{
	local directories=(/proc/[0-9]*)
	_flmem_offer "$1" -W "${directories[*]#/proc/}"
}

_flmem_files()
{
	compopt -o filenames 2>/dev/null
	_flmem_offer "$1" "$2"
}

# _flmem_line BEGIN VALUED: completes the command line after the options of flmem
_flmem_line()
{
	local begin=$1
	while ((begin < COMP_CWORD)); do
		case ${COMP_WORDS[begin]} in
		--) ((begin += 1)) && break ;;
		-*)
			if [[ ${COMP_WORDS[begin + 1]} == = ]]; then
				((begin += 3))
			elif [[ " $2 " == *" ${COMP_WORDS[begin]} "* ]]; then
				((begin += 2))
			else
				((begin += 1))
			fi
			;;
		*) break ;;
		esac
	done
	[[ $begin -lt $COMP_CWORD || ${COMP_WORDS[begin]} != -* ]] || return 1
	if declare -F _command_offset >/dev/null; then
		_command_offset "$begin"
	elif ((begin == COMP_CWORD)); then
		_flmem_offer "${COMP_WORDS[COMP_CWORD]}" -c
	else
		_flmem_files "${COMP_WORDS[COMP_CWORD]}" -f
	fi
}

_flmem()
{
	local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} options=
	COMPREPLY=()
	# Readline splits --option=value into three words.
	if [[ $word == = ]]; then
		word=
	elif [[ $option == = ]]; then
		option=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	if ((COMP_CWORD == 1)); then
		_flmem_offer "$word" -W "detect trim env start watch recommend profile aggregate exchange help --help --version"
		return
	fi
	local command=${COMP_WORDS[1]}
	case "$command ${COMP_WORDS[2]}" in
	'profile run' | 'profile attach' | 'profile detach' | 'profile round' | 'profile stats' | 'profile summary' | 'profile table' | 'profile tree' | 'profile leaks' | 'profile flamegraph' | 'profile diff' | 'profile analyze' | 'profile export' | 'aggregate inspect' | 'aggregate diff' | 'aggregate convert' | 'aggregate generate' | 'exchange serve' | 'exchange push' | 'exchange pull' | 'exchange status' | 'exchange wait') ((COMP_CWORD == 2)) || command+=" ${COMP_WORDS[2]}" ;;
	esac
	case $command in
	detect)
		options=" --pid --name --all --tree --role --min-rss --no-heap --budget --ask-runtime --timeout --assume-seccomp --json --help"
		case $option in
		--pid | -p) _flmem_pids "$word" && return ;;
		--name) return ;;
		--tree) _flmem_pids "$word" && return ;;
		--role) _flmem_offer "$word" -W "server server-job client client-job trainer simulator-server simulator-client" && return ;;
		--min-rss | -m) return ;;
		--budget) return ;;
		--timeout) return ;;
		esac
		;;
	trim)
		options=" --pid --name --all --tree --role --min-rss --gc --cuda --full --python --dry-run --timeout --assume-seccomp --settle --every --when --cool-down --count --min-release --max-ineffective --json --no-predict --help"
		case $option in
		--pid | -p) _flmem_pids "$word" && return ;;
		--name) return ;;
		--tree) _flmem_pids "$word" && return ;;
		--role) _flmem_offer "$word" -W "server server-job client client-job trainer simulator-server simulator-client" && return ;;
		--min-rss | -m) return ;;
		--python) _flmem_files "$word" -f && return ;;
		--timeout) return ;;
		--settle) return ;;
		--every) return ;;
		--when) return ;;
		--cool-down) return ;;
		--count) return ;;
		--min-release) return ;;
		--max-ineffective) return ;;
		esac
		;;
	env)
		options=" --role --parallelism --allocator --jemalloc-library --framework --framework-version --job --gpu --no-gpu --force --format --explain --json --help"
		case $option in
		--role | -r) _flmem_offer "$word" -W "server client trainer" && return ;;
		--parallelism) _flmem_offer "$word" -W "normal high" && return ;;
		--allocator | -a) _flmem_offer "$word" -W "glibc jemalloc auto" && return ;;
		--jemalloc-library) _flmem_files "$word" -f && return ;;
		--framework | -f) _flmem_offer "$word" -W "nvflare appfl flower" && return ;;
		--framework-version) return ;;
		--job) _flmem_files "$word" -f && return ;;
		--format) _flmem_offer "$word" -W "sh fish csh dotenv systemd docker k8s nvflare-docker nvflare-slurm json" && return ;;
		esac
		;;
	start)
		options=" --role --parallelism --allocator --jemalloc-library --framework --framework-version --job --gpu --no-gpu --jemalloc --no-inherit-preload --profile-ready --profile-socket --assume-seccomp --force --dry-run --json --supervise --workspace --wait --grace --emit --output --site --org --image --command --tasks --help"
		case $option in
		--role | -r) _flmem_offer "$word" -W "server client trainer" && return ;;
		--parallelism) _flmem_offer "$word" -W "normal high" && return ;;
		--allocator | -a) _flmem_offer "$word" -W "glibc jemalloc auto" && return ;;
		--jemalloc-library) _flmem_files "$word" -f && return ;;
		--framework | -f) _flmem_offer "$word" -W "nvflare appfl flower" && return ;;
		--framework-version) return ;;
		--job) _flmem_files "$word" -f && return ;;
		--workspace | -w) _flmem_files "$word" -d && return ;;
		--wait) return ;;
		--grace) return ;;
		--emit | -e) _flmem_offer "$word" -W "snippet sub_start systemd slurm pbs docker k8s" && return ;;
		--output | -o) _flmem_files "$word" -f && return ;;
		--site) return ;;
		--org) return ;;
		--image) return ;;
		--command) _flmem_offer "$word" -W "aggregate" && return ;;
		--tasks) return ;;
		esac
		_flmem_line 2 " --role -r --parallelism --allocator -a --jemalloc-library --framework -f --framework-version --job --workspace -w --wait --grace --emit -e --output -o --site --org --image --command --tasks" && return
		;;
	watch)
		options=" --pid --name --all --tree --role --min-rss --interval --duration --log --rounds --round-regex --record --replay --listen --report --profile --fail-above --fail-growth --auto --gc --cuda --full --every-rounds --when --cool-down --min-release --max-ineffective --assume-seccomp --timeout --exact-peaks --wait --quiet --json --help"
		case $option in
		--pid | -p) _flmem_pids "$word" && return ;;
		--name) return ;;
		--tree) _flmem_pids "$word" && return ;;
		--role) _flmem_offer "$word" -W "server server-job client client-job trainer simulator-server simulator-client" && return ;;
		--min-rss | -m) return ;;
		--interval | -i) return ;;
		--duration | -d) return ;;
		--log | -l) _flmem_files "$word" -f && return ;;
		--rounds) return ;;
		--round-regex) return ;;
		--record) _flmem_files "$word" -f && return ;;
		--replay) _flmem_files "$word" -f && return ;;
		--listen) return ;;
		--report) _flmem_files "$word" -f && return ;;
		--profile) _flmem_files "$word" -f && return ;;
		--fail-above) return ;;
		--fail-growth) return ;;
		--every-rounds) return ;;
		--when) return ;;
		--cool-down) return ;;
		--min-release) return ;;
		--max-ineffective) return ;;
		--timeout) return ;;
		esac
		;;
	recommend)
		options=" --pid --name --all --tree --fail-on --framework-version --format --role --model --params --dtype --clients --framework --node-memory --simulator --optimizer --filter --troubleshoot --diff --fix --json --help"
		case $option in
		--pid | -p) _flmem_pids "$word" && return ;;
		--name) return ;;
		--tree) _flmem_pids "$word" && return ;;
		--fail-on) _flmem_offer "$word" -W "error warning info" && return ;;
		--framework-version) return ;;
		--format) _flmem_offer "$word" -W "text json sarif github junit" && return ;;
		--role | -r) _flmem_offer "$word" -W "server client trainer" && return ;;
		--model) _flmem_files "$word" -f && return ;;
		--params) return ;;
		--dtype) return ;;
		--clients) return ;;
		--framework | -f) _flmem_offer "$word" -W "nvflare appfl flower" && return ;;
		--node-memory) return ;;
		--simulator) return ;;
		--optimizer) _flmem_offer "$word" -W "none sgd momentum adam" && return ;;
		--filter) return ;;
		esac
		[[ $word == -* ]] || _flmem_files "$word" -f
		;;
	profile)
		options=" --help"
		if ((COMP_CWORD == 2)) && [[ $word != -* ]]; then
			_flmem_offer "$word" -W "run attach detach round stats summary table tree leaks flamegraph diff analyze export"
		fi
		;;
	'profile run')
		options=" --output --interval --limit --native --python-allocators --follow-children --force --help"
		case $option in
		--output | -o) _flmem_files "$word" -f && return ;;
		--interval | -i) return ;;
		--limit) return ;;
		esac
		_flmem_line 3 " --output -o --interval -i --limit" && return
		;;
	'profile attach')
		options=" --pid --engine --output --interval --limit --native --force --dry-run --timeout --assume-seccomp --json --help"
		case $option in
		--pid | -p) _flmem_pids "$word" && return ;;
		--engine) _flmem_offer "$word" -W "sampler jemalloc" && return ;;
		--output | -o) _flmem_files "$word" -f && return ;;
		--interval | -i) return ;;
		--limit) return ;;
		--timeout) return ;;
		esac
		;;
	'profile detach')
		options=" --pid --engine --output --force --dry-run --timeout --assume-seccomp --json --help"
		case $option in
		--pid | -p) _flmem_pids "$word" && return ;;
		--engine) _flmem_offer "$word" -W "sampler jemalloc" && return ;;
		--output | -o) _flmem_files "$word" -f && return ;;
		--timeout) return ;;
		esac
		;;
	'profile round')
		options=" --help"
		[[ $word == -* ]] || _flmem_files "$word" -f
		;;
	'profile stats')
		options=" --by --stack --import-frames --round --limit --json --help"
		case $option in
		--by | -b) _flmem_offer "$word" -W "live peak allocated freed" && return ;;
		--stack | -s) _flmem_offer "$word" -W "mixed python native" && return ;;
		--round | -r) return ;;
		--limit | -n) return ;;
		esac
		[[ $word == -* ]] || _flmem_files "$word" -f
		;;
	'profile summary')
		options=" --by --stack --import-frames --round --limit --json --help"
		case $option in
		--by | -b) _flmem_offer "$word" -W "live peak allocated freed" && return ;;
		--stack | -s) _flmem_offer "$word" -W "mixed python native" && return ;;
		--round | -r) return ;;
		--limit | -n) return ;;
		esac
		[[ $word == -* ]] || _flmem_files "$word" -f
		;;
	'profile table')
		options=" --by --stack --import-frames --round --limit --json --help"
		case $option in
		--by | -b) _flmem_offer "$word" -W "live peak allocated freed" && return ;;
		--stack | -s) _flmem_offer "$word" -W "mixed python native" && return ;;
		--round | -r) return ;;
		--limit | -n) return ;;
		esac
		[[ $word == -* ]] || _flmem_files "$word" -f
		;;
	'profile tree')
		options=" --by --stack --import-frames --round --limit --json --help"
		case $option in
		--by | -b) _flmem_offer "$word" -W "live peak allocated freed" && return ;;
		--stack | -s) _flmem_offer "$word" -W "mixed python native" && return ;;
		--round | -r) return ;;
		--limit | -n) return ;;
		esac
		[[ $word == -* ]] || _flmem_files "$word" -f
		;;
	'profile leaks')
		options=" --fail-on --stack --import-frames --limit --json --help"
		case $option in
		--fail-on) _flmem_offer "$word" -W "grows may-grow" && return ;;
		--stack | -s) _flmem_offer "$word" -W "mixed python native" && return ;;
		--limit | -n) return ;;
		esac
		[[ $word == -* ]] || _flmem_files "$word" -f
		;;
	'profile flamegraph')
		options=" --output --by --stack --import-frames --round --help"
		case $option in
		--output | -o) _flmem_files "$word" -f && return ;;
		--by | -b) _flmem_offer "$word" -W "live peak allocated freed" && return ;;
		--stack | -s) _flmem_offer "$word" -W "mixed python native" && return ;;
		--round | -r) return ;;
		esac
		[[ $word == -* ]] || _flmem_files "$word" -f
		;;
	'profile diff')
		options=" --html --by --stack --import-frames --round --limit --json --help"
		case $option in
		--html) _flmem_files "$word" -f && return ;;
		--by | -b) _flmem_offer "$word" -W "live peak allocated freed" && return ;;
		--stack | -s) _flmem_offer "$word" -W "mixed python native" && return ;;
		--round | -r) return ;;
		--limit | -n) return ;;
		esac
		[[ $word == -* ]] || _flmem_files "$word" -f
		;;
	'profile analyze')
		options=" --baseline --by --stack --import-frames --limit --json --help"
		case $option in
		--baseline) _flmem_files "$word" -f && return ;;
		--by | -b) _flmem_offer "$word" -W "live peak allocated freed" && return ;;
		--stack | -s) _flmem_offer "$word" -W "mixed python native" && return ;;
		--limit | -n) return ;;
		esac
		[[ $word == -* ]] || _flmem_files "$word" -f
		;;
	'profile export')
		options=" --format --output --by --stack --round --help"
		case $option in
		--format | -f) _flmem_offer "$word" -W "pprof collapsed speedscope json" && return ;;
		--output | -o) _flmem_files "$word" -f && return ;;
		--by | -b) _flmem_offer "$word" -W "live peak allocated freed" && return ;;
		--stack | -s) _flmem_offer "$word" -W "mixed python native" && return ;;
		--round | -r) return ;;
		esac
		[[ $word == -* ]] || _flmem_files "$word" -f
		;;
	aggregate)
		options=" --output --weights --weights-from --client-weights --base --state --shard-size --algorithm --trim --server-rate --beta1 --beta2 --tau --clip-norm --hostile --keep --key --nan --non-float --header --cacert --retries --timeout --resume --mpi --chunk --threads --quiet --json --help"
		case $option in
		--output | -o) _flmem_files "$word" -f && return ;;
		--weights) return ;;
		--weights-from) _flmem_files "$word" -f && return ;;
		--client-weights) _flmem_offer "$word" -W "equal sample_size" && return ;;
		--base) _flmem_files "$word" -f && return ;;
		--state) _flmem_files "$word" -f && return ;;
		--shard-size) return ;;
		--algorithm | -a) _flmem_offer "$word" -W "fedavg fedavgm fedadam fedyogi fedadagrad median trimmed-mean sum norm-clipped-mean krum multi-krum bulyan" && return ;;
		--trim) return ;;
		--server-rate) return ;;
		--beta1) return ;;
		--beta2) return ;;
		--tau) return ;;
		--clip-norm) return ;;
		--hostile) return ;;
		--keep) return ;;
		--key) return ;;
		--nan) _flmem_offer "$word" -W "reject skip-client propagate" && return ;;
		--non-float) _flmem_offer "$word" -W "equal first round" && return ;;
		--header) return ;;
		--cacert) _flmem_files "$word" -f && return ;;
		--retries) return ;;
		--timeout) return ;;
		--chunk) return ;;
		--threads) return ;;
		esac
		if ((COMP_CWORD == 2)) && [[ $word != -* ]]; then
			_flmem_offer "$word" -W "inspect diff convert generate"
		fi
		[[ $word == -* ]] || _flmem_files "$word" -f
		;;
	'aggregate inspect')
		options=" --key --header --cacert --retries --timeout --headers-only --stats --threads --json --help"
		case $option in
		--key) return ;;
		--header) return ;;
		--cacert) _flmem_files "$word" -f && return ;;
		--retries) return ;;
		--timeout) return ;;
		--threads) return ;;
		esac
		[[ $word == -* ]] || _flmem_files "$word" -f
		;;
	'aggregate diff')
		options=" --key --header --cacert --retries --timeout --tolerance --threads --json --help"
		case $option in
		--key) return ;;
		--header) return ;;
		--cacert) _flmem_files "$word" -f && return ;;
		--retries) return ;;
		--timeout) return ;;
		--tolerance) return ;;
		--threads) return ;;
		esac
		[[ $word == -* ]] || _flmem_files "$word" -f
		;;
	'aggregate convert')
		options=" --output --dtype --key --shard-size --header --cacert --retries --timeout --resume --json --quiet --help"
		case $option in
		--output | -o) _flmem_files "$word" -f && return ;;
		--dtype) _flmem_offer "$word" -W "bf16 f16 f32 f64 fp16 fp32 fp64" && return ;;
		--key) return ;;
		--shard-size) return ;;
		--header) return ;;
		--cacert) _flmem_files "$word" -f && return ;;
		--retries) return ;;
		--timeout) return ;;
		esac
		[[ $word == -* ]] || _flmem_files "$word" -f
		;;
	'aggregate generate')
		options=" --output --shape --seed --client --dtype --threads --resume --quiet --json --help"
		case $option in
		--output | -o) _flmem_files "$word" -f && return ;;
		--shape) _flmem_offer "$word" -W "resnet18 llama-3.2-1b llama-3.2-3b llama-3.1-8b llama-3.1-70b llama-3.1-405b" && return ;;
		--seed) return ;;
		--client) return ;;
		--dtype) return ;;
		--threads) return ;;
		esac
		;;
	exchange)
		options=" --help"
		if ((COMP_CWORD == 2)) && [[ $word != -* ]]; then
			_flmem_offer "$word" -W "serve push pull status wait"
		fi
		;;
	'exchange serve')
		options=" --model --clients --rounds --listen --state --algorithm --trim --server-rate --beta1 --beta2 --tau --clip-norm --hostile --keep --key --nan --non-float --mode --verify --quorum --deadline --chunk --max-request --quota --reserve --expire --idle-timeout --settle --connections --address-connections --tls-cert --tls-key --client-ca --authorised-clients --token-file --insecure --json-log --quiet --json --help"
		case $option in
		--model | -m) _flmem_files "$word" -f && return ;;
		--clients | -n) return ;;
		--rounds) return ;;
		--listen) return ;;
		--state) _flmem_files "$word" -d && return ;;
		--algorithm | -a) _flmem_offer "$word" -W "fedavg fedavgm fedadam fedyogi fedadagrad median trimmed-mean sum norm-clipped-mean krum multi-krum bulyan" && return ;;
		--trim) return ;;
		--server-rate) return ;;
		--beta1) return ;;
		--beta2) return ;;
		--tau) return ;;
		--clip-norm) return ;;
		--hostile) return ;;
		--keep) return ;;
		--key) return ;;
		--nan) _flmem_offer "$word" -W "reject skip-client propagate" && return ;;
		--non-float) _flmem_offer "$word" -W "equal first round" && return ;;
		--mode) _flmem_offer "$word" -W "staged lockstep" && return ;;
		--verify) return ;;
		--quorum) return ;;
		--deadline) return ;;
		--chunk) return ;;
		--max-request) return ;;
		--quota) return ;;
		--reserve) return ;;
		--expire) return ;;
		--idle-timeout) return ;;
		--settle) return ;;
		--connections) return ;;
		--address-connections) return ;;
		--tls-cert) _flmem_files "$word" -f && return ;;
		--tls-key) _flmem_files "$word" -f && return ;;
		--client-ca) _flmem_files "$word" -f && return ;;
		--authorised-clients) _flmem_files "$word" -f && return ;;
		--token-file) _flmem_files "$word" -f && return ;;
		esac
		;;
	'exchange push')
		options=" --client --round --weight --chunk --sha256 --replace --token-file --cert --key --ca --insecure --retries --timeout --quiet --json --help"
		case $option in
		--client | -c) return ;;
		--round | -r) return ;;
		--weight | -w) return ;;
		--chunk) return ;;
		--token-file) _flmem_files "$word" -f && return ;;
		--cert) _flmem_files "$word" -f && return ;;
		--key) _flmem_files "$word" -f && return ;;
		--ca) _flmem_files "$word" -f && return ;;
		--retries) return ;;
		--timeout) return ;;
		esac
		[[ $word == -* ]] || _flmem_files "$word" -f
		;;
	'exchange pull')
		options=" --output --round --token-file --cert --key --ca --insecure --retries --timeout --quiet --json --help"
		case $option in
		--output | -o) _flmem_files "$word" -f && return ;;
		--round | -r) return ;;
		--token-file) _flmem_files "$word" -f && return ;;
		--cert) _flmem_files "$word" -f && return ;;
		--key) _flmem_files "$word" -f && return ;;
		--ca) _flmem_files "$word" -f && return ;;
		--retries) return ;;
		--timeout) return ;;
		esac
		;;
	'exchange status')
		options=" --token-file --cert --key --ca --insecure --retries --timeout --json --help"
		case $option in
		--token-file) _flmem_files "$word" -f && return ;;
		--cert) _flmem_files "$word" -f && return ;;
		--key) _flmem_files "$word" -f && return ;;
		--ca) _flmem_files "$word" -f && return ;;
		--retries) return ;;
		--timeout) return ;;
		esac
		;;
	'exchange wait')
		options=" --round --timeout --token-file --cert --key --ca --insecure --retries --quiet --json --help"
		case $option in
		--round | -r) return ;;
		--timeout) return ;;
		--token-file) _flmem_files "$word" -f && return ;;
		--cert) _flmem_files "$word" -f && return ;;
		--key) _flmem_files "$word" -f && return ;;
		--ca) _flmem_files "$word" -f && return ;;
		--retries) return ;;
		esac
		;;
	help)
		options=" --help"
		if ((COMP_CWORD == 2)); then
			[[ $word == -* ]] || _flmem_offer "$word" -W "detect trim env start watch recommend profile aggregate exchange help exit-codes conditions values environment"
		fi
		if ((COMP_CWORD == 3)) && [[ ${COMP_WORDS[2]} == profile ]]; then
			_flmem_offer "$word" -W "run attach detach round stats summary table tree leaks flamegraph diff analyze export"
		fi
		if ((COMP_CWORD == 3)) && [[ ${COMP_WORDS[2]} == aggregate ]]; then
			_flmem_offer "$word" -W "inspect diff convert generate"
		fi
		if ((COMP_CWORD == 3)) && [[ ${COMP_WORDS[2]} == exchange ]]; then
			_flmem_offer "$word" -W "serve push pull status wait"
		fi
		;;
	esac
	if [[ $word == -* && -n $options ]]; then
		_flmem_offer "$word" -W "$options"
	fi
}

complete -F _flmem flmem
