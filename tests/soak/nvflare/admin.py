# SPDX-License-Identifier: Apache-2.0
"""
What an administrator does, by NVFlare's own API; prints one JSON value.

	admin.py KIT clients		names of the connected clients
	admin.py KIT submit JOB		id of the submitted job
	admin.py KIT status ID		status of the job
	admin.py KIT restart CLIENT	restarts the client
	admin.py KIT shutdown client|server [CLIENT]
"""
import json
import os
import sys

from nvflare.fuel.flare_api.flare_api import new_secure_session


def run(session, command, words):
    if command == "clients":
        return [client.name for client in session.get_connected_client_list()]
    if command == "submit":
        return session.submit_job(words[0])
    if command == "status":
        return session.get_job_meta(words[0]).get("status")
    if command == "restart":
        return session.restart("client", words, wait=False) and None
    return session.shutdown(words[0], words[1:] or None, wait=False) and None


def main():
    kit, command, *words = sys.argv[1:]
    session = new_secure_session(os.path.basename(kit), kit, timeout=30.0)
    try:
        answer = run(session, command, words)
    finally:
        session.close()
    print(json.dumps(answer))


main()
