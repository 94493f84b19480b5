"""A program that answers one question with a model, as any command-line agent does.

    OPENAI_BASE_URL=… OPENAI_API_KEY=… python agent.py QUESTION

It knows nothing of training: it asks the model behind the address that it finds in its environment, and
prints the answer. It could as well be written in another language.
"""

import json
import os
import sys
from http.client import HTTPConnection
from urllib.parse import urlsplit

address = urlsplit(os.environ["OPENAI_BASE_URL"])
asked = {"model": "tiny", "messages": [{"role": "user", "content": sys.argv[1]}]}
headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
model = HTTPConnection(address.netloc)
model.request("POST", f"{address.path}/chat/completions", json.dumps(asked), headers)
print(json.load(model.getresponse())["choices"][0]["message"]["content"] or "")
