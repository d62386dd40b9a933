"""Known encoders in addition to those of `skeletons.more_models`: small BERTs, MPNet, DeBERTa-v2, and text
classifiers. Data, without torch.

Sources. Small BERTs: the table in github.com/google-research/bert (README.md). MPNet: the ``config.json`` copied in
github.com/nerdwang/-18- (all-mpnet-base-v2). DeBERTa-v2 XXL: a public notebook that prints its configuration; XL: that and
the layers of transformers' ``DebertaV2Config``, which names it. The others have the sizes of the models that they were
trained from by their cards, and the labels given there. The number of parameters is compared with that of keras-hub's
presets (tests/skeletons/test_encoders.py).
"""

from __future__ import annotations

from typing import Any

from skeletons.sizes import Table, encoder_sizes

_BERT = {
    "architectures": ["BertForMaskedLM"],
    "model_type": "bert",
    "vocab_size": 30_522,
    "hidden_act": "gelu",
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}

#: name -> (layers, width); heads are 64 wide
_SMALL_BERTS = {"tiny": (2, 128), "mini": (4, 256), "small": (4, 512), "medium": (8, 512)}


def _labels(*names: str) -> dict[str, Any]:
    return {
        "id2label": {str(index): name for index, name in enumerate(names)},
        "label2id": {name: index for index, name in enumerate(names)},
    }


def _berts() -> Table:
    table: Table = {}
    for name, (layers, width) in _SMALL_BERTS.items():
        config = {**_BERT, **encoder_sizes(width, 4 * width, layers, width // 64)}
        table[f"prajjwal1/bert-{name}"] = (config, "bert-uncased")
        table[f"google/bert_uncased_L-{layers}_H-{width}_A-{width // 64}"] = (config, "bert-uncased")
    ranker = {**_BERT, "architectures": ["BertForSequenceClassification"], **_labels("LABEL_0")}
    for layers in (6, 12):
        config = {**ranker, **encoder_sizes(384, 1536, layers, 12)}
        for name in (f"ms-marco-MiniLM-L{layers}-v2", f"ms-marco-MiniLM-L-{layers}-v2"):
            table[f"cross-encoder/{name}"] = (config, "bert-uncased")
    return table


def _distilberts() -> Table:
    distilled = {
        "architectures": ["DistilBertForMaskedLM"], "model_type": "distilbert", "activation": "gelu", "dim": 768,
        "max_position_embeddings": 512, "hidden_dim": 3072, "n_layers": 6, "n_heads": 12, "pad_token_id": 0,
    }  # fmt: skip
    several = ({**distilled, "vocab_size": 119_547}, "distilbert-multilingual")
    feeling = {**distilled, **_labels("NEGATIVE", "POSITIVE"), "vocab_size": 30_522}
    feeling["architectures"] = ["DistilBertForSequenceClassification"]
    table: Table = {}
    for prefix in ("", "distilbert/"):
        table[f"{prefix}distilbert-base-multilingual-cased"] = several
        table[f"{prefix}distilbert-base-uncased-finetuned-sst-2-english"] = (feeling, "distilbert-uncased")
    table["lvwerra/distilbert-imdb"] = (feeling, "distilbert-uncased")
    return table


def _others() -> Table:
    mpnet = {
        "architectures": ["MPNetForMaskedLM"], "model_type": "mpnet", "vocab_size": 30_527, "hidden_act": "gelu",
        "max_position_embeddings": 514, "layer_norm_eps": 1e-5, "relative_attention_num_buckets": 32, "bos_token_id": 0,
        "pad_token_id": 1, "eos_token_id": 2, **encoder_sizes(768, 3072, 12, 12),
    }  # fmt: skip
    table: Table = {"microsoft/mpnet-base": (mpnet, "mpnet")}
    for size, layers in {"xlarge": 24, "xxlarge": 48}.items():
        deberta = {
            "architectures": ["DebertaV2ForMaskedLM"], "model_type": "deberta-v2", "vocab_size": 128_100,
            "hidden_act": "gelu", "attention_head_size": 64, "max_position_embeddings": 512, "type_vocab_size": 0,
            "relative_attention": True, "max_relative_positions": -1, "position_buckets": 256, "share_att_key": True,
            "position_biased_input": False, "norm_rel_ebd": "layer_norm", "pos_att_type": ["p2c", "c2p"],
            "conv_kernel_size": 3, "conv_act": "gelu", "layer_norm_eps": 1e-7, "pad_token_id": 0,
            **encoder_sizes(1536, 6144, layers, 24),
        }  # fmt: skip
        table[f"microsoft/deberta-v2-{size}"] = (deberta, "deberta-v3")
    return table


MODELS: Table = {**_berts(), **_distilberts(), **_others()}
