"""The texts of the experiments in run.py: training, validation and test text of every domain, from folders and raw files."""

from pathlib import Path

from fairseq_groc.data.text import cleaner

LAST_YEAR = 1985  # of the training text along time


def domain_texts(args) -> dict[str, dict[str, Path]]:
    """Return the raw texts of every domain: train, valid, test. The first is where the models are trained."""
    work = args.workdir / "domains" / "raw"
    limits = {"train": 0, "valid": args.valid_tokens, "test": args.test_tokens}

    def text(name: str, parts: dict[str, list[str]], limits: dict[str, int]) -> dict[str, Path]:
        return {split: write(work / f"{name}.{split}", head(lines, limits[split])) for split, lines in parts.items()}

    found = {"in-domain": text("in-domain", splits_in(args.texts), {**limits, "train": args.train_tokens})}
    for pair in args.domain:
        name, path = pair.split("=", 1)
        if Path(path, "train.txt").exists():
            parts = splits_in(Path(path))
        else:
            lines = tokenized(Path(path), work / f"{name}.all")
            parts = {"train": lines[: len(lines) // 2], "valid": lines[len(lines) // 2 : len(lines) * 3 // 4]}
            parts["test"] = lines[len(lines) * 3 // 4 :]
        found[name] = text(name, parts, limits)
    return found


def splits_in(folder: Path) -> dict[str, list[str]]:
    return {split: (folder / f"{split}.txt").read_text().splitlines() for split in ("train", "valid", "test")}


def temporal_texts(args) -> dict[str, dict[str, Path]]:
    """Return the texts of the years up to 1985, the last two of which validate, and of those after."""
    work = args.workdir / "temporal" / "raw"
    files = sorted(path for path in args.temporal.iterdir() if path.name[:4].isdigit())
    years = {path: int(path.name[:4]) for path in files}

    def text(name, chosen):
        return tokenized([path for path in files if chosen(years[path])], work / f"{name}.all")

    before, held = text("before", lambda y: y < LAST_YEAR - 1), text("held", lambda y: LAST_YEAR - 1 <= y <= LAST_YEAR)
    after = text("after", lambda y: y > LAST_YEAR)
    half = len(held) // 2
    first = {"train": before, "valid": held[:half], "test": held[half:]}
    third = len(after) // 3
    later = {"train": after[:third], "valid": after[third : third * 4 // 3], "test": after[third * 4 // 3 :]}
    domains = {f"up to {LAST_YEAR}": first, f"from {LAST_YEAR + 1}": later}
    return {
        name: {split: write(work / f"{i}.{split}", lines) for split, lines in parts.items()}
        for i, (name, parts) in enumerate(domains.items())
    }


def tokenized(source, target: Path) -> list[str]:
    """Return the lines of raw files, tokenised and lower-cased; empty ones are left out."""
    if not target.exists():
        files = source if isinstance(source, list) else sorted(source.iterdir()) if source.is_dir() else [source]
        raw = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)
        write(target, list(map(cleaner("en", lower=True), filter(str.strip, raw.splitlines()))))
    return target.read_text().splitlines()


def head(lines: list[str], tokens: int) -> list[str]:
    """Return the first lines with so many tokens; 0: all."""
    kept, count = [], 0
    for line in lines:
        if tokens and count >= tokens:
            break
        kept.append(line)
        count += len(line.split()) + 1
    return kept


def write(path: Path, lines: list[str]) -> Path:
    """Write a file if it is not there: all of it, or nothing where it is interrupted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        part = path.with_name(f"{path.name}.part")
        part.write_text("\n".join(lines) + "\n")
        part.replace(path)
    return path
