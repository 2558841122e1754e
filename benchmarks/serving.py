"""How fast is a trained model in a program, how long does it take to start, and how much memory do two processes share?

    python benchmarks/serving.py --out DIR [--sizes 27000 200000] [--threads 1 4] [--json FILE] [--arpa FILE]

GroC with corrections at the small preset's sizes, one update of training, made-up words. The scorer of ``fairseq_groc.load``, the
exported ``service.py``, and kenlm where it is installed and an n-gram is given, each in a process of its own; rounds take turns.
DIR keeps the models.
"""

import argparse
import importlib.util
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from adding_words import made_up
from benchmark_page import cell
from common import fairseq_train

from fairseq_groc.evaluation.results import aligned, machine, write_json
from fairseq_groc.programs import PLUGIN, run

PROCESS = Path(__file__).with_name("serving_process.py")
TASKS = ("one line", "10-best", "100 lines")
MODEL = "--arch groc_lstm_lm_small_corrected --sampled-update-fraction 0.05 --optimizer adam --lr 0.001 --max-update 1"
BATCH = "--batch-size 2 --tokens-per-sample 20 --disable-validation --no-save-optimizer-state"


def places_of(size: int, out: Path, arpa: Path | None) -> dict[str, str]:
    """Return where each program's model is, by its name; what is missing is made."""
    folder = out / f"serving-{size}"
    data, served, checkpoint = folder / "data", folder / "served", folder / "model" / "checkpoint_last.pt"
    if not served.exists():
        folder.mkdir(parents=True, exist_ok=True)
        words, text = made_up(size, random.Random(1)), folder / "text.txt"
        text.write_text("\n".join(" ".join(words[begin : begin + 20]) for begin in range(0, size, 20)) + "\n")
        ours = sys.executable, "-m", "fairseq_groc"
        run(*ours, "preprocess", "--train", text, "--dest", data, "--lexicon-path", "none")
        options = [*PLUGIN, *MODEL.split(), *BATCH.split(), "--save-dir", checkpoint.parent]
        fairseq_train(data, options, folder / "train.log")
        run(*ours, "export", "--service", served, "--path", checkpoint, "--data", data)
    places = {"fairseq_groc.load": f"{checkpoint}{os.pathsep}{data}", "service.py": str(served)}
    if arpa is not None and importlib.util.find_spec("kenlm"):
        places["kenlm"] = str(arpa)
    return places


def lines_of(size: int) -> dict[str, list[str]]:
    """Return the lines of each task, words as frequent as in text (Zipf's law). Hypotheses differ in a word and what follows."""
    random_ = random.Random(2)
    words = made_up(size, random.Random(1))

    def line(length: int) -> list[str]:
        return [words[int(size ** random_.random()) - 1] for _ in range(length)]

    best = line(20)
    cuts = [random_.randrange(20) for _ in range(9)]
    hypotheses = [best, *([*best[:cut], *line(20 - cut)] for cut in cuts)]
    lines = [[line(20)], hypotheses, [line(random_.randint(5, 35)) for _ in range(100)]]
    return dict(zip(TASKS, ([" ".join(one) for one in some] for some in lines), strict=True))


class Server:
    """A process that serves.

    Args:
        kind, place: of the model
        threads: of each product
        first: lines that it scores before it counts as started
    """

    def __init__(self, kind: str, place: str, threads: int, first: list[str]):
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        begin = time.perf_counter()
        command = [sys.executable, str(PROCESS), kind, place]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        self.ask(first)
        self.start = time.perf_counter() - begin

    def ask(self, what):
        """Return its answer: the seconds that lines took, or its memory.

        Raises:
            RuntimeError: it has ended.
        """
        assert self._process.stdin and self._process.stdout
        try:
            print(json.dumps(what), file=self._process.stdin, flush=True)
            return json.loads(self._process.stdout.readline())
        except (OSError, json.JSONDecodeError):
            raise RuntimeError(f"{' '.join(self._process.args)} has ended") from None

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_) -> None:
        self._process.stdin.close()
        self._process.wait()


def speeds(places: dict[str, str], tasks: dict[str, list[str]], threads: int, rounds: int) -> tuple[dict, dict]:
    """Return the seconds of each program and task, a list of rounds, and the seconds that each program took to start."""
    with ExitStack() as stack:
        servers = {kind: stack.enter_context(Server(kind, place, threads, tasks[TASKS[0]])) for kind, place in places.items()}
        seconds = {kind: {task: [] for task in tasks} for kind in servers}
        for number in range(rounds + 1):
            for kind, server in servers.items():
                for task, lines in tasks.items():
                    took = server.ask(lines)
                    if number:  # the first round fills caches
                        seconds[kind][task].append(took)
        return seconds, {kind: server.start for kind, server in servers.items()}


def memories(kind: str, place: str, first: list[str]) -> dict[str, float]:
    """Return the MiB of a process alone, and what each of two has to itself, the mean of both."""
    with Server(kind, place, 1, first) as one:
        alone = one.ask("memory")["all"]
        with Server(kind, place, 1, first) as two:
            return {"alone": alone, "of two": statistics.mean(server.ask("memory")["private"] for server in (one, two))}


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def measured(size: int, args) -> dict[str, dict]:
    """Return what each program has of starts, memory, and times by threads."""
    places, tasks = places_of(size, args.out, args.arpa), lines_of(size)
    tokens = sum(len(line.split()) + 1 for line in tasks[TASKS[2]])
    found = {kind: {"threads": {}, "memory": memories(kind, place, tasks[TASKS[0]])} for kind, place in places.items()}
    starts = {kind: [] for kind in places}
    for threads in args.threads:
        seconds, took = speeds(places, tasks, threads, args.rounds)
        for kind in places:
            starts[kind].append(took[kind])
            times = {task: spread(values) for task, values in seconds[kind].items()}
            found[kind]["threads"][threads] = {**times, "tokens a second": tokens / times[TASKS[2]]["median"]}
    for kind, place in places.items():
        while len(starts[kind]) < args.starts:
            with Server(kind, place, 1, tasks[TASKS[0]]) as server:
                starts[kind].append(server.start)
        found[kind]["start"] = spread(starts[kind])
    return found


def tables(sizes: dict) -> str:
    """Return the figures as two tables of text."""
    speed, rest = [], []
    for size, programs in sizes.items():
        for kind, found in programs.items():
            memory = [f"{found['memory'][key]:,.0f}" for key in ("alone", "of two")]
            rest.append([f"{int(size):,}", kind, cell(found["start"], 1), *memory])
            for threads, times in found["threads"].items():
                cells = [*(cell(times[task], 1000) for task in TASKS), f"{times['tokens a second']:,.0f}"]
                speed.append([f"{int(size):,}", kind, str(threads), *cells])
    return "\n".join(
        [
            aligned(["V", "program", "threads", *(f"{task}, ms" for task in TASKS), "tokens/s"], speed, names=2),
            "",
            aligned(["V", "program", "s to start", "MiB of one process", "MiB of its own, each of two"], rest, names=2),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[27_000, 200_000])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--starts", type=int, default=3, help="of each program, at least")
    parser.add_argument("--json", type=Path, help="where the figures go (default: DIR/serving.json)")
    parser.add_argument("--arpa", type=Path, help="an n-gram for kenlm")
    args = parser.parse_args()
    hardware = re.sub(r", \d+ threads", "", machine())  # those of this process
    found = {"machine": hardware, "rounds": args.rounds, "sizes": {}}
    for size in args.sizes:
        found["sizes"][size] = measured(size, args)
        write_json(args.json or args.out / "serving.json", found)
    print(f"{found['machine']}; median (min to max) of {args.rounds} rounds\n{tables(found['sizes'])}")


if __name__ == "__main__":
    main()
