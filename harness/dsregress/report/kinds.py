"""Marks of findings, and of cells without one: a sign and a word, so that reading them needs no color."""

from __future__ import annotations

#: kind -> sign, word.
SIGNS = {
    "wrong": ("✕", "wrong"),
    "failed": ("✕", "failed"),
    "regression": ("▲", "worse"),
    "changed": ("≠", "changed"),
    "improvement": ("▼", "better"),
    "ok": ("✓", "ok"),
    "baseline": ("◆", "baseline"),
    "unjudged": ("?", "no verdict"),
    "none": ("·", "not run"),
}
