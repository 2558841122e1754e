"""Bad input: a clear error that names file and remedy, and nothing lost."""

import pickle
import shutil

import torch
from cli_helpers import COMPOSED, PLUGIN, ROOT, TRAINING, small

from fairseq_groc.lexicon.tables_file import FILE, FOLDER

VALID = ["--valid-subset", "valid,valid1"]


def test_preprocess_stops_before_it_writes(ours, corpus, tmp_path):
    bad = tmp_path / "bad.txt"
    bad.write_text("the <pad> cat\n")
    preprocess = ["preprocess", "--train", corpus / "train.txt", "--dest", tmp_path / "dest"]
    assert "bad.txt:1: contains <pad>" in ours(*preprocess, "--test", bad, code=1) and not (tmp_path / "dest").exists()
    assert "without --train" in ours("preprocess", "--test", corpus / "train.txt", "--dest", tmp_path / "dest", code=1)
    assert "expected ptb or wikitext-2" in ours("preprocess", "--dataset", "ptp", "--dest", tmp_path / "dest", code=1)
    lexicon = tmp_path / "broken.tsv"
    lexicon.write_text("cat\tfeline\ta small animal\ndog\n")
    error = ours(*preprocess, "--lexicon-path", lexicon, code=1)
    assert "broken.tsv:2: cannot read this line" in error and not (tmp_path / "dest").exists()


def test_preprocessing_again_leaves_nothing_old(ours, corpus, tmp_path):
    dest, lexicon = tmp_path / "dest", ["--lexicon-path", "none"]
    texts = ["preprocess", "--train", corpus / "train.txt", "--valid", corpus / "valid.txt", "--dest", dest, *lexicon]
    ours(*texts, "--test", corpus / "other.txt")
    before = {path: path.read_bytes() for path in dest.rglob("*") if path.is_file()}
    twice = tmp_path / "dict.txt"
    twice.write_text("the 1\nthe 1\n")
    assert f"{twice}: Duplicate word found" in ours(*texts, "--vocabulary", twice, code=1)
    assert before == {path: path.read_bytes() for path in dest.rglob("*") if path.is_file()}
    ours(*texts)
    assert not (dest / "test.bin").exists() and (dest / "valid.bin").exists()


def train_fails(commands, data, tmp_path, *options):
    return commands.fails("fairseq-train", data, *PLUGIN, *TRAINING, "--save-dir", tmp_path / "save", *small(*options))


def test_data_that_does_not_fit(commands, corpus, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(corpus / "data", data)
    tables = data / FOLDER / FILE
    saved = tables.read_bytes()
    tables.write_bytes(saved.replace(b"domesticated", b"domesticatee"))
    output = train_fails(commands, data, tmp_path)
    assert "tables.safetensors is damaged (its checksum does not fit). Rebuild them: python -m fairseq_groc tables" in output
    tables.write_bytes(saved)
    words = (data / "dict.txt").read_text().splitlines()
    (data / "dict.txt").write_text("\n".join(words[1:] + words[:1]) + "\n")
    for head in ("compositional_output", "tied"):
        output = train_fails(commands, data, tmp_path, "--output-head", head)
        assert "dict.txt is not the dictionary that the text in this folder" in output
    (data / "binarised.json").unlink()  # as fairseq-preprocess leaves it
    assert "made for another dictionary" in train_fails(commands, data, tmp_path)
    (data / "dict.txt").write_text("\n".join(words[:5]) + "\n")
    output = train_fails(commands, data, tmp_path, "--output-head", "tied", *VALID)
    assert "words beyond the" in output and "binarised with another dictionary" in output
    (data / "dict.txt").write_text("\n".join(words + words[:1]) + "\n")
    assert "Duplicate word found" in train_fails(commands, data, tmp_path)
    shutil.copy(corpus / "data" / "dict.txt", data / "dict.txt")
    two = ["--max-epoch", "2", *VALID]
    output = train_fails(commands, f"{corpus / 'data'}:{corpus / 'union'}", tmp_path / "two", *two)
    assert "union: dict.txt is not the dictionary that the text in this folder" in output
    (data / "valid.bin").write_bytes(b"")
    assert "valid.bin holds no text" in train_fails(commands, data, tmp_path, *VALID)
    assert not list((tmp_path / "save").glob("*.pt"))


def test_tables_of_another_lexicon(commands, corpus, models, tmp_path):
    data, model = tmp_path / "data", models["compositional_output"]
    shutil.copytree(corpus / "data", data)
    commands.ok("python", "-m", "fairseq_groc", "tables", data, "--lexicon-path", "none")
    score = ["fairseq-eval-lm", data, *PLUGIN, "--path", model, "--gen-subset", "valid"]
    for output in (commands.fails(*score), train_fails(commands, data, tmp_path, "--restore-file", model, *VALID)):
        assert "come from another lexicon (none" in output and "python -m fairseq_groc tables" in output
    commands.ok(*score, "--any-lexicon")


def test_workers_that_are_not_connected(commands, corpus, tmp_path, monkeypatch):
    """As torchrun starts them on a machine without GPUs."""
    for name, value in {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}.items():
        monkeypatch.setenv(name, value)
    assert "2 workers were started, but are not connected" in train_fails(commands, corpus / "data", tmp_path, "--cpu")


def test_wrong_or_missing_task(commands, corpus, models, tmp_path):
    plugin, fix = PLUGIN[:2], "give --task wordnet_lexicon"
    options = [*COMPOSED, "--batch-size", "2", "--save-dir", tmp_path]
    assert fix in commands.fails("fairseq-train", corpus / "data", *plugin, *options)
    model = models["compositional_output"]
    assert fix in commands.fails("fairseq-eval-lm", corpus / "data", *plugin, "--path", model, "--gen-subset", "valid")


def test_options_that_do_not_go_together(commands, corpus, models, tmp_path):
    data = corpus / "data"
    assert "--fp16 needs a GPU" in train_fails(commands, data, tmp_path, "--fp16", "--cpu")
    assert "use fairseq-hydra-train with common.bf16=true" in train_fails(commands, data, tmp_path, "--bf16")
    assert "--output-head nonsense: expected one of" in train_fails(commands, data, tmp_path, "--output-head", "nonsense")
    window = ["--path", models["tied"], "--gen-subset", "valid", "--context-window", "5"]
    assert "--context-window is not supported" in commands.fails("fairseq-eval-lm", data, *PLUGIN, *window)
    assert "--batch-size 999: 'train' has" in train_fails(commands, data, tmp_path, *VALID, "--batch-size", "999")
    criterion = ["--criterion", "label_smoothed_cross_entropy"]
    assert "label smoothing spreads over words of probability 0" in train_fails(commands, data, tmp_path, *criterion)
    assert "--decoder-layers 0: expected 1 or more" in train_fails(commands, data, tmp_path, "--decoder-layers", "0")
    for limit in ("0", "inf"):
        output = train_fails(commands, data, tmp_path, "--init-range", limit)
        assert f"--init-range {limit}: expected a number above 0" in output
    assert "from 0 to below 1" in train_fails(commands, data, tmp_path, "--uniform-weight", "1.5")
    both = ["--full-update-prob", "0.5", "--sampled-update-fraction", "0.5"]
    assert "two ways to save time" in train_fails(commands, data, tmp_path, *both)
    assert "expected a number above 0" in train_fails(commands, data, tmp_path, "--full-update-prob", "0")
    negative = ["--tokens-per-sample", "-5", *VALID]
    assert "--tokens-per-sample -5: expected a positive number" in train_fails(commands, data, tmp_path, *negative)
    assert "is for scoring" in train_fails(commands, data, tmp_path, "--export-embeddings", tmp_path / "e.pt")
    lines = ["--vary-bptt", "--sample-break-mode", "eos"]
    assert "--vary-bptt varies the blocks of a running text" in train_fails(commands, data, tmp_path, *lines)
    script = ROOT / "scripts" / "preprocess.sh"
    given = ["--train", corpus / "train.txt", "--vocabulary", data / "dict.txt", "--dest", tmp_path / "dest"]
    assert "--threshold has no meaning" in commands.fails(script, *given, "--threshold", "2")
    assert "--new-words-from would change" in commands.fails(script, *given, "--new-words-from", corpus / "other.txt")
    dropping = ["--skip-remainder-batch", *VALID]
    assert "--skip-remainder-batch drops text" in train_fails(commands, data, tmp_path, *dropping)


class Harmful:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_checkpoints_that_are_broken_or_run_code(commands, corpus, models, tmp_path):
    truncated, harmful, proof = tmp_path / "truncated.pt", tmp_path / "harmful.pt", tmp_path / "proof"
    raw = models["tied"].read_bytes()
    truncated.write_bytes(raw[: len(raw) // 2])
    torch.save({"model": {}, "cfg": Harmful(proof), "args": None}, harmful, pickle_module=pickle)
    for path in (truncated, harmful, tmp_path / "absent.pt"):
        output = commands.fails("fairseq-eval-lm", corpus / "data", *PLUGIN, "--path", path, "--gen-subset", "valid")
        assert "Evaluated" not in output
        if path.exists():
            before, options = path.read_bytes(), ["--output-head", "tied", "--restore-file", path, "--max-update", "50"]
            assert "done training" not in train_fails(commands, corpus / "data", tmp_path, *options)
            assert path.read_bytes() == before and not list((tmp_path / "save").glob("*.pt"))
    assert not proof.exists()
