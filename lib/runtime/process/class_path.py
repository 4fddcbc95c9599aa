"""How a session gets the jars of Delta and Kafka."""

from __future__ import annotations

from ...local_cores import local_cores
from .installation import jars

# Added to what an installation has as spark.driver.extraClassPath, which then still counts.
_CLASS_PATH = "spark.driver.defaultExtraClassPath"


def jar_settings(master: str) -> dict[str, str]:
    """Return the settings that bring a session the jars.

    They are on the class path of the driver's JVM, so that an archive of classes holds theirs too,
    which it does for no jar that Spark loads later. A cluster's executors fetch them.

    >>> list(jar_settings("local[2]")), list(jar_settings("spark://host:7077"))
    (['spark.driver.defaultExtraClassPath'], ['spark.driver.defaultExtraClassPath', 'spark.jars'])
    """
    found = jars("spark")
    brought = {_CLASS_PATH: str(found[0].parent.absolute() / "*")}
    if not local_cores(master):
        brought["spark.jars"] = ",".join(map(str, found))
    return brought
