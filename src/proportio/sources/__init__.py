"""Where rows come from: arrays, data frames, files and streams in, clean float matrices out."""

from proportio.sources.base import Source, as_source, count_rows, is_batches, listed, read_batches, select, take_column
from proportio.sources.cytometry import open_fcs
from proportio.sources.files import OPENERS, expand, scan
from proportio.sources.h5ad import open_h5ad
from proportio.sources.joined import Joined
from proportio.sources.labels import read_labels, read_weights
from proportio.sources.sample import draw_sample, rest_of
from proportio.sources.tables import Columns, Floats, OnMissing, Rows, read_rows, read_table

OPENERS |= {".fcs": open_fcs, ".h5ad": open_h5ad}

__all__ = [
    "OPENERS",
    "Columns",
    "Floats",
    "Joined",
    "OnMissing",
    "Rows",
    "Source",
    "as_source",
    "count_rows",
    "draw_sample",
    "expand",
    "is_batches",
    "listed",
    "read_batches",
    "read_labels",
    "read_rows",
    "read_table",
    "read_weights",
    "rest_of",
    "scan",
    "select",
    "take_column",
]
