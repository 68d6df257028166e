"""A model server on loopback, so that real agents take whole turns with no network.

It speaks four dialects: OpenAI chat completions, OpenAI responses, Anthropic messages, Gemini generateContent. Every
answer is the text in MOCK_TEXT. When the newest user text contains `wait_for_cancel`, the answer is streamed a word at
a time until the caller hangs up, at most MAX_HOLD_S seconds, so that a cancel in the middle of a turn has something to
cancel. Each request is appended to the log as one JSON line.

usage: mock_model.py PORT_FILE LOG_FILE    (binds a free port of 127.0.0.1 and writes its number to PORT_FILE)
"""

import gzip
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TEXT = os.environ.get("MOCK_TEXT", "Hello from the mock model.")
INPUT_TOKENS = int(os.environ.get("MOCK_INPUT_TOKENS", "100"))
MAX_HOLD_S = 30
MAX_BODY_BYTES = 64 << 20
LOCK = threading.Lock()
LOG_FILE = ""


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
        self.record(body)
        hold = "wait_for_cancel" in last_user_text(body)
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
                self.responses(hold)
            elif "messages" in path:
                self.messages(body, hold)
            elif "enerateContent" in path:
                self.generate(hold)
            else:
                self.send_json({})
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def chat(self, body, hold):
        usage = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": 3, "total_tokens": INPUT_TOKENS + 3}
        base = {"id": "c1", "created": 1, "model": body.get("model", "mock")}
        if not body.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
            self.send_json({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        self.start_stream()
        chunk = {**base, "object": "chat.completion.chunk"}
        for word in self.words(hold):
            delta = {"role": "assistant", "content": word}
            self.event({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        self.event({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def responses(self, hold):
        self.start_stream()
        ids = {"item_id": "msg_1", "output_index": 0, "content_index": 0}

        def item(text, status):
            part = {"type": "output_text", "text": text, "annotations": []}
            content = [part] if status == "completed" else []
            return {"type": "message", "role": "assistant", "id": "msg_1", "status": status, "content": content}

        def send(kind, **members):
            self.event({"type": kind, **members}, kind)

        send("response.created", response={"id": "resp_1"})
        send("response.output_item.added", output_index=0, item=item("", "in_progress"))
        whole = ""
        for word in self.words(hold):
            whole += word
            send("response.output_text.delta", **ids, delta=word)
        send("response.output_item.done", output_index=0, item=item(whole, "completed"))
        usage = {
            "input_tokens": INPUT_TOKENS,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": INPUT_TOKENS + 5,
        }
        done = {"id": "resp_1", "status": "completed", "output": [item(whole, "completed")], "usage": usage}
        send("response.completed", response=done)

    def messages(self, body, hold):
        usage = {
            "input_tokens": INPUT_TOKENS,
            "output_tokens": 5,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        }
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": body.get("model", "mock"),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        if not body.get("stream"):
            self.send_json({**message, "content": [{"type": "text", "text": TEXT}], "stop_reason": "end_turn"})
            return
        self.start_stream()

        def send(kind, **members):
            self.event({"type": kind, **members}, kind)

        send("message_start", message=message)
        send("content_block_start", index=0, content_block={"type": "text", "text": ""})
        for word in self.words(hold):
            send("content_block_delta", index=0, delta={"type": "text_delta", "text": word})
        send("content_block_stop", index=0)
        ended = {"stop_reason": "end_turn", "stop_sequence": None}
        send("message_delta", delta=ended, usage={"output_tokens": 5})
        send("message_stop")

    def generate(self, hold):
        def piece(text, reason):
            candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "index": 0}
            if reason:
                candidate["finishReason"] = reason
            usage = {"promptTokenCount": INPUT_TOKENS, "candidatesTokenCount": 3, "totalTokenCount": INPUT_TOKENS + 3}
            return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "mock"}

        if "stream" not in self.path:
            self.send_json(piece(TEXT, "STOP"))
            return
        self.start_stream()
        for word in self.words(hold):
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
