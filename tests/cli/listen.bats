#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The metrics endpoint of a real watch: scraped by curl, by a real Prometheus, and by clients that
# mean it no good.

# shellcheck disable=SC2030,SC2031,SC2153 # each test is a shell of its own; helpers.bash sets VICTIM
load helpers

OPENMETRICS='application/openmetrics-text; version=1.0.0'

# start_watch ARGS: starts a watch that listens at a free port; sets URL and WATCH.
start_watch() {
	WATCH_ERR=$BATS_TEST_TMPDIR/watch.err
	"$FLMEM" watch --quiet --listen 127.0.0.1:0 "$@" >"$BATS_TEST_TMPDIR/watch.out" \
		2>"$WATCH_ERR" 3>&- &
	WATCH=$!
	VICTIMS+=("$WATCH")
	wait_until 60 listens_or_gone
	URL=$(sed -n 's/^flmem watch: metrics at //p' "$WATCH_ERR")
	[ -n "$URL" ] || fail "the watch ended: $(cat "$WATCH_ERR")"
	PORT=${URL%/metrics}
	PORT=${PORT##*:}
	wait_until 60 scrape
}

listens_or_gone() {
	grep -q 'metrics at' "$WATCH_ERR" || ! alive "$WATCH"
}

# scrape [CURL OPTIONS]: writes the metrics to $SCRAPED.
scrape() {
	SCRAPED=$BATS_TEST_TMPDIR/scraped
	curl --silent --fail --max-time 30 --output "$SCRAPED" "$@" "$URL"
}

has() {
	scrape && grep -Eq "$1" "$SCRAPED"
}

# raw BYTES: prints the endpoint's answer to them.
raw() {
	python -c '
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 30) as s:
    s.sendall(sys.argv[2].encode("latin-1").decode("unicode_escape").encode("latin-1"))
    s.shutdown(socket.SHUT_WR)
    answer = b"".join(iter(lambda: s.recv(65536), b""))
sys.stdout.write(answer.decode("latin-1"))' "$PORT" "$1"
}

setup() {
	requires curl
}

@test "metrics of a process that leaks" {
	start_victim watched leak 0 100 512
	start_watch --pid "$VICTIM" --interval 20ms
	wait_until 60 has "^flmem_memory_trend\{pid=\"$VICTIM\",flmem_memory_trend=\"climbing\"\} 1\$"
	has "^flmem_memory_resident_bytes\{pid=\"$VICTIM\"\} [0-9]{8,}\$"
	has "^flmem_memory_growth_per_hour_bytes\{pid=\"$VICTIM\"\} [0-9]{9,}\$"
	has "^flmem_memory_exhausted_in_seconds\{pid=\"$VICTIM\"\} [0-9]+\$"
	has '^flmem_processes 1$'
	has "^flmem_build_info\{version=\"[0-9.]+\"\} 1\$"
	has '^process_cpu_seconds_total [0-9]+\.[0-9]{6}$'
	alive "$VICTIM"
}

@test "promtool finds nothing to mend" {
	requires promtool
	start_victim watched flat 0 100 1024
	start_watch --pid "$VICTIM" --interval 20ms
	run_command promtool check metrics <"$SCRAPED"
	assert_status 0
	[ -z "$output$stderr" ]
}

# query QUERY: prints the answer of the test's Prometheus as JSON.
query() {
	curl --silent --fail --max-time 30 --get --data-urlencode "query=$1" \
		"http://127.0.0.1:$PROMETHEUS_PORT/api/v1/query"
}

answers() {
	query "$1" | python -c '
import json, sys
print(" ".join(r["value"][1] for r in json.load(sys.stdin)["data"]["result"]))' |
		grep -Eq "$2"
}

start_prometheus() {
	cat >"$BATS_TEST_TMPDIR/prometheus.yml" <<-END
		global: {scrape_interval: 500ms}
		scrape_configs:
		  - job_name: flmem
		    static_configs: [{targets: ["127.0.0.1:$PORT"]}]
	END
	PROMETHEUS_PORT=$(/usr/bin/python3 -c '
import socket
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    print(s.getsockname()[1])')
	prometheus --config.file="$BATS_TEST_TMPDIR/prometheus.yml" \
		--storage.tsdb.path="$BATS_TEST_TMPDIR/tsdb" \
		--web.listen-address="127.0.0.1:$PROMETHEUS_PORT" \
		>"$BATS_TEST_TMPDIR/prometheus.log" 2>&1 3>&- &
	VICTIMS+=($!)
	wait_until 60 curl --silent --fail --output /dev/null \
		"http://127.0.0.1:$PROMETHEUS_PORT/-/ready"
}

@test "Prometheus scrapes it as OpenMetrics and can be asked" {
	requires prometheus
	start_victim watched leak 0 100 512
	start_watch --pid "$VICTIM" --interval 20ms
	start_prometheus
	wait_until 60 answers 'up{job="flmem"}' '^1$'
	wait_until 60 answers "flmem_memory_trend{pid=\"$VICTIM\",flmem_memory_trend=\"climbing\"}" '^1$'
	answers "flmem_memory_resident_bytes{pid=\"$VICTIM\"} > bool 30e6" '^1$'
	wait_until 60 answers "rate(flmem_samples_total{pid=\"$VICTIM\"}[30s]) > bool 0" '^1$'
	# The types arrive, so the text was read as OpenMetrics: the older format has no stateset.
	run_command curl --silent "http://127.0.0.1:$PROMETHEUS_PORT/api/v1/targets/metadata?metric=flmem_memory_trend"
	assert_output '"type":"stateset"'
}

@test "what has ended is gone from the next scrape on" {
	local tag=listened-$BATS_ROOT_PID-$$ stays
	start_victim /bin/bash -c "exec -a $tag-one \"\$0\" flat 0 100 1024" "$FLMEM_VICTIMS/watched"
	stays=$VICTIM
	start_victim /bin/bash -c "exec -a $tag-two \"\$0\" flat 0 100 1024" "$FLMEM_VICTIMS/watched"
	start_watch --name "^$tag-" --interval 20ms
	wait_until 60 has "^flmem_memory_resident_bytes\{pid=\"$VICTIM\"\}"
	has '^flmem_processes 2$'
	kill -KILL "$VICTIM"
	wait_until 60 has '^flmem_processes 1$'
	! grep -q "pid=\"$VICTIM\"" "$SCRAPED" || fail "the process that ended is still reported"
	has "^flmem_memory_resident_bytes\{pid=\"$stays\"\}"
}

@test "the format is what the client asks for, and HEAD has no body" {
	start_victim watched flat 0 100 1024
	start_watch --pid "$VICTIM" --interval 20ms
	scrape --dump-header "$BATS_TEST_TMPDIR/head" -H "Accept: $OPENMETRICS"
	grep -qi '^content-type: application/openmetrics-text; version=1.0.0; charset=utf-8' \
		"$BATS_TEST_TMPDIR/head"
	[ "$(tail -n 1 "$SCRAPED")" = '# EOF' ]
	grep -q '^# TYPE flmem_memory_trend stateset$' "$SCRAPED"
	scrape --dump-header "$BATS_TEST_TMPDIR/head"
	grep -qi '^content-type: text/plain; version=0.0.4; charset=utf-8' "$BATS_TEST_TMPDIR/head"
	! grep -q EOF "$SCRAPED" || fail "the older format has no end"
	run_command curl --silent --head "$URL"
	assert_output '^HTTP/1.1 200'
	run_command raw 'HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n'
	[[ $output == *[[:cntrl:]] || $output != *flmem_* ]] || fail "HEAD has a body"
}

@test "hostile names and sites stay inside their labels" {
	local hostile='evil"} 1\n\\x{a="\033[31m\377<script>'
	# shellcheck disable=SC2016
	start_victim /bin/bash -c 'exec -a "$(printf "$1")" "$0" flat 0 100 1024' \
		"$FLMEM_VICTIMS/watched" "$hostile"
	start_watch --pid "$VICTIM" --interval 20ms
	has '^flmem_process_info\{pid="[0-9]+",start_time_ticks="[0-9]+",command="evil\\"\} 1\\\\x0a'
	! grep -q $'\033' "$SCRAPED" || fail "an escape character is in it"
	grep -q 'x1b\[31m' "$SCRAPED"
	[ "$(grep -c '^flmem_process_info{' "$SCRAPED")" -eq 1 ]
	! grep -q '^x{' "$SCRAPED" || fail "a name made a line of its own"
	requires promtool
	promtool check metrics <"$SCRAPED"
}

# Starts a shell, which becomes a Python, then the same Python with another program, each on
# request.
start_changing() {
	cd "$BATS_TEST_TMPDIR" || return
	python "$FLMEM_TESTS/cli/fakes/make-frameworks" fakes
	mkfifo go
	cat >first.py <<-'END'
		import os, sys
		open("go").read()
		os.execv(sys.executable, [sys.executable, "-u", "-m",
		         "nvflare.private.fed.app.client.worker_process", "-m", "/ws", "-n", "j", "-c", "site-1"])
	END
	# shellcheck disable=SC2016
	PYTHONPATH=fakes start_victim /bin/bash -c \
		'echo ready; read -r _ <go; exec /usr/bin/python3 -u first.py'
}

@test "a process that executes another program is known by that one, also in the recording" {
	local pid
	start_changing
	pid=$VICTIM
	start_watch --pid "$pid" --interval 10ms --json --record watch.rec
	wait_until 60 has '^flmem_process_info\{.*command="/bin/bash'
	echo >go
	wait_until 60 has '^flmem_process_info\{.*command="/usr/bin/python3 -u first.py"'
	echo >go
	wait_until 60 has '^flmem_process_info\{.*role="client-job",site="site-1",framework="nvflare"'
	[ "$(grep -c '^flmem_process_info{' "$SCRAPED")" -eq 1 ]
	kill -INT "$WATCH"
	wait "$WATCH" || fail "status $?"
	flmem watch --replay watch.rec --json --quiet
	assert_status 0
	assert_schema watch
	python -c '
import json, sys
live, again = (json.loads(text)["processes"] for text in (open("watch.out").read(), sys.argv[1]))
for rows in live, again:
    assert [row["pid"] for row in rows] == [int(sys.argv[2])], rows
    row = rows[0]
    assert (row["framework"], row["role"], row["site"]) == ("nvflare", "client-job", "site-1"), row
    assert row["command"].endswith("-n j -c site-1"), row
' "$output" "$pid"
}

@test "nothing but GET and HEAD of /metrics, and nothing of a request comes back" {
	start_victim watched flat 0 100 1024
	start_watch --pid "$VICTIM" --interval 20ms
	run_command raw 'GET /reflected?reflected HTTP/1.1\r\nHost: reflected\r\nX: reflected\r\n\r\n'
	assert_output '^HTTP/1.1 404 '
	refute_output reflected
	run_command raw 'GET /metrics/../metrics HTTP/1.1\r\nHost: x\r\n\r\n'
	assert_output '^HTTP/1.1 404 '
	run_command raw 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
	assert_output '^HTTP/1.1 404 '
	# A whole address would be a request to a proxy, which may pass it on.
	run_command raw 'GET http://x:9/metrics HTTP/1.1\r\nHost: x\r\n\r\n'
	assert_output '^HTTP/1.1 200 '
	run_command raw 'GET http://x/other/metrics HTTP/1.1\r\nHost: x\r\n\r\n'
	assert_output '^HTTP/1.1 404 '
	local method
	for method in POST PUT DELETE OPTIONS TRACE reflected; do
		run_command raw "$method /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"
		assert_output '^HTTP/1.1 405 '
		assert_output 'Allow: GET, HEAD'
		refute_output 'reflected|body'
	done
}

@test "malformed requests are answered or dropped, and the next scrape is served" {
	start_victim watched flat 0 100 1024
	start_watch --pid "$VICTIM" --interval 20ms
	local request long
	long=$(printf 'a%.0s' {1..40000})
	for request in '' '\r\n' 'GET' 'GET /metrics' '\x00\xff\xfe\x00' 'GET /metrics HTTP/9.9\r\n\r\n' \
		'GET /metrics HTTP/1.1\r\nreflected\r\n\r\n' \
		"GET /metrics HTTP/1.1\r\nX: $long\r\n\r\n" "GET /$long HTTP/1.1\r\n\r\n" \
		'GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n' \
		'GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n' \
		'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'; do
		raw "$request" >"$BATS_TEST_TMPDIR/answer" 2>/dev/null || true
		! grep -q 'reflected\|aaaa' "$BATS_TEST_TMPDIR/answer" || fail "it came back"
		scrape || fail "no answer after: ${request:0:40}"
	done
	alive "$WATCH"
}

@test "clients that send and read slowly keep nobody out, and the samples go on" {
	start_victim watched flat 0 100 1024
	start_watch --pid "$VICTIM" --interval 20ms
	# More connections than there is room for: half send nothing, half one byte at a time.
	python -c '
import socket, sys, time
def connect():
    return socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60)
sockets = [connect() for _ in range(40)]
print("ready", flush=True)
while True:
    for i in range(0, 40, 2):
        try:
            sockets[i].send(b"G")
        except OSError:
            sockets[i].close()
            sockets[i] = connect()
    time.sleep(0.5)' "$PORT" >"$BATS_TEST_TMPDIR/slow" 2>&1 3>&- &
	VICTIMS+=($!)
	wait_until 60 grep -q ready "$BATS_TEST_TMPDIR/slow"
	wait_until 60 scrape
	local before
	before=$(sed -n 's/^flmem_samples_total{.*} //p' "$SCRAPED")
	samples_went_on() {
		scrape && [ "$(sed -n 's/^flmem_samples_total{.*} //p' "$SCRAPED")" -gt "$before" ]
	}
	wait_until 60 samples_went_on
}

@test "many clients at once are all served the whole page" {
	start_victim watched flat 0 100 1024
	start_watch --pid "$VICTIM" --interval 20ms
	run_command python -c '
import concurrent.futures, sys, urllib.request
def scrape(_):
    request = urllib.request.Request(sys.argv[1], headers={"Accept": sys.argv[2]})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().endswith(b"# EOF\n")
with concurrent.futures.ThreadPoolExecutor(32) as pool:
    print(sum(pool.map(scrape, range(300))))' "$URL" "$OPENMETRICS"
	assert_status 0
	[ "$output" = 300 ]
	alive "$WATCH"
}

@test "a port that is in use, and addresses that are none" {
	start_victim watched flat 0 100 1024
	start_watch --pid "$VICTIM" --interval 20ms
	flmem watch --pid "$VICTIM" --listen "127.0.0.1:$PORT"
	assert_error 2 "address 127.0.0.1:$PORT is in use by another program"
	local address
	for address in 9477 :9477 127.0.0.1 127.0.0.1: 127.0.0.1:x 127.0.0.1:65536 1.2.3:4 '[::1' \
		'[::1]' ::1:1 host.example:9477 $'127.0.0.1\033:1'; do
		flmem watch --pid "$VICTIM" --listen "$address"
		assert_error 2 'invalid address'
	done
	flmem watch --pid "$VICTIM" --listen 192.0.2.1:9477
	assert_error 2 'not an address of this host'
	flmem watch --replay x --listen 127.0.0.1:0
	assert_error 2 'need a live watch'
}

@test "who listens for the network is warned, who does not is not" {
	start_victim watched flat 0 100 1024
	flmem watch --pid "$VICTIM" --duration 50ms --listen 0.0.0.0:0 --quiet
	assert_status 0
	assert_stderr 'metrics at http://0.0.0.0:[1-9][0-9]*/metrics'
	assert_stderr 'warning: every host that can connect'
	flmem watch --pid "$VICTIM" --duration 50ms --listen localhost:0 --quiet
	assert_status 0
	assert_stderr 'metrics at http://127.0.0.1:[1-9][0-9]*/metrics$'
	[[ $stderr != *warning* ]]
}

@test "GPU memory of a process that has a GPU open, and of one that has none" {
	requires root unshare
	local fake=$FLMEM_VICTIMS/../fakes/nvml_3
	# A /dev of its own, with what stands for the driver: its library is tests/fakes/nvml.c.
	# shellcheck disable=SC2016
	run_command unshare --mount bash -c '
		mount -t tmpfs flmem /dev 2>/dev/null || exit 77
		mknod -m 666 /dev/null c 1 3; mknod -m 444 /dev/zero c 1 5; mknod -m 444 /dev/urandom c 1 9
		: >/dev/nvidiactl; : >/dev/nvidia0
		"$2/watched" flat 0 100 1024 </dev/null >"$4/none" 3>&- &
		none=$!
		"$2/watched" flat 0 100 1024 </dev/nvidia0 >"$4/one" 3>&- &
		one=$!
		until grep -q ready "$4/none" && grep -q ready "$4/one"; do sleep 0.02; done
		FAKE_NVML_PID=$one LD_LIBRARY_PATH=$3 "$1" watch --pid "$none,$one" --quiet --json \
			--interval 50ms --duration 300ms
		kill "$none" "$one"' _ "$FLMEM" "$FLMEM_VICTIMS" "$fake" "$BATS_TEST_TMPDIR"
	[ "$status" -ne 77 ] || skip "cannot mount a file system"
	run_command python -c '
import json, sys
print(*(p["gpu_bytes"] for p in json.loads(sys.argv[1])["processes"]))' "$output"
	[ "$output" = "0 $(((1 << 30) + (1 << 29)))" ]
}

@test "without a GPU its memory is unknown, with the reason, and no metric" {
	! has_nvidia || skip "this machine has a GPU"
	start_victim watched flat 0 100 1024
	flmem watch --pid "$VICTIM" --interval 50ms --duration 100ms --quiet --json
	assert_status 0
	assert_schema watch
	assert_output '"gpu_bytes":"no NVIDIA GPU is visible here"'
	start_watch --pid "$VICTIM" --interval 20ms
	! grep -q '^flmem_gpu_memory_bytes{' "$SCRAPED" || fail "it is reported"
}

@test "other commands do not load what serves" {
	requires ldd
	run_command ldd "$FLMEM"
	refute_output microhttpd
}
