"""The published facts of a family's tokenizer. Without torch."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Family:
    """A tokenizer's published facts."""

    tokens: int  #: special ones included; the model's embedding may have more rows
    special: dict[int, str]  #: id -> text
    eos: str
    #: Special tokens with smaller ids are of the vocabulary proper, which ``vocab_size`` counts; those behind its last word
    #: with larger ones are added to it, as published.
    proper: int = 0
    bos: str = ""
    pad: str = ""
    unk: str = ""
    cls: str = ""
    sep: str = ""
    mask: str = ""
    #: what stands around each encoded text, and each pair of them: ``A`` and ``B`` are the texts, all else special tokens,
    #: separated by spaces. Empty: nothing, but for `adds_bos`.
    template: str = ""
    pair_template: str = ""
    numbers_texts: bool = False  #: ``token_type_ids`` say which text of a pair a token is of
    adds_bos: bool = False  #: each encoded text begins with `bos`
    plain: tuple[str, ...] = ()  #: of `special`, those that decoding keeps when it skips special tokens
    chat_template: str = ""  #: empty: published without one
    max_length: int = 131_072  #: ``model_max_length``
    tokenizer_class: str = "PreTrainedTokenizerFast"
    sentencepiece: str = ""  #: the file of its SentencePiece model; empty: byte-level
    unigram: bool = False  #: of a SentencePiece model: not BPE; what it has no piece for is `unk`, not bytes
    spaces_first: bool = True  #: of a SentencePiece model: each text begins with a space
    legacy: bool | None = None  #: as the settings of a Llama tokenizer have it
    named: tuple[tuple[str, str], ...] = ()  #: tokens that a processor looks up, as ``image_token``: name, text
