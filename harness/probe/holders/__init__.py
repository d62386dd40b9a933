"""Which place in the code holds each byte."""
