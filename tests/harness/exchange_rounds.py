#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Rounds of `flmem exchange` with the real server: the client's verbs, the client in Python, proxies
and clients of others; in the current directory, which is empty:

    exchange_rounds.py FLMEM CHECK
"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import ports  # noqa: E402
from harness.exchange_checks import content, put, refused, run  # noqa: E402
from harness.exchange_server import Served, write_model  # noqa: E402
from harness.file_sizes import size_of  # noqa: E402

FLMEM = sys.argv[1]
INDEX = "model.safetensors.index.json"


def aggregate(output, weights, *inputs):
    subprocess.run([FLMEM, "aggregate", "-q", "-o", output, "--weights", weights, *inputs], check=True)
    return content(output)


def models(count=2, elements=250000):
    write_model("initial", 0, elements)
    return [write_model(f"update-{i}", i + 1, elements) for i in range(count)]


def put_secret(path, data):
    put(path, data)
    os.chmod(path, 0o600)


def rounds():
    """The published model is the mean of what was pushed, round by round."""
    one, two = models()
    with Served(FLMEM, "initial", "--clients", "2", "--rounds", "2", "--chunk", "256KiB") as server:
        run("pull", server.url, "-o", "got")
        assert content("got") == content("initial")
        for number in range(2):
            assert run("push", server.url, one, "--client", "a", "--weight", "1.5")["round"] == number
            refused(9, "1 of 2 clients", "wait", server.url, "--round", number + 1, "--timeout", "200ms")
            run("push", server.url, two, "--client", "b", "--round", number, "--weight", "0.25")
            assert run("wait", server.url, "--round", number + 1, "--timeout", "60s")["published_round"] == number + 1
            assert run("pull", server.url, "-o", "got")["round"] == number + 1
            assert content("got") == aggregate("want", "1.5,0.25", one, two)
            one, two = two, one
        assert run("status", server.url)["phase"] == "done"


def shards():
    """A model of several files, both ways."""
    for folder, seed in (("initial", 0), ("one", 1), ("two", 2)):
        os.mkdir(folder)
        for i in range(3):
            write_model(f"{folder}/m-{i}.safetensors", seed * 10 + i, 3000, [f"t{i}"])
        put(f"{folder}/{INDEX}", json.dumps({"weight_map": {f"t{i}": f"m-{i}.safetensors" for i in range(3)}}).encode())
    with Served(FLMEM, "initial", "--clients", "2") as server:
        run("pull", server.url, "-o", "got")
        assert {name: content(f"got/{name}") for name in os.listdir("got")} == \
            {name: content(f"initial/{name}") for name in os.listdir("initial")}
        for client, folder in (("a", "one"), ("b", "two")):
            assert run("push", server.url, folder, "--client", client)["files"] == 4
        run("wait", server.url, "--round", "1", "--timeout", "60s")
        run("pull", server.url, "-o", "got")
        aggregate("want", "1,1", "one", "two")
        done = subprocess.run([FLMEM, "aggregate", "diff", "got", "want"], check=False)
        assert done.returncode == 0


def refusals():
    """Checks that each refusal of the server has a reason, and that a client may correct it."""
    one, two = models(elements=1000)
    write_model("larger", 5, 1001)
    put("noise", random.Random(1).randbytes(5000))
    put_secret("tokens", b"a secret-of-client-a\nb secret-of-client-b\n")
    put("token-a", b"secret-of-client-a")
    put("token-b", b"secret-of-client-b")
    put("token-c", b"secret-of-client-c")
    with Served(FLMEM, "initial", "--clients", "2", "--rounds", "2", "--token-file", "tokens") as server:
        refused(4, "401", "status", server.url)
        refused(4, "401", "push", server.url, one, "--token-file", "token-c")
        refused(4, "403", "push", server.url, one, "--token-file", "token-a", "--client", "b")
        refused(2, "422", "push", server.url, "larger", "--token-file", "token-a")
        refused(2, "422", "push", server.url, "noise", "--token-file", "token-a")
        refused(2, "409", "push", server.url, one, "--token-file", "token-a", "--round", "1")
        put("huge", b"x" * (64 << 20))
        refused(2, "413", "push", server.url, "huge", "--token-file", "token-a")
        run("push", server.url, one, "--token-file", "token-a")
        assert run("push", server.url, one, "--token-file", "token-a")["sent_bytes"] == 0
        refused(2, "409", "push", server.url, two, "--token-file", "token-a")
        run("push", server.url, two, "--token-file", "token-b")
        run("wait", server.url, "--round", "1", "--token-file", "token-a", "--timeout", "60s")
        late = write_model("late", 9, 1000)
        refused(2, "round is over", "push", server.url, late, "--token-file", "token-b", "--round", "0")
        refused(2, "404", "pull", server.url, "--token-file", "token-a", "-o", "x", "--round", "7")
        run("pull", server.url, "--token-file", "token-a", "-o", "got")
        assert content("got") == aggregate("want", "1,1", one, two)


def kills(count=int(os.environ.get("FLMEM_KILLS", "50"))):
    """Kills push, pull and server at random bytes: they continue, and the result has the same
    bytes."""
    chance = random.Random(11)
    updates = models(elements=1500000)
    size = os.path.getsize(updates[0])
    with Served(FLMEM, "initial", "--clients", "2", "--chunk", "128KiB") as server:
        for client, update in zip("ab", updates):
            words = ["push", server.url, update, "--client", client, "--chunk", "32KiB", "--round", "0"]
            killed = sum(kill_one(server, words, spooled, chance.randrange(4 * size // count), chance)
                         for _ in range(count // 2))
            found = run(*words)
            print("push was killed", killed, "times; the server had", found["resumed_bytes"])
            assert killed > count / 20 and found["resumed_bytes"], "killed too late"
        run("wait", server.url, "--round", "1", "--timeout", "60s")
        want, killed = aggregate("want", "1,1", *updates), 0
        for _ in range(count // 2):
            killed += kill_one(server, ["pull", server.url, "-o", "got", "--round", "1"], received,
                               chance.randrange(size // 2), chance)
            if os.path.exists("got"):
                assert content("got") == want
                os.unlink("got")
        run("pull", server.url, "-o", "got", "--round", "1")
        assert content("got") == want
        print("pull was killed", killed, "times")


def kill_one(server, words, measure, more, chance):
    """Kills a client once it has moved so many bytes, and sometimes the server; true if the client
    still ran."""
    until = measure() + more
    with subprocess.Popen([FLMEM, "exchange", *words, "-q"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as one:
        while one.poll() is None and measure() < until:
            time.sleep(0.001)
        if chance.random() < 0.25:
            server.kill()
            server.start()
        killed = one.poll() is None
        one.kill()
        one.communicate()
    return killed


def received():
    """Bytes that a pull has in its file."""
    return size_of("got.part")


def restart():
    """A server that is killed in the middle of a push, and restarts, does not end the push."""
    updates = models(1)
    with Served(FLMEM, "initial", "--clients", "1", "--chunk", "16KiB") as server:
        with subprocess.Popen([FLMEM, "exchange", "push", server.url, updates[0], "--client", "a", "--json"],
                              stdout=subprocess.PIPE) as one:
            while one.poll() is None and spooled() < 200000:
                time.sleep(0.005)
            server.kill()
            time.sleep(0.3)
            server.start()
            out, _ = one.communicate(timeout=100)
        assert one.returncode == 0, out
        run("wait", server.url, "--round", "1", "--timeout", "60s")
        run("pull", server.url, "-o", "got")
        assert content("got") == aggregate("want", "1", *updates)


def spooled():
    """Returns the bytes of uploads that the server has in files."""
    found = 0
    for folder, _, names in os.walk("state"):
        for name in names:
            try:
                found += os.stat(os.path.join(folder, name)).st_blocks * 512 if "model" not in folder else 0
            except OSError:
                continue
    return found


class Nginx:
    """nginx in front of a server."""

    def __init__(self, server, more="", tls=""):
        os.makedirs("nginx/logs", exist_ok=True)
        for _ in range(9):  # another program may take the port that was free
            self.port = ports.free()[0]
            if self.begin(server, more, tls):
                self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
                return
        raise AssertionError("no nginx: " + content("nginx/logs/error").decode())

    def begin(self, server, more, tls):
        """Starts nginx; true if it listens."""
        here = os.path.abspath("nginx")
        listen = f"listen 127.0.0.1:{self.port}{' ssl' if tls else ''};"
        put("nginx.conf", f"""
{"user root;" if os.geteuid() == 0 else ""}
daemon off; pid {here}/pid; error_log {here}/logs/error;
events {{ }}
http {{ access_log off; client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4;
  scgi_temp_path t5;
  server {{ {listen} {tls} {more}
    location /fl/ {{ proxy_pass {server.url}/; proxy_http_version 1.1; proxy_buffering off; }}
    location / {{ proxy_pass {server.url}; proxy_http_version 1.1; }} }} }}
""".encode())
        program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen([program, "-p", here, "-c", os.path.abspath("nginx.conf")])
        until = time.monotonic() + 60
        while time.monotonic() < until and self.process.poll() is None:
            if os.path.exists(f"{here}/pid"):  # it is written after nginx listens
                return True
            time.sleep(0.02)
        self.stop()
        return False

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.stop()


def proxy():
    """nginx with its own limit of 1 MiB for bodies, and under another path."""
    one, two = models()
    with Served(FLMEM, "initial", "--clients", "2", "--chunk", "2MiB") as server, Nginx(server) as front:
        found = run("push", front.url, one, "--client", "a")
        assert found["chunk_bytes"] <= 1 << 20, found
        run("push", front.url + "/fl", two, "--client", "b")
        run("wait", front.url, "--round", "1", "--timeout", "60s")
        run("pull", front.url + "/fl/", "-o", "got")
        assert content("got") == aggregate("want", "1,1", one, two)


def make_certificate(name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{name}.key", "-out", f"{name}.crt"],
                   check=True, capture_output=True)


def terminator():
    """nginx as the end of TLS, with tokens; the client in C and the one in Python."""
    from flmem import exchange
    one, two = models(elements=20000)
    make_certificate("front")
    put_secret("tokens", b"a secret-of-client-a\nb secret-of-client-b\n")
    put("token-a", b"secret-of-client-a")
    tls = f"ssl_certificate {os.path.abspath('front.crt')}; ssl_certificate_key {os.path.abspath('front.key')};"
    with Served(FLMEM, "initial", "--clients", "2", "--token-file", "tokens") as server, \
            Nginx(server, "client_max_body_size 300k;", tls) as front:
        refused(7, "not trusted", "status", front.url, "--token-file", "token-a")
        run("push", front.url, one, "--token-file", "token-a", "--ca", "front.crt")
        with exchange.Client(front.url, token="secret-of-client-b", cafile="front.crt") as client:
            client.push(read_raw(two))
            client.wait(1, timeout=60)
            got = client.pull(framework="raw")
        aggregate("want", "1,1", one, two)
        assert {name: bytes(value.data) for name, value in got.items()} == \
            {name: bytes(value.data) for name, value in read_raw("want").items()}


def read_raw(path):
    """Returns the tensors of a file, for the client in Python."""
    from flmem import exchange
    data = content(path)
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: exchange.Tensor(one["dtype"], tuple(one["shape"]),
                                  data[8 + size + one["data_offsets"][0]:8 + size + one["data_offsets"][1]])
            for name, one in header.items()}


def certificates():
    """Mutual TLS of the server itself; the name of a client is that of its certificate."""
    from flmem import exchange
    one, two = models(elements=20000)
    for name in ("server", "a", "b"):
        make_certificate(name)
    put("authorities", content("a.crt") + content("b.crt"))
    with Served(FLMEM, "initial", "--clients", "2", "--tls-cert", "server.crt", "--tls-key", "server.key",
                "--client-ca", "authorities") as server:
        words = ["--ca", "server.crt", "--cert", "a.crt", "--key", "a.key"]
        refused(4, "no certificate", "status", server.url, "--ca", "server.crt", "--retries", "1")
        refused(4, "403", "push", server.url, one, *words, "--client", "b")
        run("push", server.url, one, *words)
        with exchange.Client(server.url, cafile="server.crt", cert=("b.crt", "b.key")) as client:
            assert client.push(read_raw(two)) == 0
            client.wait(1, timeout=60)
        run("pull", server.url, *words, "-o", "got")
        assert content("got") == aggregate("want", "1,1", one, two)


def python():
    """Runs two clients in Python over a restart of the server; their mean is that of
    `aggregate`."""
    from flmem import exchange
    one, two = models()
    with Served(FLMEM, "initial", "--clients", "2", "--chunk", "100KiB") as server:
        clients = [exchange.Client(server.url, client=name) for name in "ab"]
        initial = clients[0].pull(framework="raw")
        assert bytes(initial["b"].data) == bytes(read_raw("initial")["b"].data)
        clients[0].push(read_raw(one), weight=3)
        server.kill()
        server.start()
        clients[1].push(read_raw(two), weight=1)
        assert clients[1].wait(1, timeout=60)["published_round"] == 1
        got = clients[0].pull(framework="raw")
        aggregate("want", "3,1", one, two)
        for name, value in read_raw("want").items():
            assert bytes(got[name].data) == bytes(value.data), name
        for client in clients:
            client.close()


def lockstep():
    """Runs Python and the command in lockstep, over two rounds and a restart; one is far ahead of
    the other."""
    from flmem import exchange
    one, two = models()
    with Served(FLMEM, "initial", "--clients", "2", "--rounds", "2", "--mode", "lockstep") as server:
        with exchange.Client(server.url, client="a") as client:
            slow = subprocess.Popen([FLMEM, "exchange", "push", server.url, two, "--client", "b", "--weight", "1",
                                     "--chunk", "4KiB", "-q"])
            server.kill()
            server.start()
            client.push(read_raw(one), weight=3)
            assert slow.wait(100) == 0
            client.wait(1, timeout=60)
            run("pull", server.url, "-o", "got")
            assert content("got") == aggregate("want", "3,1", one, two)
            slow = subprocess.Popen([FLMEM, "exchange", "push", server.url, one, "--client", "b", "-r", "1", "-q"])
            client.push(read_raw(two), round=1)
            assert slow.wait(100) == 0
            client.wait(2, timeout=60)
            run("pull", server.url, "-o", "got")
            assert content("got") == aggregate("want", "1,1", two, one)


def stranger():
    """tuspy, by the authors of tus, with its own checksums, resumes an upload that it has begun."""
    import tusclient.client
    one, two = models()
    with Served(FLMEM, "initial", "--clients", "2", "--chunk", "100KiB") as server:
        metadata = {"round": "0", "client": "a", "filename": "model.safetensors", "weight": "2"}
        begun = tusclient.client.TusClient(server.url + "/v1/uploads").uploader(
            one, chunk_size=300000, metadata=metadata, upload_checksum=True)
        begun.upload_chunk()
        assert 0 < begun.offset < os.path.getsize(one)
        again = tusclient.client.TusClient(server.url + "/v1/uploads").uploader(
            one, chunk_size=500000, metadata=metadata, upload_checksum=True, url=begun.url)
        assert again.offset == begun.offset
        again.upload()
        run("push", server.url, two, "--client", "b")
        run("wait", server.url, "--round", "1", "--timeout", "60s")
        run("pull", server.url, "-o", "got")
        assert content("got") == aggregate("want", "2,1", one, two)


def progress():
    """Checks the bar on a terminal, which is removed at the end."""
    write_model("initial", 0, count=1000000)
    update = write_model("update", 1, count=1000000)
    with Served(FLMEM, "initial", "--clients", "1") as server:
        script = f"{FLMEM} exchange push {server.url} {update} --client a --chunk 4KiB"
        before = spooled()
        with subprocess.Popen(["script", "-qec", script, "/dev/null"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE) as pushed:
            while pushed.poll() is None and spooled() < before + 100000:
                time.sleep(0.001)
            # The bar appears a second after the first byte, and this transfer may be faster.
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(1.5)
            server.process.send_signal(signal.SIGCONT)
            shown = pushed.communicate(timeout=100)[0]
        assert pushed.returncode == 0, shown[-500:]
    assert b"accepted for round 0" in shown
    assert b"] " in shown and b" left" in shown and b"\r\x1b[K" in shown, shown[-500:]


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    globals()[sys.argv[2]]()
