"""What ``--help`` shows of every command's options."""

import argparse
import re

import pytest
import torch

from fairseq_groc.__main__ import _parser, main
from fairseq_groc.cli import COMMANDS, register_command

NAMES = sorted(name.replace("_", "-") for name in COMMANDS)


def parser_of(command):
    (commands,) = (action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction))
    return commands.choices[command]


def described(command, capsys):
    """Return the text of each option of a command, by the option; lines that break after a hyphen are one word again."""
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    entries = re.split(r"\n  (?=-)", capsys.readouterr().out)[1:]
    found = {}
    for entry in entries:
        entry = entry.split("\n\n")[0]
        found[re.findall(r"--[a-z-]+", entry)[-1 if entry.startswith("-h") else 0]] = re.sub(
            r"(--\w+-) ", r"\1", " ".join(entry.split())
        )
    return found


def typed(default):
    """Return a default as a user would type it."""
    if isinstance(default, (list, tuple)):
        return " ".join(map(typed, default))
    return f"{default:g}" if isinstance(default, float) else str(default)


@pytest.mark.parametrize("command", NAMES)
def test_options_show_their_defaults(command, capsys):
    shown = described(command, capsys)
    for action in parser_of(command)._actions:
        if not action.option_strings or action.default == argparse.SUPPRESS:
            continue
        text = shown[action.option_strings[-1]]
        nothing = action.default is None or action.default is False or action.default in ("", [], (), {})
        default = "" if nothing else f"(default: {typed(action.default)})"
        assert text.endswith(default) and text.count(default) == (1 if default else len(text) + 1), text
        assert action.help and (default or not re.search(r"default: (None|False|\[\]|\{\}|\))", text)), text


def test_commands_of_users_show_theirs(capsys):
    def add_arguments(parser):
        parser.add_argument("--suffix", default="50%", help="of names")
        parser.add_argument("--rates", nargs="+", default=(0, 1e-5), help="of learning")

    register_command("suffixes", add_arguments)(lambda args: None)
    try:
        shown = described("suffixes", capsys)
    finally:
        del COMMANDS["suffixes"]
    assert shown["--suffix"] == "--suffix SUFFIX of names (default: 50%)"
    assert shown["--rates"].endswith("of learning (default: 0 1e-05)")


def test_a_gpu_with_too_little_memory_is_named_in_a_line(monkeypatch, capsys):
    def run(_):
        raise torch.OutOfMemoryError("CUDA out of memory. " * 9)

    monkeypatch.setitem(COMMANDS, "presets", COMMANDS["presets"]._replace(run=run))
    assert main(["presets"]) == 1
    assert capsys.readouterr().err.startswith("error: the GPU has too little memory: give --cpu, or fewer --streams")
