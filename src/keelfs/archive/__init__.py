"""Trees into archives and out of them: tar, zip, or a folder of the host.

Everything streams: memory is bounded by blocks and batches, whatever the size of a file. An import
is wholly there or not at all, and nothing in an archive is trusted: names are parsed, links are
kept as text, and no library is asked to extract anything. Workspaces call.
"""

from keelfs.archive.folder import export_folder, import_folder
from keelfs.archive.landing import Bounds
from keelfs.archive.tally import Archived, Progress
from keelfs.archive.tar import export_tar, import_tar
from keelfs.archive.zip import export_zip, import_zip

__all__ = [
    "Archived",
    "Bounds",
    "Progress",
    "export_folder",
    "export_tar",
    "export_zip",
    "import_folder",
    "import_tar",
    "import_zip",
]
