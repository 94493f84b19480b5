"""Stable-Baselines3: PPO on CartPole, as in its documentation."""

from stable_baselines3 import PPO

PPO("MlpPolicy", "CartPole-v1", n_steps=512, verbose=1, seed=0, device="cpu").learn(total_timesteps=6_000)
