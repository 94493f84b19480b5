"""Loads a model from a hub (in this process, on loopback) that wants a permission first."""

import http.server
import os
import threading


class Hub(http.server.BaseHTTPRequestHandler):
    """Answers as the hub does for a gated repository."""

    def do_HEAD(self) -> None:
        """Refuse."""
        self.send_response(403)
        self.send_header("X-Error-Code", "GatedRepo")
        self.send_header("X-Error-Message", "Access to model meta-llama/Llama-3.2-1B is restricted.")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ["HF_ENDPOINT"] = f"http://127.0.0.1:{server.server_address[1]}"
os.environ["HF_HUB_OFFLINE"] = "0"

from huggingface_hub import hf_hub_download  # noqa: E402
from training import train  # noqa: E402

train(1)
hf_hub_download("meta-llama/Llama-3.2-1B", "config.json")
