"""Results on disk: `Store` writes, loads and queries them; `schema` is their format."""

from harness.store.beside import files_beside
from harness.store.explanations import Explanations, explained_in
from harness.store.folder import Loaded, Store, newest
from harness.store.measuring import measuring_version
from harness.store.schema import SCHEMA, content_key, detail_hashes, encode, key_in, key_of
from harness.store.workloads import StoredWorkloads
from harness.system.files import write_atomically

__all__ = [
    "SCHEMA",
    "Explanations",
    "Loaded",
    "Store",
    "StoredWorkloads",
    "content_key",
    "detail_hashes",
    "encode",
    "explained_in",
    "files_beside",
    "key_in",
    "key_of",
    "measuring_version",
    "newest",
    "write_atomically",
]
