"""A rollout through the official client; the server (in this process, on loopback) refuses."""

import json
import sys

from loopback import reply, serve
from openai import OpenAI
from training import train

status, code, text = int(sys.argv[1]), sys.argv[2], sys.argv[3]
refusal = json.dumps({"error": {"message": text, "type": code, "code": code}}).encode()
server = serve(lambda request: reply(request, status, refusal, Content_Type="application/json"))
train(2)
client = OpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none", max_retries=0)
client.chat.completions.create(model="policy", messages=[{"role": "user", "content": "2+2?"}])
