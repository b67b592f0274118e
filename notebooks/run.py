"""run.py NOTEBOOK OUT: runs a notebook, and writes it with what it showed."""

import sys

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

book = nbformat.read(sys.argv[1], 4)
try:
    NotebookClient(book, timeout=1800, kernel_name="python3").execute()
except CellExecutionError as error:
    sys.exit(str(error))
for cell in book.cells:
    # When it ran is not a result.
    cell.metadata.pop("execution", None)
nbformat.write(book, sys.argv[2])
