"""Rollouts: from tasks to judged episodes. One question, one answer, one reward."""
