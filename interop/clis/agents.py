"""How each agent is set up for the mock model and brought to prompt, compact, resume, clear and fork."""

import json
import queue
import re
import subprocess
import threading
import urllib.request

from talk import CodexServer, Lines
from world import COMMAND_WAIT_S, Failed, NotHeadless

KEY = "mock-key-0000"


class Agent:
    """What the agents share."""

    # What a nearly full context window reports.
    many_tokens = 3_000_000
    # Whether it can compact between a tool's result and the next request.
    mid_turn = False
    # Whether a hook of ours is asked after a compaction.
    announces_compaction = True
    prompt_event = "UserPromptSubmit"
    start_event = "SessionStart"

    def __init__(self, home, model, shell=False):
        self.home, self.model, self.shell = home, model, shell
        self.configure()

    def configure(self):
        pass

    def installed(self):
        pass

    def compact(self):
        raise NotHeadless("no way to compact without a terminal")

    def resume(self):
        raise NotHeadless("no way to resume without a terminal")

    def clear(self):
        raise NotHeadless("no way to clear without a terminal")

    def fork(self, _session):
        raise NotHeadless("no way to fork without a terminal")

    def close(self):
        pass

    def write(self, name, text):
        path = self.home.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text, indent=2) + "\n")

    def cost(self, prompts, text):
        """Bytes of the contexts of so many prompts in one session, and what full ones would have cost."""
        session = "ses-cost-0000"
        options = ["task", "hook", "--agent", self.home.agent, "--on-error", "open", "--mcp"]
        words = ["pintle", *options]

        def context(event, **members):
            payload = {"session_id": session, "sessionID": session, "conversation_id": session,
                       "hook_event_name": event, "cwd": str(self.home.project), **members}
            out = self.home.run(*words, stdin=json.dumps(payload)).stdout
            answer = json.loads(out) if out else {}
            nested = answer.get("hookSpecificOutput") or answer
            return nested.get("additionalContext") or nested.get("context") or ""

        context(self.start_event, source="startup")
        context(self.prompt_event, prompt="first")
        self.home.task("set", text, "--session", session)
        sizes = [len(context(self.prompt_event, prompt=f"prompt {n}").encode()) for n in range(prompts)]
        return sum(sizes), max(sizes) * prompts


class Codex(Agent):
    mid_turn = True

    def configure(self):
        sandbox = "danger-full-access" if self.shell else "workspace-write"
        self.write(".codex/config.toml", f'''model = "mock-model"
model_provider = "mock"
model_auto_compact_token_limit = 100000
approval_policy = "never"
sandbox_mode = "{sandbox}"
check_for_update_on_startup = false

[model_providers.mock]
name = "mock"
base_url = "{self.model.url}/v1"
wire_api = "responses"
requires_openai_auth = false
''')
        self.server = self.thread = None

    def installed(self):
        """The user's own step, for which the doctor names key and hash."""
        _, findings = self.home.doctor()
        untrusted = [one["data"] for one in findings if one["code"] == "untrusted"]
        if len(untrusted) != 4:
            raise Failed(f"{len(untrusted)} untrusted hooks before the user trusts them, and not 4")
        config = self.home.path / ".codex/config.toml"
        trust = "".join(f'\n[hooks.state."{one["key"]}"]\ntrusted_hash = "{one["hash"]}"\n' for one in untrusted)
        config.write_text(config.read_text() + trust)

    def start(self):
        if self.server is None:
            self.server = CodexServer(self.home)

    def new_thread(self, **more):
        self.thread = self.server.call("thread/start", {"cwd": str(self.home.project), **more})["thread"]["id"]

    def prompt(self, text):
        if self.server is None:
            self.start()
            self.new_thread()
        self.server.asked.clear()
        self.server.call("turn/start", {"threadId": self.thread, "input": [{"type": "text", "text": text}]})
        self.server.wait_for("turn/completed")
        if self.server.asked:
            raise Failed(f"the user was asked: {', '.join(self.server.asked)}")

    def compact(self):
        self.server.call("thread/compact/start", {"threadId": self.thread})
        self.server.wait_for("turn/completed")

    def resume(self):
        self.close()
        self.start()
        self.server.call("thread/resume", {"threadId": self.thread})

    def clear(self):
        self.new_thread(sessionStartSource="clear")

    def fork(self, session):
        self.thread = self.server.call("thread/fork", {"threadId": session})["thread"]["id"]

    def close(self):
        if self.server:
            self.server.close()
            self.server = None


class Claude(Agent):
    many_tokens = 150_000
    mid_turn = True

    def configure(self):
        self.home.env.update(
            ANTHROPIC_BASE_URL=self.model.url,
            ANTHROPIC_API_KEY=KEY,
            # The smallest window that it takes; without it the window depends on what the model's name says.
            CLAUDE_CODE_AUTO_COMPACT_WINDOW="100000",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
            IS_SANDBOX="1",
        )
        self.lines, self.session = None, None

    def start(self, *more):
        words = ["claude", "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        words += ["--model", "claude-sonnet-4-5", *more]
        if self.shell:
            words += ["--allowedTools", "Bash"]
        self.lines = Lines(words, self.home.env, self.home.project)

    def say(self, text):
        self.lines.send({"type": "user", "message": {"role": "user", "content": text}})

        def wanted(message):
            self.session = message.get("session_id") or self.session
            return message.get("type") == "result"

        self.lines.until(wanted, f"turn `{text[:20]}`", COMMAND_WAIT_S)

    def prompt(self, text):
        if self.lines is None:
            self.start()
        self.say(text)

    def compact(self):
        self.say("/compact")

    def resume(self):
        self.close()
        self.start("--resume", self.session)

    def clear(self):
        self.say("/clear")

    def fork(self, session):
        self.close()
        self.start("--resume", session, "--fork-session")

    def close(self):
        if self.lines:
            self.lines.close()
            self.lines = None


class OneShot(Agent):
    """An agent that takes one prompt per process."""

    later = []

    def __init__(self, home, model, shell=False):
        self.more = []
        super().__init__(home, model, shell)

    def prompt(self, text):
        done = self.home.run(*self.words(text), *self.more, check=False, wait=COMMAND_WAIT_S)
        if done.returncode != 0:
            raise Failed(f"ended with {done.returncode}: {(done.stderr or done.stdout)[-300:]}")
        self.more = self.later

    def resume(self):
        """Each prompt after the first has resumed already."""
        if not self.more:
            raise Failed("there is nothing to resume")


class Gemini(OneShot):
    many_tokens = 900_000
    mid_turn = True
    announces_compaction = False
    prompt_event = "BeforeAgent"
    later = ["-r", "latest"]

    def configure(self):
        self.home.env.update(GEMINI_API_KEY=KEY, GOOGLE_GEMINI_BASE_URL=self.model.url, GEMINI_CLI_NO_RELAUNCH="true")
        # Each prompt is a process of its own, which estimates the history's tokens: a long prompt is over this share.
        settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "model": {"compressionThreshold": 0.005}}
        self.write(".gemini/settings.json", settings)

    def words(self, text):
        words = ["gemini", "-p", text, "-m", "gemini-2.5-flash", "--skip-trust"]
        return [*words, "--yolo"] if self.shell else words

    def compact(self):
        raise NotHeadless("/compress needs a terminal")


class Qwen(OneShot):
    many_tokens = 100_000
    mid_turn = True
    later = ["--continue"]

    def configure(self):
        self.home.env.update(OPENAI_API_KEY=KEY, OPENAI_BASE_URL=f"{self.model.url}/v1", OPENAI_MODEL="mock")
        # A second agent that reads the history along would be taken for the first.
        memory = {"enableManagedAutoMemory": False, "enableManagedAutoDream": False}
        self.write(".qwen/settings.json", {"memory": memory, "context": {"autoCompactThreshold": 0.05}})

    def words(self, text):
        words = ["qwen", "-p", text, "--auth-type", "openai"]
        return [*words, "--yolo"] if self.shell else words

    def compact(self):
        self.prompt("/compress")


class Copilot(OneShot):
    many_tokens = 35_000
    mid_turn = True
    announces_compaction = False
    later = ["--continue"]

    def configure(self):
        self.home.env.update(
            COPILOT_OFFLINE="true",
            COPILOT_PROVIDER_BASE_URL=f"{self.model.url}/v1",
            COPILOT_MODEL="gpt-5.4",
            COPILOT_PROVIDER_WIRE_API="completions",
            COPILOT_PROVIDER_MAX_PROMPT_TOKENS="36000",
            COPILOT_HOME=str(self.home.path / ".copilot"),
        )

    def words(self, text):
        words = ["copilot", "-p", text, "--allow-all-tools"]
        return [*words, "--allow-all-paths"] if self.shell else words

    def compact(self):
        self.prompt("/compact")


class Opencode(Agent):
    mid_turn = True
    prompt_event = "experimental.chat.system.transform"
    start_event = "session.created"

    def configure(self):
        models = {"mock": {"name": "mock", "limit": {"context": 200000, "output": 8000}, "tool_call": True}}
        options = {"baseURL": f"{self.model.url}/v1", "apiKey": KEY}
        provider = {"mock": {"npm": "@ai-sdk/openai-compatible", "options": options, "models": models}}
        self.write(".config/opencode/opencode.json", {"model": "mock/mock", "provider": provider, "autoupdate": False})
        self.process = self.session = None

    def start(self):
        self.errors = open(self.home.path / "stderr.txt", "ab")
        self.process = subprocess.Popen(
            ["opencode", "serve", "--port", "0", "--hostname", "127.0.0.1"],
            stdout=subprocess.PIPE, stderr=self.errors, text=True, env=self.home.env, cwd=self.home.project,
        )
        lines = queue.Queue()
        threading.Thread(target=lambda: [lines.put(line) for line in self.process.stdout], daemon=True).start()
        try:
            while not (found := re.search(r"http://[\d.]+:\d+", lines.get(timeout=COMMAND_WAIT_S))):
                pass
        except queue.Empty:
            raise Failed("opencode serve did not say where it listens") from None
        self.url = found.group(0)

    def post(self, path, value):
        data = json.dumps(value).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=COMMAND_WAIT_S) as answer:
                text = answer.read()
        except OSError as error:
            raise Failed(f"POST {path}: {error}") from None
        return json.loads(text) if text else None

    def prompt(self, text):
        if self.process is None:
            self.start()
        if self.session is None:
            self.session = self.post("/session", {})["id"]
        model = {"providerID": "mock", "modelID": "mock"}
        self.post(f"/session/{self.session}/message", {"model": model, "parts": [{"type": "text", "text": text}]})

    def compact(self):
        self.post(f"/session/{self.session}/summarize", {"providerID": "mock", "modelID": "mock"})

    def resume(self):
        self.close()

    def clear(self):
        self.session = None

    def fork(self, session):
        self.session = self.post(f"/session/{session}/fork", {})["id"]

    def close(self):
        if self.process:
            self.process.terminate()
            self.process.wait()
            self.errors.close()
            self.process = None


AGENTS = {
    "codex": Codex,
    "claude": Claude,
    "gemini": Gemini,
    "qwen": Qwen,
    "copilot": Copilot,
    "opencode": Opencode,
}
