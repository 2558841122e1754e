"""A dictionary that says which words it lacks."""

import logging
from typing import Any

from fairseq.data import Dictionary

from fairseq_groc.dictionary import ADD_WORDS, list_of

logger = logging.getLogger(__name__)


class NamingDictionary(Dictionary):
    """One that names the words that it lacks, each once, where they are read as ``<unk>``."""

    def encode_line(self, line: str, *args: Any, **kwargs: Any) -> Any:
        """Return the numbers of a line's words, as fairseq does."""
        adding = kwargs.get("add_if_not_exist", args[1] if len(args) > 1 else True)
        named = self.__dict__.setdefault("_named", set())
        lacking = [] if adding else [word for word in dict.fromkeys(line.split()) if word not in self.indices]
        if new := [word for word in lacking if word not in named]:
            named.update(new)
            logger.warning(f"{list_of(new)} not in the vocabulary: read as {self.unk_word}. {ADD_WORDS}")
        return super().encode_line(line, *args, **kwargs)
