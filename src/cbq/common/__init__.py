"""Shared by every room: checks of arguments, arrays, tables, workers, progress, memory. It imports no other room."""

from cbq.common.arrays import (
    LEAST_DIGITS,
    MAX_DIGITS,
    ROUNDING,
    Array,
    Booleans,
    Immutable,
    Integers,
    as_array,
    blocks,
    broadcast_batch,
    digits_apart,
    evenly,
    finite,
    in_blocks,
    indexed,
    not_nan,
    points,
    positive,
    real,
    rows_not_finite,
    squarable,
    take_rows,
)
from cbq.common.checks import (
    LARGEST,
    MAX_SHOWN,
    RNGLike,
    are_numbers,
    as_text,
    between_0_and_1,
    called,
    check_fields,
    count,
    described,
    did_you_mean,
    file_name,
    flag,
    generator,
    is_number,
    is_range,
    is_whole,
    listed,
    named,
    number,
    one_of,
    position,
    run_entropy,
    sentence,
    shown,
    shown_seed,
    text,
    whole,
)
from cbq.common.frames import data_frame, frame_like, gathered
from cbq.common.futures import CallResult, Calls, Executor, RemoteTraceback
from cbq.common.memory import require_memory
from cbq.common.progress import Course, Progress, Report, as_progress, course, reporting
from cbq.common.series import autocorrelation_times, is_sorted
from cbq.common.tables import BLANK, NOTE_WIDTH, aligned, short
from cbq.common.workers import (
    WorkerError,
    Workers,
    as_executor,
    call_each,
    killed_its_workers,
    opened,
    refuse_unpicklable,
    require_picklable,
)
