"""How a session gets the jars of Delta and Kafka."""

from __future__ import annotations

from ...local_cores import local_cores
from .installation import jars

# Added to what an installation has as spark.driver.extraClassPath, which then still counts.
_CLASS_PATH = "spark.driver.defaultExtraClassPath"


def jar_settings(master: str) -> dict[str, str]:
    """Return the settings that bring a session the jars.

    On one machine they are on the class path of Spark's JVM: none is copied, and an archive of
    classes holds theirs too, which it does for no jar that Spark loads later. A cluster's executors
    fetch them from the driver.

    >>> list(jar_settings("local[2]")), list(jar_settings("spark://host:7077"))
    (['spark.driver.defaultExtraClassPath'], ['spark.jars'])
    """
    found = jars("spark")
    if local_cores(master):
        return {_CLASS_PATH: str(found[0].parent.absolute() / "*")}
    return {"spark.jars": ",".join(map(str, found))}
