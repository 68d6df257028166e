"""A model server on loopback, so that real agents take whole turns with no network.

It speaks four dialects: OpenAI chat completions, OpenAI responses, Anthropic messages, Gemini generateContent. Every
answer is the text in MOCK_TEXT. When the newest user text contains `wait_for_cancel`, or is the long prompt of the
conformance pack, the answer is streamed a word at a time until the caller hangs up, at most MAX_HOLD_S seconds, so that
a cancel in the middle of a turn has something to cancel. The pack's prompts that want a stream, a file or a command get
one: the last two by a call of the shell tool. Each request is appended to the log as one JSON line.

It can call tools, for the task pointer: `publish_by_tool TEXT` in the newest user text calls the tool whose name
contains `task_publish`, `publish_by_shell TEXT` runs the `publisher:` line through the shell tool, both with the values
of the newest TASK_POINTER_V2 block that the request holds. The answer after a tool's result is plain text again.

`POST /mock {"input_tokens": N, "for_requests": K}` sets the number of input tokens that the next K answers report
(every later one without K), so that a caller can bring about an automatic compaction.

usage: mock_model.py PORT_FILE LOG_FILE    (binds a free port of 127.0.0.1 and writes its number to PORT_FILE)
"""

import gzip
import json
import os
import re
import shlex
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TEXT = os.environ.get("MOCK_TEXT", "Hello from the mock model.")
INPUT_TOKENS = int(os.environ.get("MOCK_INPUT_TOKENS", "100"))
MAX_HOLD_S = 30
MAX_BODY_BYTES = 64 << 20
LOCK = threading.Lock()
LOG_FILE = ""
TOKENS = {"now": INPUT_TOKENS, "left": -1}
BLOCK = re.compile(r"TASK_POINTER_V2(?:_BOOTSTRAP)?\nstatus: .*?END_TASK_POINTER_V2", re.S)
DIRECTIVE = re.compile(r"publish_by_(tool|shell) ([^\n<]+)")
# In the prompts of the pack `acp-v1`: one to be cancelled, one to be streamed, and those that want a command to be run.
HOLDS = ("wait_for_cancel", "numbers from 1 to 500")
COUNTS = "numbers from 1 to 200"
RUNS = {
    "Create a file named pintle-check.txt": "echo pintle > pintle-check.txt",
    "run the command `echo pintle`": "echo pintle",
}
SHELL_TOOLS = ("exec_command", "shell_command", "local_shell", "shell", "run_shell_command", "bash")


def leaves(value):
    """Every string in a JSON value, in order, but for the words that say what kind of object it is."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name not in ("type", "role"):
                yield from leaves(item)


def messages_of(body):
    messages = body.get("messages") or body.get("input") or body.get("contents") or []
    return messages if isinstance(messages, list) else [{"role": "user", "content": messages}]


def blocks(value):
    """The TASK_POINTER_V2 blocks in a JSON value, in order, as members with their whole text."""
    found = []
    for text in leaves(value):
        for block in BLOCK.findall(text):
            lines = (line.split(": ", 1) for line in block.split("\n") if not line.startswith("| "))
            members = {pair[0]: pair[1] for pair in lines if len(pair) == 2}
            found.append({**members, "block": block})
    return found


def newest_block(body):
    """The block that counts: of the session and generation of the last one, the highest revision; its publisher may be
    that of an older, full one."""
    system = {name: body.get(name) for name in ("system", "instructions", "systemInstruction")}
    found = blocks(system) + blocks(messages_of(body))
    if not found:
        return None
    last = found[-1]
    same = [b for b in found if all(b.get(name) == last.get(name) for name in ("session", "generation"))]
    newest = max(same, key=lambda b: int(b.get("revision", 0)))
    named = [b["publisher"] for b in found if not b.get("publisher", "as in").startswith("as in")]
    return {**newest, "publisher": named[-1] if named else None}


def is_tool_result(message):
    if not isinstance(message, dict):
        return False
    if message.get("role") == "tool" or str(message.get("type", "")).endswith("_output"):
        return True
    parts = message.get("content") or message.get("parts") or []
    return isinstance(parts, list) and any(
        isinstance(part, dict) and (part.get("type") == "tool_result" or "functionResponse" in part) for part in parts
    )


def directive(body):
    """What the newest user text asks for: ("tool", "shell" or "run", TEXT). Nothing once a tool has answered.

    Contexts of hooks and reminders of the agent stand beside the text or behind it, and are passed over.
    """
    for message in reversed(messages_of(body)):
        if not isinstance(message, dict) or is_tool_result(message) or message.get("role") in ("assistant", "model"):
            return None
        texts = [text for text in leaves(message.get("content") or message.get("parts")) if text.strip()]
        asked = [match for text in texts for match in DIRECTIVE.findall(text)]
        if asked:
            return asked[-1][0], asked[-1][1].strip()
        wanted = [command for text in texts for words, command in RUNS.items() if words in text]
        if wanted:
            return "run", wanted[-1]
        if any(not text.lstrip().startswith("<") and not blocks(text) for text in texts):
            return None
    return None


def tools_of(body):
    """The declared tools: name and parameter schema, with the namespace where there is one."""
    for tool in body.get("tools") or []:
        declared = tool.get("functionDeclarations") or tool.get("tools")
        for one in declared or [tool.get("function") or tool]:
            schema = one.get("parameters") or one.get("input_schema") or one.get("parametersJsonSchema") or {}
            space = tool.get("name") if tool.get("type") == "namespace" else None
            yield one.get("name") or tool.get("type") or "", schema, space


def request_of(block, text):
    absent = block.get("task_id") is None
    return {
        "schema_version": 3,
        "session_id": block.get("session"),
        "expected_generation": block.get("generation"),
        "expected_revision": int(block.get("revision", 0)),
        "task_id": str(uuid.uuid4()) if absent else block["task_id"],
        "target_status": "CLEAN",
        "pointer_text": text.replace("\\n", "\n"),
    }


def shell_arguments(schema, command):
    members = schema.get("properties") or {}
    name = "cmd" if "cmd" in members else "command"
    as_list = members.get(name, {}).get("type") == "array"
    arguments = {name: ["bash", "-c", command] if as_list else command}
    for other in schema.get("required") or []:
        kind = members.get(other, {}).get("type")
        arguments.setdefault(other, False if kind == "boolean" else 30 if kind in ("number", "integer") else "publish")
    return arguments


def call_of(body):
    """The tool call to answer with: (name, arguments, namespace), or nothing."""
    asked, block = directive(body), newest_block(body)
    if not asked or (asked[0] != "run" and not block):
        return None
    kind, text = asked
    request = request_of(block, text) if block else None
    recorded = "\n".join(line[2:] for line in block["block"].split("\n") if line.startswith("| ")) if block else None
    if request and kind != "run" and recorded == request["pointer_text"]:
        return None  # done already: an agent quotes older prompts in the summary of a history
    for name, schema, space in tools_of(body):
        if kind == "run" and name.lower() in SHELL_TOOLS:
            return name, shell_arguments(schema, text), space
        if kind == "tool" and "task_publish" in name:
            return name, request, space
        if kind == "shell" and name.lower() in SHELL_TOOLS:
            line = f"printf %s {shlex.quote(json.dumps(request))} | {block.get('publisher')}"
            return name, shell_arguments(schema, line), space
    return None


def last_user_text(body):
    """The text of the newest user message, in whichever dialect."""
    messages = body.get("messages") or body.get("input") or body.get("contents") or []
    if isinstance(messages, str):
        return messages
    for message in reversed(messages):
        if isinstance(message, dict) and message.get("role") == "user":
            return json.dumps(message.get("content", message.get("parts", "")))
    return ""


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def read_body(self):
        length = int(self.headers.get("Content-Length") or 0)
        if length:
            raw = self.rfile.read(min(length, MAX_BODY_BYTES))
        elif "chunked" in (self.headers.get("Transfer-Encoding") or ""):
            raw = b""
            while size := int(self.rfile.readline().strip() or b"0", 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            raw = b""
        if self.headers.get("Content-Encoding") == "gzip":
            raw = gzip.decompress(raw)
        try:
            return json.loads(raw) if raw else {}
        except ValueError:
            return {}

    def usage(self):
        """The input tokens to report in this answer."""
        with LOCK:
            tokens = TOKENS["now"]
            if TOKENS["left"] > 0:
                TOKENS["left"] -= 1
                if TOKENS["left"] == 0:
                    TOKENS.update(now=INPUT_TOKENS, left=-1)
            return tokens

    def record(self, body):
        with LOCK, open(LOG_FILE, "a", encoding="utf-8") as log:
            log.write(json.dumps({"method": self.command, "path": self.path, "body": body}) + "\n")

    def send_json(self, value):
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def start_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def event(self, value, name=None):
        head = f"event: {name}\n" if name else ""
        self.wfile.write((head + "data: " + json.dumps(value) + "\n\n").encode())
        self.wfile.flush()

    def words(self, hold):
        """The pieces of the answer; while held, more of them until the caller hangs up."""
        yield TEXT
        for number in range(1, 201) if hold == "count" else ():
            yield f"\n{number}"
        if hold == "count":
            return
        ends = time.monotonic() + MAX_HOLD_S
        while hold and time.monotonic() < ends:
            time.sleep(0.1)
            yield " more"

    def do_GET(self):
        self.record({})
        self.send_json({"object": "list", "data": [{"id": "mock", "object": "model"}], "models": []})

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self):
        body = self.read_body()
        if self.path == "/mock":
            TOKENS.update(now=int(body.get("input_tokens", INPUT_TOKENS)), left=int(body.get("for_requests", -1)))
            self.send_json({})
            return
        self.record(body)
        asked = last_user_text(body)
        hold = any(words in asked for words in HOLDS) or (COUNTS in asked and "count")
        path = self.path
        try:
            if "count_tokens" in path:
                self.send_json({"input_tokens": 10})
            elif "countTokens" in path:
                self.send_json({"totalTokens": 10})
            elif "chat/completions" in path:
                self.chat(body, hold)
            elif path.rstrip("/").endswith("compact"):
                part = {"type": "input_text", "text": "compacted summary"}
                self.send_json({"output": [{"type": "message", "role": "user", "content": [part]}]})
            elif "responses" in path:
                self.answer_responses(body, hold)
            elif "messages" in path:
                self.messages(body, hold)
            elif "enerateContent" in path:
                self.generate(body, hold)
            else:
                self.send_json({})
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def chat(self, body, hold):
        tokens, call = self.usage(), call_of(body)
        usage = {"prompt_tokens": tokens, "completion_tokens": 3, "total_tokens": tokens + 3}
        base = {"id": "c1", "created": 1, "model": body.get("model", "mock")}
        reason = "tool_calls" if call else "stop"
        message = {"role": "assistant", "content": None if call else TEXT}
        if call:
            function = {"name": call[0], "arguments": json.dumps(call[1])}
            ids = {"index": 0, "id": f"call_{uuid.uuid4().hex}"}
            message["tool_calls"] = [{**ids, "type": "function", "function": function}]
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            self.send_json({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        self.start_stream()
        chunk = {**base, "object": "chat.completion.chunk"}
        for word in () if call else self.words(hold):
            delta = {"role": "assistant", "content": word}
            self.event({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        if call:
            self.event({**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]})
        self.event({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def answer_responses(self, body, hold):
        tokens, call = self.usage(), call_of(body)
        self.start_stream()
        ids = {"item_id": "msg_1", "output_index": 0, "content_index": 0}

        def item(text, status):
            part = {"type": "output_text", "text": text, "annotations": []}
            content = [part] if status == "completed" else []
            return {"type": "message", "role": "assistant", "id": "msg_1", "status": status, "content": content}

        def send(kind, **members):
            self.event({"type": kind, **members}, kind)

        send("response.created", response={"id": "resp_1"})
        if call:
            output = {
                "type": "function_call",
                "id": f"fc_{uuid.uuid4().hex}",
                "call_id": f"call_{uuid.uuid4().hex}",
                "name": call[0],
                "arguments": json.dumps(call[1]),
                "status": "completed",
            }
            if call[2]:
                output["namespace"] = call[2]
            begun = {**output, "arguments": "", "status": "in_progress"}
            send("response.output_item.added", output_index=0, item=begun)
        else:
            send("response.output_item.added", output_index=0, item=item("", "in_progress"))
            whole = ""
            for word in self.words(hold):
                whole += word
                send("response.output_text.delta", **ids, delta=word)
            output = item(whole, "completed")
        send("response.output_item.done", output_index=0, item=output)
        usage = {
            "input_tokens": tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens + 5,
        }
        done = {"id": "resp_1", "status": "completed", "output": [output], "usage": usage}
        send("response.completed", response=done)

    def messages(self, body, hold):
        tokens, call = self.usage(), call_of(body)
        usage = {
            "input_tokens": tokens,
            "output_tokens": 5,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        }
        message = {
            "id": f"msg_{uuid.uuid4().hex}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model", "mock"),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        reason = "tool_use" if call else "end_turn"
        content = {"type": "text", "text": TEXT}
        if call:
            content = {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex}", "name": call[0], "input": call[1]}
        if not body.get("stream"):
            self.send_json({**message, "content": [content], "stop_reason": reason})
            return
        self.start_stream()

        def send(kind, **members):
            self.event({"type": kind, **members}, kind)

        send("message_start", message=message)
        if call:
            send("content_block_start", index=0, content_block={**content, "input": {}})
            partial = json.dumps(call[1])
            send("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": partial})
        else:
            send("content_block_start", index=0, content_block={"type": "text", "text": ""})
            for word in self.words(hold):
                send("content_block_delta", index=0, delta={"type": "text_delta", "text": word})
        send("content_block_stop", index=0)
        ended = {"stop_reason": reason, "stop_sequence": None}
        send("message_delta", delta=ended, usage={"output_tokens": 5})
        send("message_stop")

    def generate(self, body, hold):
        tokens, call = self.usage(), call_of(body)

        def piece(text, reason):
            parts = [{"text": text}]
            if call and reason:
                parts = [{"functionCall": {"name": call[0], "args": call[1]}}]
            candidate = {"content": {"role": "model", "parts": parts}, "index": 0}
            if reason:
                candidate["finishReason"] = reason
            usage = {"promptTokenCount": tokens, "candidatesTokenCount": 3, "totalTokenCount": tokens + 3}
            return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "mock"}

        if "stream" not in self.path:
            self.send_json(piece(TEXT, "STOP"))
            return
        self.start_stream()
        for word in () if call else self.words(hold):
            self.event(piece(word, None))
        self.event(piece("", "STOP"))


def main():
    global LOG_FILE
    port_file, LOG_FILE = sys.argv[1], sys.argv[2]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    server.daemon_threads = True
    with open(port_file + ".new", "w", encoding="utf-8") as out:
        out.write(str(server.server_address[1]))
    os.replace(port_file + ".new", port_file)
    server.serve_forever()


if __name__ == "__main__":
    main()
