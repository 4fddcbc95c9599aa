"""Maintain each user's timeline, a materialized view of three changelogs: Kafka to Delta.

A timeline has the posts, with author names, of the users whom a user follows. Each record of the
three topics is a JSON object with `op`, the key of a row, its fields, a `version` that increases
with each change of the row, and `event_time`:

    posts    op "post" or "delete", post_id; author, text
    follows  op "follow" or "unfollow", follower and followee
    users    op "delete", or any other op such as "user", user_id; name

The view has two levels: posts and users are joined to named posts, and these with follows to
timelines.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..config import Config, InputSection, OutputSection, Section, Table
from ..job.job import Job
from ..views import KeyedTable, View, read_view

DESCRIPTION = "Maintain each user's timeline of followed users' posts, from Kafka to Delta."

JOIN_KEY = "author"


class ViewSection(Section):
    """[view]: the hash buckets of each table, and the batches between two compactions."""

    buckets: int = Field(default=64, gt=0)
    compact_every: int | None = Field(default=20, gt=0)


class Tables(OutputSection):
    """[output]: the timelines and their base tables."""

    table: Table = "timelines"
    named_posts: Table = "named_posts"
    posts: Table = "posts"
    follows: Table = "follows"
    users: Table = "users"


class Timelines(Config, name="timelines"):
    """The job's configuration; conf/jobs/timelines.toml documents each key."""

    posts: InputSection
    follows: InputSection
    users: InputSection
    view: ViewSection = ViewSection()
    output: Tables


def job(config: Timelines) -> Job:
    """Return the job of a configuration, which updates the view once per batch of all topics."""
    return config.as_job(
        inputs={
            "posts": config.as_input(config.posts),
            "follows": config.as_input(config.follows),
            "users": config.as_input(config.users),
        },
        sink=sink(config.output, config.view),
    )


def sink(output: Tables, layout: ViewSection) -> View:
    """Return the view of the timelines and its base tables."""

    def keyed_table(name: str, key: Sequence[str], delete_op: str, *columns: Column) -> KeyedTable:
        def changes(frame: DataFrame) -> DataFrame:
            deleted = (F.col("op") == delete_op).alias("deleted")
            return frame.select(*columns, "version", deleted)

        return KeyedTable(
            getattr(output, name),
            output=name,
            input=name,
            to_changes=changes,
            key=key,
            lookup_by=JOIN_KEY,
            order_by="version",
            buckets=layout.buckets,
        )

    posted_at = F.col("event_time").alias("posted_at")
    posts = keyed_table(
        "posts", ["post_id"], "delete", F.col("post_id"), F.col(JOIN_KEY), F.col("text"), posted_at
    )
    users = keyed_table(
        "users", [JOIN_KEY], "delete", F.col("user_id").alias(JOIN_KEY), F.col("name")
    )
    follows = keyed_table(
        "follows",
        ["follower", JOIN_KEY],
        "unfollow",
        F.col("follower"),
        F.col("followee").alias(JOIN_KEY),
    )
    # Left join: posts of authors without a name remain.
    named_posts = View(
        output.named_posts,
        output="named_posts",
        left=posts,
        right=users,
        on=JOIN_KEY,
        how="left",
        buckets=layout.buckets,
    )
    return View(
        output.table,
        output="timelines",
        left=named_posts,
        right=follows,
        on=JOIN_KEY,
        lookup_by="follower",
        buckets=layout.buckets,
        compact_every=layout.compact_every,
    )


def newest_posts(timelines: DataFrame, user: str, n: int = 20) -> DataFrame:
    """Return the newest posts of a user's timeline, newest first.

    timelines: the view's table as a DataFrame.
    """
    return (
        read_view(timelines, follower=user).orderBy(F.desc("posted_at"), F.desc("post_id")).limit(n)
    )
