"""Results on disk: `Store` writes, loads and queries them; `schema` is their format."""

from dsregress.store.beside import files_beside
from dsregress.store.explanations import Explanations, explained_in
from dsregress.store.folder import Loaded, Store, newest_by_cell
from dsregress.store.measuring_versions import measuring_version
from dsregress.store.schema import SCHEMA, content_key, detail_hashes, encode, key_in, key_of
from dsregress.store.stored_workloads import StoredWorkloads
from dsregress.system.files import write_atomically

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
    "newest_by_cell",
    "write_atomically",
]
