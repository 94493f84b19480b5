"""Tests of the claims checker."""
