from pathlib import Path

import pytest


@pytest.fixture
def data() -> Path:
    return Path(__file__).parent / "data"
