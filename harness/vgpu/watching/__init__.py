"""Watches a training program: its optimizer steps, and the phases between them."""
