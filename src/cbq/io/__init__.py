"""Saving objects: classes declare their fields, and one generic archive writes them, reads them and checks them.

The lowest layer: measures, kernels, samples and fits register here, and this room imports none of them.
"""

from cbq.io.archive import FIT_FILE, SAMPLES_FILE, load_file, save_file
from cbq.io.fields import (
    Boolean,
    Bounds,
    Correlation,
    Field,
    IncompatibleFile,
    Integer,
    Many,
    Number,
    Numbers,
    OneOrMany,
    Optional,
    Record,
    Text,
    Texts,
)
from cbq.io.registry import Instance, pack_measure, saved, saved_classes, unpack_measure
