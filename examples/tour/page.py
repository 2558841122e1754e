"""The page of the tour: between `<!-- step NAME -->` and `<!-- end -->` is the code of a step and what it printed."""

import contextlib
import inspect
import io
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

README = Path(__file__).with_name("README.md")
PRINTED = re.compile(r"```text\n(.*?)```", re.DOTALL)
BLOCK = re.compile(r"(<!-- step (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


class Outputs(dict[str, str]):
    """What the steps printed, by name."""

    def of(self, step: Callable[..., Any], *given: Any) -> Any:
        """Run a step, print what it prints once it has ended, and return what it returns."""
        print(f"== {step.__name__}", flush=True)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            result = step(*given)
        self[step.__name__] = printed.getvalue()
        print(printed.getvalue(), flush=True)
        return result


def renewed(text: str, steps: Iterable[Callable[..., Any]], outputs: Mapping[str, str]) -> str:
    """Return a page with the code of every step and what it printed; what it shows already stays where *outputs* lacks a step."""
    code = {step.__name__: inspect.getsource(step).rstrip() for step in steps}

    def block(found: re.Match[str]) -> str:
        name = found[2]
        printed = outputs[name] if name in outputs else PRINTED.findall(found[0])[0]
        return f"{found[1]}\n```python\n{code[name]}\n```\n\n```text\n{printed}```\n\n{found[3]}"

    return BLOCK.sub(block, text)
