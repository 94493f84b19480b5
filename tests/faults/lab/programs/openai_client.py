"""A rollout through the official client; the server (in this process, on loopback) refuses."""

import http.server
import json
import sys
import threading

from openai import OpenAI
from training import train

status, code, text = int(sys.argv[1]), sys.argv[2], sys.argv[3]


class Model(http.server.BaseHTTPRequestHandler):
    """Refuses every request in the words of the protocol."""

    def do_POST(self) -> None:
        """Refuse."""
        body = json.dumps({"error": {"message": text, "type": code, "code": code}}).encode()
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
train(2)
client = OpenAI(base_url=f"http://127.0.0.1:{server.server_address[1]}/v1", api_key="none", max_retries=0)
client.chat.completions.create(model="policy", messages=[{"role": "user", "content": "2+2?"}])
