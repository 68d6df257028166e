"""A home of its own for one agent, the mock model's log, and what of it counts."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "llm"))
from mock_model import blocks, leaves, messages_of, newest_block  # noqa: E402, F401

MODEL = Path(__file__).resolve().parent.parent / "llm" / "mock_model.py"
START_WAIT_S = 20
COMMAND_WAIT_S = 120
# What the model always says. Asked for a summary it must hold one, in the marks that some agents look for: without them
# they keep the history as it is.
ANSWER = "Done.\n<summary>The work goes on.</summary>\n<state_snapshot>The work goes on.</state_snapshot>"


class Failed(Exception):
    """Something is not as it must be."""


class NotHeadless(Exception):
    """This agent cannot be brought to do it without a terminal."""


class Model:
    """The mock model, for all agents."""

    def __init__(self, work):
        self.log = work / "model.log.ndjson"
        port_file = work / "port"
        for file in (self.log, port_file):
            file.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-B", str(MODEL), str(port_file), str(self.log)], env={**os.environ, "MOCK_TEXT": ANSWER}
        )
        ends = time.monotonic() + START_WAIT_S
        while not port_file.exists():
            if self.process.poll() is not None or time.monotonic() > ends:
                raise Failed("the mock model did not start")
            time.sleep(0.05)
        self.url = f"http://127.0.0.1:{port_file.read_text()}"

    def tokens(self, count, for_requests=-1):
        """What the next answers report as input tokens."""
        body = json.dumps({"input_tokens": count, "for_requests": for_requests}).encode()
        request = urllib.request.Request(self.url + "/mock", body, {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=START_WAIT_S).read()

    def mark(self):
        return self.log.stat().st_size if self.log.exists() else 0

    def since(self, mark):
        """The requests that the model was sent since the mark."""
        if not self.log.exists():
            return []
        with open(self.log, "rb") as log:
            log.seek(mark)
            return [entry for entry in map(json.loads, log) if entry["method"] == "POST"]

    def close(self):
        self.process.terminate()
        self.process.wait()


class Home:
    """An empty home with one agent's settings and our installation."""

    def __init__(self, args, agent, model, name):
        self.args, self.agent, self.model = args, agent, model
        self.path = args.work / f"{agent}-{name}"
        shutil.rmtree(self.path, ignore_errors=True)
        self.project = self.path / "project"
        (self.project / ".git").mkdir(parents=True)
        bin_dir = self.path / "bin"
        bin_dir.mkdir()
        # Only this agent's program and ours: what is found must not depend on this machine.
        (bin_dir / "pintle").symlink_to(args.pintle.resolve())
        program = args.bin / agent
        (bin_dir / agent).symlink_to(program.resolve())
        node = Path(shutil.which("node")).parent
        self.env = {
            "PATH": f"{bin_dir}:{node}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.path),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "USER": "user",
            "SHELL": "/bin/bash",
        }

    def run(self, *words, stdin="", check=True, wait=COMMAND_WAIT_S, env=None):
        done = subprocess.run(
            words,
            input=stdin,
            text=True,
            capture_output=True,
            cwd=self.project,
            env={**self.env, **(env or {})},
            timeout=wait,
        )
        if check and done.returncode != 0:
            raise Failed(f"{' '.join(words[:4])} ended with {done.returncode}: {done.stderr[-400:]}{done.stdout[-200:]}")
        return done

    def task(self, *words, stdin="", check=True):
        return self.run("pintle", "task", *words, stdin=stdin, check=check)

    def install(self, *words):
        receipt = json.loads(self.task("install", "--agent", self.agent, "--yes", *words).stdout)
        if not receipt["ok"]:
            raise Failed(f"install: {receipt}")

    def doctor(self):
        """The findings, by code."""
        done = self.task("doctor", "--agent", self.agent, "--format", "json", check=False)
        report = json.loads(done.stdout)
        return report["ok"], report["findings"]

    def state(self, session):
        """What is stored; `None` where nothing is."""
        done = self.task("show", session, "--format", "json", check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None


def turn_requests(entries, marker):
    """The requests of a turn: those with tools that hold the text of its prompt, in order."""
    found = []
    for entry in entries:
        body = entry["body"]
        if body.get("tools") and any(marker in text for text in leaves(messages_of(body))):
            found.append(body)
    return found


def compactions(entries):
    """The requests by which an agent has its history summed up."""
    asks = ("summar", "state_snapshot", "checkpoint compaction")
    return [
        entry
        for entry in entries
        if (messages := messages_of(entry["body"]))
        and any(word in text.lower() for text in leaves(messages[-1]) for word in asks)
    ]


def receipts(body):
    """The revisions that receipts of successful publishes in a request name; some agents quote them once more."""
    texts = (text.replace('\\"', '"') for text in leaves(messages_of(body)))
    return [int(found) for text in texts if '"ok":true' in text for found in re.findall(r'"revision":(\d+)', text)]


def is_full(block):
    """Whether a block holds the text of its task and does not point to an older one."""
    return "\npointer:\n" in block["block"]


def text_of(block):
    lines = block["block"].split("\n")
    return "\n".join(line[2:] for line in lines if line.startswith("| "))

