"""The only folder that reaches into the JVM: Delta's log, file systems, a query's numbers.

Nothing here works under Spark Connect, which is why transforms may not use it and sinks must.
"""

from .connections import close_connection
from .delta import (
    CHANGE_FEED,
    TRANSACTION_RETENTION,
    DeltaState,
    checkpoint_table,
    commit_file,
    delta_state,
    forget_tables,
)
from .errors import LOST_ROWS, conditions, innermost, message
from .files import Folder, WholeFiles, delete_folder, names_in, numbers_in, read_bytes
from .kafka import KafkaClient, Kept, TopicState
from .queries import (
    between_batches,
    dropped_behind_watermark,
    executions,
    is_kept,
    lost_executors,
    observed,
    release,
    scans,
)
from .session import end_jvm, find_at_once, has_class, java_version, reads_state, repartition_state
from .settings import (
    reading_all,
    require_all_files,
    require_same_values,
    require_statistics,
    tell_tasks,
    with_settings,
)
from .signals import SignalHandler, jvm_signals
from .transactions import Numbered, at_the_commit, touch_transaction

__all__ = [
    "CHANGE_FEED",
    "LOST_ROWS",
    "TRANSACTION_RETENTION",
    "DeltaState",
    "Folder",
    "KafkaClient",
    "Kept",
    "Numbered",
    "SignalHandler",
    "TopicState",
    "WholeFiles",
    "at_the_commit",
    "between_batches",
    "checkpoint_table",
    "close_connection",
    "commit_file",
    "conditions",
    "delete_folder",
    "delta_state",
    "dropped_behind_watermark",
    "end_jvm",
    "executions",
    "find_at_once",
    "forget_tables",
    "has_class",
    "innermost",
    "is_kept",
    "java_version",
    "jvm_signals",
    "lost_executors",
    "message",
    "names_in",
    "numbers_in",
    "observed",
    "read_bytes",
    "reading_all",
    "reads_state",
    "release",
    "repartition_state",
    "require_all_files",
    "require_same_values",
    "require_statistics",
    "scans",
    "tell_tasks",
    "touch_transaction",
    "with_settings",
]
