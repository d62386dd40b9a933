"""Tokenizers of models that translate: mBART, NLLB and Marian's. Data.

Sources: ids, languages and their order by transformers' ``MBartTokenizer``, ``MBart50Tokenizer`` and
``NllbTokenizer``, which put them behind the 250,000 or 256,000 pieces of SentencePiece; Marian's, whose last token
pads, by the configurations of `skeletons.translators`. mBART and NLLB have fast tokenizers
alone; Marian, which has none, gets SentencePiece models.
"""

from __future__ import annotations

from skeletons.family import Family

_MBART_LANGUAGES = (
    "ar_AR", "cs_CZ", "de_DE", "en_XX", "es_XX", "et_EE", "fi_FI", "fr_XX", "gu_IN", "hi_IN", "it_IT", "ja_XX",
    "kk_KZ", "ko_KR", "lt_LT", "lv_LV", "my_MM", "ne_NP", "nl_XX", "ro_RO", "ru_RU", "si_LK", "tr_TR", "vi_VN",
    "zh_CN",
)  # fmt: skip
_MORE_MBART_LANGUAGES = (
    "af_ZA", "az_AZ", "bn_IN", "fa_IR", "he_IL", "hr_HR", "id_ID", "ka_GE", "km_KH", "mk_MK", "ml_IN", "mn_MN",
    "mr_IN", "pl_PL", "ps_AF", "pt_XX", "sv_SE", "sw_KE", "ta_IN", "te_IN", "th_TH", "tl_XX", "uk_UA", "ur_PK",
    "xh_ZA", "gl_ES", "sl_SI",
)  # fmt: skip
_NLLB_LANGUAGES = (
    "ace_Arab", "ace_Latn", "acm_Arab", "acq_Arab", "aeb_Arab", "afr_Latn", "ajp_Arab", "aka_Latn", "amh_Ethi",
    "apc_Arab", "arb_Arab", "ars_Arab", "ary_Arab", "arz_Arab", "asm_Beng", "ast_Latn", "awa_Deva", "ayr_Latn",
    "azb_Arab", "azj_Latn", "bak_Cyrl", "bam_Latn", "ban_Latn", "bel_Cyrl", "bem_Latn", "ben_Beng", "bho_Deva",
    "bjn_Arab", "bjn_Latn", "bod_Tibt", "bos_Latn", "bug_Latn", "bul_Cyrl", "cat_Latn", "ceb_Latn", "ces_Latn",
    "cjk_Latn", "ckb_Arab", "crh_Latn", "cym_Latn", "dan_Latn", "deu_Latn", "dik_Latn", "dyu_Latn", "dzo_Tibt",
    "ell_Grek", "eng_Latn", "epo_Latn", "est_Latn", "eus_Latn", "ewe_Latn", "fao_Latn", "pes_Arab", "fij_Latn",
    "fin_Latn", "fon_Latn", "fra_Latn", "fur_Latn", "fuv_Latn", "gla_Latn", "gle_Latn", "glg_Latn", "grn_Latn",
    "guj_Gujr", "hat_Latn", "hau_Latn", "heb_Hebr", "hin_Deva", "hne_Deva", "hrv_Latn", "hun_Latn", "hye_Armn",
    "ibo_Latn", "ilo_Latn", "ind_Latn", "isl_Latn", "ita_Latn", "jav_Latn", "jpn_Jpan", "kab_Latn", "kac_Latn",
    "kam_Latn", "kan_Knda", "kas_Arab", "kas_Deva", "kat_Geor", "knc_Arab", "knc_Latn", "kaz_Cyrl", "kbp_Latn",
    "kea_Latn", "khm_Khmr", "kik_Latn", "kin_Latn", "kir_Cyrl", "kmb_Latn", "kon_Latn", "kor_Hang", "kmr_Latn",
    "lao_Laoo", "lvs_Latn", "lij_Latn", "lim_Latn", "lin_Latn", "lit_Latn", "lmo_Latn", "ltg_Latn", "ltz_Latn",
    "lua_Latn", "lug_Latn", "luo_Latn", "lus_Latn", "mag_Deva", "mai_Deva", "mal_Mlym", "mar_Deva", "min_Latn",
    "mkd_Cyrl", "plt_Latn", "mlt_Latn", "mni_Beng", "khk_Cyrl", "mos_Latn", "mri_Latn", "zsm_Latn", "mya_Mymr",
    "nld_Latn", "nno_Latn", "nob_Latn", "npi_Deva", "nso_Latn", "nus_Latn", "nya_Latn", "oci_Latn", "gaz_Latn",
    "ory_Orya", "pag_Latn", "pan_Guru", "pap_Latn", "pol_Latn", "por_Latn", "prs_Arab", "pbt_Arab", "quy_Latn",
    "ron_Latn", "run_Latn", "rus_Cyrl", "sag_Latn", "san_Deva", "sat_Beng", "scn_Latn", "shn_Mymr", "sin_Sinh",
    "slk_Latn", "slv_Latn", "smo_Latn", "sna_Latn", "snd_Arab", "som_Latn", "sot_Latn", "spa_Latn", "als_Latn",
    "srd_Latn", "srp_Cyrl", "ssw_Latn", "sun_Latn", "swe_Latn", "swh_Latn", "szl_Latn", "tam_Taml", "tat_Cyrl",
    "tel_Telu", "tgk_Cyrl", "tgl_Latn", "tha_Thai", "tir_Ethi", "taq_Latn", "taq_Tfng", "tpi_Latn", "tsn_Latn",
    "tso_Latn", "tuk_Latn", "tum_Latn", "tur_Latn", "twi_Latn", "tzm_Tfng", "uig_Arab", "ukr_Cyrl", "umb_Latn",
    "urd_Arab", "uzn_Latn", "vec_Latn", "vie_Latn", "war_Latn", "wol_Latn", "xho_Latn", "ydd_Hebr", "yor_Latn",
    "yue_Hant", "zho_Hans", "zho_Hant", "zul_Latn",
)  # fmt: skip

#: Its ids are one less than those of the tokenizer, which begins with four tokens of fairseq's: it is not made, and
#: only the fast tokenizers are.
FAIRSEQ_MODEL = "sentencepiece.bpe.model"

_FIRST = {0: "<s>", 1: "<pad>", 2: "</s>", 3: "<unk>"}


def _of_languages(pieces: int, languages: tuple[str, ...], tokenizer_class: str, *, unigram: bool) -> Family:
    codes = dict(enumerate(languages, pieces + 1))
    mask = pieces + 1 + len(languages)
    return Family(
        tokens=mask + 1,
        special={**_FIRST, **codes, mask: "<mask>"},
        bos="<s>",
        eos="</s>",
        pad="<pad>",
        unk="<unk>",
        cls="<s>",
        sep="</s>",
        mask="<mask>",
        max_length=1024,
        tokenizer_class=tokenizer_class,
        sentencepiece=FAIRSEQ_MODEL,
        unigram=unigram,
    )


def _marian(tokens: int) -> Family:
    return Family(
        tokens=tokens,
        proper=tokens,
        special={0: "</s>", 1: "<unk>", tokens - 1: "<pad>"},
        eos="</s>",
        unk="<unk>",
        pad="<pad>",
        template="A </s>",
        pair_template="A B </s>",
        max_length=512,
        tokenizer_class="MarianTokenizer",
        sentencepiece="source.spm",
        unigram=True,
    )


#: Rows of the embedding of Marian's models; each has a vocabulary of its own.
MARIAN_ROWS = (58_101, 59_514, 62_518, 65_001)

FAMILIES = {
    "mbart": _of_languages(250_000, _MBART_LANGUAGES, "MBartTokenizer", unigram=True),
    "mbart-50": _of_languages(250_000, (*_MBART_LANGUAGES, *_MORE_MBART_LANGUAGES), "MBart50Tokenizer", unigram=True),
    "nllb": _of_languages(256_000, _NLLB_LANGUAGES, "NllbTokenizer", unigram=False),
    **{f"marian-{rows}": _marian(rows) for rows in MARIAN_ROWS},
}
