"""Registered tasks, and what they are made of."""
