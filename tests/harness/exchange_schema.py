#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
schemathesis sends what docs/openapi/exchange.json allows and what it does not to the real server, and holds the
answers to it; in the current directory, which is empty:

    exchange_schema.py FLMEM [EXAMPLES]
"""
import os
import re
import subprocess
import sys
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness.exchange_checks import put  # noqa: E402
from harness.exchange_server import Served, write_model  # noqa: E402

# tus answers a missing version with 412, as If-Match is; what its headers mean together no schema has.
CONFIGURATION = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 412, 413, 415, 416, 422]
[checks.missing_required_header]
expected-statuses = [400, 412]
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", 400, 404, 409, 412, 413, 415, 416, 422, 423, 460]
"""
# Makes requests reach existing objects.
EXISTING = """
[parameters]
"path.round" = "latest"
"path.file" = "initial"
"path.id" = "{}"
"""
HOOKS = """
import schemathesis


@schemathesis.serializer("application/offset+octet-stream")
def write_bytes(ctx, value):
    return value.encode(errors="replace") if isinstance(value, str) else bytes(value)
"""
STATUS = "/v1/status"


def create_upload(url):
    """Returns the identifier of an upload that has been created."""
    metadata = "round MA==,client YQ==,filename YQ=="  # 0, a, a
    request = urllib.request.Request(url + "/v1/uploads", method="POST", data=b"", headers={
        "Tus-Resumable": "1.0.0", "Upload-Length": "1000", "Upload-Metadata": metadata})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.headers["Location"].rpartition("/")[2]


def attack(url, examples, configuration, *filters):
    """Returns the number of requests; no answer may contradict the description."""
    put("schemathesis.toml", configuration.encode())
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "run", url + "/v1/openapi.json", "--checks", "all", "--max-examples",
         str(examples), "--seed", "1", "--generation-database", "none", "--no-color", "--request-timeout", "60",
         "--continue-on-failure", "--max-response-time", "60",
         "--suppress-health-check", "all", *filters],
        env={**os.environ, "SCHEMATHESIS_HOOKS": "hooks"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    text = done.stdout.decode(errors="replace")
    print(text[-20000:], flush=True)
    assert done.returncode == 0, done.returncode
    return int(re.search(r"(\d+) generated", text)[1])


def main():
    examples = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    os.environ["PYTHONPATH"] = os.getcwd()
    put("hooks.py", HOOKS.encode())
    write_model("initial", 0, count=1000)
    with Served(sys.argv[1], "initial", "--clients", "1") as server:
        sent = attack(server.url, examples, CONFIGURATION, "--exclude-path", STATUS)
        existing = EXISTING.format(create_upload(server.url))
        # HTTP servers ignore unknown header fields; the check takes them for invalid data.
        sent += attack(server.url, examples, existing + CONFIGURATION, "--exclude-path", STATUS, "--exclude-checks",
                       "negative_data_rejection")
        # Before the last round is published, a status that is asked to wait would take a minute.
        for words in (("push", server.url, "initial", "--client", "b"), ("wait", server.url, "--round", "1")):
            subprocess.run([sys.argv[1], "exchange", *words, "-q"], check=True)
        sent += attack(server.url, examples, CONFIGURATION, "--include-path", STATUS)
        assert server.process.poll() is None
    assert sent > 100, sent
    print(f"{sent} requests")


if __name__ == "__main__":
    main()
