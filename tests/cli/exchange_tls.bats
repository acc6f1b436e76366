#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem exchange serve with certificates, and behind nginx.

load helpers
load exchange

setup() {
	exchange_setup
	command -v openssl >/dev/null || skip "needs openssl"
	make_model g.safetensors 0
	make_model a.safetensors 1
	make_authority ca
	make_certificate ca server localhost
}

teardown() {
	exchange_teardown
	[ ! -e nginx/pid ] || kill "$(cat nginx/pid)" || true
}

make_authority() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
		-subj "/CN=$1" -keyout "$1.key" -out "$1.pem" 2>/dev/null
}

# make_certificate AUTHORITY NAME CN [DAYS] [EXTENSION]
make_certificate() {
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$3" \
		-keyout "$2.key" -out "$2.csr" 2>/dev/null
	printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\n%s\n' "${5:-}" >extensions
	openssl x509 -req -in "$2.csr" -CA "$1.pem" -CAkey "$1.key" -CAcreateserial \
		-days "${4:-2}" -extfile extensions -out "$2.pem" 2>/dev/null
}

@test "mistakes with certificates of clients are found, and named" {
	make_certificate ca one site-1
	make_certificate ca two site-2
	serve --model g.safetensors --clients 1 --tls-cert server.pem --tls-key server.key --client-ca ca.pem
	run_command "$FLMEM" exchange status "$URL" --ca gone.pem
	assert_error 2 "cannot read the certificate or key 'gone.pem': No such file"
	run_command "$FLMEM" exchange status "$URL" --ca .
	assert_error 2 "cannot read the certificate or key '.': Is a directory"
	run_command "$FLMEM" exchange status "$URL" --ca ca.pem --cert gone.pem --key one.key
	assert_error 2 "cannot read the certificate or key 'gone.pem': No such file"
	run_command "$FLMEM" exchange status "$URL" --ca ca.pem --cert one.pem --key gone.key
	assert_error 2 "cannot read the certificate or key 'gone.key': No such file"
	run_command "$FLMEM" exchange status "$URL" --ca ca.pem --cert one.pem --key two.key
	assert_error 2 "--cert and --key are PEM files that belong together"
	run_command "$FLMEM" exchange status "$URL" --ca g.safetensors
	assert_error 2 "--ca is a PEM file of certificates"
	run_command "$FLMEM" exchange status "$URL" --ca one.pem
	assert_error 7 "name the certificate of its authority with --ca"
	run_command "$FLMEM" exchange status "$URL" --ca ca.pem --cert one.pem --key one.key
	assert_status 0
}

@test "a host name that the certificate of the server lacks is named" {
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=x \
		-keyout x.key -out x.csr 2>/dev/null
	echo 'subjectAltName=DNS:fl.example.org' >extensions
	openssl x509 -req -in x.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile extensions -out x.pem \
		2>/dev/null
	serve --model g.safetensors --clients 1 --tls-cert x.pem --tls-key x.key
	run_command "$FLMEM" exchange status "$URL" --ca ca.pem
	assert_error 7 "use a host name of the certificate in the address"
}

# Records of TLS are cut at other places than plain answers, and read in another way.
@test "the model by TLS: the whole, parts, and a file that is cut while it is sent" {
	local file=/v1/rounds/0/model/g.safetensors url reader
	make_model g.safetensors 0 5000000
	serve --model g.safetensors --clients 1 --idle-timeout 1h --tls-cert server.pem --tls-key server.key
	AUTH=(--cacert ca.pem)
	request GET $file
	cmp body g.safetensors
	request HEAD $file
	[ "$(header Content-Length)" -eq "$(stat -c %s g.safetensors)" ]
	request GET $file -r 65535-131072
	assert_code 206
	cmp body <(tail -c +65536 g.safetensors | head -c 65538)
	request GET $file -r -1
	cmp body <(tail -c 1 g.safetensors)
	for url in https http; do
		mkfifo "pipe-$url"
		curl -s --cacert ca.pem "$URL$file" >"pipe-$url" &
		reader=$!
		exec {bytes}<"pipe-$url"
		head -c 1000 <&"$bytes" >start
		cmp start <(head -c 1000 g.safetensors)
		cp g.safetensors whole
		truncate -s 100000 g.safetensors
		cat <&"$bytes" >rest
		exec {bytes}<&-
		! wait "$reader" || fail "a cut model was whole"
		kill_server
		rm -r state
		cp whole g.safetensors
		[ $url = http ] || serve --model g.safetensors --clients 1 --idle-timeout 1h
	done
}

@test "client certificates name the clients" {
	make_certificate ca one site-1
	make_certificate ca two 'CN of two'
	make_certificate ca three site-3
	make_authority other
	make_certificate other foreign site-1
	finger=$(openssl x509 -in two.pem -outform DER | sha256sum | head -c 64)
	printf 'first CN=site-1\nsecond sha256:%s\n' "${finger^^}" >clients
	serve --model g.safetensors --clients 2 --tls-cert server.pem --tls-key server.key \
		--client-ca ca.pem --authorised-clients clients
	[[ $URL == https://* ]]
	AUTH=(--cacert ca.pem)
	request GET /v1/status
	assert_code 401 'no certificate'
	AUTH=(--cacert ca.pem --cert foreign.pem --key foreign.key)
	request GET /v1/status
	[ "$CODE" = 401 ] || [ "$CODE" = 000 ]
	AUTH=(--cacert ca.pem --cert three.pem --key three.key)
	request GET /v1/status
	assert_code 403
	AUTH=(--cacert ca.pem --cert one.pem --key one.key)
	create second a.safetensors
	assert_code 403
	push first a.safetensors
	assert_code 204
	AUTH=(--cacert ca.pem --cert two.pem --key two.key)
	push second a.safetensors
	assert_code 204
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors a.safetensors
}

@test "without a list the CN is the name" {
	make_certificate ca one site-1
	make_certificate ca two 'no name'
	serve --model g.safetensors --clients 1 --tls-cert server.pem --tls-key server.key \
		--client-ca ca.pem
	AUTH=(--cacert ca.pem --cert two.pem --key two.key)
	request GET /v1/status
	assert_code 403
	AUTH=(--cacert ca.pem --cert one.pem --key one.key)
	push site-1 a.safetensors
	assert_code 204
	await_server
	[ "$CODE" -eq 0 ]
}

@test "a certificate with two names is that of no client" {
	make_certificate ca two 'site-1/CN=site-2'
	printf 'first CN=site-1\nsecond CN=site-2\n' >clients
	AUTH=(--cacert ca.pem --cert two.pem --key two.key)
	local list
	for list in "" "--authorised-clients clients"; do
		# shellcheck disable=SC2086 # words
		serve --model g.safetensors --clients 1 --tls-cert server.pem --tls-key server.key --client-ca ca.pem $list
		request GET /v1/status
		assert_code 403 'that of an authorised client'
		kill_server
		rm -r state
	done
}

@test "certificates that have expired, or are for servers only, are of no client" {
	local name
	make_certificate ca old site-1 -1
	make_certificate ca web site-1 2 extendedKeyUsage=serverAuth
	make_certificate ca client site-1 2 extendedKeyUsage=clientAuth
	make_certificate ca both site-1 2 extendedKeyUsage=serverAuth,clientAuth
	serve --model g.safetensors --clients 1 --tls-cert server.pem --tls-key server.key \
		--client-ca ca.pem
	AUTH=(--cacert ca.pem --cert old.pem --key old.key)
	request GET /v1/status
	assert_code 401 'has expired'
	AUTH=(--cacert ca.pem --cert web.pem --key web.key)
	request GET /v1/status
	assert_code 401 'not for clients'
	for name in both client; do
		AUTH=(--cacert ca.pem --cert "$name.pem" --key "$name.key")
		request GET /v1/status
		assert_code 200
	done
	flmem exchange push "$URL" a.safetensors --ca ca.pem --cert old.pem --key old.key --retries 1
	assert_error 4 'has expired'
	push site-1 a.safetensors
	assert_code 204
}

# make_dated_certificate NAME CN BEGIN END: a certificate of ca with these dates (YYYYMMDDHHMMSSZ)
make_dated_certificate() {
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$2" \
		-keyout "$1.key" -out "$1.csr" 2>/dev/null
	: >index
	echo 01 >serial
	printf '%s\n' '[ca]' default_ca=d '[d]' database=index new_certs_dir=. serial=serial policy=p \
		default_md=sha256 '[p]' commonName=supplied >ca.conf
	openssl ca -batch -config ca.conf -cert ca.pem -keyfile ca.key -in "$1.csr" -extfile extensions \
		-startdate "$3" -enddate "$4" -out "$1.pem" 2>/dev/null
}

@test "a certificate that expires while its connection stays open is of no client" {
	local seconds status=3
	serve --model g.safetensors --clients 1 --tls-cert server.pem --tls-key server.key \
		--client-ca ca.pem
	for seconds in 2 8 32; do # more if it expired before the first request
		[ $status = 3 ] || break
		make_dated_certificate short site-1 20200101000000Z \
			"$(date -u -d "+$seconds seconds" +%Y%m%d%H%M%SZ)"
		status=0
		/usr/bin/python3 -B - "${URL##*:}" $seconds <<-'END' || status=$?
			import http.client, ssl, sys, time
			context = ssl.create_default_context(cafile="ca.pem")
			context.load_cert_chain("short.pem", "short.key")
			connection = http.client.HTTPSConnection("localhost", int(sys.argv[1]), context=context)
			def status():
			    connection.request("GET", "/v1/status")
			    answer = connection.getresponse()
			    return answer.status, answer.read()
			if status()[0] == 401:
			    sys.exit(3)
			socket, until = connection.sock, time.monotonic() + int(sys.argv[2]) + 5
			while (found := status())[0] == 200 and time.monotonic() < until:
			    time.sleep(0.1)
			assert found[0] == 401 and b"has expired" in found[1], found
			assert connection.sock is socket, "another connection"
		END
	done
	[ $status = 0 ]
}

@test "a server whose certificate has expired, or is not valid yet: the authority is not blamed" {
	local name why
	make_certificate ca old localhost -1
	make_dated_certificate early localhost 20900101000000Z 20910101000000Z
	for name in old early; do
		serve --model g.safetensors --clients 1 --tls-cert $name.pem --tls-key $name.key
		why=$([ $name = old ] && echo 'has expired.*needs a new one' || echo 'not yet valid.*the clock')
		flmem exchange push "$URL" a.safetensors --client c --ca ca.pem --retries 1
		assert_error 7 "$why"
		[[ $stderr != *--ca* ]]
		flmem aggregate inspect "$URL/v1/rounds/0/model/g.safetensors" --cacert ca.pem --retries 1
		assert_error 7 "$why"
		[[ $stderr != *--cacert* ]]
		PYTHONPATH="$FLMEM_TESTS/../libcore/bindings/python" run_command /usr/bin/python3 -B -c '
from flmem import exchange
import sys
exchange.Client(sys.argv[1], client="c", cafile=sys.argv[2]).status()' "$URL" ca.pem
		assert_stderr "$why"
		kill_server
		rm -r state
	done
}

@test "an address of other hosts needs TLS, or the option for it" {
	flmem exchange serve --model g.safetensors --clients 1 --state state --listen 0.0.0.0:0
	assert_error 2 insecure
	flmem exchange serve --model g.safetensors --clients 1 --state state --tls-cert server.pem \
		--tls-key ca.key --listen 127.0.0.1:0
	assert_error 2 "belong together"
	flmem exchange serve --model g.safetensors --clients 1 --state state --tls-cert server.pem
	assert_error 2 "need each other"
	flmem exchange serve --model g.safetensors --clients 1 --state state --listen '[::ffff:0.0.0.0]:0'
	assert_error 2 insecure
	serve --model g.safetensors --clients 1 --listen '[::ffff:127.0.0.1]:0'
	refute_line server.log 'other hosts'
	exchange_teardown
	serve --model g.safetensors --clients 1 --listen 0.0.0.0:0 --insecure
	grep -q 'other hosts' server.log
}

@test "nginx in front: TLS, a limit of bodies" {
	PATH="$PATH:/usr/sbin"
	command -v nginx >/dev/null || skip "needs nginx"
	serve --model g.safetensors --clients 1 --max-request 100000
	mkdir nginx
	cat >nginx/conf <<-END
		daemon on;
		pid $PWD/nginx/pid;
		error_log $PWD/nginx/error;
		events {}
		http {
			access_log off;
			client_body_temp_path $PWD/nginx/body;
			proxy_temp_path $PWD/nginx/proxy;
			fastcgi_temp_path $PWD/nginx/f;
			uwsgi_temp_path $PWD/nginx/u;
			scgi_temp_path $PWD/nginx/s;
			client_max_body_size 100000;
			server {
				listen unix:$PWD/nginx/socket ssl;
				ssl_certificate $PWD/server.pem;
				ssl_certificate_key $PWD/server.key;
				location / {
					proxy_pass $URL;
					proxy_http_version 1.1;
					proxy_request_buffering off;
					proxy_buffering off;
				}
			}
		}
	END
	nginx -p "$PWD/nginx" -c "$PWD/nginx/conf" -e "$PWD/nginx/error" -g 'user root;' 2>/dev/null ||
		nginx -p "$PWD/nginx" -c "$PWD/nginx/conf" -e "$PWD/nginx/error"
	await test -s nginx/pid
	AUTH=(--unix-socket "$PWD/nginx/socket" --cacert ca.pem)
	URL=https://localhost
	request GET /v1/rounds/0/model/g.safetensors -r 5-9
	assert_code 206
	create c a.safetensors
	assert_code 201
	push_rest a.safetensors 100000
	await_server
	[ "$CODE" -eq 0 ]
	assert_model "$(cat served)" a.safetensors
}
