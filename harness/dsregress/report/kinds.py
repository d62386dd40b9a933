"""Marks of findings, and of cells without one: a sign and a word, so that reading them needs no color. A sign means one
thing, and stands nowhere else."""

from __future__ import annotations

#: kind -> sign, word.
SIGNS = {
    "wrong": ("✕", "wrong"),
    "failed": ("■", "failed"),
    "regression": ("▲", "worse"),
    "changed": ("≠", "changed"),
    "improvement": ("▼", "better"),
    "ok": ("✓", "ok"),
    "baseline": ("◆", "baseline"),
    "unjudged": ("?", "no verdict"),
    "none": ("·", "not run"),
}
