"""Tokenizers of the known families: how many tokens, which special ones at which ids, which chat template. Data.

The vocabulary itself is synthetic (`harness.probe.skeleton.tokenizer`); sizes and ids are the published ones, from each
repository's ``tokenizer_config.json`` (``added_tokens_decoder``). The chat templates are our own, in the published format of
each family.
"""

from __future__ import annotations

import dataclasses

_CHATML = (
    "{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_LLAMA_3 = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
_LLAMA_2 = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}{{ message['content'] + eos_token }}"
    "{% else %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% endif %}"
    "{% endfor %}"
)
#: For a configuration that no family is known of.
PLAIN_CHAT = (
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)


@dataclasses.dataclass(frozen=True)
class Family:
    """A tokenizer's published facts."""

    tokens: int  #: special ones included; the model's embedding may have more rows
    special: dict[int, str]  #: id -> text
    eos: str
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
        chat_template=_CHATML,
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
        chat_template=_LLAMA_3 if chat else "",
    )


_OF_3_1 = {4: "<|finetune_right_pad_id|>", 8: "<|eom_id|>", 10: "<|python_tag|>"}
_LLAMA_2_FACTS = Family(
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


FAMILIES = {
    "qwen-2": _qwen(_QWEN_NAMES[:3], "<|endoftext|>"),
    "qwen-2-chat": _qwen(_QWEN_NAMES[:3], "<|im_end|>"),
    "qwen-2.5": _qwen(_QWEN_NAMES, "<|endoftext|>"),
    "qwen-2.5-chat": _qwen(_QWEN_NAMES, "<|im_end|>"),
    "qwen-3": _qwen(_QWEN_3_NAMES, "<|im_end|>"),
    "qwen-3-base": _qwen(_QWEN_3_NAMES, "<|endoftext|>"),
    "llama-3": _llama_3("<|end_of_text|>", False, {}),
    "llama-3-chat": _llama_3("<|eot_id|>", True, {}),
    "llama-3.1": _llama_3("<|end_of_text|>", False, _OF_3_1),
    "llama-3.1-chat": _llama_3("<|eot_id|>", True, _OF_3_1),
    "llama-2": _LLAMA_2_FACTS,
    "llama-2-chat": dataclasses.replace(_LLAMA_2_FACTS, chat_template=_LLAMA_2),
    "gpt2": Family(
        tokens=50_257,
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
    "smollm-chat": _smollm(eos="<|im_end|>", bos="<|im_start|>", chat_template=_CHATML),
    "bert-cased": _bert(28_996),
    "bert-uncased": _bert(30_522),
    "distilbert-cased": dataclasses.replace(_bert(28_996), numbers_texts=False),
    "distilbert-uncased": dataclasses.replace(_bert(30_522), numbers_texts=False),
    "roberta": Family(
        tokens=50_265,
        special={0: "<s>", 1: "<pad>", 2: "</s>", 3: "<unk>", 50_264: "<mask>"},
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
    ),
    "pythia": Family(
        tokens=50_277,
        special={0: "<|endoftext|>", 1: "<|padding|>"},
        eos="<|endoftext|>",
        bos="<|endoftext|>",
        unk="<|endoftext|>",
        max_length=1_000_000_000,
    ),
}
