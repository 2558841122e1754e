"""How fast is a trained model in a program, how long does it take to start, and how much memory do two processes share?

    python benchmarks/serving.py --out DIR [--sizes 27000 200000] [--threads 1 2] [--json FILE]

GroC with corrections at the small preset's sizes, one update of training, made-up words. The scorer of ``fairseq_groc.load``, the
exported ``service.py``, and kenlm where it is installed, with a 4-gram of the same text and on one thread, as it knows no more:
each in a process of its own; rounds take turns. DIR keeps the models.
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
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from adding_words import made_up
from benchmark_page import MISSING, cell
from common import fairseq_train

from fairseq_groc.evaluation.results import aligned, machine, write_json
from fairseq_groc.programs import PLUGIN, run

PROCESS = Path(__file__).with_name("serving_process.py")
TASKS = ("one line", "10-best", "100 lines")
OURS, KENLM = ("fairseq_groc.load", "service.py"), "kenlm"
ZIPF = 200_000  # tokens of the training text, besides every word once
MODEL = "--arch groc_lstm_lm_small_corrected --sampled-update-fraction 0.05 --optimizer adam --lr 0.001 --max-update 1"
BATCH = "--batch-size 2 --tokens-per-sample 20 --disable-validation --no-save-optimizer-state"


def places_of(size: int, out: Path) -> dict[str, str]:
    """Return where each program's model is, by its name; what is missing is made. Without kenlm that is left out."""
    folder = out / f"serving-{size}"
    data, served, checkpoint, arpa = (folder / part for part in ("data", "served", "model/checkpoint_last.pt", "kenlm.arpa"))
    ours = sys.executable, "-m", "fairseq_groc"
    if not served.exists():
        folder.mkdir(parents=True, exist_ok=True)
        words, text, random_ = made_up(size, random.Random(1)), folder / "text.txt", random.Random(3)
        tokens = words + [frequent(words, random_) for _ in range(ZIPF)]
        text.write_text("\n".join(" ".join(tokens[begin : begin + 20]) for begin in range(0, len(tokens), 20)) + "\n")
        run(*ours, "preprocess", "--train", text, "--dest", data, "--lexicon-path", "none")
        options = [*PLUGIN, *MODEL.split(), *BATCH.split(), "--save-dir", checkpoint.parent]
        fairseq_train(data, options, folder / "train.log")
        run(*ours, "export", "--service", served, "--path", checkpoint, "--data", data)
    places = dict(zip(OURS, (f"{checkpoint}{os.pathsep}{data}", str(served)), strict=True))
    if importlib.util.find_spec(KENLM) is None:
        return places
    if not arpa.exists():
        run(*ours, "ngram", "--data", data, "--dest", folder / "ngram", "--arpa", arpa)
    return {**places, KENLM: str(arpa)}


def frequent(words: list[str], random_: random.Random) -> str:
    """Return one of some words, each as often as in text (Zipf's law)."""
    return words[int(len(words) ** random_.random()) - 1]


def lines_of(size: int) -> dict[str, list[str]]:
    """Return the lines of each task. Hypotheses differ in a word and what follows."""
    random_ = random.Random(2)
    words = made_up(size, random.Random(1))

    def line(length: int) -> list[str]:
        return [frequent(words, random_) for _ in range(length)]

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
        self._log = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, env=environment
        )
        self.ask(first)
        self.start = time.perf_counter() - begin

    def ask(self, what):
        """Return its answer: the seconds that lines took, or its memory.

        Raises:
            RuntimeError: it has ended; with the end of what it said.
        """
        assert self._process.stdin and self._process.stdout
        try:
            print(json.dumps(what), file=self._process.stdin, flush=True)
            return json.loads(self._process.stdout.readline())
        except (OSError, json.JSONDecodeError):
            self._process.wait()
            self._log.seek(0)
            raise RuntimeError(f"{' '.join(self._process.args)} has ended\n{self._log.read()[-2000:]}") from None

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._log.close()


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


def memories(kind: str, place: str, first: list[str]) -> tuple[dict[str, float], list[float]]:
    """Return the MiB of a process alone, and what each of two has to itself, the mean of both; and their seconds to start."""
    with Server(kind, place, 1, first) as one:
        alone = one.ask("memory")["all"]
        with Server(kind, place, 1, first) as two:
            own = statistics.mean(server.ask("memory")["private"] for server in (one, two))
            return {"alone": alone, "of two": own}, [one.start, two.start]


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def measured(size: int, args) -> dict[str, dict | None]:
    """Return what each program has of starts, memory, and times by threads; None of what is not installed."""
    places, tasks = places_of(size, args.out), lines_of(size)
    tokens = sum(len(line.split()) + 1 for line in tasks[TASKS[2]])
    found, starts = {}, {}
    for kind, place in places.items():
        memory, starts[kind] = memories(kind, place, tasks[TASKS[0]])
        found[kind] = {"threads": {}, "memory": memory}
    for threads in args.threads:
        running = {kind: place for kind, place in places.items() if kind != KENLM or threads == 1}
        seconds, took = speeds(running, tasks, threads, args.rounds)
        for kind in running:
            starts[kind].append(took[kind])
            times = {task: spread(values) for task, values in seconds[kind].items()}
            found[kind]["threads"][threads] = {**times, "tokens a second": tokens / times[TASKS[2]]["median"]}
    for kind in places:
        found[kind]["start"] = spread(starts[kind])
    return {kind: found.get(kind) for kind in (*OURS, KENLM)}


def tables(sizes: dict) -> str:
    """Return the figures as two tables of text."""
    speed, rest = [], []
    for size, programs in sizes.items():
        for kind, found in programs.items():
            if found is None:
                speed.append([f"{int(size):,}", kind, MISSING, *[""] * 4])
                continue
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
    cores = len(os.sched_getaffinity(0))
    threads = "that wait for each other where there are more than cores (default: 1, and as many as there are cores, up to 4)"
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, min(4, cores)}), help=threads)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="where the figures go (default: DIR/serving.json)")
    args = parser.parse_args()
    hardware = re.sub(r", \d+ threads", "", machine())  # those of this process
    found = {"machine": hardware, "rounds": args.rounds, "sizes": {}}
    for size in args.sizes:
        found["sizes"][size] = measured(size, args)
        write_json(args.json or args.out / "serving.json", found)
    print(f"{found['machine']}; median (min to max) of {args.rounds} rounds\n{tables(found['sizes'])}")


if __name__ == "__main__":
    main()
