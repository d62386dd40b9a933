"""Tokenizers of the known families: how many tokens, which special ones at which ids, which chat template. Data.

The vocabulary itself is synthetic (`skeletons.tokenizer`); sizes and ids are the published ones, from each
repository's ``tokenizer_config.json`` (``added_tokens_decoder``). The chat templates are our own, in the published format of
each family.
"""

from __future__ import annotations

import dataclasses

from skeletons import chat_templates, more_families, translator_families
from skeletons.family import Family

_QWEN_NAMES = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>"),
    *("<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>"),
    *("<|image_pad|>", "<|video_pad|>", "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>"),
    *("<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"),
)
_QWEN_3_NAMES = (*_QWEN_NAMES, "<tool_response>", "</tool_response>", "<think>", "</think>")


def _qwen(names: tuple[str, ...], eos: str) -> Family:
    return Family(
        tokens=151_643 + len(names),
        special={151_643 + index: name for index, name in enumerate(names)},
        eos=eos,
        pad="<|endoftext|>",
        plain=names[14:],
        chat_template=chat_templates.CHATML,
        tokenizer_class="Qwen2Tokenizer",
    )


def _llama_3(eos: str, chat: bool, named: dict[int, str]) -> Family:
    names = {
        0: "<|begin_of_text|>",
        1: "<|end_of_text|>",
        6: "<|start_header_id|>",
        7: "<|end_header_id|>",
        9: "<|eot_id|>",
    }
    names.update(named)
    reserved = iter(range(256))
    texts = [names.get(index) or f"<|reserved_special_token_{next(reserved)}|>" for index in range(256)]
    return Family(
        tokens=128_256,
        special={128_000 + index: text for index, text in enumerate(texts)},
        eos=eos,
        bos="<|begin_of_text|>",
        adds_bos=True,
        chat_template=chat_templates.LLAMA_3 if chat else "",
    )


_OF_3_1 = {4: "<|finetune_right_pad_id|>", 8: "<|eom_id|>", 10: "<|python_tag|>"}
#: Ids of its configuration, whose rows are those of Llama 3.2; how a chat ends is ChatML's.
_SMOLLM_3 = dataclasses.replace(
    _llama_3("<|end_of_text|>", False, {**_OF_3_1, 11: "<|im_start|>", 12: "<|im_end|>"}),
    bos="",
    adds_bos=False,
    pad="<|finetune_right_pad_id|>",
)
_LLAMA_2_FACTS = Family(
    tokenizer_class="LlamaTokenizer",
    sentencepiece="tokenizer.model",
    legacy=False,
    tokens=32_000,
    special={0: "<unk>", 1: "<s>", 2: "</s>"},
    eos="</s>",
    bos="<s>",
    unk="<unk>",
    adds_bos=True,
    max_length=4096,
)


def _smollm(eos: str, bos: str, chat_template: str) -> Family:
    names = (
        *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<reponame>", "<file_sep>", "<filename>"),
        *("<gh_stars>", "<issue_start>", "<issue_comment>", "<issue_closed>", "<jupyter_start>", "<jupyter_text>"),
        *("<jupyter_code>", "<jupyter_output>", "<jupyter_script>", "<empty_output>"),
    )
    return Family(
        tokens=49_152,
        special=dict(enumerate(names)),
        eos=eos,
        bos=bos,
        pad=eos if chat_template else "",
        unk="<|endoftext|>",
        chat_template=chat_template,
        max_length=8192,
    )


def _bert(words: int) -> Family:
    return Family(
        tokens=words,
        special={0: "[PAD]", 100: "[UNK]", 101: "[CLS]", 102: "[SEP]", 103: "[MASK]"},
        eos="",
        pad="[PAD]",
        unk="[UNK]",
        cls="[CLS]",
        sep="[SEP]",
        mask="[MASK]",
        template="[CLS] A [SEP]",
        pair_template="[CLS] A [SEP] B [SEP]",
        numbers_texts=True,
        max_length=512,
    )


_FIRST_OF_ROBERTA = {0: "<s>", 1: "<pad>", 2: "</s>", 3: "<unk>"}
_ROBERTA = Family(
    tokens=50_265,
    proper=50_265,
    special={**_FIRST_OF_ROBERTA, 50_264: "<mask>"},
    eos="</s>",
    bos="<s>",
    pad="<pad>",
    unk="<unk>",
    cls="<s>",
    sep="</s>",
    mask="<mask>",
    template="<s> A </s>",
    pair_template="<s> A </s> </s> B </s>",
    max_length=512,
)


#: 24 spaces to 2, which count beyond ``vocab_size``
_SPACES = tuple(" " * count for count in range(24, 1, -1))
_PYTHIA = Family(
    tokens=50_277,
    special={0: "<|endoftext|>", 1: "<|padding|>", **dict(enumerate(_SPACES, 50_254))},
    plain=_SPACES,
    eos="<|endoftext|>",
    bos="<|endoftext|>",
    unk="<|endoftext|>",
    max_length=1_000_000_000,
    tokenizer_class="GPTNeoXTokenizer",
)


def _t5(tokens: int, more: dict[int, str]) -> Family:
    return Family(
        tokens=tokens,
        special={0: "<pad>", 1: "</s>", 2: "<unk>", **more},
        eos="</s>",
        pad="<pad>",
        unk="<unk>",
        template="A </s>",
        pair_template="A </s> B </s>",
        tokenizer_class="T5Tokenizer",
        sentencepiece="spiece.model",
        unigram=True,
        max_length=512,
    )


_FALCON_NAMES = (
    *("TITLE", "ABSTRACT", "INTRODUCTION", "SUMMARY", "COMMENT", "ANSWER", "QUESTION", "DOMAIN", "PREFIX", "SUFFIX"),
    "MIDDLE",
)
_PHI_3_NAMES = (
    *("endoftext", "assistant", "placeholder1", "placeholder2", "placeholder3", "placeholder4", "system", "end"),
    *("placeholder5", "placeholder6", "user"),
)


def _gemma(tokens: int, turn: int, *, chat: bool) -> Family:
    """Return a family of Gemma's. ``turn`` is the id that starts a turn; the next id ends one."""
    return Family(
        tokens=tokens,
        special={
            **dict(enumerate(("<pad>", "<eos>", "<bos>", "<unk>", "<mask>"))),
            turn: "<start_of_turn>",
            turn + 1: "<end_of_turn>",
        },
        eos="<eos>",
        bos="<bos>",
        pad="<pad>",
        unk="<unk>",
        adds_bos=True,
        chat_template=chat_templates.GEMMA if chat else "",
        max_length=1_000_000_000,
        tokenizer_class="GemmaTokenizer",
        sentencepiece="tokenizer.model",
        spaces_first=False,
    )


_DEEPSEEK = Family(
    tokens=100_015,
    special={100_000: "<\uff5cbegin\u2581of\u2581sentence\uff5c>", 100_001: "<\uff5cend\u2581of\u2581sentence\uff5c>"},
    eos="<\uff5cend\u2581of\u2581sentence\uff5c>",
    bos="<\uff5cbegin\u2581of\u2581sentence\uff5c>",
    pad="<\uff5cend\u2581of\u2581sentence\uff5c>",
    adds_bos=True,
    max_length=4096,
)

_DEEPSEEK_CODER = Family(
    tokens=32_022,
    special={
        32_013: "<\uff5cbegin\u2581of\u2581sentence\uff5c>",
        32_014: "<\uff5cend\u2581of\u2581sentence\uff5c>",
        32_015: "<\uff5cfim\u2581hole\uff5c>",
        32_016: "<\uff5cfim\u2581begin\uff5c>",
        32_017: "<\uff5cfim\u2581end\uff5c>",
        32_018: "<pad>",
        32_019: "<|User|>",
        32_020: "<|Assistant|>",
        32_021: "<|EOT|>",
    },
    eos="<\uff5cend\u2581of\u2581sentence\uff5c>",
    bos="<\uff5cbegin\u2581of\u2581sentence\uff5c>",
    pad="<\uff5cend\u2581of\u2581sentence\uff5c>",
    adds_bos=True,
    max_length=16_384,
)

#: `transformers.models.whisper.tokenization_whisper.LANGUAGES`, in its order.
_WHISPER_LANGUAGES = (
    *(
        "en",
        "zh",
        "de",
        "es",
        "ru",
        "ko",
        "fr",
        "ja",
        "pt",
        "tr",
        "pl",
        "ca",
        "nl",
        "ar",
        "sv",
        "it",
        "id",
        "hi",
        "fi",
        "vi",
    ),
    *(
        "he",
        "uk",
        "el",
        "ms",
        "cs",
        "ro",
        "da",
        "hu",
        "ta",
        "no",
        "th",
        "ur",
        "hr",
        "bg",
        "lt",
        "la",
        "mi",
        "ml",
        "cy",
        "sk",
    ),
    *(
        "te",
        "fa",
        "lv",
        "bn",
        "sr",
        "az",
        "sl",
        "kn",
        "et",
        "mk",
        "br",
        "eu",
        "is",
        "hy",
        "ne",
        "mn",
        "bs",
        "kk",
        "sq",
        "sw",
    ),
    *(
        "gl",
        "mr",
        "pa",
        "si",
        "km",
        "sn",
        "yo",
        "so",
        "af",
        "oc",
        "ka",
        "be",
        "tg",
        "sd",
        "gu",
        "am",
        "yi",
        "lo",
        "uz",
        "fo",
    ),
    *(
        "ht",
        "ps",
        "tk",
        "nn",
        "mt",
        "sa",
        "lb",
        "my",
        "bo",
        "tl",
        "mg",
        "as",
        "tt",
        "haw",
        "ln",
        "ha",
        "ba",
        "jw",
        "su",
    ),
)


def _whisper(languages: tuple[str, ...]) -> Family:
    names = [
        *("endoftext", "startoftranscript", *languages, "translate", "transcribe", "startoflm", "startofprev"),
        *("nospeech", "notimestamps", *(f"{tick / 50:.2f}" for tick in range(1501))),
    ]
    special = {50_257 + index: f"<|{name}|>" for index, name in enumerate(names)}
    return Family(
        tokens=50_257 + len(names),
        special=special,
        eos="<|endoftext|>",
        bos="<|endoftext|>",
        pad="<|endoftext|>",
        unk="<|endoftext|>",
        template="<|startoftranscript|> <|notimestamps|> A <|endoftext|>",
        pair_template="<|startoftranscript|> <|notimestamps|> A B <|endoftext|>",
        max_length=1024,
        tokenizer_class="WhisperTokenizer",
    )


_GEMMA_3_IMAGES = dataclasses.replace(
    _gemma(262_145, 105, chat=False),
    special={
        **_gemma(262_145, 105, chat=False).special,
        255_999: "<start_of_image>",
        256_000: "<end_of_image>",
        262_144: "<image_soft_token>",
    },
    named=(("boi_token", "<start_of_image>"), ("eoi_token", "<end_of_image>"), ("image_token", "<image_soft_token>")),
)
#: What PaliGemma finds where, and where its edge is, behind Gemma's words.
_PALIGEMMA = dataclasses.replace(
    _gemma(257_153, 106, chat=False),
    special={
        **_gemma(257_153, 106, chat=False).special,
        **{256_000 + place: f"<loc{place:04}>" for place in range(1024)},
        **{257_024 + part: f"<seg{part:03}>" for part in range(128)},
        257_152: "<image>",
    },
    named=(("image_token", "<image>"),),
)
#: Two tokens behind Mistral's, and its rows
_MISTRAL_CHATML = dataclasses.replace(
    _LLAMA_2_FACTS,
    legacy=True,
    tokens=32_002,
    special={**_LLAMA_2_FACTS.special, 32_000: "<|im_end|>", 32_001: "<|im_start|>"},
    eos="<|im_end|>",
    chat_template=chat_templates.CHATML,
)
_OPENCHAT = dataclasses.replace(
    _LLAMA_2_FACTS,
    legacy=True,
    tokens=32_002,
    special={**_LLAMA_2_FACTS.special, 32_000: "<|end_of_turn|>", 32_001: "<|pad_0|>"},
    eos="<|end_of_turn|>",
    chat_template=chat_templates.OPENCHAT,
    max_length=8192,
)


FAMILIES = {
    **more_families.FAMILIES,
    **translator_families.FAMILIES,
    "qwen-2": _qwen(_QWEN_NAMES[:3], "<|endoftext|>"),
    "qwen-2-chat": _qwen(_QWEN_NAMES[:3], "<|im_end|>"),
    "qwen-2.5": _qwen(_QWEN_NAMES, "<|endoftext|>"),
    "qwen-2.5-chat": _qwen(_QWEN_NAMES, "<|im_end|>"),
    "qwen-2-vl": dataclasses.replace(
        _qwen(_QWEN_NAMES[:14], "<|im_end|>"), chat_template=chat_templates.CHATML_WITH_IMAGES
    ),
    "qwen-2.5-vl": dataclasses.replace(
        _qwen(_QWEN_NAMES, "<|im_end|>"), chat_template=chat_templates.CHATML_WITH_IMAGES
    ),
    "qwen-3": _qwen(_QWEN_3_NAMES, "<|im_end|>"),
    "qwen-3-base": _qwen(_QWEN_3_NAMES, "<|endoftext|>"),
    "llama-3": _llama_3("<|end_of_text|>", False, {}),
    "llama-3-chat": _llama_3("<|eot_id|>", True, {}),
    "llama-3.1": _llama_3("<|end_of_text|>", False, _OF_3_1),
    "llama-3.1-chat": _llama_3("<|eot_id|>", True, _OF_3_1),
    "llama-1": dataclasses.replace(_LLAMA_2_FACTS, legacy=None, max_length=2048),
    "llama-2": _LLAMA_2_FACTS,
    "llama-2-chat": dataclasses.replace(_LLAMA_2_FACTS, chat_template=chat_templates.LLAMA_2),
    "code-llama": dataclasses.replace(_LLAMA_2_FACTS, tokens=32_016, max_length=1_000_000_000),
    "mistral": dataclasses.replace(_LLAMA_2_FACTS, legacy=True),
    "mistral-chat": dataclasses.replace(_LLAMA_2_FACTS, legacy=True, chat_template=chat_templates.LLAMA_2),
    "smollm-3-base": _SMOLLM_3,
    "smollm-3": dataclasses.replace(_SMOLLM_3, eos="<|im_end|>", chat_template=chat_templates.CHATML),
    "tulu-3": dataclasses.replace(
        _llama_3("<|end_of_text|>", False, _OF_3_1),
        tokens=128_257,
        special={**_llama_3("<|end_of_text|>", False, _OF_3_1).special, 128_256: "<pad>"},
        pad="<pad>",
        chat_template=chat_templates.TULU,
    ),
    "mistral-chatml": _MISTRAL_CHATML,
    "openchat": _OPENCHAT,
    "gpt2": Family(
        tokens=50_257,
        proper=50_257,
        special={50_256: "<|endoftext|>"},
        eos="<|endoftext|>",
        bos="<|endoftext|>",
        unk="<|endoftext|>",
        max_length=1024,
        tokenizer_class="GPT2Tokenizer",
    ),
    "opt": Family(
        tokens=50_265,
        special={0: "<s>", 1: "<pad>", 2: "</s>", 3: "<unk>"},
        eos="</s>",
        bos="</s>",
        pad="<pad>",
        unk="</s>",
        adds_bos=True,
        max_length=2048,
    ),
    "smollm": _smollm(eos="<|endoftext|>", bos="<|endoftext|>", chat_template=""),
    "smollm-chat": _smollm(eos="<|im_end|>", bos="<|im_start|>", chat_template=chat_templates.CHATML),
    "bert-cased": _bert(28_996),
    "bert-uncased": _bert(30_522),
    "distilbert-cased": dataclasses.replace(_bert(28_996), numbers_texts=False),
    "distilbert-uncased": dataclasses.replace(_bert(30_522), numbers_texts=False),
    "distilbert-multilingual": dataclasses.replace(_bert(119_547), numbers_texts=False),
    # four tokens before BERT's words, and one behind them
    "mpnet": dataclasses.replace(
        _ROBERTA,
        tokens=30_527,
        proper=30_527,
        special={0: "<s>", 1: "<pad>", 2: "</s>", 104: "[UNK]", 30_526: "<mask>"},
        unk="[UNK]",
    ),
    "roberta": _ROBERTA,
    "pythia": _PYTHIA,
    "dolly": dataclasses.replace(
        _PYTHIA,
        tokens=50_280,
        special={**_PYTHIA.special, 50_277: "### End", 50_278: "### Instruction:", 50_279: "### Response:\n"},
    ),
    "t5": _t5(32_100, {32_099 - index: f"<extra_id_{index}>" for index in range(100)}),
    "mt5": _t5(250_100, {}),
    "bart": dataclasses.replace(_ROBERTA, max_length=1024),
    "bart-without-mask": dataclasses.replace(
        _ROBERTA, tokens=50_264, special={**_FIRST_OF_ROBERTA}, mask="", max_length=1024
    ),
    "xlm-roberta": dataclasses.replace(
        _ROBERTA, tokens=250_002, proper=250_002, special={**_FIRST_OF_ROBERTA, 250_001: "<mask>"}
    ),
    "xlm-roberta-long": dataclasses.replace(
        _ROBERTA, tokens=250_002, proper=250_002, special={**_FIRST_OF_ROBERTA, 250_001: "<mask>"}, max_length=8192
    ),
    "bert-multilingual": _bert(119_547),
    "bert-chinese": _bert(21_128),
    "modernbert": dataclasses.replace(
        _bert(50_368),
        special={index: f"[{name}]" for index, name in enumerate(("UNK", "CLS", "SEP", "PAD", "MASK"), 50_280)},
        numbers_texts=False,
        max_length=8192,
    ),
    "albert": dataclasses.replace(
        _bert(30_000), special={0: "<pad>", 1: "<unk>", 2: "[CLS]", 3: "[SEP]", 4: "[MASK]"}, pad="<pad>", unk="<unk>"
    ),
    "deberta-v3": dataclasses.replace(
        _bert(128_001), special={0: "[PAD]", 1: "[CLS]", 2: "[SEP]", 3: "[UNK]", 128_000: "[MASK]"}
    ),
    "bloom": Family(
        tokens=250_680,
        special={0: "<unk>", 1: "<s>", 2: "</s>", 3: "<pad>"},
        bos="<s>",
        eos="</s>",
        pad="<pad>",
        unk="<unk>",
        max_length=1_000_000_000,
    ),
    "falcon": Family(
        tokens=65_024,
        special={index: f">>{name}<<" for index, name in enumerate(_FALCON_NAMES)} | {11: "<|endoftext|>"},
        eos="<|endoftext|>",
        max_length=2048,
    ),
    "codegen": Family(
        tokens=50_295,
        proper=50_257,
        special={50_256: "<|endoftext|>"},
        eos="<|endoftext|>",
        bos="<|endoftext|>",
        unk="<|endoftext|>",
        max_length=2048,
    ),
    "phi-4": Family(
        tokens=100_352,
        special={
            100_257: "<|endoftext|>",
            100_264: "<|im_start|>",
            100_265: "<|im_end|>",
            100_266: "<|im_sep|>",
            100_349: "<|dummy_85|>",
        },
        eos="<|im_end|>",
        bos="<|endoftext|>",
        pad="<|dummy_85|>",
        unk="<|endoftext|>",
        max_length=16_384,
        chat_template=chat_templates.PHI_4,
    ),
    "gpt-neo": Family(
        tokens=50_257,
        proper=50_257,
        special={50_256: "<|endoftext|>"},
        eos="<|endoftext|>",
        bos="<|endoftext|>",
        unk="<|endoftext|>",
        max_length=2048,
        tokenizer_class="GPT2Tokenizer",
    ),
    "phi-3": dataclasses.replace(
        _LLAMA_2_FACTS,
        tokens=32_011,
        special={
            **_LLAMA_2_FACTS.special,
            **{32_000 + index: f"<|{name}|>" for index, name in enumerate(_PHI_3_NAMES)},
        },
        eos="<|endoftext|>",
        pad="<|endoftext|>",
        adds_bos=False,
        chat_template=chat_templates.PHI_3,
    ),
    "gemma": _gemma(256_000, 106, chat=False),
    "gemma-chat": _gemma(256_000, 106, chat=True),
    "gemma-3": _gemma(262_144, 105, chat=False),
    "gemma-3-chat": _gemma(262_144, 105, chat=True),
    "gemma-3-images": _GEMMA_3_IMAGES,
    "gemma-3-images-chat": dataclasses.replace(_GEMMA_3_IMAGES, chat_template=chat_templates.GEMMA_3_WITH_IMAGES),
    "paligemma": _PALIGEMMA,
    "llava": dataclasses.replace(
        _LLAMA_2_FACTS,
        tokens=32_002,
        special={**_LLAMA_2_FACTS.special, 32_000: "<image>", 32_001: "<pad>"},
        pad="<pad>",
        max_length=1_000_000_000,
        named=(("image_token", "<image>"),),
        chat_template=chat_templates.LLAVA,
    ),
    "zephyr": dataclasses.replace(
        _LLAMA_2_FACTS, legacy=True, pad="</s>", max_length=2048, chat_template=chat_templates.ZEPHYR
    ),
    "mistral-3": dataclasses.replace(_LLAMA_2_FACTS, tokens=32_768),
    "mistral-3-chat": dataclasses.replace(_LLAMA_2_FACTS, tokens=32_768, chat_template=chat_templates.LLAMA_2),
    "yi": dataclasses.replace(
        _LLAMA_2_FACTS,
        tokens=64_000,
        special={0: "<unk>", 1: "<|startoftext|>", 2: "<|endoftext|>"},
        bos="<|startoftext|>",
        eos="<|endoftext|>",
        pad="<unk>",
        adds_bos=False,
    ),
    "deepseek": _DEEPSEEK,
    "deepseek-chat": dataclasses.replace(_DEEPSEEK, chat_template=chat_templates.DEEPSEEK_CHAT),
    "deepseek-coder": _DEEPSEEK_CODER,
    "deepseek-coder-chat": dataclasses.replace(
        _DEEPSEEK_CODER, eos="<|EOT|>", chat_template=chat_templates.DEEPSEEK_CODER_CHAT
    ),
    "deepseek-r1-qwen": Family(
        tokens=151_665,
        special={
            151_643: "<\uff5cend\u2581of\u2581sentence\uff5c>",
            151_644: "<\uff5cUser\uff5c>",
            151_645: "<\uff5cAssistant\uff5c>",
            151_646: "<\uff5cbegin\u2581of\u2581sentence\uff5c>",
            151_648: "<think>",
            151_649: "</think>",
        },
        eos="<\uff5cend\u2581of\u2581sentence\uff5c>",
        bos="<\uff5cbegin\u2581of\u2581sentence\uff5c>",
        pad="<\uff5cend\u2581of\u2581sentence\uff5c>",
        adds_bos=True,
        plain=("<think>", "</think>"),
        chat_template=chat_templates.DEEPSEEK_R1,
        max_length=16_384,
    ),
    "starcoder2": dataclasses.replace(
        _smollm(eos="<|endoftext|>", bos="<|endoftext|>", chat_template=""), max_length=16_384
    ),
    "clip": Family(
        tokens=49_408,
        proper=49_408,
        special={49_406: "<|startoftext|>", 49_407: "<|endoftext|>"},
        bos="<|startoftext|>",
        eos="<|endoftext|>",
        pad="<|endoftext|>",
        unk="<|endoftext|>",
        template="<|startoftext|> A <|endoftext|>",
        pair_template="<|startoftext|> A <|endoftext|> <|startoftext|> B <|endoftext|>",
        max_length=77,
    ),
    "whisper": _whisper(_WHISPER_LANGUAGES),
    "whisper-3": _whisper((*_WHISPER_LANGUAGES, "yue")),
}
