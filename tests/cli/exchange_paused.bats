#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Either side of flmem exchange does not run for an hour: a signal, a frozen container, a paused machine.
# shellcheck disable=SC2153 # exchange.bash sets URL

load helpers
load exchange

setup() {
	exchange_setup
	make_model g.safetensors 0
	make_model a.safetensors 1
	make_model b.safetensors 2
	# flmem with a clock that jumps when pass_hours() is called.
	cat >clocked <<-END
		#!/bin/sh
		export CLOCK_AHEAD='$PWD/ahead' LD_PRELOAD='$FLMEM_VICTIMS/sampled/jumped_clock.so'
		export ASAN_OPTIONS="\${ASAN_OPTIONS:-}:verify_asan_link_order=0"
		exec "$FLMEM" "\$@"
	END
	chmod +x clocked
}

teardown() {
	exchange_teardown
}

pass_hours() {
	echo "$(($1 * 3600))" >new && mv new ahead
}

resumed() {
	[ "$(grep -c 'round .: resumed, 3600' server.log)" -eq "$1" ]
}

@test "the limits of rounds, uploads, connections and the end do not count the time in which the server was stopped" {
	local line
	FLMEM=$PWD/clocked serve --model g.safetensors --clients 2 --deadline 30m --expire 20m --idle-timeout 10m --settle 10m
	push a a.safetensors
	assert_code 204
	create b b.safetensors
	head -c 50000 b.safetensors >chunk
	patch 0 chunk
	assert_code 204
	exec 5<>"/dev/tcp/127.0.0.1/${URL##*:}"
	printf 'GET /v1/status HTTP/1.1\r\n' >&5
	pass_hours 1
	await resumed 1
	printf 'Host: localhost\r\n\r\n' >&5
	read -r -t 60 -u 5 line
	[[ $line == *' 200 '* ]]
	exec 5>&-
	request GET /v1/status
	assert_code 200 '"deadline_s":1[5-8]'
	# A server that is started again goes by the other clock.
	[ "$(cat state/rounds/0/opened)" -gt "$(($(date +%s) + 1800))000000" ]
	push_rest b.safetensors 100000
	await has_line server.log published
	pass_hours 2
	await resumed 2
	"$FLMEM" exchange pull -q "$URL" -o got.safetensors --retries 1
	assert_model got.safetensors a.safetensors b.safetensors
}

@test "the time in which a client was stopped is not taken for that of a server which does not answer" {
	serve --model g.safetensors --clients 1
	request GET /v1/status
	cp body answer
	python - >port 3>&- <<-'END' &
		import http.server, os, time
		class Handler(http.server.BaseHTTPRequestHandler):
		    def do_GET(self):
		        with open("new", "w") as new:
		            new.write("3600")
		        os.rename("new", "ahead")
		        time.sleep(0.5)
		        with open("answer", "rb") as answer:
		            body = answer.read()
		        self.send_response(200)
		        self.send_header("Content-Type", "application/json")
		        self.send_header("Content-Length", str(len(body)))
		        self.end_headers()
		        self.wfile.write(body)
		server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
		print(server.server_address[1], flush=True)
		server.handle_request()
	END
	await test -s port
	run_command ./clocked exchange status "http://127.0.0.1:$(cat port)" --retries 0
	assert_status 0
	wait "$!"
}
