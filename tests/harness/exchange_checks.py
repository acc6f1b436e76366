#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The client's verbs of `flmem exchange` with servers that lie; in the current directory, which is
empty:

    exchange_checks.py FLMEM CHECK
"""
import concurrent.futures
import hashlib
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import exchange_fake  # noqa: E402
from harness.file_sizes import size_of  # noqa: E402

FLMEM = sys.argv[1]
QUICK = ["--retries", "2", "--timeout", "2s"]
HANG_S = 100


def call(*words):
    done = subprocess.run([FLMEM, "exchange", *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=HANG_S, check=False)
    print("$ flmem exchange", *words, "->", done.returncode, done.stdout, done.stderr)
    return done


def run(*words):
    """Returns the object that a call prints."""
    done = call(*words, "--json")
    assert done.returncode == 0, words
    hold_to_schema(words[0], done.stdout)
    found = json.loads(done.stdout)
    lines = done.stderr.decode().splitlines()
    assert bool(lines) == bool(found.get("retries")) and all(": trying again: " in line for line in lines), words
    return found


def hold_to_schema(verb, output, seen=set()):  # pylint: disable=dangerous-default-value; it is kept
    """Checks the first output of each verb against docs/json-schema."""
    if verb in seen or not importlib.util.find_spec("jsonschema"):
        return
    seen.add(verb)
    tests = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    subprocess.run([sys.executable, "-B", f"{tests}/schema/check.py", f"{tests}/../docs/json-schema",
                    f"exchange-{verb}"], input=output, check=True)


def refused(status, text, *words):
    done = call(*words)
    assert done.returncode == status, (words, "expected", status)
    lines = done.stderr.decode().splitlines(keepends=True)
    error = "".join(line for line in lines if ": trying again: " not in line)
    assert text in error, (words, "expected", text)
    assert error.count("\n") == 1 and error.startswith("flmem exchange"), words
    assert not any(ord(c) < 32 or ord(c) == 127 for c in error[:-1]), "control characters reached the terminal"
    assert not done.stdout, words


def put(path, data):
    with open(path, "wb") as file:
        file.write(data)


def content(path):
    with open(path, "rb") as file:
        return file.read()


def noise(count, seed=5):
    return random.Random(seed).randbytes(count)


def push():
    """Checks that all bytes arrive, whatever a good server or its network does."""
    data = noise(50001)
    put("model.safetensors", data)

    def sent(lie):
        server = exchange_fake.Server(lie=lie)
        server.chunk_bytes = 10000
        found = run("push", server.base, "model.safetensors", "--client", "a", "--weight", "2.5")
        assert server.content("model.safetensors") == data, lie
        assert found["model_bytes"] == len(data) and found["round"] == 0, lie
        assert lie != "busy-first" or found["took_us"] >= 2000000, "it did not wait as long as the server asked it to"
        # libcurl itself repeats a request whose kept connection was lost.
        assert lie == "disconnect" or bool(found["retries"]) == (lie not in ("", "location-host")), lie
        metadata = next(iter(server.uploads.values()))["metadata"]
        assert metadata == {"round": "0", "client": "a", "filename": "model.safetensors", "weight": "2.5",
                            "files": "1"}, metadata
        server.close()

    with concurrent.futures.ThreadPoolExecutor() as pool:  # they mostly wait
        list(pool.map(sent, ("", "busy", "busy-first", "in-use", "mismatch", "disconnect", "disconnect-late",
                             "location-host")))
    server = exchange_fake.Server()
    run("push", server.base + "/", "model.safetensors", "--client", "a", "--chunk", "7001")
    found = run("push", server.base, "model.safetensors", "--client", "a")
    assert found["sent_bytes"] == 0 and found["resumed_bytes"] == len(data), "sent again"
    found = run("push", server.base, "model.safetensors", "--client", "a", "--sha256")
    assert found["sent_bytes"] == len(data)
    assert list(server.uploads.values())[-1]["metadata"]["sha256"] == hashlib.sha256(data).hexdigest()
    put("model.safetensors", data[:-1] + b"x")
    refused(2, "all 50001 bytes of another", "push", server.base, "model.safetensors", "--client", "a")
    server.uploads["%032x" % 1]["data"] = bytearray(data[:20000])
    found = run("push", server.base, "model.safetensors", "--client", "a")
    assert found["resumed_bytes"] == 20000 and found["sent_bytes"] == len(data) - 20000
    server.uploads["%032x" % 1]["data"] = bytearray(data[:20000])
    for lie, text in (("checksum-none", "add --sha256"), ("checksum-other", "20000 bytes of another")):
        server.lie = lie
        refused(2 if "other" in lie else 7, text, "push", server.base, "model.safetensors", "--client", "a")
    server.lie = ""
    put("odd name!.pt", data)
    run("push", server.base, "odd name!.pt", "--client", "b")
    assert server.content("model.pt") == data


def limits():
    """Checks that the server's limit is kept, and that of a proxy, which announces none, is
    found."""
    data = noise(300000)
    put("m", data)
    server = exchange_fake.Server()
    server.chunk_bytes, server.max_request = 1 << 20, 5000
    server.proxy_limit = 5000
    assert run("push", server.base, "m", "--client", "a")["chunk_bytes"] == 5000
    assert run("push", server.base, "m", "--client", "b", "--chunk", "1MiB")["chunk_bytes"] == 5000
    server.max_request, server.proxy_limit = None, 40000
    found = run("push", server.base, "m", "--client", "c")
    assert found["chunk_bytes"] == 37500, found
    server.proxy_limit = 10000
    refused(2, "status 413", "push", server.base, "m", "--client", "d")
    server.proxy_limit, server.chunk_bytes = 1 << 62, 1 << 40
    assert run("push", server.base, "m", "--client", "e")["chunk_bytes"] == 16 << 20, "memory of two such chunks"


def shards():
    """A folder is sent and fetched file by file; the index is the last that appears."""
    os.mkdir("model")
    index = "model.safetensors.index.json"
    put(f"model/{index}", json.dumps({"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}).encode())
    put("model/m-1.safetensors", noise(9000, 1))
    put("model/m-2.safetensors", noise(9001, 2))
    server = exchange_fake.Server()
    assert run("push", server.base, "model", "--client", "a")["files"] == 3
    server.files = {upload["metadata"]["filename"]: bytes(upload["data"]) for upload in server.uploads.values()}
    assert sorted(server.files) == sorted(os.listdir("model"))
    assert all(upload["metadata"]["files"] == "3" for upload in server.uploads.values())
    assert run("pull", server.base, "-o", "got")["files"] == 3
    assert {name: content(f"got/{name}") for name in os.listdir("got")} == server.files
    put("file", b"x")
    refused(2, "not a folder", "pull", server.base, "-o", "file")
    assert content("file") == b"x"
    os.rename("model/m-2.safetensors", "model/.m")
    refused(2, "cannot read", "push", server.base, "model", "--client", "b")


def pull():
    """Checks that the bytes are the published ones, whatever a good server or its network does."""
    data = noise(70001)
    for lie in ("", "short", "unavailable", "no-ranges"):
        server = exchange_fake.Server({"model.safetensors": data}, lie)
        put("out", b"old")
        found = run("pull", server.base, "-o", "out")
        assert content("out") == data and found["model_bytes"] == len(data), lie
        assert os.listdir(".") == ["out"], os.listdir(".")
        server.close()
    server = exchange_fake.Server({"model.safetensors": data})
    os.mkdir("folder")
    run("pull", server.base, "-o", "folder", "--round", "0")
    assert content("folder/model.safetensors") == data
    run("pull", server.base, "-o", "new/")
    assert content("new/model.safetensors") == data
    names = ["a\x1bb", "a\\x1bb"]
    assert len({run("pull", server.base, "-o", name)["output"] for name in names}) == 2, "equal names in JSON"


def resume():
    """Files left by an earlier pull are used if they belong to the same file, and fetched again if
    not."""
    data = noise(60000)
    digest = hashlib.sha256(data).hexdigest().encode()
    server = exchange_fake.Server({"m": data})
    for part, identity, resumed in ((data[:41000], digest, 41000), (data, digest, 60000), (b"", digest, 0),
                                    (data[:41000], b"0" * 64, 0), (data[:41000], b"", 0), (data + b"x", digest, 0),
                                    (b"y" + data[1:100], digest, 0)):
        put("out.part", part)
        put("out.part.sha256", identity)
        assert run("pull", server.base, "-o", "out")["resumed_bytes"] == resumed, identity
        assert content("out") == data
        assert sorted(os.listdir(".")) == ["out"], os.listdir(".")
    os.mkfifo("pipe.part")
    refused(2, "not a regular file", "pull", server.base, "-o", "pipe")
    os.symlink("/etc/passwd", "link.part")
    refused(2, "not a regular file", "pull", server.base, "-o", "link")
    os.mkfifo("fifo")
    refused(2, "not a regular file", "pull", server.base, "-o", "fifo")


def foreign():
    """Foreign files at the names of an unfinished pull stay unchanged."""
    server = exchange_fake.Server({"m": noise(60000)})
    digest = hashlib.sha256(noise(60000)).hexdigest().encode()
    put("download.part", b"of a browser")
    refused(2, "not from an unfinished pull", "pull", server.base, "-o", "download")
    assert content("download.part") == b"of a browser" and not os.path.exists("download.part.sha256")
    for suffix in ".part", ".part.sha256":
        put("kept", b"x")
        put(f"linked{suffix}", b"")
        put("linked.part.sha256", digest)
        os.unlink(f"linked{suffix}")
        os.link("kept", f"linked{suffix}")
        refused(2, "not from an unfinished pull", "pull", server.base, "-o", "linked")
        assert content("kept") == b"x", suffix
        os.unlink(f"linked{suffix}")
    os.mkfifo("pipe.part.sha256")
    refused(2, "not from an unfinished pull", "pull", server.base, "-o", "pipe")
    for suffix in (".part", ".part.sha256") if os.geteuid() == 0 else ():
        put("other.part", b"")
        put("other.part.sha256", digest)
        os.chown(f"other{suffix}", 65534, -1)
        refused(2, "not from an unfinished pull", "pull", server.base, "-o", "other")
        os.unlink("other.part")
        os.unlink("other.part.sha256")


def await_request(server, process, name):
    """Waits until this file is requested, so that those before it are complete."""
    end = time.monotonic() + HANG_S
    while not any(path.endswith("/" + name) for _, path, _ in server.requests):
        assert process.poll() is None and time.monotonic() < end, f"{name} was not asked for"
        time.sleep(0.01)


def together():
    """Of two pulls to one place at once the second is refused, and the first is complete."""
    first = {"a": noise(30000, 1), "b": noise(30000, 2)}
    server, other = exchange_fake.Server(dict(first)), exchange_fake.Server({"a": noise(30000, 3), "b": noise(9, 4)})
    server.held = "b"
    with subprocess.Popen([FLMEM, "exchange", "pull", "-q", server.base, "-o", "out"]) as process:
        await_request(server, process, "b")
        refused(6, "another process fetches", "pull", other.base, "-o", "out")
        server.ended.set()
        assert process.wait(HANG_S) == 0
    assert {name: content(f"out/{name}") for name in os.listdir("out")} == first
    # Models of one file each may be fetched to one folder.
    single = exchange_fake.Server({"c": noise(30000, 5)})
    single.held = "c"
    with subprocess.Popen([FLMEM, "exchange", "pull", "-q", single.base, "-o", "out"]) as process:
        await_request(single, process, "c")
        run("pull", exchange_fake.Server({"d": noise(30000, 6)}).base, "-o", "out")
        refused(6, "another process fetches", "pull", other.base, "-o", "out")
        refused(6, "another process fetches", "pull", exchange_fake.Server({"c": b"x"}).base, "-o", "out")
        single.ended.set()
        assert process.wait(HANG_S) == 0
    assert content("out/c") == noise(30000, 5) and content("out/d") == noise(30000, 6)


STATE_LIES = (
    ("state-text", 7, "unexpected character"), ("state-schema", 7, "another schema"),
    ("state-phase", 7, "unknown phase"), ("state-huge", 7, "whole number of 64 bits"),
    ("state-negative", 7, "whole number"), ("state-twice", 7, "member twice"),
    ("state-missing", 7, "lacks a member"), ("state-large", 7, "answer of more than"),
    ("state-latin", 7, "not UTF-8"), ("state-limit", 7, "limit of 0 bytes"),
    ("silent", 7, "did not answer within"), ("drip", 7, "less than 1 KiB a second"),
    ("endless-header", 7, "bytes of headers"), ("header-line", 7, "line of headers of more than 100 KiB"), ("redirect", 7, "redirects to another address"),
    ("garbage", 7, "failed"), ("continues", 7, "bytes of headers"),
)

PUSH_LIES = (
    ("state-failed", 7, "the exchange of"), ("state-done", 2, "is over"),
    ("late", 2, "round is over"), ("late-patch", 2, "round is over"), ("quota", 2, "413"), ("full", 7, "disk space"),
    ("forbidden", 4, "credentials"), ("refused", 2, "another shape"), ("location-none", 7, "where to send"),
    ("location-path", 7, "where to send"), ("offset-beyond", 7, "invalid offset"),
    ("offset-twice", 7, "invalid offset"), ("offset-none", 7, "invalid offset"), ("length-other", 7, "invalid offset"),
    ("swallow", 7, "does not confirm"), ("mismatch-always", 7, "of this chunk"), ("upload-forgotten", 7, "forgot"),
    ("backwards", 7, "tried"),
)

PULL_LIES = (
    ("name-path", 7, "not one of a file"), ("name-hidden", 7, "not one of a file"), ("name-long", 7, "not one of"),
    ("name-empty", 7, "not one of a file"), ("size-huge", 7, "too large"), ("size-disk", 7, "are free"),
    ("size-real", 7, "whole number"), ("digest-short", 7, "invalid SHA-256"), ("digest-other", 7, "a version that differs"),
    ("size-more", 7, "more or fewer bytes"), ("size-less", 7, "more or fewer bytes"),
    ("file-twice", 7, "file twice"), ("files-none", 7, "no file"), ("files-many", 7, "too many files"),
    ("etag", 7, "a version that differs"), ("etag-later", 7, "a version that differs"), ("range-shifted", 7, "a range that was not requested"),
    ("range-short", 7, "a range that was not requested"),
    ("damaged", 7, "SHA-256"), ("zipped", 7, "compressed"), ("less", 7, "more or fewer bytes"),
    ("more", 7, "more bytes than announced"), ("never-more", 7, "tried"),
    ("byte-each", 7, "tried"), ("kept-no-longer", 2, "cannot fetch the model"),
)


def lies():
    """Checks that each fault has its own message, nothing hangs, and the old output stays."""
    data = noise(20000)
    put("m", data)
    put("out", b"old")

    def reported(found, *words):
        """Runs the three verbs with a server each, since most faults wait for a time to pass."""
        server = exchange_fake.Server({"model.safetensors": data})
        for lie, status, text in found:
            server.begin_again(lie)
            refused(status, text, words[0], server.base, *words[1:], *QUICK)
            assert content("out") == b"old", lie
        server.close()

    with concurrent.futures.ThreadPoolExecutor() as pool:
        for one in [pool.submit(reported, STATE_LIES, "status"), pool.submit(reported, PUSH_LIES, "push", "m", "--client", "a"),
                    pool.submit(reported, PULL_LIES, "pull", "-o", "out")]:
            one.result()
    server = exchange_fake.Server({"model.safetensors": data}, "round-other")
    refused(7, "round 7 for round 0", "pull", server.base, "-o", "out", "--round", "0")
    server.close()
    refused(7, "tried 3 times", "status", server.base, *QUICK)


def usage():
    server = exchange_fake.Server({"m": b"x"})
    put("m", b"x")
    put("empty", b"")
    for text, *words in (
            ("name this client", "push", server.base, "m"), ("is empty", "push", server.base, "empty", "-c", "a"),
            ("cannot read", "push", server.base, "none", "-c", "a"),
            ("not a name for a client", "push", server.base, "m", "-c", "../a"),
            ("invalid weight", "push", server.base, "m", "-c", "a", "-w", "nan"),
            ("invalid weight", "push", server.base, "m", "-c", "a", "-w", "-1"),
            ("--round", "push", server.base, "m", "-c", "a", "-r", "one"),
            ("not the address", "status", "ftp://x"), ("not the address", "status", "http://user:pw@x"),
            ("not the address", "status", server.base + "/?a=b"), ("--output", "pull", server.base),
            ("needs its certificate", "status", server.base, "--key", "m"),
            ("an option of 'flmem exchange serve'", "push", server.base, "m", "--client", "c", "--key", "state_dict"),
            ("--round", "wait", server.base), ("cannot read the token", "status", server.base, "--token-file", "none"),
            ("not a token", "status", server.base, "--token-file", "empty")):
        refused(2, text, *words)
    for verb in ("push", "pull", "status", "wait"):
        hold_to_schema(verb, call(verb, "x", "--json").stdout)
    assert "pw" not in call("status", "http://user:pw@x").stderr.decode()
    refused(2, "not a regular file", "pull", server.base, "-o", "/dev/null")
    refused(2, "will not publish round 9", "wait", server.base, "--round", "9")
    refused(9, "in time", "wait", server.base, "--round", "1", "--timeout", "300ms")
    assert run("wait", server.base, "--round", "0")["published_round"] == 0
    server.begin_again("silent")
    refused(9, "not published in time", "wait", server.base, "--round", "1", "--timeout", "300ms")
    server.close()
    refused(9, "not published in time", "wait", server.base, "--round", "1", "--timeout", "300ms")


def tokens():
    """A token is sent to its server, and to no other host without encryption."""
    server = exchange_fake.Server({"m": b"x"})
    server.token = "s3cret"
    put("token", b"s3cret\nnot this\n")
    refused(4, "--token-file", "status", server.base)
    assert run("status", server.base, "--token-file", "token")["rounds"] == 2
    refused(2, "without encryption", "status", "http://192.0.2.1:1", "--token-file", "token")
    refused(2, "without encryption", "status", "http://127.0.0.1.example.org", "--token-file", "token")
    put("bad", b"two words\r\n")
    refused(2, "a client's file has the token alone", "status", server.base, "--token-file", "bad")


def certificates():
    """The server's certificate is checked, and the client shows its own."""
    for name in ("server", "client"):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{name}.key", "-out", f"{name}.crt"],
                       check=True, capture_output=True)
        put(f"{name}.pem", content(f"{name}.key") + content(f"{name}.crt"))
    server = exchange_fake.Server({"m": b"x"}, certificate="server.pem", authority="client.crt")
    known = ["--ca", "server.crt", "--retries", "1"]
    refused(7, "not trusted", "status", server.base, "--cert", "client.pem")
    refused(7, "failed", "status", server.base, *known)
    assert run("status", server.base, "--cert", "client.pem", *known)["rounds"] == 2
    assert run("status", server.base, "--cert", "client.crt", "--key", "client.key", *known)["rounds"] == 2


def stopped():
    """Ctrl-C ends a request to a silent server at once, and a wait."""
    server = exchange_fake.Server({"m": noise(1 << 20)}, "silent")
    put("m", b"x")
    for words in (["status", server.base], ["push", server.base, "m", "-c", "a"], ["pull", server.base, "-o", "out"],
                  ["wait", server.base, "--round", "1"]):
        server.begin_again()
        with subprocess.Popen([FLMEM, "exchange", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as one:
            while not server.requests:
                time.sleep(0.01)
            one.send_signal(signal.SIGINT)
            _, error = one.communicate(timeout=HANG_S)
        assert one.returncode != 0, words
        assert words[0] == "status" or b"stopped" in error, (words, error)


def kills(count=int(os.environ.get("FLMEM_KILLS", "50"))):
    """Checks that after a kill at any instant the next run continues with equal bytes. A pull
    writes 256 KiB at a time."""
    data, chance = noise(4000000), random.Random(3)
    put("m", data)
    server = exchange_fake.Server({"m": data})
    server.chunk_bytes, server.pause_s = 200000, 0.005
    for what, done in (("push", lambda: server.uploads and server.content("m") == data),
                       ("pull", lambda: os.path.exists("out"))):
        words = ["push", server.base, "m", "-c", "a"] if what == "push" else ["pull", server.base, "-o", "out"]
        kept = resumed = 0
        for _ in range(count):
            if done():
                server.begin_again()
                if os.path.exists("out"):
                    os.unlink("out")
            with subprocess.Popen([FLMEM, "exchange", *words, "-q"], stderr=subprocess.PIPE) as one:
                until = server.moved + chance.randrange(len(data) // 2)
                while one.poll() is None and server.moved < until:
                    time.sleep(0.001)
                one.kill()
                one.communicate()
            if what == "push":
                has = len(server.content("m")) if server.uploads else 0
                resumed += bool(kept and has > kept)
            else:
                has = size_of("out.part")
                resumed += bool(kept and has > kept)
            kept = has
        found = run(*words)
        assert (server.content("m") if what == "push" else content("out")) == data
        assert found["model_bytes"] == len(data)
        print(what, "went on", resumed, "times")
        assert resumed > count / 10, what


if __name__ == "__main__":
    globals()[sys.argv[2]]()
