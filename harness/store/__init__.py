"""Results on disk: `Store` writes, loads and queries them; `schema` is their format."""

from harness.store.explanations import Explanations, explained_in
from harness.store.folder import Loaded, Store, map_workloads, newest
from harness.store.schema import SCHEMA, Parts, content_key, detail_hashes, encode, key_in, key_of
from harness.system.files import write_atomically

__all__ = [
    "SCHEMA",
    "Explanations",
    "Loaded",
    "Parts",
    "Store",
    "content_key",
    "detail_hashes",
    "encode",
    "explained_in",
    "key_in",
    "key_of",
    "map_workloads",
    "newest",
    "write_atomically",
]
