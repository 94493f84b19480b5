"""The agentic-RL trainer; imports neither harness nor monitors."""
