"""Resuming is bit-equal; two workers are one with twice the streams."""

import re
import shutil
import socket
import subprocess
from pathlib import Path

import forked_programs
import pytest
import torch
from cli_helpers import BIN, COMPOSED, PLUGIN, SYSTEM_PATH, TRAINING, environment, small

from fairseq_groc.evaluation.training_log import read_curves

EXACT = ["--save-interval-updates", "4", "--max-update", "10", "--valid-subset", "valid,valid1"]
SHIFT = "decoder.words.head.bias.bias"  # shifts all logits alike: its gradient is rounding alone


def weights(folder):
    saved = torch.load(folder / "checkpoint_last.pt", weights_only=True)["model"]
    return {name: value for name, value in saved.items() if torch.is_tensor(value)}


def as_killed(folder, checkpoint):
    """Make a folder as it is when a training is killed while fairseq copies what it has just saved."""
    folder.mkdir()
    shutil.copy(checkpoint, folder)
    for name in ("checkpoint_best.pt", "checkpoint_last.pt"):
        (folder / name).write_bytes(checkpoint.read_bytes()[:-100])


def mended(output):
    """Return the checkpoints that were mended."""
    found = re.findall(r"/(\S+) cannot be read: it is set aside as \1\.damaged, and checkpoint_\d_4\.pt takes its place", output)
    return sorted(found)


SPARSE = ["--full-update-prob", "0.5", "--criterion", "chunked_cross_entropy"]
CORRECTED = ["--corrections", "both", "--correction-min-count", "3", "--composed-lr-scale", "0.3"]


@pytest.mark.parametrize("updates", [[], SPARSE, CORRECTED])
def test_resume_inside_an_epoch_is_bit_equal(commands, corpus, tmp_path, updates):
    options = [
        *EXACT,
        *updates,
        "--update-freq",
        "2",
        "--vary-bptt",
        "--patience",
        "50",
        "--dropout",
        "0.3",
        "--tokens-per-sample",
        "8",
    ]
    options += ["--lr-scheduler", "resumable_reduce_lr_on_plateau", "--batch-size", "2", "--tokens-per-sample", "8"]
    commands.train(corpus / "data", tmp_path / "whole", *options)
    checkpoint = next((tmp_path / "whole").glob("checkpoint_*_4.pt"))
    position = torch.load(checkpoint, weights_only=True)["extra_state"]["train_iterator"]["iterations_in_epoch"]
    assert position > 0  # inside an epoch
    as_killed(tmp_path / "resumed", checkpoint)
    output = commands.train(corpus / "data", tmp_path / "resumed", *options)
    assert mended(output) == ["checkpoint_best.pt", "checkpoint_last.pt"]
    assert "no state is carried" not in output and "Loaded checkpoint" in output
    whole, resumed = weights(tmp_path / "whole"), weights(tmp_path / "resumed")
    assert whole.keys() == resumed.keys() and all(torch.equal(whole[name], resumed[name]) for name in whole)
    counters = [
        torch.load(tmp_path / run / "checkpoint_last.pt", weights_only=True)["extra_state"]["WordnetLexiconTask"]["early_stop"]
        for run in ("whole", "resumed")
    ]
    assert counters[0] == counters[1] and set(counters[0]) == {"best", "num_runs"}


def test_counters_of_schedule_and_patience_survive_a_resume(commands, corpus, tmp_path):
    """With a learning rate at which nothing improves, so that they count."""
    options = ["--lr-scheduler", "resumable_reduce_lr_on_plateau", "--lr-patience", "9", "--patience", "99"]
    options += ["--optimizer", "sgd", "--lr", "1e-30", "--valid-subset", "valid,valid1"]
    options += ["--max-epoch", "4", "--save-interval-updates", "5"]

    def counters(folder):
        commands.train(corpus / "data", folder, *options)
        saved = torch.load(folder / "checkpoint_last.pt", weights_only=True)
        schedule = saved["optimizer_history"][-1]["lr_scheduler_state"]
        return schedule["num_bad_epochs"], schedule["best"], saved["extra_state"]["WordnetLexiconTask"]["early_stop"]

    whole = counters(tmp_path / "whole")
    (tmp_path / "resumed").mkdir()
    shutil.copy(tmp_path / "whole" / "checkpoint_4_35.pt", tmp_path / "resumed" / "checkpoint_last.pt")
    assert counters(tmp_path / "resumed") == whole
    assert whole[0] == 2 and whole[2]["num_runs"] > 2


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def distributed(program, data, save, *options):
    command = [program, data, *PLUGIN, *COMPOSED, *TRAINING, "--save-dir", save, "--cpu"]
    command += ["--distributed-world-size", "2", "--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"]
    return [*command, "--load-checkpoint-on-all-dp-ranks", *options]


def two_workers(data, save, *options):
    program = forked_programs.folder() / "fairseq-train"
    command = distributed(program, data, save, "--distributed-init-method", f"tcp://127.0.0.1:{free_port()}", *options)
    command += ["--distributed-no-spawn", "--distributed-rank"]
    ranks = [
        subprocess.Popen(
            [str(c) for c in [*command, rank]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment()
        )
        for rank in (0, 1)
    ]
    outputs = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    return "".join(outputs)


def test_two_workers_equal_one_and_resume(commands, corpus, tmp_path):
    options = [*EXACT, "--dropout", "0", "--dropout-in", "0", "--optimizer", "sgd", "--lr", "0.1", "--vary-bptt"]
    options += ["--update-freq", "2", "--criterion", "chunked_cross_entropy"]
    options += ["--activation-regularization", "2", "--temporal-activation-regularization", "100"]
    one = commands.train(corpus / "data", tmp_path / "one", *options, "--batch-size", "4")
    output = two_workers(corpus / "data", tmp_path / "two", *options, "--batch-size", "2")
    single, double = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert max((single[name] - double[name]).abs().max() for name in single if name != SHIFT) <= 1e-6
    losses = [re.findall(r"valid on 'valid1' subset \| loss ([\d.]+)", text)[-1] for text in (one, output)]
    assert losses[0] == losses[1]
    as_killed(tmp_path / "resumed", next((tmp_path / "two").glob("checkpoint_*_4.pt")))
    output = two_workers(corpus / "data", tmp_path / "resumed", *options, "--batch-size", "2")
    assert mended(output) == ["checkpoint_best.pt", "checkpoint_last.pt"]
    assert "no state is carried" not in output
    resumed = weights(tmp_path / "resumed")
    assert all(torch.equal(double[name], resumed[name]) for name in double)


# what SLURM gives its tasks; each here sees device 0, as with one GPU a task
SRUN = """#!/bin/bash
export SLURM_JOB_NODELIST=node SLURM_NNODES=1 SLURM_NTASKS_PER_NODE=2 SLURM_LOCALID=0
SLURM_PROCID=0 "$@" & first=$!
SLURM_PROCID=1 "$@" && wait $first
"""


@pytest.mark.parametrize("launcher", ["torchrun", "srun"])
def test_launchers_train_to_the_weights_of_one_worker(commands, corpus, tmp_path, monkeypatch, launcher):
    options = ["--max-update", "3", "--dropout", "0", "--dropout-in", "0", "--optimizer", "sgd", "--lr", "0.1"]
    options += ["--disable-validation", "--batch-size"]
    commands.train(corpus / "data", tmp_path / "one", *options, "4")
    programs = BIN if launcher == "torchrun" else forked_programs.folder()
    command = distributed(programs / "fairseq-train", corpus / "data", tmp_path / "two", *options, "2")
    if launcher == "torchrun":
        rank = 'exec "$@" --distributed-init-method env:// --distributed-no-spawn --distributed-rank $RANK'
        port = ["--nproc_per_node", "2", "--master_port", free_port()]
        command = [BIN / "torchrun", *port, "--no-python", "bash", "-c", rank, "-", *command]
    else:
        for name, script in (("srun", SRUN), ("scontrol", "#!/bin/bash\necho localhost\n")):
            (tmp_path / name).write_text(script)
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{SYSTEM_PATH}")
        command = [tmp_path / "srun", *command, "--distributed-port", free_port()]
    done = subprocess.run(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
    )
    assert done.returncode == 0 and "distributed init (rank 1)" in done.stdout, done.stdout[-3000:]
    single, double = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert max((single[name] - double[name]).abs().max() for name in single if name != SHIFT) <= 1e-6


def test_sparse_updates_are_the_same_on_every_worker(commands, corpus, tmp_path):
    options = ["--max-update", "6", "--dropout", "0", "--dropout-in", "0", "--optimizer", "sgd", "--lr", "0.1"]
    options += [
        "--full-update-prob",
        "0.5",
        "--criterion",
        "chunked_cross_entropy",
        "--vocabulary-chunk",
        "5",
        "--disable-validation",
    ]
    commands.train(corpus / "data", tmp_path / "one", *options, "--batch-size", "4")
    two_workers(corpus / "data", tmp_path / "two", *options, "--batch-size", "2")
    single, double = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert max((single[name] - double[name]).abs().max() for name in single if name != SHIFT) <= 1e-6


def test_sampled_updates_train_on_two_workers(commands, corpus, tmp_path):
    """Every worker draws for its own batch, so the weights are not those of one worker, but near them."""
    options = ["--max-update", "8", "--dropout", "0", "--dropout-in", "0", "--optimizer", "sgd", "--lr", "1"]
    options += ["--sampled-update-fraction", "0.5", "--refresh-interval", "4", "--criterion", "chunked_cross_entropy"]
    valid = ["--valid-subset", "valid,valid1"]
    valid += ["--validate-interval-updates", "1"]
    one = commands.train(corpus / "data", tmp_path / "one", *options, *valid, "--batch-size", "4")
    two = two_workers(corpus / "data", tmp_path / "two", *options, *valid, "--batch-size", "2")
    curves = []
    for name, output in (("one", one), ("two", two)):
        (tmp_path / f"{name}.log").write_text(output)
        curves.append([loss for _, loss in read_curves(tmp_path / f"{name}.log", "loss")["valid"]])
    fall = curves[0][0] - curves[0][-1]
    assert fall > 0.002 and abs(curves[1][-1] - curves[0][-1]) < 0.2 * fall


def test_finetuning_takes_the_checkpoints_options_only(commands, corpus, models, tmp_path):
    options = ["--finetune-from-model", models["compositional_output"], "--max-update", "2", "--save-dir", tmp_path / "a"]
    everything = ["fairseq-train", corpus / "data", *PLUGIN, *COMPOSED, *TRAINING, "--valid-subset", "valid,valid1"]
    output = commands.fails(*everything, *options, "--output-depth", "1")
    assert "options differ from the checkpoint's: --output-depth 1 (checkpoint: 0)" in output
    assert "beginning from zero" not in commands.ok(*everything, *options)


def test_fairseqs_own_schedule_and_amp_on_a_cpu(commands, corpus, tmp_path):
    options = ["--lr-scheduler", "reduce_lr_on_plateau", "--amp", "--patience", "3", "--max-epoch", "2", "--update-freq", "3"]
    output = commands.train(corpus / "data", tmp_path, *options, "--valid-subset", "valid,valid1")
    assert "done training" in output and (tmp_path / "checkpoint_best.pt").exists()


def test_a_sweep_of_hydra_trains_every_model_as_if_alone(commands, corpus, tmp_path):
    """Runs share a process, and fairseq keeps what is best so far and TensorBoard's files in it."""
    config = ["--multirun", "--config-dir", "examples/language_model/config", "--config-name", "groc_lstm_lm_small"]
    overrides = [f"task.data={corpus / 'data'}", f"common.user_dir={PLUGIN[1]}", "dataset.valid_subset='valid,valid1'"]
    overrides += ["model.decoder_embed_dim=8", "model.decoder_hidden_size=12", "task.char_filters=[4,4,4]"]
    overrides += ["optimization.max_update=2", "checkpoint.save_dir=save", f"hydra.sweep.dir={tmp_path}"]
    overrides += ["common.tensorboard_logdir=tensorboard", "common.bf16=false,true", "optimization.lr=[0.1],[1e-30]"]
    commands.ok("fairseq-hydra-train", *config, *overrides)
    for run in range(4):
        saved = torch.load(tmp_path / str(run) / "save" / "checkpoint_best.pt", weights_only=True)
        assert saved["cfg"]["model"]["char_filters"] == [4, 4, 4]  # inherited from the task
        assert saved["extra_state"]["best"] == saved["extra_state"]["val_loss"]
        assert saved["extra_state"]["WordnetLexiconTask"]["early_stop"]["num_runs"] <= 1  # of its own two epochs
        logged = {path.parent.name for path in (tmp_path / str(run) / "tensorboard").rglob("events*")}
        assert {"train_inner", "train", "valid", "valid1"} >= logged >= {"train", "valid", "valid1"}


@pytest.mark.parametrize("head, optimizer", [("tied", "adam"), ("tied", "sgd"), ("compositional_output", "adam")])
def test_a_training_goes_on_over_another_dictionary_unless_an_optimizer_has_rows(commands, corpus, tmp_path, head, optimizer):
    """What an optimizer has of each row does not move by word, as rows do: it would be another word's."""
    words = (corpus / "data" / "dict.txt").read_text().splitlines(keepends=True)
    (tmp_path / "dict.txt").write_text("".join(reversed(words)))
    texts = [part for name in ("train", "valid") for part in (f"--{name}", corpus / f"{name}.txt")]
    lexicon = ["--lexicon-path", Path(__file__).parents[1] / "fixtures" / "mini.tsv"]
    commands.preprocess("--vocabulary", tmp_path / "dict.txt", *texts, "--dest", tmp_path / "other", *lexicon)
    model = ["--output-head", head, "--optimizer", optimizer, "--ignore-unused-valid-subsets"]
    commands.train(corpus / "data", tmp_path / "save", *model, "--max-update", "2")
    more, reset = [*model, "--max-update", "4"], []
    if (head, optimizer) == ("tied", "adam"):
        options = [*PLUGIN, *TRAINING, *small(*more), "--save-dir", tmp_path / "save"]
        for part in ([], ["--reset-dataloader"]):
            refused = commands.fails("fairseq-train", tmp_path / "other", *options, *part)
            assert "another dictionary, and its optimizer goes on by that: give --finetune-from-model, or --reset-" in refused
        reset = [f"--reset-{what}" for what in ("optimizer", "lr-scheduler", "dataloader", "meters")]
    assert "done training" in commands.train(tmp_path / "other", tmp_path / "save", *more, *reset)
