"""Serves its policy on the port of the config."""

import http.server

from settled import config, go_on
from training import say

settings = config()
port = settings["server"]["port"]
say(f"serving the policy on port {port}")
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), http.server.SimpleHTTPRequestHandler)
for _ in go_on(settings["max_steps"]):
    pass
server.server_close()
