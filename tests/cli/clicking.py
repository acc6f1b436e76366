# SPDX-License-Identifier: Apache-2.0
"""A page in a real Chromium that is used by mouse and keyboard.

    with clicking.Page("/usr/bin/chromium", "page.html") as page:
        page.click("#reset")
        page.press("Enter")
        assert page.value("document.title") == "x"

Chromium is driven through pipes by its DevTools protocol (chromedevtools.github.io/devtools-protocol).
The page comes from the server of browse.py, which sees what it asks for.
"""
import json
import os
import select
import subprocess
import tempfile
import time

import browse

TIMEOUT = 240
# Names and codes of keys other than letters.
CODES = {"Enter": 13, "Escape": 27, "ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39}


class Page:
    def __init__(self, chromium, path):
        self.server = browse.serve(path)
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.console = []  # errors and messages
        self.requests = []  # addresses that the page requested
        self.number = 0
        self.session = None
        self.rest = b""
        to_read, self.to = os.pipe()
        self.back, to_write = os.pipe()

        # Chromium reads from descriptor 3 and writes to 4; either may be one of the pipes.
        connect = 'exec {a}<&"$1" {b}>&"$2"; exec 3<&"$a" 4>&"$b"; exec "${@:3}"'
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", connect, "-", str(to_read), str(to_write),
             *browse.command(chromium, self.folder.name, self.server), "--remote-debugging-pipe"],
            pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=browse.environment(self.folder.name))
        os.close(to_read)
        os.close(to_write)

    def __enter__(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=1200, height=900, deviceScaleFactor=1,
                  mobile=False)
        self.call("Page.navigate", url=f"http://page.example:{self.server.port}/report")
        self.wait("location.pathname === '/report' && document.readyState === 'complete'")
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.back)
        self.folder.cleanup()

    def receive(self):
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.back], [], [], TIMEOUT)
            assert ready, "Chromium does not answer"
            part = os.read(self.back, 1 << 20)
            assert part, "Chromium has ended"
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded",
                                        "Runtime.consoleAPICalled"):
                self.console.append(json.dumps(answer["params"]))
            if answer.get("method") == "Network.requestWillBeSent":
                self.requests.append(answer["params"]["request"]["url"])
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, expression):
        end = time.monotonic() + TIMEOUT
        while not self.value(expression):
            assert time.monotonic() < end, "never true: " + expression
            time.sleep(0.02)

    def text(self, selector):
        return self.value(f"document.querySelector({json.dumps(selector)}).textContent")

    def click_at(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def click_element(self, expression):
        """Clicks into the middle of the element to which an expression evaluates."""
        x, y = self.value(f"(() => {{ const e = {expression}; e.scrollIntoView({{block: 'center'}});"
                          "const r = e.getBoundingClientRect();"
                          "return [r.x + Math.min(r.width / 2, 9), r.y + r.height / 2]; })()")
        self.click_at(x, y)

    def click(self, selector):
        self.click_element(f"document.querySelector({json.dumps(selector)})")

    def press(self, key):
        code = CODES.get(key, ord(key.upper()[0]))
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code,
                      **(text if kind == "keyDown" else {}))

    def insert(self, text):
        self.call("Input.insertText", text=text)

    def dark(self, wanted):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if wanted else "light"}])
