"""Common data sets: name on the hub -> columns and splits. Data, without torch.

Columns are those of each data set's card on huggingface.co, as far as trainers read them. Each is filled by a maker of
`harness.probe.programs.synthetic`; ``prompt:messages`` is the column ``prompt`` filled as messages.
"""

from __future__ import annotations

import dataclasses
import fnmatch

TRAIN = ("train",)
TRAIN_TEST = ("train", "test")
TRAIN_VALIDATION = ("train", "validation")
ALL_THREE = ("train", "validation", "test")


@dataclasses.dataclass(frozen=True)
class Known:
    columns: str  #: names with a space between, each with its maker where that has another name
    splits: tuple[str, ...] = TRAIN_TEST


_PREFERENCE = "prompt:question chosen:answer rejected:answer"
_MESSAGES_PREFERENCE = "prompt:user_messages chosen:assistant_messages rejected:assistant_messages"
_WHOLE_PREFERENCE = "chosen:dialogue rejected:dialogue score_chosen:score score_rejected:score"
_STEPS = "prompt:question completions:steps labels:step_labels"

#: What a name may match, the first that fits; ``NAME/CONFIGURATION`` where columns differ between configurations.
TABLE: dict[str, Known] = {
    # text
    "*wikitext": Known("text:document", ALL_THREE),
    "roneneldan/TinyStories": Known("text:document", TRAIN_VALIDATION),
    "allenai/c4": Known("text:document url:title timestamp:title", TRAIN_VALIDATION),
    "HuggingFaceFW/fineweb*": Known("text:document id url:title language:title", TRAIN),
    "*openwebtext": Known("text:document", TRAIN),
    "*bookcorpus": Known("text:document", TRAIN),
    "timdettmers/openassistant-guanaco": Known("text:turns"),
    "mlabonne/guanaco-llama2-1k": Known("text:turns", TRAIN),
    # classes
    "*imdb": Known("text:document label:flag"),
    "*ag_news": Known("text:answer label:class_of_4"),
    "*rotten_tomatoes": Known("text:question label:flag", ALL_THREE),
    "*yelp_review_full": Known("text:document label:class_of_5"),
    "*glue/cola": Known("sentence:question label:flag idx:row", ALL_THREE),
    "*glue/sst2": Known("sentence:question label:flag idx:row", ALL_THREE),
    "*glue/qqp": Known("question1:question question2:question label:flag idx:row", ALL_THREE),
    "*glue/qnli": Known("question sentence:question label:flag idx:row", ALL_THREE),
    "*glue/mnli": Known(
        "premise:question hypothesis:question label:class_of_3 idx:row",
        ("train", "validation_matched", "validation_mismatched", "test_matched", "test_mismatched"),
    ),
    "*glue/stsb": Known("sentence1:question sentence2:question label:score idx:row", ALL_THREE),
    "*glue/*": Known("sentence1:question sentence2:question label:flag idx:row", ALL_THREE),
    # TRL's own
    "trl-lib/Capybara": Known("source:title messages num_turns:row"),
    "trl-lib/tldr": Known("prompt:document completion:question", ALL_THREE),
    "trl-lib/tldr-preference": Known("prompt:document chosen:question rejected:question", TRAIN_VALIDATION),
    "trl-lib/ultrafeedback_binarized": Known(_WHOLE_PREFERENCE),
    "trl-lib/ultrafeedback-prompt": Known("prompt:user_messages"),
    "trl-lib/kto-mix-14k": Known("prompt:user_messages completion:assistant_messages label:truth"),
    "trl-lib/hh-rlhf-helpful-base": Known(_MESSAGES_PREFERENCE),
    "trl-lib/lm-human-preferences-*": Known(_PREFERENCE),
    "trl-lib/DeepMath-103K": Known("prompt:user_messages solution:number"),
    "trl-lib/OpenMathReasoning": Known("prompt:user_messages solution:number", TRAIN),
    "trl-lib/math_shepherd": Known(_STEPS),
    "trl-lib/prm800k": Known(_STEPS),
    "trl-internal-testing/zen/standard_language_modeling": Known("text:question"),
    "trl-internal-testing/zen/standard_prompt_only": Known("prompt:question"),
    "trl-internal-testing/zen/standard_prompt_completion": Known("prompt:question completion:answer"),
    "trl-internal-testing/zen/standard_preference": Known(_PREFERENCE),
    "trl-internal-testing/zen/standard_implicit_prompt_preference": Known("chosen:turns rejected:turns"),
    "trl-internal-testing/zen/standard_unpaired_preference": Known("prompt:question completion:answer label:truth"),
    "trl-internal-testing/zen/standard_stepwise_supervision": Known(_STEPS),
    "trl-internal-testing/zen/conversational_language_modeling": Known("messages"),
    "trl-internal-testing/zen/conversational_prompt_only": Known("prompt:user_messages"),
    "trl-internal-testing/zen/conversational_prompt_completion": Known(
        "prompt:user_messages completion:assistant_messages"
    ),
    "trl-internal-testing/zen/conversational_preference": Known(_MESSAGES_PREFERENCE),
    "trl-internal-testing/zen/conversational_implicit_prompt_preference": Known("chosen:dialogue rejected:dialogue"),
    "trl-internal-testing/zen/conversational_unpaired_preference": Known(
        "prompt:user_messages completion:assistant_messages label:truth"
    ),
    # instructions
    "tatsu-lab/alpaca": Known("instruction:question input:question output:answer text:turns", TRAIN),
    "*alpaca*": Known("instruction:question input:question output:answer", TRAIN),
    "databricks/databricks-dolly-15k": Known(
        "instruction:question context:document response:answer category:title", TRAIN
    ),
    "HuggingFaceH4/ultrachat_200k": Known(
        "prompt:question prompt_id:id messages", ("train_sft", "test_sft", "train_gen", "test_gen")
    ),
    "HuggingFaceH4/no_robots": Known("prompt:question prompt_id:id messages category:title"),
    "Open-Orca/OpenOrca": Known("id system_prompt:question question response:answer", TRAIN),
    "*sharegpt*": Known("conversations", TRAIN),
    # preferences
    "HuggingFaceH4/ultrafeedback_binarized": Known(
        f"prompt:question prompt_id:id {_WHOLE_PREFERENCE} messages",
        ("train_prefs", "test_prefs", "train_sft", "test_sft", "train_gen", "test_gen"),
    ),
    "Anthropic/hh-rlhf": Known("chosen:human_assistant rejected:human_assistant"),
    "Dahoas/rm-static": Known("prompt:human_assistant response:answer chosen:answer rejected:answer"),
    "Dahoas/full-hh-rlhf": Known("prompt:human_assistant response:answer chosen:answer rejected:answer"),
    "Dahoas/synthetic-instruct-gptj-pairwise": Known("prompt:question chosen:answer rejected:answer", TRAIN),
    "OpenRLHF/preference_*": Known("chosen:dialogue rejected:dialogue chosen_score:score rejected_score:score", TRAIN),
    "OpenRLHF/prompt-collection-*": Known("dataset:title context:question context_messages:user_messages id", TRAIN),
    "argilla/dpo-mix-7k": Known("chosen:dialogue rejected:dialogue dataset:title"),
    "Intel/orca_dpo_pairs": Known("system:question question chosen:answer rejected:answer", TRAIN),
    # mathematics
    "*gsm8k": Known("question answer:worked_answer"),
    "AI-MO/NuminaMath-*": Known("problem:question solution:worked_answer messages"),
    "open-r1/OpenR1-Math-220k": Known("problem:question solution:worked_answer answer:number messages", TRAIN),
    "*MATH-lighteval": Known("problem:question solution:worked_answer level:title type:title"),
    # questions, summaries, translation
    "*squad": Known("id title context:document question answers:span", TRAIN_VALIDATION),
    "*squad_v2": Known("id title context:document question answers:span", TRAIN_VALIDATION),
    "*cnn_dailymail": Known("article:document highlights:answer id", ALL_THREE),
    "*xsum": Known("document summary:question id", ALL_THREE),
    "*samsum": Known("id dialogue:document summary:question", ALL_THREE),
}

#: Of a data set that is not in the table: one of each that a trainer may look for.
ANY = Known(
    "text:document prompt:question completion:answer messages chosen:answer rejected:answer "
    "instruction:question input:question output:answer question answer label:flag"
)


def find(name: str, configuration: str | None = None) -> Known:
    """What is known of a data set, names read without regard to case."""
    given = name.lower()
    for pattern, known in TABLE.items():
        for full in (f"{given}/{(configuration or '').lower()}", given):
            if fnmatch.fnmatchcase(full, pattern.lower()):
                return known
    return ANY
