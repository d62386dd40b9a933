"""Common data sets: name on the hub -> columns and splits. Data, without torch.

Columns are those on each data set's card on huggingface.co, as far as trainers read them. Each is filled by a maker of
`substitutes.synthetic_rows`; ``prompt:messages`` is the column ``prompt`` filled as messages.
"""

from __future__ import annotations

import dataclasses
import fnmatch

from dsregress.probe.programs.substitutes import synthetic_rows

TRAIN = ("train",)
TRAIN_TEST = ("train", "test")
TRAIN_VALIDATION = ("train", "validation")
TRAIN_DEV_TEST = ("train", "dev", "test")
ALL_THREE = ("train", "validation", "test")


@dataclasses.dataclass(frozen=True)
class DatasetSchema:
    """Columns and splits of a data set."""

    columns: str  #: names separated by spaces, each with its maker if that has another name
    splits: tuple[str, ...] = TRAIN_TEST


_PREFERENCE = "prompt:question chosen:answer rejected:answer"
_MESSAGES_PREFERENCE = "prompt:user_messages chosen:assistant_messages rejected:assistant_messages"
_WHOLE_PREFERENCE = "chosen:dialogue rejected:dialogue score_chosen:score score_rejected:score"
_STEPS = "prompt:question completions:steps labels:step_labels"

#: Patterns of names, of which the first match counts; ``NAME/CONFIGURATION`` if columns differ between configurations.
TABLE: dict[str, DatasetSchema] = {
    # text
    "*wikitext": DatasetSchema("text:document", ALL_THREE),
    "roneneldan/TinyStories": DatasetSchema("text:document", TRAIN_VALIDATION),
    "allenai/c4": DatasetSchema("text:document url:title timestamp:title", TRAIN_VALIDATION),
    "HuggingFaceFW/fineweb*": DatasetSchema("text:document id url:title language:title", TRAIN),
    "*openwebtext": DatasetSchema("text:document", TRAIN),
    "togethercomputer/RedPajama-Data-1T-Sample": DatasetSchema("text:document meta:title", TRAIN),
    "cerebras/SlimPajama-627B": DatasetSchema("text:document meta:title", ALL_THREE),
    "*bookcorpus": DatasetSchema("text:document", TRAIN),
    "timdettmers/openassistant-guanaco": DatasetSchema("text:turns"),
    "mlabonne/guanaco-llama2-1k": DatasetSchema("text:turns", TRAIN),
    "*wikipedia": DatasetSchema("id url:title title text:document", TRAIN),
    "EleutherAI/*pile*": DatasetSchema("text:document meta:title", ALL_THREE),
    "Abirate/english_quotes": DatasetSchema("quote:short_question author:title tags:words", TRAIN),
    # classes
    "*imdb": DatasetSchema("text:document label:flag"),
    "*ag_news": DatasetSchema("text:answer label:class_of_4"),
    "*rotten_tomatoes": DatasetSchema("text:question label:flag", ALL_THREE),
    "*yelp_review_full": DatasetSchema("text:document label:class_of_5"),
    "*glue/cola": DatasetSchema("sentence:question label:flag idx:row", ALL_THREE),
    "*glue/sst2": DatasetSchema("sentence:question label:flag idx:row", ALL_THREE),
    "*glue/qqp": DatasetSchema("question1:question question2:question label:flag idx:row", ALL_THREE),
    "*glue/qnli": DatasetSchema("question sentence:question label:flag idx:row", ALL_THREE),
    "*glue/mnli": DatasetSchema(
        "premise:question hypothesis:question label:class_of_3 idx:row",
        ("train", "validation_matched", "validation_mismatched", "test_matched", "test_mismatched"),
    ),
    "*glue/stsb": DatasetSchema("sentence1:question sentence2:question label:score idx:row", ALL_THREE),
    "*glue/*": DatasetSchema("sentence1:question sentence2:question label:flag idx:row", ALL_THREE),
    # TRL's own
    "trl-lib/Capybara": DatasetSchema("source:title messages num_turns:row"),
    "trl-lib/tldr": DatasetSchema("prompt:document completion:question", ALL_THREE),
    "trl-lib/tldr-preference": DatasetSchema("prompt:document chosen:question rejected:question", TRAIN_VALIDATION),
    "trl-lib/ultrafeedback_binarized": DatasetSchema(_WHOLE_PREFERENCE),
    "trl-lib/ultrafeedback-prompt": DatasetSchema("prompt:user_messages"),
    "trl-lib/kto-mix-14k": DatasetSchema("prompt:user_messages completion:assistant_messages label:truth"),
    "trl-lib/hh-rlhf-helpful-base": DatasetSchema(_MESSAGES_PREFERENCE),
    "trl-lib/lm-human-preferences-*": DatasetSchema(_PREFERENCE),
    "trl-lib/DeepMath-103K": DatasetSchema("prompt:user_messages solution:number"),
    "trl-lib/OpenMathReasoning": DatasetSchema("prompt:user_messages solution:number", TRAIN),
    "trl-lib/math_shepherd": DatasetSchema(_STEPS),
    "trl-lib/prm800k": DatasetSchema(_STEPS),
    "trl-internal-testing/zen/standard_language_modeling": DatasetSchema("text:question"),
    "trl-internal-testing/zen/standard_prompt_only": DatasetSchema("prompt:question"),
    "trl-internal-testing/zen/standard_prompt_completion": DatasetSchema("prompt:question completion:answer"),
    "trl-internal-testing/zen/standard_preference": DatasetSchema(_PREFERENCE),
    "trl-internal-testing/zen/standard_implicit_prompt_preference": DatasetSchema("chosen:turns rejected:turns"),
    "trl-internal-testing/zen/standard_unpaired_preference": DatasetSchema(
        "prompt:question completion:answer label:truth"
    ),
    "trl-internal-testing/zen/standard_stepwise_supervision": DatasetSchema(_STEPS),
    "trl-internal-testing/zen/conversational_language_modeling": DatasetSchema("messages"),
    "trl-internal-testing/zen/conversational_prompt_only": DatasetSchema("prompt:user_messages"),
    "trl-internal-testing/zen/conversational_prompt_completion": DatasetSchema(
        "prompt:user_messages completion:assistant_messages"
    ),
    "trl-internal-testing/zen/conversational_preference": DatasetSchema(_MESSAGES_PREFERENCE),
    "trl-internal-testing/zen/conversational_implicit_prompt_preference": DatasetSchema(
        "chosen:dialogue rejected:dialogue"
    ),
    "trl-internal-testing/zen/conversational_unpaired_preference": DatasetSchema(
        "prompt:user_messages completion:assistant_messages label:truth"
    ),
    # instructions
    "tatsu-lab/alpaca": DatasetSchema("instruction:question input:question output:answer text:turns", TRAIN),
    "HuggingFaceH4/CodeAlpaca_20K": DatasetSchema("prompt:question completion:answer"),
    "*alpaca*": DatasetSchema("instruction:question input:question output:answer", TRAIN),
    "garage-bAInd/Open-Platypus": DatasetSchema("input:question output:answer instruction:question", TRAIN),
    "WizardLM*/WizardLM_evol_instruct_70k": DatasetSchema("instruction:question output:answer", TRAIN),
    "HuggingFaceH4/oasst1_en": DatasetSchema("messages"),
    "HuggingFaceTB/smoltalk": DatasetSchema("messages source:title"),
    "Open-Orca/SlimOrca*": DatasetSchema("conversations", TRAIN),
    "b-mc2/sql-create-context": DatasetSchema("answer question:short_question context:question", TRAIN),
    "databricks/databricks-dolly-15k": DatasetSchema(
        "instruction:question context:document response:answer category:title", TRAIN
    ),
    "HuggingFaceH4/ultrachat_200k": DatasetSchema(
        "prompt:question prompt_id:id messages", ("train_sft", "test_sft", "train_gen", "test_gen")
    ),
    "HuggingFaceH4/no_robots": DatasetSchema("prompt:question prompt_id:id messages category:title"),
    "Open-Orca/OpenOrca": DatasetSchema("id system_prompt:question question response:answer", TRAIN),
    "*sharegpt*": DatasetSchema("conversations", TRAIN),
    "teknium/OpenHermes-2.5": DatasetSchema("conversations source:title", TRAIN),
    "*/WizardLM_evol_instruct_V2_196k": DatasetSchema("idx:id conversations", TRAIN),
    "allenai/tulu-*-sft-mixture": DatasetSchema("id messages", TRAIN),
    "ArmelR/stack-exchange-instruction": DatasetSchema("qid:row question response:answer"),
    # preferences
    "HuggingFaceH4/ultrafeedback_binarized": DatasetSchema(
        f"prompt:question prompt_id:id {_WHOLE_PREFERENCE} messages",
        ("train_prefs", "test_prefs", "train_sft", "test_sft", "train_gen", "test_gen"),
    ),
    "princeton-nlp/*-ultrafeedback*": DatasetSchema("prompt_id:id prompt:question chosen:dialogue rejected:dialogue"),
    "Skywork/Skywork-Reward-Preference-80K-*": DatasetSchema("chosen:dialogue rejected:dialogue source:title", TRAIN),
    "hendrydong/preference_700K": DatasetSchema(
        "chosen:dialogue chosen_score:score rejected:dialogue rejected_score:score", TRAIN
    ),
    "Anthropic/hh-rlhf": DatasetSchema("chosen:human_assistant rejected:human_assistant"),
    "Dahoas/rm-static": DatasetSchema("prompt:human_assistant response:answer chosen:answer rejected:answer"),
    "Dahoas/full-hh-rlhf": DatasetSchema("prompt:human_assistant response:answer chosen:answer rejected:answer"),
    "Dahoas/synthetic-instruct-gptj-pairwise": DatasetSchema("prompt:question chosen:answer rejected:answer", TRAIN),
    "OpenRLHF/preference_*": DatasetSchema(
        "chosen:dialogue rejected:dialogue chosen_score:score rejected_score:score", TRAIN
    ),
    "OpenRLHF/prompt-collection-*": DatasetSchema(
        "dataset:title context:question context_messages:user_messages id", TRAIN
    ),
    "lvwerra/stack-exchange-paired": DatasetSchema(
        "qid:row question date:title metadata:title response_j:answer response_k:answer", TRAIN_TEST
    ),
    "mlabonne/orpo-dpo-mix-40k": DatasetSchema("source:title chosen:dialogue rejected:dialogue prompt:question", TRAIN),
    "argilla/dpo-mix-7k": DatasetSchema("chosen:dialogue rejected:dialogue dataset:title"),
    "Intel/orca_dpo_pairs": DatasetSchema("system:question question chosen:answer rejected:answer", TRAIN),
    # mathematics
    "meta-math/MetaMathQA": DatasetSchema(
        "query:question response:worked_answer type:title original_question:question", TRAIN
    ),
    "*gsm8k": DatasetSchema("question answer:worked_answer"),
    "AI-MO/NuminaMath-*": DatasetSchema("problem:question solution:worked_answer messages"),
    "open-r1/OpenR1-Math-220k": DatasetSchema("problem:question solution:worked_answer answer:number messages", TRAIN),
    "*MATH-lighteval": DatasetSchema("problem:question solution:worked_answer level:title type:title"),
    # questions, summaries, translation
    "*squad": DatasetSchema("id title context:document question:short_question answers:span", TRAIN_VALIDATION),
    "*squad_v2": DatasetSchema("id title context:document question:short_question answers:span", TRAIN_VALIDATION),
    "*cnn_dailymail": DatasetSchema("article:document highlights:answer id", ALL_THREE),
    "*xsum": DatasetSchema("document summary:question id", ALL_THREE),
    "*dialogsum": DatasetSchema("id dialogue:document summary:question topic:title", ALL_THREE),
    "*samsum": DatasetSchema("id dialogue:document summary:question", ALL_THREE),
    "*multi_news": DatasetSchema("document summary:answer", ALL_THREE),
    "*billsum": DatasetSchema("text:document summary:answer title:question"),
    **{
        f"*{name}/*{other}*": DatasetSchema(columns.format(f"translation:en_{other}"), splits)
        for name, columns, splits in (
            ("wmt1?", "{}", ALL_THREE),
            ("opus_books", "id {}", TRAIN),
            ("opus100", "{}", ALL_THREE),
            ("opus-100", "{}", ALL_THREE),
        )
        for other in synthetic_rows.LANGUAGES
    },
    # pairs of sentences
    "sentence-transformers/all-nli/pair": DatasetSchema("anchor:question positive:question", TRAIN_DEV_TEST),
    "sentence-transformers/all-nli/pair-class": DatasetSchema(
        "premise:question hypothesis:question label:class_of_3", TRAIN_DEV_TEST
    ),
    "sentence-transformers/all-nli/pair-score": DatasetSchema(
        "sentence1:question sentence2:question score:fraction", TRAIN_DEV_TEST
    ),
    "sentence-transformers/all-nli/triplet": DatasetSchema(
        "anchor:question positive:question negative:question", TRAIN_DEV_TEST
    ),
    "sentence-transformers/stsb": DatasetSchema("sentence1:question sentence2:question score:fraction", ALL_THREE),
    "sentence-transformers/natural-questions": DatasetSchema("query:short_question answer:document", TRAIN),
    "sentence-transformers/gooaq": DatasetSchema("question:short_question answer:question", TRAIN),
    "sentence-transformers/quora-duplicates/pair-class": DatasetSchema(
        "sentence1:question sentence2:question label:flag", TRAIN
    ),
    # passages to find
    "Tevatron/msmarco-passage*": DatasetSchema(
        "query_id:id query:short_question positive_passages:passage negative_passages:passages", TRAIN
    ),
    # words and choices
    "*conll2003": DatasetSchema("id tokens:words pos_tags:many_tags chunk_tags:tags ner_tags:tags", ALL_THREE),
    "*wikiann": DatasetSchema("tokens:words ner_tags:tags langs:words spans:words", ALL_THREE),
    "*swag": DatasetSchema(
        "sent1:question sent2:title startphrase:question ending0:question ending1:question ending2:question "
        "ending3:question label:class_of_4",
        ALL_THREE,
    ),
    "*xnli": DatasetSchema("premise:question hypothesis:question label:class_of_3", ALL_THREE),
    "*tweet_eval": DatasetSchema("text:question label:class_of_3", ALL_THREE),
    "*emotion": DatasetSchema("text:question label:class_of_5", ALL_THREE),
    # images
    "*cifar10": DatasetSchema("img:small_image label:class_of_10"),
    "*cifar100": DatasetSchema("img:small_image fine_label:class_of_100 coarse_label:class_of_20"),
    "*mnist": DatasetSchema("image:small_image label:class_of_10"),
    "*fashion_mnist": DatasetSchema("image:small_image label:class_of_10"),
    "*food101": DatasetSchema("image label:class_of_101", TRAIN_VALIDATION),
    "*imagenet-1k": DatasetSchema("image label:class_of_1000", ALL_THREE),
    "*beans": DatasetSchema("image_file_path:title image labels:class_of_3", ALL_THREE),
    "*cats_vs_dogs": DatasetSchema("image labels:flag", TRAIN),
    "*eurosat": DatasetSchema("image label:class_of_10", TRAIN),
    "*-blip-captions": DatasetSchema("image text:question", TRAIN),
    # sounds
    "*librispeech_asr*": DatasetSchema(
        "file:title audio text:question speaker_id:row chapter_id:row id",
        (
            "train.clean.100",
            "train.clean.360",
            "train.other.500",
            "train",
            "validation",
            "test",
            "train.100",
            "validation.clean",
            "validation.other",
            "test.clean",
            "test.other",
        ),
    ),
    "*common_voice*": DatasetSchema("client_id:id path:title audio sentence:question", ALL_THREE),
    "*minds14*": DatasetSchema(
        "path:title audio transcription:question english_transcription:question intent_class:class_of_14"
    ),
    "superb/ks": DatasetSchema("file:title audio label:class_of_10", ALL_THREE),
}

#: For a data set that is not in the table: one of each column that a trainer may look for.
ANY = DatasetSchema(
    "text:document prompt:question completion:answer messages chosen:answer rejected:answer "
    "instruction:question input:question output:answer question answer label:flag"
)


def find_schema(name: str, configuration: str | None = None) -> DatasetSchema:
    """Return the schema of a data set, `ANY` if it is unknown. Names are case-insensitive."""
    given = name.lower()
    for pattern, schema in TABLE.items():
        for full in (f"{given}/{(configuration or '').lower()}", given):
            if fnmatch.fnmatchcase(full, pattern.lower()):
                return schema
    return ANY
