"""Registered optimizers and learning-rate schedules."""
