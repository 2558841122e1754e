"""Registered learning-rate schedules."""
