"""Maps names on the hub to known models. Data, without torch."""

from __future__ import annotations

import fnmatch

from skeletons.models import MODELS

_BY_LOWER = {name.lower(): name for name in MODELS}

#: Organisations that publish models of others under their own names.
_MIRRORS = ("NousResearch", "unsloth")

#: Fine-tuned models, by patterns of their names -> a model of the same shapes and kind of tokenizer, by their cards.
_FINE_TUNED = {
    "alignment-handbook/zephyr-7b-*-full": "mistralai/Mistral-7B-Instruct-v0.1",
    "HuggingFaceH4/mistral-7b-sft-*": "mistralai/Mistral-7B-Instruct-v0.1",
    "HuggingFaceH4/zephyr-7b-alpha": "mistralai/Mistral-7B-Instruct-v0.1",
    "HuggingFaceH4/zephyr-7b-beta": "mistralai/Mistral-7B-Instruct-v0.1",
    "OpenRLHF/Llama-3-8b-*": "meta-llama/Meta-Llama-3-8B-Instruct",
    "NousResearch/Hermes-3-Llama-3.1-8B": "meta-llama/Llama-3.1-8B-Instruct",
    "nvidia/Llama-3.1-Nemotron-70B-Instruct-HF": "meta-llama/Llama-3.1-70B-Instruct",
    "meta-llama/Llama-Guard-3-8B": "meta-llama/Llama-3.1-8B-Instruct",
    "Skywork/Skywork-Reward-Llama-3.1-8B*": "meta-llama/Llama-3.1-8B-Instruct",
    "princeton-nlp/Llama-3-Base-8B-SFT*": "meta-llama/Meta-Llama-3-8B-Instruct",
    "princeton-nlp/Llama-3-Instruct-8B-*": "meta-llama/Meta-Llama-3-8B-Instruct",
    "princeton-nlp/Mistral-7B-Base-SFT-*": "mistralai/Mistral-7B-Instruct-v0.1",
    "berkeley-nest/Starling-LM-7B-alpha": "openchat/openchat_3.5",
    "mistral-community/Mistral-7B-v0.2": "mistralai/Mistral-7B-Instruct-v0.2",
    "mistralai/Mathstral-7B-v0.1": "mistralai/Mistral-7B-Instruct-v0.3",
    "deepseek-ai/DeepSeek-R1-Distill-Llama-8B": "meta-llama/Llama-3.1-8B-Instruct",
    "deepseek-ai/DeepSeek-R1-Distill-Llama-70B": "meta-llama/Llama-3.3-70B-Instruct",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": "Qwen/Qwen2.5-7B-Instruct",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B": "Qwen/Qwen2.5-14B-Instruct",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B": "Qwen/Qwen2.5-32B-Instruct",
    "agentica-org/DeepScaleR-1.5B-Preview": "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",
    "Open-Reasoner-Zero/Open-Reasoner-Zero-0.5B": "Qwen/Qwen2.5-0.5B",
    "Open-Reasoner-Zero/Open-Reasoner-Zero-1.5B": "Qwen/Qwen2.5-1.5B",
    "Open-Reasoner-Zero/Open-Reasoner-Zero-7B": "Qwen/Qwen2.5-7B",
    "Open-Reasoner-Zero/Open-Reasoner-Zero-32B": "Qwen/Qwen2.5-32B",
    "simplescaling/s1*-32B": "Qwen/Qwen2.5-32B-Instruct",
    "open-thoughts/OpenThinker-7B": "Qwen/Qwen2.5-7B-Instruct",
    # DeepSeek Coder 1.5 goes on from DeepSeek LLM, and DeepSeekMath from that
    "deepseek-ai/deepseek-coder-7b-base-v1.5": "deepseek-ai/deepseek-llm-7b-base",
    "deepseek-ai/deepseek-coder-7b-instruct-v1.5": "deepseek-ai/deepseek-llm-7b-chat",
    "deepseek-ai/deepseek-math-7b-base": "deepseek-ai/deepseek-llm-7b-base",
    "deepseek-ai/deepseek-math-7b-instruct": "deepseek-ai/deepseek-llm-7b-chat",
    "deepseek-ai/deepseek-math-7b-rl": "deepseek-ai/deepseek-llm-7b-chat",
    "AI-MO/NuminaMath-7B-*": "deepseek-ai/deepseek-llm-7b-chat",
    "EleutherAI/llemma_7b": "codellama/CodeLlama-7b-hf",
    "google/gemma-1.1-2b-it": "google/gemma-2b-it",
    "google/gemma-1.1-7b-it": "google/gemma-7b-it",
    "microsoft/phi-1": "microsoft/phi-1_5",
    "microsoft/Phi-4-reasoning*": "microsoft/phi-4",
    "microsoft/Phi-4-mini-reasoning": "microsoft/Phi-4-mini-instruct",
    "lvwerra/gpt2-imdb": "gpt2",
    "edbeeching/gpt-neo-125M-imdb*": "EleutherAI/gpt-neo-125m",
    "bigscience/T0_3B": "google/t5-v1_1-xl",
    "bigscience/mt0-small": "google/mt5-small",
    "bigscience/mt0-base": "google/mt5-base",
    "bigscience/mt0-large": "google/mt5-large",
    "bigscience/mt0-xl": "google/mt5-xl",
    "bigscience/mt0-xxl": "google/mt5-xxl",
    "microsoft/codebert-base": "FacebookAI/roberta-base",
    "microsoft/graphcodebert-base": "FacebookAI/roberta-base",
    "cardiffnlp/twitter-roberta-base*": "FacebookAI/roberta-base",
    "deepset/roberta-base-squad2": "FacebookAI/roberta-base",
    "dmis-lab/biobert-v1.1": "google-bert/bert-base-cased",
    "dmis-lab/biobert-base-cased-v1.*": "google-bert/bert-base-cased",
    "emilyalsentzer/Bio_ClinicalBERT": "google-bert/bert-base-cased",
    "dslim/bert-base-NER": "google-bert/bert-base-cased",
    "microsoft/BiomedNLP-*BERT-base-uncased-abstract*": "google-bert/bert-base-uncased",
    "nlpaueb/legal-bert-base-uncased": "google-bert/bert-base-uncased",
    "textattack/bert-base-uncased-*": "google-bert/bert-base-uncased",
    "sentence-transformers/bert-base-nli-mean-tokens": "google-bert/bert-base-uncased",
    "distilbert-base-uncased-distilled-squad": "distilbert/distilbert-base-uncased",
    "ProsusAI/finbert": "google-bert/bert-base-uncased",
    "sentence-transformers/multi-qa-mpnet-base-*": "microsoft/mpnet-base",
    "sentence-transformers/all-mpnet-base-v*": "microsoft/mpnet-base",
    "nreimers/MiniLM-L6-H384-uncased": "sentence-transformers/all-MiniLM-L6-v2",
    "microsoft/MiniLM-L12-H384-uncased": "sentence-transformers/all-MiniLM-L12-v2",
    "sentence-transformers/multi-qa-MiniLM-L6-cos-v1": "sentence-transformers/all-MiniLM-L6-v2",
    "google-bert/bert-large-uncased-whole-word-masking": "google-bert/bert-large-uncased",
    "trl-lib/Qwen2-0.5B-Reward*": "Qwen/Qwen2-0.5B-Instruct",
    "trl-lib/qwen1.5-0.5b-sft": "Qwen/Qwen1.5-0.5B-Chat",
    "trl-lib/qwen1.5-1.8b-sft": "Qwen/Qwen1.5-1.8B-Chat",
    "trl-lib/pythia-2.8b-deduped-tldr-*": "EleutherAI/pythia-2.8b-deduped",
    "trl-lib/pythia-6.9b-deduped-tldr-*": "EleutherAI/pythia-6.9b-deduped",
    "*/llama-7b-hf": "huggyllama/llama-7b",
    "*/llama-13b-hf": "huggyllama/llama-13b",
    "*/llama-30b-hf": "huggyllama/llama-30b",
    "*/llama-65b-hf": "huggyllama/llama-65b",
    "*/decapoda-research-llama-7b-hf": "huggyllama/llama-7b",
    "lmsys/vicuna-7b-v1.3": "huggyllama/llama-7b",
    "lmsys/vicuna-13b-v1.3": "huggyllama/llama-13b",
    "lmsys/vicuna-33b-v1.3": "huggyllama/llama-30b",
    "Qwen/QwQ-32B*": "Qwen/Qwen2.5-32B-Instruct",
    "open-r1/OpenR1-Distill-7B": "open-r1/Qwen2.5-Math-7B-RoPE-300k",
    "01-ai/Yi-6B-Chat": "01-ai/Yi-6B",
    "01-ai/Yi-34B-Chat": "01-ai/Yi-34B",
    "01-ai/Yi-1.5-6B": "01-ai/Yi-6B",
    "01-ai/Yi-1.5-6B-Chat": "01-ai/Yi-6B",
    "01-ai/Yi-1.5-34B": "01-ai/Yi-34B",
    "01-ai/Yi-1.5-34B-Chat": "01-ai/Yi-34B",
    "lmsys/vicuna-7b-v1.5": "meta-llama/Llama-2-7b-chat-hf",
    "lmsys/vicuna-13b-v1.5": "meta-llama/Llama-2-13b-chat-hf",
    "trl-lib/pythia-1b-deduped-*": "EleutherAI/pythia-1b-deduped",
    "cleanrl/EleutherAI_pythia-1b-deduped__*": "EleutherAI/pythia-1b-deduped",
}


def known(name: str) -> str | None:
    """Return the model of the table that a name means: itself, or the one that it mirrors or was fine-tuned from; None if
    there is none. Case does not matter, as on the hub."""
    given = name.lower()
    if given in _BY_LOWER:
        return _BY_LOWER[given]
    organisation, _, short = given.partition("/")
    if organisation in map(str.lower, _MIRRORS):
        for lower, full in _BY_LOWER.items():
            if lower.rpartition("/")[2] == short:
                return full
    return next((base for pattern, base in _FINE_TUNED.items() if fnmatch.fnmatchcase(given, pattern.lower())), None)
