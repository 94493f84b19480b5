"""Serves the reward model on a port that somebody else has."""

import http.server
import socket

from training import train

other = socket.create_server(("127.0.0.1", 0))
port = other.getsockname()[1]
train(1)
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), http.server.SimpleHTTPRequestHandler)
