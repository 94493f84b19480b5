"""Known failures: one YAML file per family, as `Signature` objects. `README.md` documents the schema.

In: the files of this folder and of a user's own. Out: a `SignatureCatalogue`.
"""

from harness.diagnosis.signatures.catalogue import (
    SignatureCatalogue,
    files_in,
    load,
    load_usable,
    read_file,
    user_folder,
)
from harness.diagnosis.signatures.schema import SignatureError, families

__all__ = [
    "SignatureCatalogue",
    "SignatureError",
    "families",
    "files_in",
    "load",
    "load_usable",
    "read_file",
    "user_folder",
]
