"""What goes wrong, in one line."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import numpy as np

from cbq.collect import IntegrandError, WorkerError

# What bad input raises. Anything else is a surprise, whose kind is part of the line.
EXPECTED = (
    IntegrandError,
    WorkerError,
    ValueError,
    TypeError,
    OSError,
    ImportError,
    NotImplementedError,
    ArithmeticError,
    np.linalg.LinAlgError,
)


def one_line(error: BaseException) -> str:
    """What an error says, without line breaks."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        text = f"{error.strerror}: {error.filename}"
    else:
        text = " ".join(str(error).split())
    if isinstance(error, EXPECTED) and text:
        return text
    return f"{type(error).__name__}: {text} (--debug shows where)"


def line_in(file: Path, error: BaseException) -> int | None:
    """The line of a file in which an error arose, here or in another process; None where it did not come from it."""
    text = "".join(traceback.format_exception(error))  # that of a worker process is in it as text
    lines = re.findall(rf'File "{re.escape(str(file))}", line (\d+)', text)
    return int(lines[-1]) if lines else None
