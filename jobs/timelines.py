"""Keep each user's timeline: the posts, with their authors' names, of those whom the user follows.

Kafka in, Delta out.

spark-submit jobs/timelines.py [--config PATH] [--set section.key=value]... [--show-config]
[--verbose]

Three topics say what changes: posts are written and deleted, users follow and unfollow, names
change. Each record is a JSON object with `op`, the row's key, its fields, a `version` that rises
with each change of the row, and `event_time`:

    posts    op "post" or "delete", post_id; author, text
    follows  op "follow" or "unfollow", follower and followee
    users    op "delete", or another one such as "user", user_id; name

The timelines are a view of a view: posts and users make named posts, and these and follows the
timelines.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate.runtime import Job, command
from tidegate.runtime.config import Config, InputSection, OutputSection, Section, Table
from tidegate.views import KeyedTable, View, lookup

ON = "author"


class ViewSection(Section):
    """[view]: the parts that each table is cut into, and the batches between two compactions."""

    buckets: int = Field(default=64, gt=0)
    compact_every: int | None = Field(default=20, gt=0)


class Tables(OutputSection):
    """[output]: the timelines, and the tables that they are made of."""

    table: Table = "timelines"
    named_posts: Table = "named_posts"
    posts: Table = "posts"
    follows: Table = "follows"
    users: Table = "users"


class Timelines(Config, name="timelines"):
    """The job's configuration: conf/jobs/timelines.toml tells each key."""

    posts: InputSection
    follows: InputSection
    users: InputSection
    view: ViewSection = ViewSection()
    output: Tables


def job(config: Timelines) -> Job:
    """Return the job of a configuration: the rows of all topics reach the view in one batch."""
    return config.as_job(
        inputs={
            "posts": config.as_input(config.posts),
            "follows": config.as_input(config.follows),
            "users": config.as_input(config.users),
        },
        sink=sink(config.output, config.view),
    )


def sink(output: Tables, layout: ViewSection) -> View:
    """Return the view of the timelines, with all tables that it is made of."""

    def kept(name: str, key: Sequence[str], deleting: str, *columns: Column) -> KeyedTable:
        def changes(frame: DataFrame) -> DataFrame:
            deleted = (F.col("op") == deleting).alias("deleted")
            return frame.select(*columns, "version", deleted)

        return KeyedTable(
            getattr(output, name),
            step=name,
            rows_of=name,
            changes=changes,
            key=key,
            by=ON,
            position="version",
            buckets=layout.buckets,
        )

    posted = F.col("event_time").alias("posted_at")
    posts = kept("posts", ["post_id"], "delete", F.col("post_id"), F.col(ON), F.col("text"), posted)
    users = kept("users", [ON], "delete", F.col("user_id").alias(ON), F.col("name"))
    follows = kept(
        "follows", ["follower", ON], "unfollow", F.col("follower"), F.col("followee").alias(ON)
    )
    # An author whose name is not known, or no longer, is no reason to leave the post out.
    named = View(
        output.named_posts,
        step="named_posts",
        left=posts,
        right=users,
        on=ON,
        how="left",
        buckets=layout.buckets,
    )
    return View(
        output.table,
        step="timelines",
        left=named,
        right=follows,
        on=ON,
        by="follower",
        buckets=layout.buckets,
        compact_every=layout.compact_every,
    )


def newest(timelines: DataFrame, user: str, n: int = 20) -> DataFrame:
    """Return the newest posts of a user's timeline, the newest first.

    timelines: the view's table, as Spark reads it.
    """
    return lookup(timelines, follower=user).orderBy(F.desc("posted_at"), F.desc("post_id")).limit(n)


if __name__ == "__main__":
    command(
        Timelines,
        job,
        about="Keep each user's timeline of the posts of those whom the user follows.",
        result="changes of posts, follows and users",
    )
