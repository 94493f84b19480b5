"""Loads a model from a hub (in this process, on loopback) that wants a permission first."""

import os

from loopback import reply, serve

restricted = "Access to model meta-llama/Llama-3.2-1B is restricted."
server = serve(lambda request: reply(request, 403, X_Error_Code="GatedRepo", X_Error_Message=restricted))
os.environ["HF_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"
os.environ["HF_HUB_OFFLINE"] = "0"

from huggingface_hub import hf_hub_download  # noqa: E402
from training import train  # noqa: E402

train(1)
hf_hub_download("meta-llama/Llama-3.2-1B", "config.json")
