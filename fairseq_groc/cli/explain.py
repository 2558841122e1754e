"""Print what a word is made of: characters, relations, gloss words, and where each came from."""

from fairseq_groc.cli.tables import add_lexicon_arguments, open_chosen


def add_arguments(parser) -> None:
    parser.add_argument("word", nargs="+")
    add_lexicon_arguments(parser)


def run(args) -> None:
    lexicon = open_chosen(args)
    for word in args.word:
        print(explain(word, lexicon, args.max_relations, args.max_definition))


def explain(word: str, lexicon, max_relations: int, max_definition: int) -> str:
    """Return the explanation as lines of text."""
    entry = lexicon.lookup(word, max_relations, max_definition)
    spelled = " ".join(chr(b) if 32 < b < 127 else f"<{b:02x}>" for b in word.encode("utf-8"))
    lines = [word, f"  characters   ^ {spelled} $"]
    lines += [f"  relation     {r.word}  ({r.source})" for r in entry.relations]
    if entry.definition:
        lines.append(f"  definition   {' '.join(entry.definition)}  ({entry.definition_source})")
    if not entry.relations and not entry.definition:
        lines.append(f"  not in the lexicon ({lexicon.name}): its spelling alone")
    return "\n".join(lines)
