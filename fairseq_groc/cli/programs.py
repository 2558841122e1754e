"""What scripts need that run fairseq's commands with the plugin."""

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent  # what --user-dir takes
ROOT = FOLDER.parent  # of the repository, in a checkout
BIN = Path(sys.executable).parent  # where this Python's programs are
PLUGIN = ["--user-dir", str(FOLDER), "--task", "wordnet_lexicon"]
# glibc returns large blocks to the system at once, and training asks for them again at every step: keep them instead
MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 36), "MALLOC_TOP_PAD_": str(1 << 28)}
