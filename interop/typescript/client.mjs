// A client on the official TypeScript SDK that plays the steps of a file and prints what its typed interface gave it.
//
// node client.mjs STEPS.json CWD AGENT [ARGS..]: one JSON line a step, with the updates, the calls of the client's
// methods and the result. What that means is not decided here.
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { RequestError, client, methods, ndJsonStream } from "@agentclientprotocol/sdk/unstable";

/** How long an update may take that comes after the answer. */
const LATE_MS = 10_000;

const [stepsFile, cwd, command, ...args] = process.argv.slice(2);
const steps = JSON.parse(readFileSync(stepsFile, "utf8"));
const sessions = new Map();
const terminals = new Map();
let step = {};
let updates = [];
let calls = [];
let waiting = () => {};

const note = (method, params) => {
  calls.push({ method, params });
};

const serve = (method, answer) => [
  method,
  ({ params }) => {
    note(method, params);
    return answer(params);
  },
];

const app = client({ name: "ts-client" })
  .onNotification(methods.client.session.update, ({ params }) => {
    updates.push(params);
    waiting();
  })
  .onNotification(methods.client.elicitation.complete, ({ params }) =>
    note(methods.client.elicitation.complete, params),
  )
  .onRequest(methods.client.session.requestPermission, async ({ params, agent }) => {
    note(methods.client.session.requestPermission, params);
    if (step.cancel === "permission") {
      await agent.notify(methods.agent.session.cancel, { sessionId: params.sessionId });
      return { outcome: { outcome: "cancelled" } };
    }
    const chosen = params.options.find((option) => option.kind === (step.permission ?? "allow_once"));
    if (!chosen) return { outcome: { outcome: "cancelled" } };
    return { outcome: { outcome: "selected", optionId: chosen.optionId } };
  })
  .onRequest(
    ...serve(methods.client.fs.writeTextFile, ({ path, content }) => {
      writeFileSync(path, content);
      return {};
    }),
  )
  .onRequest(...serve(methods.client.fs.readTextFile, ({ path }) => ({ content: readFileSync(path, "utf8") })))
  .onRequest(
    ...serve(methods.client.terminal.create, () => {
      const terminalId = `terminal-${terminals.size + 1}`;
      terminals.set(terminalId, { exitCode: 0 });
      return { terminalId };
    }),
  )
  .onRequest(
    ...serve(methods.client.terminal.output, () => ({
      output: "pintle\n",
      truncated: false,
      exitStatus: { exitCode: 0 },
    })),
  )
  .onRequest(...serve(methods.client.terminal.waitForExit, ({ terminalId }) => terminals.get(terminalId)))
  .onRequest(
    ...serve(methods.client.terminal.kill, ({ terminalId }) => {
      terminals.set(terminalId, { signal: "SIGKILL" });
      return {};
    }),
  )
  .onRequest(...serve(methods.client.terminal.release, () => ({})))
  .onRequest(
    ...serve(methods.client.elicitation.create, ({ mode }) =>
      mode === "form"
        ? { action: "accept", content: { name: "Ada", age: 36, member: true, days: ["sunday"] } }
        : { action: "accept" },
    ),
  );

const agentProcess = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = ndJsonStream(Writable.toWeb(agentProcess.stdin), Readable.toWeb(agentProcess.stdout));
const connection = app.connect(stream);
const { agent } = connection;

/** Waits for so many updates in this step. */
function untilUpdates(count) {
  if (updates.length >= count) return;
  return new Promise((resolve) => {
    const late = setTimeout(resolve, LATE_MS);
    waiting = () => {
      if (updates.length < count) return;
      waiting = () => {};
      clearTimeout(late);
      resolve();
    };
  });
}

/** A code of the agent's, or `connection` where there is no agent any more. */
function code(error) {
  return error instanceof RequestError && !connection.signal.aborted ? error.code : "connection";
}

async function outcome(promise) {
  try {
    return { result: (await promise) ?? null };
  } catch (error) {
    return { error: code(error) };
  }
}

async function prompt(sessionId, more) {
  const block = (text) => ({ sessionId, prompt: [{ type: "text", text }] });
  const request = new AbortController();
  const answer = outcome(
    agent.request(methods.agent.session.prompt, block(step.text), { cancellationSignal: request.signal }),
  );
  if (["update", "request", "close"].includes(step.cancel)) await untilUpdates(1);
  if (step.second) more.second = await outcome(agent.request(methods.agent.session.prompt, block(step.second)));
  if (step.cancel === "update") await agent.notify(methods.agent.session.cancel, { sessionId });
  if (step.cancel === "request") request.abort();
  if (step.cancel === "close") more.close = await outcome(agent.request(methods.agent.session.close, { sessionId }));
  return answer;
}

const hello = {
  protocolVersion: 1,
  clientInfo: { name: "ts-client", version: "0" },
  clientCapabilities: {
    fs: { readTextFile: true, writeTextFile: true },
    terminal: true,
    session: { notices: {}, compaction: {}, configOptions: { boolean: {} } },
    plan: {},
    subagents: {},
    elicitation: { form: {}, url: {} },
  },
};

async function act(more) {
  const sessionId = sessions.get(step.session ?? "main") ?? "";
  const ask = (method, params) => outcome(agent.request(method, params));
  const to = methods.agent;
  switch (step.do) {
    case "initialize":
      return ask(to.initialize, hello);
    case "authenticate":
      return ask(to.authenticate, { methodId: step.method });
    case "logout":
      return ask(to.logout, {});
    case "new": {
      const made = await ask(to.session.new, { cwd, mcpServers: [] });
      if (made.result) sessions.set(step.as ?? "main", made.result.sessionId);
      return made;
    }
    case "prompt":
      return prompt(sessionId, more);
    case "cancel":
      await agent.notify(to.session.cancel, { sessionId });
      return { result: {} };
    case "set_mode":
      return ask(to.session.setMode, { sessionId, modeId: step.value });
    case "set_option": {
      const value = "on" in step ? { type: "boolean", value: step.on } : { value: step.value };
      return ask(to.session.setConfigOption, { sessionId, configId: step.option, ...value });
    }
    case "list":
      return ask(to.session.list, step.elsewhere ? { cwd: "/no/such/folder" } : {});
    case "load":
      return ask(to.session.load, { sessionId, cwd, mcpServers: [] });
    case "resume":
      return ask(to.session.resume, { sessionId, cwd });
    case "close":
      return ask(to.session.close, { sessionId });
    case "delete":
      return ask(to.session.delete, { sessionId });
    case "ext":
      return ask(step.method, {});
    default:
      return { error: `no such step: ${step.do}` };
  }
}

for (step of steps) {
  const more = {};
  const result = await act(more);
  await untilUpdates(step.updates ?? 0);
  console.log(JSON.stringify({ step: step.name, updates, calls, more, ...result }));
  updates = [];
  calls = [];
}
connection.close();
agentProcess.stdin.destroy();
