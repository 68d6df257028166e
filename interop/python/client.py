"""A client on the official Python SDK that plays the steps of a file and prints what its typed interface gave it.

python client.py STEPS.json CWD AGENT [ARGS..]: one JSON line a step, with the updates, the calls of the client's methods
and the result. What that means is not decided here.
"""

import asyncio
import json
import sys

from acp import RequestError, spawn_agent_process, text_block
from acp.schema import (
    AcceptElicitationResponse,
    ClientCapabilities,
    CreateTerminalResponse,
    ElicitationFormSessionMode,
    Implementation,
    ReadTextFileResponse,
    RequestPermissionResponse,
    TerminalOutputResponse,
    WaitForTerminalExitResponse,
)

# How long an update may take that comes after the answer, in seconds.
LATE_S = 10
# How long the answer to a request may take, in seconds. The SDK leaves some open when the agent is gone.
ANSWER_S = 30
# The line limit, above the largest update of the steps.
LINE_MAX_BYTES = 8 << 20

CAPABILITIES = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
    "plan": {},
    "subagents": {},
    "elicitation": {"form": {}, "url": {}},
}


def plain(value):
    """What the SDK's types hold, as JSON."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return value


class Recorder:
    """The client's side of the connection."""

    def __init__(self):
        self.step = {}
        self.updates = []
        self.calls = []
        self.changed = asyncio.Event()
        self.terminals = {}
        self.agent = None

    def on_connect(self, agent):
        self.agent = agent

    def note(self, method, **params):
        self.calls.append({"method": method, "params": {name: plain(value) for name, value in params.items()}})

    async def until_updates(self, count):
        async def enough():
            while len(self.updates) < count:
                self.changed.clear()
                await self.changed.wait()

        try:
            await asyncio.wait_for(enough(), LATE_S)
        except asyncio.TimeoutError:
            pass

    async def session_update(self, session_id, update, **_):
        self.updates.append({"sessionId": session_id, "update": plain(update)})
        self.changed.set()

    async def request_permission(self, session_id, tool_call, options, **_):
        self.note(
            "session/request_permission",
            sessionId=session_id,
            toolCall=tool_call,
            options=[plain(option) for option in options],
        )
        if self.step.get("cancel") == "permission":
            await self.agent.cancel(session_id=session_id)
            return RequestPermissionResponse.model_validate({"outcome": {"outcome": "cancelled"}})
        wanted = self.step.get("permission", "allow_once")
        for option in options:
            if option.kind == wanted:
                outcome = {"outcome": "selected", "optionId": option.option_id}
                return RequestPermissionResponse.model_validate({"outcome": outcome})
        return RequestPermissionResponse.model_validate({"outcome": {"outcome": "cancelled"}})

    async def write_text_file(self, session_id, path, content, **_):
        self.note("fs/write_text_file", sessionId=session_id, path=path, content=content)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)

    async def read_text_file(self, session_id, path, line=None, limit=None, **_):
        self.note("fs/read_text_file", sessionId=session_id, path=path, line=line, limit=limit)
        with open(path, encoding="utf-8") as file:
            return ReadTextFileResponse(content=file.read())

    async def create_terminal(self, session_id, command, args=None, env=None, cwd=None, output_byte_limit=None, **_):
        self.note("terminal/create", sessionId=session_id, command=command, args=args, cwd=cwd)
        name = f"terminal-{len(self.terminals) + 1}"
        self.terminals[name] = {"exitCode": 0}
        return CreateTerminalResponse(terminal_id=name)

    async def terminal_output(self, session_id, terminal_id, **_):
        self.note("terminal/output", sessionId=session_id, terminalId=terminal_id)
        return TerminalOutputResponse(output="pintle\n", truncated=False)

    async def wait_for_terminal_exit(self, session_id, terminal_id, **_):
        self.note("terminal/wait_for_exit", sessionId=session_id, terminalId=terminal_id)
        return WaitForTerminalExitResponse.model_validate(self.terminals[terminal_id])

    async def kill_terminal(self, session_id, terminal_id, **_):
        self.note("terminal/kill", sessionId=session_id, terminalId=terminal_id)
        self.terminals[terminal_id] = {"signal": "SIGKILL"}

    async def release_terminal(self, session_id, terminal_id, **_):
        self.note("terminal/release", sessionId=session_id, terminalId=terminal_id)

    async def create_elicitation(self, message, mode, **_):
        form = isinstance(mode, ElicitationFormSessionMode)
        self.note("elicitation/create", message=message, mode="form" if form else "url", **plain(mode))
        content = {"name": "Ada", "age": 36, "member": True, "days": ["sunday"]} if form else None
        return AcceptElicitationResponse(action="accept", content=content)

    async def complete_elicitation(self, elicitation_id, **_):
        self.note("elicitation/complete", elicitationId=elicitation_id)

    async def ext_method(self, method, params):
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method, params):
        pass


async def outcome(request):
    """What a request came to: a code of the agent's, or `connection` where there is no agent any more."""
    try:
        return {"result": plain(await asyncio.wait_for(request, ANSWER_S))}
    except RequestError as error:
        return {"error": error.code}
    except (ConnectionError, asyncio.TimeoutError, asyncio.CancelledError):
        return {"error": "connection"}


class Player:
    def __init__(self, recorder, agent, cwd):
        self.recorder = recorder
        self.agent = agent
        self.cwd = cwd
        self.sessions = {}

    async def play(self, step):
        self.recorder.step = step
        more = {}
        result = await self.act(step, more)
        if "skipped" not in result:
            await self.recorder.until_updates(step.get("updates", 0))
        line = {"step": step["name"], "updates": self.recorder.updates, "calls": self.recorder.calls, "more": more}
        print(json.dumps(line | result), flush=True)
        self.recorder.updates, self.recorder.calls = [], []

    async def act(self, step, more):
        agent, session = self.agent, self.sessions.get(step.get("session", "main"), "")
        what = step["do"]
        if what == "initialize":
            return await outcome(
                agent.initialize(
                    protocol_version=1,
                    client_capabilities=ClientCapabilities.model_validate(CAPABILITIES),
                    client_info=Implementation(name="python-client", version="0"),
                )
            )
        if what == "authenticate":
            return await outcome(agent.authenticate(method_id=step["method"]))
        if what == "new":
            made = await outcome(agent.new_session(cwd=self.cwd, mcp_servers=[]))
            if "result" in made:
                self.sessions[step.get("as", "main")] = made["result"]["sessionId"]
            return made
        if what == "prompt":
            return await self.prompt(step, session, more)
        if what == "cancel":
            await agent.cancel(session_id=session)
            return {"result": {}}
        if what == "set_mode":
            return await outcome(agent.set_session_mode(session_id=session, mode_id=step["value"]))
        if what == "set_option":
            value = step["on"] if "on" in step else step["value"]
            return await outcome(agent.set_config_option(config_id=step["option"], session_id=session, value=value))
        if what == "list":
            return await outcome(agent.list_sessions(cwd="/no/such/folder" if step.get("elsewhere") else None))
        if what == "load":
            return await outcome(agent.load_session(cwd=self.cwd, session_id=session, mcp_servers=[]))
        if what == "resume":
            return await outcome(agent.resume_session(session_id=session, cwd=self.cwd))
        if what == "close":
            return await outcome(agent.close_session(session_id=session))
        if what == "ext":
            return await outcome(agent.ext_method(step["method"].removeprefix("_"), {}))
        return {"skipped": f"the SDK's client has no {what}"}

    async def prompt(self, step, session, more):
        def ask(text):
            return outcome(self.agent.prompt(session_id=session, prompt=[text_block(text)]))

        cancel = step.get("cancel")
        if cancel == "request":
            return {"skipped": "the SDK's client sends no $/cancel_request"}
        answer = asyncio.ensure_future(ask(step["text"]))
        if cancel in ("update", "close"):
            await self.recorder.until_updates(1)
        if "second" in step:
            more["second"] = await ask(step["second"])
        if cancel == "update":
            await self.agent.cancel(session_id=session)
        if cancel == "close":
            more["close"] = await outcome(self.agent.close_session(session_id=session))
        return await answer


async def main():
    steps_file, cwd, command, *args = sys.argv[1:]
    with open(steps_file, encoding="utf-8") as file:
        steps = json.load(file)
    recorder = Recorder()
    spawned = spawn_agent_process(
        recorder,
        command,
        *args,
        transport_kwargs={"limit": LINE_MAX_BYTES},
        use_unstable_protocol=True,
    )
    async with spawned as (agent, _):
        player = Player(recorder, agent, cwd)
        for step in steps:
            await player.play(step)


asyncio.run(main())
