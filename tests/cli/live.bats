#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The live view of `flmem watch`, in a real terminal: tmux, with a server of its own. What is waited
# for is a text on the screen, never a time.

# shellcheck disable=SC2030,SC2031,SC2153 # each test is a shell of its own; helpers.bash sets VICTIM
load helpers

setup() {
	requires tmux
	SOCKET=flmem-test-$$-$BATS_TEST_NUMBER
}

teardown() {
	tmux -L "$SOCKET" kill-server 2>/dev/null || true
	stop_victims
}

# open_terminal COLUMNS ROWS: opens a shell that only runs the commands that it is given.
open_terminal() {
	env -u NO_COLOR LC_ALL=C.UTF-8 tmux -L "$SOCKET" -f /dev/null -u new-session -d -x "$1" -y "$2" \
		"env PS1='$ ' LC_ALL=C.UTF-8 ASAN_OPTIONS=$ASAN_OPTIONS /bin/bash --norc --noprofile" 3>&-
	wait_until 60 on_screen '\$'
}

keys() {
	tmux -L "$SOCKET" send-keys "$@"
}

screen() {
	tmux -L "$SOCKET" capture-pane -p "$@"
}

# on_screen REGEX: true if any line matches.
on_screen() {
	screen | grep -qE -- "$1"
}

off_screen() {
	if on_screen "$1"; then
		return 1
	fi
}

is_red() {
	screen -e | grep -q "$(printf '\033\\[[0-9;]*31')"
}

see() {
	wait_until 60 on_screen "$1" || {
		screen
		fail "not on the screen: $1"
	}
}

# Starts a watch of VICTIM, with further words before and after it.
start_watch() {
	keys "clear; $1 '$FLMEM' watch --pid $VICTIM --interval 50ms $2; echo 'status:' \$?; stty -a" Enter
	see 'flmem watch: [1-9]'
}

# Checks after the end that the shell's screen, echo and lines are as before.
assert_terminal_restored() {
	see '^status: '"$1"'$'
	see '[^-]echo '
	see '[^-]icanon '
	keys "echo typed-and-shown" Enter
	see '^typed-and-shown'
	[ "$(tmux -L "$SOCKET" display-message -p '#{alternate_on} #{cursor_flag}')" = "0 1" ]
}

@test "a row per process, with what is known of it; q ends with the summary" {
	open_terminal 130 24
	start_victim watched leak 0 100 512
	start_watch "" ""
	see 'PID +WHO +MEMORY +RSS +TRIMMABLE +TREND +GROWTH +LIMIT IN +COMMAND'
	see "^ *$VICTIM .*[▁▂▃▄▅▆▇█]{5,}.* MiB .* climbing .*\+.*iB/h .*[^ ]"
	see 'limit .* left'
	keys q
	see "process $VICTIM: climbing, confidence"
	assert_terminal_restored 0
	alive "$VICTIM"
}

@test "the script is shown rather than its interpreter, and what the rows are sorted by" {
	requires python3
	open_terminal 100 20
	printf 'print("ready", flush=True)\nimport threading\nthreading.Event().wait()\n' \
		>"$BATS_TEST_TMPDIR/averager.py"
	start_victim /usr/bin/python3 -u "$BATS_TEST_TMPDIR/averager.py" --clients 3
	start_watch "" ""
	see "^ *$VICTIM .* averager.py"
	off_screen '/usr/bin/python3'
	see 'alive, by resident memory'
	keys s
	see 'alive, by growth'
	keys q
	assert_terminal_restored 0
}

@test "a trim asks first, and says what it brought" {
	requires python3
	open_terminal 120 20
	# The memory is freed between blocks that stay: only a trim releases it. The thread is
	# blocked, and so idle.
	start_victim /usr/bin/python3 -uc '
import ctypes, threading
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
blocks = [libc.malloc(65536) for _ in range(1024)]
for block in blocks:
    ctypes.memset(block, 1, 65536)
for block in blocks[1::2]:
    libc.free(block)
print("ready", flush=True)
threading.Event().wait()'
	start_watch "" ""
	see "^ *$VICTIM "
	keys m
	see "process $VICTIM: a trim would release about [0-9.]+ MiB"
	keys t
	see 'Trim it now\? \(y/n\)'
	keys n
	see '^not trimmed'
	keys t
	see 'Trim it now\? \(y/n\)'
	keys y
	see "process $VICTIM: [0-9.]+ MiB released, RSS"
	assert_victim_unharmed
	keys q
	assert_terminal_restored 0
}

@test "what cannot be trimmed says why" {
	requires /bin/busybox
	open_terminal 120 20
	start_victim /bin/busybox sh -c 'echo ready; while :; do sleep 1; done'
	start_watch "" ""
	see "^ *$VICTIM "
	keys t
	see "process $VICTIM( cannot be trimmed: .*|: a trim would release)"
	keys n
	keys q
	assert_terminal_restored 0
	alive "$VICTIM"
}

@test "help, order and selection" {
	local first
	open_terminal 100 20
	start_victim watched flat 0 100 512
	first=$VICTIM
	start_victim watched leak 0 100 2048
	start_watch "" "--pid $first"
	see "^ *$first "
	keys '?'
	see 'this help'
	keys '?'
	see "^ *$first "
	keys s
	see 'sorted by growth'
	keys s
	see 'sorted by time to the limit'
	keys s
	see 'sorted by pid'
	[ "$(screen | awk '/^ *[0-9]+ / { print $1; exit }')" = \
		"$((first < VICTIM ? first : VICTIM))" ]
	keys Down Up End Home
	keys q
	see "process $first: "
	assert_terminal_restored 0
}

@test "any size will do" {
	open_terminal 100 20
	start_victim watched flat 0 100 512
	start_watch "" ""
	see COMMAND
	tmux -L "$SOCKET" resize-window -x 50 -y 8
	wait_until 60 off_screen COMMAND
	see "^ *$VICTIM "
	see 'q quit'
	tmux -L "$SOCKET" resize-window -x 10 -y 2
	see '^too small'
	tmux -L "$SOCKET" resize-window -x 160 -y 40
	see 'WHO.*COMMAND'
	tmux -L "$SOCKET" resize-window -x 1 -y 1
	tmux -L "$SOCKET" resize-window -x 100 -y 20
	see COMMAND
	keys q
	assert_terminal_restored 0
}

@test "signs instead of blocks where there is no UTF-8, no colour where none is wanted" {
	open_terminal 100 20
	start_victim watched leak 0 100 512
	start_watch "LC_ALL=C" ""
	see "^ *$VICTIM +[-_.:=+*#]{10,} "
	see climbing
	wait_until 60 is_red
	if screen | LC_ALL=C grep '[^ -~]'; then
		fail "not all of it is ASCII"
	fi
	keys q
	assert_terminal_restored 0
	start_watch "NO_COLOR=1" ""
	see climbing
	if screen -e | grep -E "$(printf '\033')\\[([0-9;]*;)?3[0-7]"; then
		fail "there is colour"
	fi
	keys q
	assert_terminal_restored 0
}

@test "a hostile name does nothing to the terminal" {
	open_terminal 120 20
	# shellcheck disable=SC2016
	start_victim /bin/bash -c 'exec -a "$1" "$2" flat 0 100 512' _ \
		$'\e]0;owned\a\e[2J\e[1;1Hevil\r\n\xe2\x80\xae\xff' "$FLMEM_VICTIMS/watched"
	start_watch "" ""
	see "^ *$VICTIM .*x1b"
	if on_screen '^evil'; then
		fail "the name has moved the cursor"
	fi
	[ "$(tmux -L "$SOCKET" display-message -p '#{pane_title}')" != owned ]
	keys q
	assert_terminal_restored 0
}

@test "a process that executes another program gets its name" {
	open_terminal 200 20
	mkfifo "$BATS_TEST_TMPDIR/go"
	# shellcheck disable=SC2016
	start_victim /bin/bash -c 'echo ready; read -r _ <"$1"; exec "$2" flat 0 100 512' before \
		"$BATS_TEST_TMPDIR/go" "$FLMEM_VICTIMS/watched"
	start_watch "" ""
	see "^ *$VICTIM .*bash -c"
	echo >"$BATS_TEST_TMPDIR/go"
	see "^ *$VICTIM .*watched flat 0 100 512"
	keys q
	assert_terminal_restored 0
}

@test "the terminal is given back whatever signal ends it" {
	local signal
	open_terminal 100 40
	start_victim watched flat 0 100 512
	for signal in INT TERM HUP QUIT ABRT; do
		start_watch "ulimit -c 0;" ""
		see "^ *$VICTIM "
		signal_watch "$signal"
		case $signal in
		INT | TERM) assert_terminal_restored 0 ;;
		*) assert_terminal_restored "$((128 + $(kill -l $signal)))" ;;
		esac
	done
	alive "$VICTIM"
}

# Sends the signal to the watch: the child of the shell in the terminal.
signal_watch() {
	local shell
	shell=$(tmux -L "$SOCKET" display-message -p '#{pane_pid}')
	kill -"$1" "$(pgrep -P "$shell" -n)"
}

@test "Ctrl-C, and a target that ends, end it with the summary" {
	open_terminal 100 30
	start_victim watched flat 0 100 512
	start_watch "" ""
	see "^ *$VICTIM "
	keys C-c
	see "process $VICTIM: "
	assert_terminal_restored 0
	start_watch "" ""
	see "^ *$VICTIM "
	kill -KILL "$VICTIM"
	see "process $VICTIM \(ended\): "
	assert_terminal_restored 0
}

@test "lines where the terminal can do nothing, or output is not a terminal" {
	open_terminal 100 20
	start_victim watched flat 0 100 512
	keys "TERM=dumb '$FLMEM' watch --pid $VICTIM --interval 50ms --duration 1s" Enter
	see "process $VICTIM: RSS "
	keys "clear; '$FLMEM' watch --pid $VICTIM --interval 50ms --duration 1s | cat" Enter
	see "process $VICTIM: RSS "
	keys "clear; TERM=unknown-thing '$FLMEM' watch --pid $VICTIM --interval 50ms --duration 1s" Enter
	see "no description of the terminal 'unknown-thing' is installed; printing lines instead"
	see "process $VICTIM: RSS "
}

@test "with --report a page is written as well" {
	open_terminal 100 20
	start_victim watched flat 0 100 512
	start_watch "" "--report $BATS_TEST_TMPDIR/page.html"
	see "^ *$VICTIM "
	keys q
	assert_terminal_restored 0
	grep -q "Process $VICTIM" "$BATS_TEST_TMPDIR/page.html"
}
