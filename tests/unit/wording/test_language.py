"""Reports in another language."""

from __future__ import annotations

import pytest

from dsregress.wording.language import ENGLISH, saying

zh = saying("zh")


def test_english_stays_as_it_is() -> None:
    assert saying(ENGLISH)("1 crash, 2 memory leaks") == "1 crash, 2 memory leaks"


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("1 crash, 2 memory leaks", "1 处崩溃，2 处显存泄漏"),
        ("a step takes 1.18x to 1.21x (CPU ranks: host overhead)", "每步用时为 1.18x 至 1.21x（CPU 进程：主机开销）"),
        (
            "backward holds 2.00 MiB more after it ends than 0.15.4 (+50 %): 4.00 MiB -> 6.00 MiB",
            "与 0.15.4 相比反向结束后多占 2.00 MiB（+50 %）：4.00 MiB -> 6.00 MiB",
        ),
        (
            "llama-3-70b on 32 ranks does not fit A800-80G: needs 168 GiB, was 47.8 GiB. Use 0.16.8.",
            "32 个进程的 llama-3-70b 在 A800-80G 上放不下：需要 168 GiB，以前为 47.8 GiB。请用 0.16.8。",
        ),
    ],
)
def test_a_sentence_is_translated_with_what_is_in_it(english: str, chinese: str) -> None:
    assert zh(english) == chinese


def test_what_others_wrote_stays_as_it_is_and_lines_keep_their_indentation() -> None:
    error = "ValueError: zip() argument 2 is longer than argument 1"
    assert zh(f"  failed in forward: {error}\nnext:\n  dsregress compare A B") == (
        "  前向失败：ValueError: zip() argument 2 is longer than argument 1\n下一步：\n  dsregress compare A B"
    )
