"""Rollouts: from tasks to judged samples. One question, one answer, one reward."""
