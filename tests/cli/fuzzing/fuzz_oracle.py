"""Run a case, and say what became of it.

clear: refused in one line that names what is wrong; handled: the same results, or others that may well be meant; unclear: refused
in another way; crashed; silent: accepted, with other results; lost: a file was changed; late: the machine is slow.
"""

import re
import resource
import shutil
import subprocess
import time
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import forked_programs
from cli_helpers import environment
from fuzz_mutations import Case, copied, could_be_meant, spoil
from fuzz_numbers import sensible
from fuzz_recipes import RECIPES, Recipe

SECONDS, MEMORY = 60, 1 << 34  # of a processor, however slow the machine; of addresses, most of which torch never touches
PATIENCE = 10 * SECONDS  # by the clock, after which it is asked whether the command waits for something or the machine is slow
LATE = -1  # exit code
BAD = ("unclear", "crashed", "silent", "lost")
OUTCOMES = ("clear", "handled", *BAD, "late")
# of our own commands one line; fairseq's show how they came to it as well, and its last line is ours
ERROR = re.compile(r"^(?:error: |preprocess\.sh: |.*?: error: ).+", re.MULTILINE)
OURS = re.compile(r"fairseq_groc\.errors\.\w+: .+|fairseq-\S+: error: .+|.*: error: .+")
TRACE = re.compile(r"Traceback|^\w*(?:Error|Exception)\b.*", re.MULTILINE)
SPARE = re.compile(r'"(?:sha256|seconds|fingerprint|machine)": .*|\d[\d.,]* seconds|in [\d.]+s\b')


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str
    made: dict[str, str]

    def figures(self, pattern: str):
        if pattern:
            return re.findall(pattern, self.out, re.MULTILINE)
        return SPARE.sub("", self.out), {name: SPARE.sub("", text) for name, text in self.made.items()}


class Runner:
    """Runs cases in copies of a folder.

    Args:
        world: the folder
        scratch: where a copy of it is put for every case
    """

    def __init__(self, world: Path, scratch: Path):
        self.world, self.scratch = world, scratch / "case"
        self.before = {str(p.relative_to(world)): p.read_bytes() for p in sorted(world.rglob("*")) if p.is_file()}
        loaded = forked_programs.folder("fairseq_groc.__main__")
        self.fast = {**environment(), "PATH": f"{loaded}:{environment()['PATH']}"}
        self.clean: dict[str, Result] = {}

    def reads(self, recipe: Recipe):
        """Return the files that a recipe reads."""
        return [name for name in self.before if any(fnmatch(name, pattern) for pattern in recipe.reads)]

    def outcome(self, case: Case):
        """Return what became of a case and the line that says so."""
        clean = self.whole(case.recipe)
        result = self.run(RECIPES[case.recipe], case)
        if result.code == LATE:
            begin = time.monotonic()
            self.run(RECIPES[case.recipe], None)
            return ("late" if time.monotonic() - begin > PATIENCE / 10 else "crashed"), f"not over after {PATIENCE} seconds"
        if result.code >= 128 or "MemoryError" in result.err or "allocate memory" in result.err:
            return "crashed", f"exit code {result.code} {result.err.strip()[-300:]}"
        if gone := self.lost(case):
            return "lost", f"{gone} is not what it was (exit code {result.code})"
        if result.code == 0:
            return self.accepted(case, clean, result)
        return self.refused(case, result)

    def whole(self, name: str) -> Result:
        """Return what the recipe gives by itself."""
        if name not in self.clean:
            self.clean[name] = self.run(RECIPES[name], None)
            assert self.clean[name].code == 0, self.clean[name]
        return self.clean[name]

    def accepted(self, case: Case, clean: Result, result: Result):
        if "Traceback" in result.err:
            return "unclear", f"exit code 0 and {TRACE.findall(result.err)[-1]}"
        if case.file or case.full is not None:
            pattern = RECIPES[case.recipe].figures
            same = result.figures(pattern) == clean.figures(pattern)
            meant = same or (case.file and could_be_meant(case, self.before[case.target]))
        else:
            meant = case.instead is not None or sensible(case.target, case.more)
        if meant:
            return "handled", ""
        return "silent", f"{result.out.strip()[-200:]!r} for {clean.out.strip()[-200:]!r}"

    def refused(self, case: Case, result: Result):
        last = result.err.strip().splitlines()[-1] if result.err.strip() else "(nothing)"
        if RECIPES[case.recipe].command.startswith("fairseq-"):
            return ("clear" if OURS.fullmatch(last) and names(case, last) else "unclear"), last
        errors = ERROR.findall(result.err)
        if TRACE.search(result.err) or len(errors) != 1 or last != errors[0] or result.code not in (1, 2):
            return "unclear", last
        return ("clear" if names(case, last) else "unclear"), last

    def lost(self, case: Case) -> str | None:
        """Return a file of the folder that is not what it was, and that the command is not to write."""
        for name, content in self.before.items():
            if (case.file and name == case.target) or any(fnmatch(name, pattern) for pattern in RECIPES[case.recipe].writes):
                continue
            path = self.scratch / name
            if not path.is_file() or path.read_bytes() != content:
                return name
        return None

    def run(self, recipe: Recipe, case: Case | None) -> Result:
        """Run a recipe in a new copy of the folder."""
        copied(self.world, self.scratch)
        if case is not None:
            spoil(case, self.scratch)
        variables = environment() if recipe.command.startswith(("fairseq-", "training-speed")) else self.fast
        words = list(recipe.words)
        if case is not None:
            words = [case.instead if case.instead is not None and word == case.target else word for word in words] + [*case.more]
        if not recipe.command.startswith("fairseq-"):
            words = ["python", "-m", "fairseq_groc", *words]
        done = self.ended([shutil.which(words[0], path=variables["PATH"]), *words[1:]], recipe.stdin, variables, case)
        out, err = (text.decode("utf-8", "replace").replace(str(self.scratch), "") for text in (done.stdout, done.stderr))
        return Result(done.returncode, out, err, self.made())

    def ended(self, command, stdin: str, variables, case: Case | None):
        def limits():
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            if case is not None and case.full is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (case.full, case.full))

        given = self.scratch / stdin if stdin and (self.scratch / stdin).is_file() else Path("/dev/null")
        with open(given, "rb") as source:
            try:
                where = {"env": variables, "cwd": self.scratch, "stdin": source, "preexec_fn": limits}
                return subprocess.run(command, capture_output=True, timeout=PATIENCE, **where)
            except subprocess.TimeoutExpired:
                return subprocess.CompletedProcess(command, LATE, b"", b"")

    def made(self) -> dict[str, str]:
        """Return the texts that a run has made."""
        found = [path for path in sorted(self.scratch.rglob("*")) if path.is_file() and path.suffix in (".json", ".txt")]
        names = {path: str(path.relative_to(self.scratch)) for path in found}
        return {name: path.read_text(errors="replace") for path, name in names.items() if name not in self.before}


def names(case: Case, line: str) -> bool:
    """Return whether a line names the file or the option, or a file that was typed."""
    if case.full is not None or case.instead is not None:
        return True
    if not case.file:
        return case.target in line or case.target.lstrip("-") in line
    path, recipe = Path(case.target), RECIPES[case.recipe]
    shown = line.replace("the lexicon tables", "lexicon-tables")
    typed = [word for word in recipe.words if "." in word or word == "remembered"]
    return recipe.stdin == path.name or any(
        name in shown for name in (path.name, path.stem, path.parent.name or path.name, *typed)
    )
