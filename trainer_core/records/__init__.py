"""Records: one durable format for episodes, and what shows them.

`payload` turns an episode into bytes and back, `secrets` masks keys and passwords, `store` keeps many
episodes on disk, `recorder` is what a training writes through, `page` shows one episode in a browser,
`rollouts` is the command `ajet rollouts`. The format is described in docs/rollouts.md.
"""
