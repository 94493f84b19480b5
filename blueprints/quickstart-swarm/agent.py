"""A program that answers one question with a model, as any command-line agent does.

    OPENAI_BASE_URL=… OPENAI_API_KEY=… python agent.py QUESTION

It knows nothing of training: it asks the model behind the address that it finds in its environment, and
prints the answer. It could as well be written in another language.
"""

import json
import os
import sys
from urllib.request import Request, urlopen

asked = {"model": "tiny", "messages": [{"role": "user", "content": sys.argv[1]}]}
headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
request = Request(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", json.dumps(asked).encode(), headers)
with urlopen(request) as answer:
    print(json.load(answer)["choices"][0]["message"]["content"])
