#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
`flmem aggregate` with inputs on web servers, good and bad ones; in the current directory, which is
empty:

    web_checks.py FLMEM CHECK
"""
import json
import os
import signal
import subprocess
import sys

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import ports, tensors, web  # noqa: E402
from harness.aggregate_calls import FLMEM, call, content, put, refused, run  # noqa: E402

COUNT = 60000


def make_models(count=3, elements=COUNT):
    random = numpy.random.default_rng(7)
    for i in range(count):
        tensors.write(f"{i}.safetensors", {
            "a": ("F32", random.normal(size=(elements // 10, 10)).astype("f4")),
            "b": ("BF16", random.integers(0, 1 << 14, 333).astype("u2")),
            "c": ("I64", numpy.array([5, 6], "i8")),
        })
    return [f"{i}.safetensors" for i in range(count)]


def addresses(server, kind, names):
    return [f"{server.base}/{kind}/{name}" for name in names]


def means():
    """Compares with the result of the same files on the disk, whatever a good server does."""
    names, server = make_models(), web.Server()
    server.lies_from = 8
    want = run("-o", "want.safetensors", "--weights", "1,2,3", *names)
    for kind in ("plain", "unmarked", "chunked", "unlimited", "moved", "busy", "reset", "broken", "expiring"):
        # A failure takes time, so there are few requests where every second one fails.
        several = [] if kind in ("busy", "reset", "broken") else ["--threads", "4", "--chunk", "64KiB"]
        for more in (["--threads", "1"], several):
            got = run("-o", f"{kind}.safetensors", "--weights", "1,2,3", *more, *addresses(server, kind, names))
            assert content(f"{kind}.safetensors") == content("want.safetensors"), kind
            assert got["crc32c"] == want["crc32c"], kind
    mixed = [names[0], *addresses(server, "plain", names[1:])]
    run("-o", "mixed.safetensors", "--weights", "1,2,3", *mixed)
    assert content("mixed.safetensors") == content("want.safetensors")


def others():
    """Tests the other commands, and algorithms that need two passes or a base."""
    names, server = make_models(5, 6000), web.Server()
    urls = addresses(server, "plain", names)
    for words in (["-a", "krum"], ["-a", "norm-clipped-mean", "--base", "BASE"], ["-a", "median"]):
        for where, base in (([*names], names[0]), ([*urls], urls[0])):
            out = "web" if where == urls else "disk"
            run("-o", out, *[base if word == "BASE" else word for word in words], *where)
        assert content("web") == content("disk"), words
    on_disk, on_web = run("inspect", "--stats", names[0]), run("inspect", "--stats", urls[0])
    assert on_disk["models"][0]["tensors"] == on_web["models"][0]["tensors"]
    assert on_disk["models"][0]["files"][0]["crc32c"] == on_web["models"][0]["files"][0]["crc32c"]
    assert call("diff", names[0], urls[0]).returncode == 0
    assert call("diff", urls[0], urls[1]).returncode == 1
    for where, out in ((names[1], "disk"), (urls[1], "web")):
        assert call("convert", "-q", "--dtype", "f16", "-o", out, where).returncode == 0
    assert content("web") == content("disk")
    for words in (["-o", urls[0], names[0]], ["convert", "-o", urls[0], names[0]],
                  ["-a", "fedadam", "--base", names[0], "--state", urls[1], "-o", "x", names[0]]):
        refused("addresses are read only", *words)
    put("counts.json", json.dumps({"0": 1, "1.safetensors": 3}).encode())
    run("-o", "counted", "--weights-from", "counts.json", *[url + "?x=0/9" for url in urls[:2]])
    run("-o", "want", "--weights", "1,3", *names[:2])
    assert content("counted") == content("want")


def shards():
    """A folder of shards by the address of its index."""
    server = web.Server()
    for folder in ("one", "two"):
        os.mkdir(folder)
        for i in range(3):
            tensors.write(f"{folder}/m-{i}.safetensors", {f"t{i}": ("F32", numpy.full(5000, i + 1.5, "f4"))})
        put(f"{folder}/model.safetensors.index.json", json.dumps(
            {"weight_map": {f"t{i}": f"m-{i}.safetensors" for i in range(3)}}).encode())
    run("-o", "want", "one", "two")
    index = "model.safetensors.index.json"
    run("-o", "web", *[f"{server.base}/plain/{folder}/{index}?sig=1" for folder in ("one", "two")])
    assert content("web") == content("want")
    put("two/" + index, b'{"weight_map": {"t0": "../one/m-0.safetensors"}}')
    refused(f"/plain/two/{index}' names a shard outside", "-o", "x", f"{server.base}/plain/two/{index}")
    put("two/" + index, b'{"weight_map": {"t0": "m-9.safetensors"}}')
    server.requests.clear()
    refused("the server does not have", "-o", "x", f"{server.base}/none/two/{index}")


def lies():
    """Checks that each fault has its own message, and the old output stays."""
    names, server = make_models(2), web.Server()
    server.lies_from = 8
    put("out", b"old")
    for kind, status, text in (
            ("whole", 2, "ignores Range requests"),
            ("shifted", 7, "instead of the requested"),
            ("unsized", 7, "its Content-Range is absent or invalid"),
            ("huge", 2, "more than a file can have"),
            ("unranged", 7, "its Content-Range is absent or invalid"),
            ("short", 7, "with 1 bytes remaining to read"),
            ("less", 7, "bytes for a part of"),
            ("more", 7, "sends more bytes than it announced"),
            ("changing", 2, "changed while it was read"),
            ("replaced", 2, "changed while it was read"),
            ("zipped", 7, "sends compressed data"),
            ("headers", 7, "bytes of headers"),
            ("overloaded", 7, "tried 2 times"),
            ("slow", 7, "sends less than 1 KiB a second for 1 seconds"),
            ("around", 7, "redirects more than 8 times"),
            ("file", 7, "redirects to an address that is neither http:// nor https://"),
            ("nowhere", 7, "redirects without an address"),
            ("garbled", 7, "redirects to something that is not a valid address"),
            ("line", 7, "a line of headers of more than 100 KiB"),
            ("wordy", 7, "sends more than 65536 bytes with a redirect"),
            ("none", 2, "does not have 'http"),
            ("secret", 4, "refuses")):
        refused(text, "-o", "out", "--retries", "1", "--timeout", "1s", names[0],
                *addresses(server, kind, names[1:]), status=status)
        assert content("out") == b"old", kind
    put("empty.safetensors", b"")
    refused("the file is empty or was truncated", "-o", "out", *addresses(server, "plain", ["empty.safetensors"]))
    put("bad.safetensors", b"\xff" * 100)
    refused("its header ends after the end of the file", "-o", "out", *addresses(server, "plain", ["bad.safetensors"]))
    refused("not a valid address", "-o", "out", "http://")
    server.shutdown()
    server.server_close()
    refused("tried 2 times", "-o", "out", "--retries", "1", *addresses(server, "plain", names), status=7)
    assert content("out") == b"old"


def secrets():
    """Checks that headers are sent to their host only, and that signatures are not printed,
    wherever they are."""
    names, server, other = make_models(2), web.Server(), web.Server()
    server.other = other.base
    put("headers", b"X-Key: hush\r\n\r\nX-More: 2\n")
    urls = [f"{server.base}/secret/{name}?secret=Signature" for name in names]
    done = call("-o", "out", "--json", "--header", "@headers", *urls)
    assert done.returncode == 0 and "Signature" not in done.stdout + done.stderr, done
    assert "?<redacted>" in done.stdout, done
    assert all(sent.get("X-More") == "2" for _, _, sent in server.requests)
    for words in (["inspect", urls[0]], ["diff", *urls], ["convert", "-o", "x", urls[0]], ["-o", "x", *urls],
                  ["inspect", "--json", urls[0]], ["diff", "--json", *urls]):
        for header in (["--header", "X-Key: hush"], []):
            done = call(*words, *header)
            assert (done.returncode == 4) == (not header), (words, done)
            assert "Signature" not in done.stdout + done.stderr, done
    plain = server.base.replace("http://", "http://user:Signature@")
    done = call("-o", "x", plain + "/none/x")
    assert "Signature" not in done.stderr and "<redacted>@127" in done.stderr, done
    server.requests.clear()
    run("-o", "x", "--header", "X-Key: hush", f"{server.base}/away/{names[0]}")
    assert other.requests and all("X-Key" not in sent for _, _, sent in other.requests)
    assert server.requests and all(sent["X-Key"] == "hush" for _, _, sent in server.requests)
    for header, text in (("Signature", "header 1 is invalid"), ("X: a\nY: Signature", "header 1 is invalid"),
                         ("X: ", "header 1 is invalid"),
                         ("Range: bytes=0-Signature", "'Range' cannot be set"), ("@none", "cannot read the headers")):
        done = call("-o", "x", "--header", header, urls[0])
        assert done.returncode == 2 and "Signature" not in done.stderr, done
        assert text in done.stderr, (text, done)


def resume():
    """Checks that a run that a server broke off is continued, but not with another version of a
    file."""
    names, server = make_models(2, 4000000), web.Server()
    server.lies_from, server.lies_to = 7 << 20, 15 << 20
    run("-o", "want", *names)
    words = ["--threads", "1", "--retries", "1", "--timeout", "1s", "-o", "out", names[0]]
    url = f"{server.base}/slow/{names[1]}"
    refused("less than 1 KiB a second", *words, url, status=7)
    server.lies_to = 0
    got = run(*words, "--resume", url + "?signature=new")
    assert got["resumed_bytes"] >= 4 << 20, got
    assert content("out") == content("want")


def stopped():
    """Ctrl-C is not delayed by a server that does not answer."""
    names, server = make_models(1), web.Server()
    for server.lies_from in (0, 8):
        server.counts.clear()
        with subprocess.Popen([FLMEM, "aggregate", "-o", "out", f"{server.base}/slow/{names[0]}"],
                              stderr=subprocess.PIPE, text=True) as program:
            while server.counts.get("slow", 0) < (1 if server.lies_from == 0 else 3):
                assert program.poll() is None, program.stderr.read()
            program.send_signal(signal.SIGINT)
            said = program.communicate()[1]
        assert program.returncode == 7 and "stopped" in said, (program.returncode, said)


def certificates():
    """Tests TLS with the test's own authority, and certificates that are not trusted."""
    names = make_models(2)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                    "-nodes", "-keyout", "key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, stderr=subprocess.DEVNULL)
    put("both.pem", content("key") + content("ca.pem"))
    server, plain = web.Server("both.pem"), web.Server()
    run("-o", "want", *names)
    urls = addresses(server, "plain", names)
    run("-o", "out", "--cacert", "ca.pem", *urls)
    assert content("out") == content("want")
    refused("is not trusted", "-o", "x", *urls, status=7)
    os.environ["SSL_CERT_FILE"] = "ca.pem"
    run("-o", "out", *urls)
    server.other, plain.other = plain.base, server.base
    refused("redirects from https to", "-o", "x", f"{server.base}/away/{names[0]}", status=7)
    assert not plain.requests
    run("-o", "x", f"{plain.base}/away/{names[0]}")


def nginx():
    """Tests a server of another implementation."""
    names = make_models(2)
    os.mkdir("logs")
    put("nginx.conf", f"""
{"user root;" if os.geteuid() == 0 else ""}
daemon off; pid {os.getcwd()}/pid; error_log {os.getcwd()}/logs/error;
events {{ }}
http {{ access_log off; client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4;
  scgi_temp_path t5; gzip on; gzip_types *; gzip_min_length 1;
  server {{ listen unix:{os.getcwd()}/unused; listen 127.0.0.1:PORT; root {os.getcwd()}; }} }}
""".replace("PORT", str(ports.free()[0])).encode())
    port = content("nginx.conf").decode().split("127.0.0.1:")[1].split(";")[0]
    with subprocess.Popen(["nginx", "-p", os.getcwd(), "-c", os.path.abspath("nginx.conf")],
                          stderr=subprocess.DEVNULL) as server:
        try:
            run("-o", "want", *names)
            run("-o", "out", "--retries", "20", *[f"http://127.0.0.1:{port}/{name}" for name in names])
            assert content("out") == content("want")
        finally:
            server.terminate()


if __name__ == "__main__":
    globals()[sys.argv[2]]()
