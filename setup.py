"""Install fairseq_groc; fairseq itself stays the user's choice (``pip install '.[fairseq]'`` brings one)."""

from pathlib import Path

from setuptools import find_packages, setup

setup(
    name="fairseq_groc",
    version="0.2.0.dev0",
    description="Word-level language models with an open vocabulary, as a fairseq plugin",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    packages=find_packages(include=["fairseq_groc", "fairseq_groc.*"]),
    package_data={"fairseq_groc": ["py.typed"]},
    python_requires=">=3.9",
    install_requires=[
        "torch>=2.6",  # fairseq's checkpoints load safely (weights only) from here on
        "numpy>=1.24",  # lexicon tables
        "nltk>=3.9",  # reads WordNet
        "sacremoses>=0.1",  # tokenises raw text in preprocessing
        "tabulate>=0.9",  # aligns what commands print
        "tqdm>=4.60",  # shows progress
        "filelock>=3.12",  # two commands that write to one folder
        "PyYAML>=6",  # prints presets for fairseq-hydra-train
    ],
    extras_require={
        # not a requirement: many users have a fairseq of their own, which must not be overwritten
        "fairseq": ["fairseq-fixed==0.12.3.1"],
        "faiss": ["faiss-cpu>=1.8"],  # searches unbounded caches of more than 100,000 words
        "cpu": ["numba>=0.60"],  # compiles the encoder's gathers and scatters on CPUs
        "plots": ["matplotlib>=3.6"],  # draws learning curves
    },
)
