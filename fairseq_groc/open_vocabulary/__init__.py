"""Texts whose words enter the vocabulary when they are first met: what they cost, and scoring from left to right."""
