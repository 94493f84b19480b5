"""The black box of this example: answers a question with a model, and prints the answer."""

import json
import os
import sys
from urllib.request import Request, urlopen

asked = {"model": "any", "messages": [{"role": "user", "content": sys.argv[1]}]}
headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
request = Request(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", json.dumps(asked).encode(), headers)
with urlopen(request) as answer:
    print(json.load(answer)["choices"][0]["message"]["content"])
