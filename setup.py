"""Everything is in pyproject.toml; this file is for tools that want it."""

from setuptools import setup

setup()
