// An agent on the official TypeScript SDK. It understands the prompts of the pack as far as a few words go: it works on
// the long one until it is cancelled, asks for permission where the prompt says so, uses the client's files and terminals
// where it is to, and repeats everything else.
import { Readable, Writable } from "node:stream";
import { RequestError, agent, methods, ndJsonStream } from "@agentclientprotocol/sdk";

const sessions = new Map();
let offered = {};

const text = (words) => ({ type: "text", text: words });

/** Writes, reads and runs, as far as the client offered it. */
async function useClient(client, { sessionId, cwd }) {
  const seen = [];
  const path = `${cwd}/pintle-out.txt`;
  if (offered.fs?.writeTextFile) {
    await client.request(methods.client.fs.writeTextFile, { sessionId, path, content: "pintle" });
    seen.push("written");
  }
  if (offered.fs?.readTextFile) {
    const { content } = await client.request(methods.client.fs.readTextFile, { sessionId, path });
    seen.push(`read ${content}`);
  }
  if (offered.terminal) {
    const terminal = await client.createTerminal({ sessionId, command: "echo", args: ["pintle"], cwd });
    await terminal.waitForExit();
    const { output } = await terminal.currentOutput();
    await terminal.release();
    seen.push(`ran ${output.trim()}`);
  }
  return seen.join(", ") || "the client offers nothing";
}

/** One turn; a cancel of the session or of the prompt's request ends it. */
async function turn(session, params, client, signal) {
  const cancelled = new Promise((resolve) => {
    session.cancel = () => resolve("cancelled");
    signal.addEventListener("abort", session.cancel);
  });
  const asked = params.prompt.map((block) => block.text ?? "").join("");
  const tell = (update) => client.notify(methods.client.session.update, { sessionId: params.sessionId, update });
  const say = (words) => tell({ sessionUpdate: "agent_message_chunk", content: text(words) });
  await say(asked);
  if (asked.includes("numbers from 1 to 500")) {
    await cancelled;
    return { stopReason: "cancelled" };
  }
  if (asked.includes("numbers from 1 to 200")) {
    for (let number = 1; number <= 200; number++) await say(`${number}\n`);
  }
  if (asked.includes("Make a plan")) {
    const entries = ["Look", "Sort", "Throw away"].map((content) => ({ content, priority: "medium", status: "pending" }));
    await tell({ sessionUpdate: "plan", entries });
  }
  if (asked.includes("ask for permission")) {
    await tell({ sessionUpdate: "tool_call", toolCallId: "call-1", title: "Write a file", kind: "edit" });
    const outcome = client.request(methods.client.session.requestPermission, {
      sessionId: params.sessionId,
      toolCall: { toolCallId: "call-1" },
      options: [
        { optionId: "yes", name: "Allow once", kind: "allow_once" },
        { optionId: "no", name: "Reject once", kind: "reject_once" },
      ],
    });
    const answer = await Promise.race([cancelled, outcome]);
    if (answer === "cancelled" || answer.outcome.outcome === "cancelled") return { stopReason: "cancelled" };
    const status = answer.outcome.optionId === "yes" ? "completed" : "failed";
    await tell({ sessionUpdate: "tool_call_update", toolCallId: "call-1", status });
  }
  if (asked.includes("Read the file")) {
    await say(await useClient(client, session));
  }
  return { stopReason: "end_turn" };
}

const app = agent({ name: "ts-agent" })
  .onRequest(methods.agent.initialize, ({ params }) => {
    offered = params.clientCapabilities ?? {};
    return { protocolVersion: 1, agentInfo: { name: "ts-agent", version: "0" }, agentCapabilities: {} };
  })
  .onRequest(methods.agent.session.new, ({ params }) => {
    const sessionId = `ts-${sessions.size + 1}`;
    sessions.set(sessionId, { sessionId, cwd: params.cwd, cancel: () => {} });
    return { sessionId };
  })
  .onNotification(methods.agent.session.cancel, ({ params }) => sessions.get(params.sessionId)?.cancel())
  .onRequest(methods.agent.session.prompt, async ({ params, client, signal }) => {
    const session = sessions.get(params.sessionId);
    if (!session) throw RequestError.resourceNotFound();
    if (session.busy) throw RequestError.invalidRequest("a turn is running");
    session.busy = true;
    try {
      return await turn(session, params, client, signal);
    } finally {
      session.busy = false;
    }
  });

app.connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
