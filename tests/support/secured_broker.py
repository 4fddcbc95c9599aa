"""An embedded broker with a second listener: TLS with a self-signed certificate, and SASL."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tidegate.errors import SetupError
from tidegate.spark.jars import java_path
from tidegate.testing import Broker
from tidegate.testing.child_process import free_port

SASL_MECHANISM = "SCRAM-SHA-512"
_ALIAS = "broker"


class SecuredBroker(Broker):
    """A broker with one user, who can log in at the listener with TLS and SASL (SCRAM-SHA-512).

    The listener of `bootstrap_servers` stays open.
    """

    def __init__(self, user: str, password: str) -> None:
        super().__init__()
        self._user = user
        self._password = password
        self._secured_port = free_port()
        self._certificate = Certificate.create(self.dir)

    @property
    def secure_bootstrap_servers(self) -> str:
        """The address of the listener with TLS and SASL."""
        return f"127.0.0.1:{self._secured_port}"

    @property
    def client_options(self) -> dict[str, str]:
        """The options of a `KafkaSource` at `secure_bootstrap_servers`."""
        return self._certificate.client_options(self._user, self._password)

    def _write_settings(self) -> None:
        super()._write_settings()
        file = self.dir / "broker.properties"
        additions = self._certificate.listener_settings(self._secured_port)
        file.write_text(extend_settings(file.read_text("utf-8"), additions), encoding="utf-8")

    def _start_process(self) -> None:
        super()._start_process()
        mechanism = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        login = UserScramCredentialUpsertion(self._user, mechanism, self._password.encode())
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        for future in admin.alter_user_scram_credentials([login]).values():
            future.result(30)


@dataclass(frozen=True)
class Certificate:
    """A broker's key and self-signed certificate, as PKCS12 and as PEM."""

    folder: Path
    password: str

    @classmethod
    def create(cls, folder: Path) -> Certificate:
        """Create a key and a certificate for 127.0.0.1 with the JDK's keytool."""
        certificate = cls(folder, secrets.token_hex(16))
        for file in (certificate.keystore, certificate.pem):
            file.unlink(missing_ok=True)
        certificate._run_keytool(
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
        certificate._run_keytool("-exportcert", "-rfc", "-file", str(certificate.pem))
        return certificate

    @property
    def keystore(self) -> Path:
        """The file of the key and the certificate."""
        return self.folder / "broker.p12"

    @property
    def pem(self) -> Path:
        """The file of the certificate, for the trust store of clients."""
        return self.folder / "broker.pem"

    def listener_settings(self, port: int) -> dict[str, str]:
        """Return the broker's settings of the listener; list values extend existing lists."""
        return {
            "listeners": f"SASL_SSL://127.0.0.1:{port}",
            "advertised.listeners": f"SASL_SSL://127.0.0.1:{port}",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL",
            "sasl.enabled.mechanisms": SASL_MECHANISM,
            f"listener.name.sasl_ssl.{SASL_MECHANISM.lower()}.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.keystore),
            "ssl.keystore.password": self.password,
            "ssl.key.password": self.password,
        }

    def client_options(self, user: str, password: str) -> dict[str, str]:
        """Return the options of a Kafka source that reads from this listener as a user."""
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        return {
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": SASL_MECHANISM,
            "kafka.sasl.jaas.config": f'{login} username="{user}" password="{password}";',
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(self.pem),
        }

    def _run_keytool(self, command: str, *arguments: str) -> None:
        jdk_keytool = Path(java_path()).with_name("keytool")
        tool = str(jdk_keytool) if jdk_keytool.exists() else shutil.which("keytool")
        if tool is None:
            raise SetupError(
                "no keytool in the PATH, to create the broker's certificate",
                remedy="install a JDK; a JRE may lack keytool",
            )
        store = ["-keystore", str(self.keystore), "-storetype", "PKCS12"]
        process = subprocess.run(
            [tool, command, "-alias", _ALIAS, *store, "-storepass", self.password, *arguments],
            capture_output=True,
            text=True,
        )
        if process.returncode:
            raise SetupError("cannot create the broker's certificate", process.stdout.strip())


def extend_settings(settings: str, additions: dict[str, str]) -> str:
    """Return a settings file with additions; existing keys become longer lists."""
    lines = []
    remaining = dict(additions)
    for line in settings.splitlines():
        key = line.partition("=")[0]
        lines.append(f"{line},{remaining.pop(key)}" if key in remaining else line)
    return "\n".join([*lines, *(f"{key}={value}" for key, value in remaining.items()), ""])
