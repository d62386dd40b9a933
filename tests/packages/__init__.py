"""A tiny framework in several releases, good and bad, so that the whole job is proved without torch or network."""
