// An agent on the official TypeScript SDK. It works on the pack's long prompt until it is cancelled, asks for permission
// where the prompt says so, and repeats everything else.
import { Readable, Writable } from "node:stream";
import { RequestError, agent, methods, ndJsonStream } from "@agentclientprotocol/sdk";

const sessions = new Map();

const app = agent({ name: "ts-agent" })
  .onRequest(methods.agent.initialize, () => ({ protocolVersion: 1, agentCapabilities: {} }))
  .onRequest(methods.agent.session.new, () => {
    const sessionId = `ts-${sessions.size + 1}`;
    sessions.set(sessionId, { cancel: () => {} });
    return { sessionId };
  })
  .onNotification(methods.agent.session.cancel, ({ params }) => sessions.get(params.sessionId)?.cancel())
  .onRequest(methods.agent.session.prompt, async ({ params, client }) => {
    const session = sessions.get(params.sessionId);
    if (!session) throw RequestError.resourceNotFound();
    const cancelled = new Promise((resolve) => (session.cancel = () => resolve("cancelled")));
    const text = params.prompt.map((block) => block.text ?? "").join("");
    const say = (words) =>
      client.notify(methods.client.session.update, {
        sessionId: params.sessionId,
        update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text: words } },
      });
    await say(text);
    if (text.includes("numbers from 1 to 500")) {
      await cancelled;
      return { stopReason: "cancelled" };
    }
    if (text.includes("ask for permission")) {
      const asked = client.request(methods.client.session.requestPermission, {
        sessionId: params.sessionId,
        toolCall: { toolCallId: "call-1", title: "Write a file" },
        options: [
          { optionId: "yes", name: "Allow once", kind: "allow_once" },
          { optionId: "no", name: "Reject once", kind: "reject_once" },
        ],
      });
      const answer = await Promise.race([cancelled, asked]);
      if (answer === "cancelled" || answer.outcome.outcome === "cancelled") return { stopReason: "cancelled" };
      await say("answered");
    }
    return { stopReason: "end_turn" };
  });

app.connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
