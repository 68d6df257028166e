"""Long-lived children that are spoken to in lines, with a bound on every wait."""

import json
import queue
import subprocess
import threading
import time

from world import Failed

WAIT_S = 60


class Lines:
    """A child whose output is lines of JSON; other lines are dropped."""

    def __init__(self, words, env, cwd):
        self.errors = open(cwd.parent / "stderr.txt", "ab")
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, env=env, cwd=cwd
        )
        self.queue = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            try:
                self.queue.put(json.loads(line))
            except ValueError:
                pass
        self.queue.put(None)

    def send(self, value):
        self.process.stdin.write((json.dumps(value) + "\n").encode())
        self.process.stdin.flush()

    def until(self, wanted, what, wait=WAIT_S):
        """The first message that is wanted; the others before it go to `wanted` only."""
        ends = time.monotonic() + wait
        while time.monotonic() < ends:
            try:
                message = self.queue.get(timeout=max(0.05, ends - time.monotonic()))
            except queue.Empty:
                break
            if message is None:
                raise Failed(f"{what}: the agent ended")
            if wanted(message):
                return message
        raise Failed(f"{what}: no answer in {wait} s")

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(15)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.errors.close()


class CodexServer(Lines):
    """`codex app-server`: JSON-RPC without the version member."""

    def __init__(self, home):
        super().__init__(["codex", "app-server"], home.env, home.project)
        self.next_id = 0
        self.asked = []
        self.call("initialize", {"clientInfo": {"name": "pintle", "title": "pintle", "version": "0"},
                                 "capabilities": {"experimentalApi": True}})
        self.send({"method": "initialized"})

    def handle(self, message):
        """Questions to the user get a no, and are remembered: an installed tool must not need one."""
        if "method" in message and "id" in message:
            self.asked.append(message["method"])
            answer = {"decision": "decline", "action": "decline"}
            self.send({"id": message["id"], "result": answer})

    def call(self, method, params):
        self.next_id += 1
        own = self.next_id
        self.send({"id": own, "method": method, "params": params})

        def wanted(message):
            self.handle(message)
            return message.get("id") == own and "method" not in message

        answer = self.until(wanted, method)
        if "error" in answer:
            raise Failed(f"{method}: {answer['error'].get('message')}")
        return answer["result"]

    def wait_for(self, method):
        def wanted(message):
            self.handle(message)
            return message.get("method") == method

        return self.until(wanted, method)
