"""Drives real agents through the life of a task and looks at what their model was sent.

Every step asserts on the mock model's log: the newest block that the model has is that of this session, at the revision
that is stored, with the text that was published last, and in full wherever the history before it is gone.
"""

import argparse
import json
import sys
import traceback
from pathlib import Path

from agents import AGENTS
from world import (
    Failed,
    Home,
    Model,
    NotHeadless,
    blocks,
    compactions,
    is_full,
    leaves,
    messages_of,
    newest_block,
    receipts,
    text_of,
    turn_requests,
)

ALPHA = ("Goal: alpha", "Next: first step")
BETA = ("Goal: beta", "Next: second step")
GAMMA = ("Goal: gamma", "Next: third step")
# A task as models write them: a goal, what is done, what comes next.
LONG = "Goal: port the importer to the new schema\n" + "\n".join(f"Step {n}: a line that says what it is" for n in range(32))
# A history that is worth a summary.
FILLER = "word " * 8000
PROMPTS = 40


class Life:
    """One agent, from installation to fork."""

    def __init__(self, args, name, model):
        self.args, self.name, self.model = args, name, model
        self.results = []
        self.text = self.session = None
        self.count = 0

    def step(self, name, body):
        try:
            note = body() or ""
            self.results.append((name, "ok", note))
        except NotHeadless as reason:
            self.results.append((name, "-", str(reason)))
        except Failed as reason:
            self.results.append((name, "FAILED", str(reason)))
        except Exception as error:  # a harness fault must not hide the other steps
            traceback.print_exc()
            self.results.append((name, "FAILED", f"{type(error).__name__}: {error}"[:300]))
        print(f"  {self.name:9} {name:18} {self.results[-1][1]:7} {self.results[-1][2]}", flush=True)

    def prompt(self, text):
        """One turn; the requests that the model got for it."""
        self.count += 1
        marker = f"marker-{self.name}-{self.count}."
        mark = self.model.mark()
        self.agent.prompt(f"{text} {marker}" if "publish_by" not in text else f"{marker}\n{text}")
        self.entries = self.model.since(mark)
        requests = turn_requests(self.entries, marker)
        if not requests:
            raise Failed(f"the model got no request with the prompt ({len(self.entries)} others)")
        return requests

    def expect(self, request, full, status="DIRTY", text=None):
        """The newest block of a request is the one that is stored."""
        block = newest_block(request)
        if block is None:
            raise Failed("the model was sent no block")
        stored = self.home.state(block["session"])
        if stored is None:
            raise Failed(f"nothing is stored for session {block['session']}")
        self.session = block["session"]
        if int(block["revision"]) != stored["revision"] or block["generation"] != stored["generation"]:
            raise Failed(f"block at {block['revision']}, stored is {stored['revision']}")
        if block["status"] != status:
            raise Failed(f"status {block['status']} instead of {status}")
        text = text or self.text
        if text and status != "CLEARED":
            same = [b for b in blocks(request) if b["session"] == block["session"] and is_full(b)]
            right = [int(b["revision"]) for b in same if text_of(b) == "\n".join(text)]
            if not right:
                raise Failed("no full block with the published text is in the request")
            # A session start says it in full right before the prompt, whose own block may then be short.
            if full and max(right) < int(block["revision"]) - 1:
                raise Failed(f"the full text came at revision {max(right)} only, and must come again here")
        return f"revision {block['revision']}, {'full' if is_full(block) else 'short or bootstrap'}"

    def run(self):
        home_kind = AGENTS[self.name]
        self.home = Home(self.args, self.name, self.model, "mcp")
        self.agent = home_kind(self.home, self.model)
        self.step("install", self.install)
        if self.results[-1][1] != "ok":
            return
        try:
            self.step("first prompt", lambda: self.expect(self.prompt("hello")[0], False, "CLEARED"))
            self.step("publish by MCP", lambda: self.publish("tool", ALPHA))
            self.step("prompt after it", lambda: self.expect(self.prompt("go on")[-1], True))
            self.step("another prompt", lambda: self.expect(self.prompt(f"and on {FILLER}")[-1], False))
            self.step("manual compaction", self.manual)
            self.step("auto compaction", self.automatic)
            self.step("mid-turn", self.mid_turn)
            self.step("resume", self.resume)
            self.step("clear", self.clear)
            self.step("fork", self.fork)
        finally:
            self.agent.close()
        self.home = Home(self.args, self.name, self.model, "shell")
        self.agent = home_kind(self.home, self.model, shell=True)
        self.text = None
        self.step("install, no MCP", lambda: self.install("--no-mcp"))
        try:
            self.step("first prompt", lambda: self.expect(self.prompt("hello")[0], False, "CLEARED"))
            self.step("publish by shell", lambda: self.publish("shell", BETA))
            self.step("prompt after it", lambda: self.expect(self.prompt("go on")[-1], True))
        finally:
            self.agent.close()
        self.step("40 prompts", self.tokens)

    def install(self, *words):
        self.home.install(*words)
        self.agent.installed()
        ok, findings = self.home.doctor()
        if not ok:
            bad = [f"{one['code']}: {one['text']}" for one in findings if one["level"] == "fail"]
            raise Failed("doctor: " + "; ".join(bad))
        return "doctor: healthy"

    def publish(self, how, text):
        requests = self.prompt(f"publish_by_{how} " + "\\n".join(text))
        stored = self.home.state(self.session)
        if not stored or stored["pointer_text"] != "\n".join(text):
            tail = json.dumps(requests[-1].get("messages") or requests[-1].get("input") or requests[-1].get("contents"))
            raise Failed(f"it was not published; the model's last request ends with {tail[-500:]}")
        if len(requests) < 2:
            raise Failed("the model was not sent the tool's result")
        self.text = text
        return f"revision {stored['revision']}"

    def manual(self):
        mark = self.model.mark()
        self.agent.compact()
        if not compactions(self.model.since(mark)):
            raise Failed("the model was not asked for a summary")
        return self.expect(self.prompt("after the compaction")[0], True)

    def automatic(self):
        mark = self.model.mark()
        self.model.tokens(self.agent.many_tokens, 1)
        try:
            self.prompt(f"grow {FILLER}")
        finally:
            self.model.tokens(100)
        requests = self.prompt("after growing")
        summed_up = compactions(self.model.since(mark))
        note = self.expect(requests[-1], bool(summed_up))
        if not summed_up:
            raise NotHeadless(f"the reported tokens brought about no compaction; {note}")
        return note

    def mid_turn(self):
        if not self.agent.mid_turn:
            raise NotHeadless("compacts between turns only")
        self.model.tokens(self.agent.many_tokens, 1)
        try:
            requests = self.prompt("publish_by_tool " + "\\n".join(GAMMA))
        finally:
            self.model.tokens(100)
        self.text = GAMMA
        last = [entry["body"] for entry in self.entries if entry["body"].get("tools")][-1]
        if not compactions(self.entries):
            raise NotHeadless("the reported tokens brought about no compaction within the turn")
        if self.agent.announces_compaction:
            return self.expect(last, True, "CLEAN") + f", {len(requests)} requests"
        # Nobody was asked for a block: the model has its own call's receipt, and the text with the next prompt.
        stored = self.home.state(self.session)["revision"]
        if stored not in receipts(last):
            raise Failed(f"the model has the receipts {receipts(last)}, stored is revision {stored}")
        return f"the receipt of revision {stored}, then " + self.expect(self.prompt("after the turn")[0], True)

    def resume(self):
        self.prompt("before the resume")
        said, before = f"marker-{self.name}-{self.count}.", self.session
        self.agent.resume()
        request = self.prompt("after the resume")[0]
        note = self.expect(request, True)
        if not any(said in text for text in leaves(messages_of(request))):
            raise Failed("the agent has forgotten the user's prompt before the resume")
        if self.session != before:
            raise Failed("the session id changed")
        return note

    def clear(self):
        before = self.session
        self.agent.clear()
        request = self.prompt("after the clear")[0]
        note = self.expect(request, False, "CLEARED")
        if self.session == before:
            return note + ", same session id"
        self.before_clear = before
        return note + ", new session id"

    def fork(self):
        before = getattr(self, "before_clear", None) or self.session
        self.agent.fork(before)
        note = self.expect(self.prompt("after the fork")[0], False, "CLEARED")
        if self.session == before:
            raise Failed("the fork has the id of its parent")
        return note

    def tokens(self):
        """What the contexts of 40 prompts cost, by the hook itself; a quarter of the bytes, as Codex counts."""
        short, full = self.agent.cost(PROMPTS, LONG)
        saved = 100 - 100 * short // max(full, 1)
        return f"{short // 4} tokens, {full // 4} when always full ({saved} % saved)"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pintle", type=Path, required=True)
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("agents", nargs="*", choices=[*AGENTS, []])
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    args.work = args.work.resolve()
    model = Model(args.work)
    lives = []
    try:
        for name in args.agents or AGENTS:
            lives.append(Life(args, name, model))
            lives[-1].run()
    finally:
        model.close()
    steps = [(life.name, *result) for life in lives for result in life.results]
    failed = [step for step in steps if step[2] == "FAILED"]
    left_out = sum(step[2] == "-" for step in steps)
    print(f"\nclis: {len(steps) - len(failed) - left_out} passed, {len(failed)} failed, {left_out} not possible headless")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
