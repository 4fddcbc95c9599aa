"""A second listener for the embedded broker: TLS with a certificate of its own, and SASL."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ..errors import SetupError
from ..runtime.process.installation import java

MECHANISM = "SCRAM-SHA-512"
_ALIAS = "broker"


@dataclass(frozen=True)
class Certificate:
    """A broker's key and certificate, which nobody else has signed, as PKCS12 and as PEM."""

    folder: Path
    password: str

    @classmethod
    def made(cls, folder: Path) -> Certificate:
        """Make a key and a certificate for 127.0.0.1, by the JDK's keytool."""
        one = cls(folder, secrets.token_hex(16))
        for file in (one.keystore, one.pem):
            file.unlink(missing_ok=True)
        one._keytool(
            "-genkeypair",
            "-keyalg",
            "RSA",
            "-keysize",
            "2048",
            "-validity",
            "30",
            "-dname",
            "CN=127.0.0.1",
            "-ext",
            "SAN=IP:127.0.0.1",
        )
        one._keytool("-exportcert", "-rfc", "-file", str(one.pem))
        return one

    @property
    def keystore(self) -> Path:
        """The key and the certificate."""
        return self.folder / "broker.p12"

    @property
    def pem(self) -> Path:
        """The certificate alone, which clients are to trust."""
        return self.folder / "broker.pem"

    def settings(self, port: int) -> dict[str, str]:
        """Return what the broker's settings say of the listener; lists are to be joined on."""
        return {
            "listeners": f"SASL_SSL://127.0.0.1:{port}",
            "advertised.listeners": f"SASL_SSL://127.0.0.1:{port}",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL",
            "sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.keystore),
            "ssl.keystore.password": self.password,
            "ssl.key.password": self.password,
        }

    def client(self, user: str, password: str) -> dict[str, str]:
        """Return the options of a Kafka source that reads by this listener as a user."""
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        return {
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": MECHANISM,
            "kafka.sasl.jaas.config": f'{login} username="{user}" password="{password}";',
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(self.pem),
        }

    def _keytool(self, command: str, *arguments: str) -> None:
        beside = Path(java()).with_name("keytool")
        tool = str(beside) if beside.exists() else shutil.which("keytool")
        if tool is None:
            raise SetupError(
                "there is no keytool, by which the broker's certificate is made.",
                "a JDK; a JRE alone may lack it.",
            )
        store = ["-keystore", str(self.keystore), "-storetype", "PKCS12"]
        done = subprocess.run(
            [tool, command, "-alias", _ALIAS, *store, "-storepass", self.password, *arguments],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SetupError(f"the broker's certificate could not be made:\n{done.stdout}")


def joined(settings: str, more: dict[str, str]) -> str:
    """Return a file of settings with more of them; those that are there become longer lists."""
    lines = []
    left = dict(more)
    for line in settings.splitlines():
        key = line.partition("=")[0]
        lines.append(f"{line},{left.pop(key)}" if key in left else line)
    return "\n".join([*lines, *(f"{key}={value}" for key, value in left.items()), ""])
