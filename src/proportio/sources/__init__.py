"""Where rows come from: arrays, data frames, files and streams in, clean float matrices out."""

from proportio.sources.base import Source, as_source, count_rows, is_batches, read_batches, take_column
from proportio.sources.files import OPENERS, scan
from proportio.sources.labels import read_labels, read_weights
from proportio.sources.sample import draw_sample, rest_of
from proportio.sources.tables import Columns, Floats, OnMissing, Rows, read_rows, read_table

__all__ = [
    "OPENERS",
    "Columns",
    "Floats",
    "OnMissing",
    "Rows",
    "Source",
    "as_source",
    "count_rows",
    "draw_sample",
    "is_batches",
    "read_batches",
    "read_labels",
    "read_rows",
    "read_table",
    "read_weights",
    "rest_of",
    "scan",
    "take_column",
]
