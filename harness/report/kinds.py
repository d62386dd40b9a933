"""How a finding, or a cell without one, is marked: by a sign and a word, so that no colour is needed to read it."""

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
