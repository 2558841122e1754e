"""Every option of ours arrives, from the command line and from YAML."""

import itertools
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from cli_helpers import PLUGIN, ROOT
from fairseq import options
from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.initialize import add_defaults
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from fairseq_groc.cli.presets import preset_config, table
from fairseq_groc.encoders import ENCODERS
from fairseq_groc.errors import OptionError
from fairseq_groc.models.groc_lstm_lm import GrocLSTMLanguageModelConfig
from fairseq_groc.options import SHARED_OPTIONS, TRAINING, HeadConfig, SharedHeadConfig, options_of, refuse_unused_of_task
from fairseq_groc.presets import PRESETS
from fairseq_groc.registry import flag
from fairseq_groc.tasks.wordnet_lexicon import WordnetLexiconConfig

GIVEN = {
    "output_head": "tied",
    "char_embed_dim": 9,
    "char_filters": [1, 2, 3],
    "spelling_units": "characters",
    "highway_layers": 2,
    "output_depth": 3,
    "output_activation": "selu",
    "output_dropout": 0.125,
    "feature_dropout": 0.25,
    "embedding_dropout": 0.375,
    "context_dim": 2,
    "context_adaptation": "factor",
    "context_bias": "rows",
    "context_dropout": 0.0625,
    "context_threshold": 3,
    "context": "topic=sports",
    "context_variables": "topic",
    "lookup_width": "encoder",
    "bias_activation": "tanh",
    "lexicon_parts": "relations",
    "output_dropout_kind": "standard",
    "output_dropout_at": "inputs",
    "output_residual": "input+previous",
    "output_query": "linear",
    "output_joint_dim": 5,
    "output_cutoffs": [3, 5],
    "output_factor": 2,
    "adaptive_scoring": "bins",
    "correction_dim": 6,
    "num_softmaxes": 2,
    "corrections": "output",
    "correction_dropout": 0.125,
    "correction_min_count": 4,
    "composed_lr_scale": 0.5,
    "init_range": 0.5,
    "draw_new_rows": True,
    "max_target_positions": 99,
    "add_bos_token": True,
    "tokens_per_sample": 17,
    "sample_break_mode": "eos",
    "vary_bptt": True,
    "uniform_weight": 0.25,
    "new_word_discount": 0.5,
    "unigram_weight": 0.125,
    "local_weight": 0.375,
    "cache_theta": 0.75,
    "cache_size": 77,
    "unbounded_weight": 0.0625,
    "cache_neighbors": 66,
    "cache_text": "FOLDER",
    "ngram_weight": 0.1875,
    "ngram_path": "COUNTS",
    "dynamic_rate": 0.001,
    "dynamic_decay": 0.01,
    "dynamic_epsilon": 0.1,
    "dynamic_block": 17,
    "dynamic_parameters": "encoder",
    "dynamic_statistics": "STATISTICS",
    "no_tuned_adapters": True,
    "full_update_prob": 0.5,
    "sampled_update_fraction": 0.5,
    "refresh_interval": 7,
    "encoding_chunk": 1000,
    "autocast_bf16": True,
    "any_lexicon": True,
    "export_embeddings": "FILE",
    "decoder_embed_dim": 11,
    "decoder_hidden_size": 13,
    "decoder_layers": 3,
    "dropout": 0.5,
    "dropout_in": 0.25,
    "dropout_out": 0.75,
    "prefix_encoder": "awd_lstm",
    "weight_dropout": 0.125,
    "decoder_output_dim": 15,
    "context_rank": 3,
    "recurrent_dropout": 0.125,
    "layer_norm": "gates",
    "factor_init": "zero-right",
}


def parse(*arguments):
    return convert_namespace_to_omegaconf(namespace(*arguments))


def namespace(*arguments):
    """Return what argparse makes of the arguments and the architecture of its defaults, in milliseconds."""
    return options.parse_args_and_arch(options.get_training_parser(), ["DATA", *PLUGIN, "--batch-size", "2", *arguments])


def own(config):
    inherited = ("${common", "${dataset", "${checkpoint")
    names = {f.name for f in fields(config) if not str(f.default).startswith(inherited)}
    return names - {"data", "_name"}


def given_to(head, encoder="awd_lstm"):
    """Return what a head and a prefix encoder take of what is given, and the flags of it."""
    unused = SHARED_OPTIONS.keys() - {**TRAINING, **options_of(head)}.keys()
    unused |= ENCODERS.options.keys() - ENCODERS.taken[encoder].keys()
    given = {name: value for name, value in GIVEN.items() if name not in unused}
    given |= {"output_head": head, "prefix_encoder": encoder}
    typed = ([flag(name)] if value is True else [flag(name), str(value).replace(" ", "")] for name, value in given.items())
    return given, [part for parts in typed for part in parts]


HEADS_TOGETHER = (
    "compositional_output",
    "adaptive",
    "dual_nonlinear",
    "mixture_of_softmaxes",
    "lookup",
)  # take all options there are
ENCODERS_TOGETHER = ("awd_lstm", "factor_cell")


@pytest.mark.parametrize(
    "head, encoder",
    [*((head, "awd_lstm") for head in HEADS_TOGETHER), *(("lookup", encoder) for encoder in ENCODERS_TOGETHER[1:])],
)
def test_every_option_arrives_from_the_command_line(head, encoder):
    given, flags = given_to(head, encoder)
    cfg = parse("--arch", "groc_lstm_lm_ptb", *flags)
    for section, config in ((cfg.task, WordnetLexiconConfig), (cfg.model, GrocLSTMLanguageModelConfig)):
        for name in own(config) & given.keys():
            assert section[name] == given[name], name


def test_those_are_all_options():
    assert own(WordnetLexiconConfig) | own(GrocLSTMLanguageModelConfig) == set(GIVEN)
    together = itertools.product(HEADS_TOGETHER, ENCODERS_TOGETHER)
    assert {name for head, encoder in together for name in given_to(head, encoder)[0]} == set(GIVEN)


@pytest.mark.parametrize("arch", sorted(PRESETS))
def test_no_preset_takes_the_place_of_what_is_given(arch):
    given, flags = given_to("compositional_output")
    found, plain = namespace("--arch", arch, *flags), namespace("--arch", "groc_lstm_lm", *flags)
    assert {name: getattr(found, name) for name in given} == {name: getattr(plain, name) for name in given}


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("groc_lstm_lm --output-head tied --output-depth 0", "--output-depth: --output-head tied does not take it. Leave it out"),
        ("groc_lstm_lm_small --num-softmaxes 2", "--num-softmaxes: --output-head compositional_output does not take it"),
        ("groc_lstm_lm --output-head adaptive --corrections both", "--corrections: --output-head adaptive does not take it"),
        ("groc_lstm_lm --context-bias rows", "--context-bias does nothing without --context-dim: give both, or leave it out"),
        ("factor_cell_lm_agnews_unadapted --context-dropout 0.1", "--context-dropout does nothing without --context-dim"),
        (
            "groc_lstm_lm --prefix-encoder factor_cell --context-dim 2 --context-rank 3",
            "--context-rank does nothing without --context-adaptation factor: give both, or leave it out",
        ),
        ("groc_lstm_lm --prefix-encoder factor_cell --factor-init zero-right", "--factor-init does nothing without"),
        ("groc_lstm_lm --weight-dropout 0.5", "--weight-dropout: --prefix-encoder lstm does not take it. Leave it out"),
    ],
)
def test_what_the_chosen_part_does_not_take_is_refused(arguments, message):
    with pytest.raises(OptionError, match=message):
        namespace("--arch", *arguments.split())
    assert namespace("--arch", "groc_lstm_lm_small", "--output-head", "tied").char_filters  # a preset has it for other heads


def test_other_models_refuse_it_too():
    with pytest.raises(OptionError, match="--context-bias does nothing without --context-dim: give both, or leave it out"):
        refuse_unused_of_task(WordnetLexiconConfig(output_head="tied", context_bias="rows"), "wordnet_lexicon")
    with pytest.raises(OptionError, match="--output-depth: --output-head tied does not take it. Leave it out"):
        refuse_unused_of_task(WordnetLexiconConfig(output_head="tied", output_depth=1), "wordnet_lexicon")


def test_every_option_arrives_from_yaml():
    task = {name: GIVEN[name] for name in own(WordnetLexiconConfig)}
    model = {name: GIVEN[name] for name in own(GrocLSTMLanguageModelConfig) - set(SHARED_OPTIONS)}
    criterion = {"_name": "chunked_cross_entropy", "vocabulary_chunk": 77}
    sections = {"task": {"_name": "wordnet_lexicon", "data": "DATA", **task}, "model": {"_name": "groc_lstm_lm", **model}}
    given = yaml.safe_load(yaml.safe_dump({**sections, "criterion": criterion}))
    cfg = OmegaConf.merge(OmegaConf.structured(FairseqConfig()), OmegaConf.create(given))
    add_defaults(cfg)  # as fairseq-hydra-train does
    for section, config in ((cfg.task, WordnetLexiconConfig), (cfg.model, GrocLSTMLanguageModelConfig)):
        for name in own(config):
            assert section[name] == GIVEN[name], name
    assert cfg.criterion.vocabulary_chunk == 77


def test_the_criterions_options_arrive_from_the_command_line():
    weights = ["--activation-regularization", "2", "--temporal-activation-regularization", "1"]
    cfg = parse("--arch", "groc_lstm_lm", "--criterion", "chunked_cross_entropy", "--vocabulary-chunk", "77", *weights)
    assert cfg.criterion.vocabulary_chunk == 77
    assert (cfg.criterion.activation_regularization, cfg.criterion.temporal_activation_regularization) == (2, 1)


@pytest.mark.parametrize(
    "given, expected",
    [(["--output-depth", "1.5"], "--output-depth 1.5: expected a whole number"), (["--init-range", "x"], "x: expected a number")],
)
def test_what_is_no_number_is_named(given, expected):
    with pytest.raises(OptionError, match=expected):
        parse("--arch", "groc_lstm_lm", *given)


def test_task_and_model_share_their_options():
    assert {f.name for f in fields(SharedHeadConfig)} == {f.name for f in fields(HeadConfig)}
    assert all(f.default == f"${{task.{f.name}}}" for f in fields(SharedHeadConfig) if f.name != "_name")
    cfg = parse("--arch", "groc_lstm_lm")
    assert all(cfg.task[name] == cfg.model[name] for name in SHARED_OPTIONS)


CONFIGS = ROOT / "examples" / "language_model" / "config"


@pytest.mark.parametrize("file", sorted(CONFIGS.glob("*.yaml")), ids=lambda file: file.stem)
def test_example_configurations_are_the_presets(file):
    name = file.stem
    assert yaml.safe_load(file.read_text()) == preset_config(name), f"renew it: python -m fairseq_groc presets {name} --yaml"


def resolved(**sections):
    """Return sections with their defaults, a model's being those of the task."""
    configs = {"task": WordnetLexiconConfig, "model": GrocLSTMLanguageModelConfig}
    known = {name: {key: given[key] for key in given.keys() & own(configs[name])} for name, given in sections.items()}
    return OmegaConf.create({name: OmegaConf.merge(OmegaConf.structured(configs[name]), known[name]) for name in sections})


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_architecture_and_yaml_are_the_same_preset(name):
    arch, config = vars(namespace("--arch", name)), preset_config(name)
    assert arch.items() >= PRESETS[name].options.items()
    typed, written = resolved(task=arch, model=arch), resolved(task=config["task"], model=config["model"])
    for option in own(GrocLSTMLanguageModelConfig):
        assert typed.model[option] == written.model[option], option
        if option in SHARED_OPTIONS:
            assert typed.task[option] == written.task[option], option


def test_the_user_dir_command_names_the_package(commands):
    assert Path(commands.ok("python", "-m", "fairseq_groc", "user-dir").splitlines()[-1]) == ROOT / "fairseq_groc"


def test_the_table_of_presets_is_the_documented_one():
    assert table() in (ROOT / "docs" / "presets.md").read_text(), "renew it: python -m fairseq_groc presets"


def test_presets_and_their_configurations_are_printed(ours):
    name = "groc_lstm_lm_ptb"
    assert ours("presets").strip() == table()
    assert ours("presets", name).strip() == table([name])
    assert yaml.safe_load(ours("presets", name, "--yaml")) == preset_config(name)
