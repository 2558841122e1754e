"""The table of what was tried and what became of it, below what pytest prints."""

from collections import Counter

from fuzz_oracle import BAD, OUTCOMES


def pytest_configure(config):
    config.tried = {}  # by recipe, how often each outcome


def pytest_terminal_summary(terminalreporter, config):
    if not config.tried:
        return
    rows = [*config.tried.items(), ("all", sum(config.tried.values(), start=Counter()))]
    terminalreporter.section(f"inputs tried: none may be {', '.join(BAD[:-1])} or {BAD[-1]}")
    terminalreporter.write_line(f"{'':<16}{'tried':>8}" + "".join(f"{outcome:>9}" for outcome in OUTCOMES))
    for name, counts in rows:
        figures = "".join(f"{counts[outcome]:>9,}" for outcome in OUTCOMES)
        terminalreporter.write_line(f"{name:<16}{sum(counts.values()):>8,}{figures}")
