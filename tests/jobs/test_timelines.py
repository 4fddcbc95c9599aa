"""The timelines job from its topics to its view, beside the join of all events."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.timelines import Timelines, job, newest
from tidegate.errors import ConfigError
from tidegate.runtime.job import Job
from tidegate.runtime.query.run import run
from tidegate.testing import Broker
from tidegate.views.view import View

from ..configured import configured
from ..worlds.timelines import TOPICS, Topic, events, expected, options, read_timelines, send


def planned(broker: Broker, topics: dict[Topic, str], root: Path, *more: str) -> Job:
    given = {**options(broker, topics), "output.root": root}
    return job(configured(Timelines, given, *more))


@pytest.mark.broker
def test_timelines_follow_posts_deletions_follows_unfollows_and_new_names(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    topics: dict[Topic, str] = {
        name: broker.create_topic(f"{topic}-{name}", partitions=2, retention_ms=-1)
        for name in TOPICS
    }
    made = events(1_200, users=30)
    send(broker.servers, topics, made[:700])
    first = run(planned(broker, topics, tmp_path), spark)
    assert read_timelines(tmp_path) == expected(made[:700])

    send(broker.servers, topics, made[700:])
    done = run(planned(broker, topics, tmp_path, "view.compact_every=2"), spark)
    assert read_timelines(tmp_path) == expected(made)
    assert first.rows_in + done.rows_in == len(made)
    assert first.dead + done.dead == sum(event.broken for event in made) > 0

    # The reader's way: whose timeline, newest first.
    reader = Counter(follower for follower, *_ in expected(made).elements()).most_common(1)[0][0]
    written = {dict(event.key)["post_id"]: event.at for event in made if event.op == "post"}
    posts = [post for follower, _, post, *_ in expected(made) if follower == reader]
    table = spark.read.format("delta").load(str(tmp_path / "timelines"))
    shown = [row.post_id for row in newest(table, reader, 10).collect()]
    assert shown == sorted(posts, key=written.__getitem__, reverse=True)[:10]


def test_the_shipped_configuration_holds_and_two_tables_at_one_place_are_refused(
    spark: SparkSession,
) -> None:
    config = configured(Timelines)
    names = ("table", "dead_letters", "gaps", "named_posts", "posts", "follows", "users")
    assert set(config.output.tables()) == {f"output.{name}" for name in names}
    view = job(config).sink
    assert isinstance(view, View)
    written = [Path(path).name for path, _ in view.tables()]
    assert written == ["timelines", "named_posts", "posts", "users", "follows"], (
        "a view before what it is made of"
    )
    with pytest.raises(ConfigError, match="named_posts"):
        configured(Timelines, {}, "output.named_posts=timelines")
