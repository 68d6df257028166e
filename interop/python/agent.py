"""An agent on the official Python SDK.

It understands the prompts of the pack as far as a few words go: it works on the long one until it is cancelled, asks for
permission where the prompt says so, uses the client's files and terminals where it is to, and repeats everything else.
"""

import asyncio

from acp import Agent, InitializeResponse, NewSessionResponse, PromptResponse, RequestError, run_agent
from acp import text_block, update_agent_message
from acp.schema import (
    AgentCapabilities,
    AgentPlanUpdate,
    Implementation,
    PermissionOption,
    PlanEntry,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
)


class Session:
    def __init__(self, cwd):
        self.cwd = cwd
        self.busy = False
        self.cancelled = asyncio.Event()


class PromptAgent(Agent):
    def __init__(self):
        self.sessions = {}
        self.offered = None

    def on_connect(self, conn):
        self.client = conn

    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **_):
        self.offered = client_capabilities
        return InitializeResponse(
            protocol_version=1,
            agent_capabilities=AgentCapabilities(),
            agent_info=Implementation(name="python-agent", version="0"),
        )

    async def new_session(self, cwd, additional_directories=None, mcp_servers=None, **_):
        session_id = f"python-{len(self.sessions) + 1}"
        self.sessions[session_id] = Session(cwd)
        return NewSessionResponse(session_id=session_id)

    async def cancel(self, session_id, **_):
        if session_id in self.sessions:
            self.sessions[session_id].cancelled.set()

    async def prompt(self, session_id, prompt, **_):
        session = self.sessions.get(session_id)
        if session is None:
            raise RequestError.resource_not_found(session_id)
        if session.busy:
            raise RequestError.invalid_request({"details": "a turn is running"})
        session.busy = True
        session.cancelled.clear()
        try:
            return await self.turn(session_id, session, prompt)
        finally:
            session.busy = False

    async def turn(self, session_id, session, prompt):
        asked = "".join(getattr(block, "text", "") for block in prompt)
        await self.say(session_id, asked)
        if "numbers from 1 to 500" in asked:
            await session.cancelled.wait()
            return PromptResponse(stop_reason="cancelled")
        if "numbers from 1 to 200" in asked:
            for number in range(1, 201):
                await self.say(session_id, f"{number}\n")
        if "Make a plan" in asked:
            entries = [
                PlanEntry(content=content, priority="medium", status="pending")
                for content in ("Look", "Sort", "Throw away")
            ]
            await self.tell(session_id, AgentPlanUpdate(session_update="plan", entries=entries))
        if "ask for permission" in asked:
            answer = await self.ask(session_id, session)
            if answer is None:
                return PromptResponse(stop_reason="cancelled")
            status = "completed" if answer == "yes" else "failed"
            done = ToolCallProgress(session_update="tool_call_update", tool_call_id="call-1", status=status)
            await self.tell(session_id, done)
        if "Read the file" in asked:
            await self.say(session_id, await self.use_client(session_id, session))
        return PromptResponse(stop_reason="end_turn")

    async def ext_method(self, method, params):
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method, params):
        pass

    async def tell(self, session_id, update):
        await self.client.session_update(session_id=session_id, update=update)

    async def say(self, session_id, text):
        await self.tell(session_id, update_agent_message(text_block(text)))

    async def ask(self, session_id, session):
        """The option that was chosen, or nothing when the turn was cancelled."""
        call = ToolCallStart(session_update="tool_call", tool_call_id="call-1", title="Write a file", kind="edit")
        await self.tell(session_id, call)
        asked = asyncio.ensure_future(
            self.client.request_permission(
                session_id=session_id,
                tool_call=ToolCallUpdate(tool_call_id="call-1"),
                options=[
                    PermissionOption(option_id="yes", name="Allow once", kind="allow_once"),
                    PermissionOption(option_id="no", name="Reject once", kind="reject_once"),
                ],
            )
        )
        cancelled = asyncio.ensure_future(session.cancelled.wait())
        done, _ = await asyncio.wait({asked, cancelled}, return_when=asyncio.FIRST_COMPLETED)
        cancelled.cancel()
        if asked not in done:
            asked.cancel()
            return None
        return getattr(asked.result().outcome, "option_id", None)

    async def use_client(self, session_id, session):
        """Writes, reads and runs, as far as the client offered it."""
        seen, offered, path = [], self.offered, f"{session.cwd}/pintle-out.txt"
        if offered and offered.fs and offered.fs.write_text_file:
            await self.client.write_text_file(session_id=session_id, path=path, content="pintle")
            seen.append("written")
        if offered and offered.fs and offered.fs.read_text_file:
            read = await self.client.read_text_file(session_id=session_id, path=path)
            seen.append(f"read {read.content}")
        if offered and offered.terminal:
            made = await self.client.create_terminal(
                session_id=session_id, command="echo", args=["pintle"], cwd=session.cwd
            )
            terminal = {"session_id": session_id, "terminal_id": made.terminal_id}
            await self.client.wait_for_terminal_exit(**terminal)
            output = await self.client.terminal_output(**terminal)
            await self.client.release_terminal(**terminal)
            seen.append(f"ran {output.output.strip()}")
        return ", ".join(seen) or "the client offers nothing"


asyncio.run(run_agent(PromptAgent()))
