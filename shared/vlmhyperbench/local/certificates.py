"""The embedded stack's own certificate authority, and the certificate by which other machines know this one."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from vlmhyperbench.errors import Conflict
from vlmhyperbench.extras import needed_for
from vlmhyperbench.files import write_whole

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_AUTHORITY_LIFE = timedelta(days=3650)
_LIFE = timedelta(days=397)
_RENEWED_BEFORE = timedelta(days=30)
_EARLIER = timedelta(hours=1)
"""How long before it was made a certificate begins to be valid: clocks differ."""


class Certificates:
    """Files of one folder: `ca.pem`, which other machines get, `ca.key`, and `server.pem` with `server.key`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.ca_file = folder / "ca.pem"
        self.cert_file = folder / "server.pem"
        self.key_file = folder / "server.key"

    def prepare(self, names: Collection[str]) -> None:
        """Make what is missing, or a new certificate where the present one lacks a name or expires within 30 days.

        Raises:
            Unavailable: the library for certificates is not installed.
            Conflict: the folder has other files than this class writes.
            OSError: a file cannot be read or written.
        """
        with needed_for("listening for other machines", extra="embedded"):
            from cryptography import x509
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.ca_file.exists():
            self._make_authority()
        if self.cert_file.exists():
            try:
                known = x509.load_pem_x509_certificate(self.cert_file.read_bytes())
            except ValueError as error:
                raise _not_ours(self._folder) from error
            if _names_of(known) >= set(names) and known.not_valid_after_utc > datetime.now(UTC) + _RENEWED_BEFORE:
                return
        self._make_certificate(sorted(set(names)))

    def _make_authority(self) -> None:
        from cryptography import x509

        key = _new_key()
        name = _name("VLMHyperBench authority of this stack")
        builder = _builder(name, name, key, _AUTHORITY_LIFE).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(usage, critical=True).add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        )
        self._write(builder, key, key, self.ca_file, self._folder / "ca.key")

    def _make_certificate(self, names: list[str]) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from cryptography.x509.oid import ExtendedKeyUsageOID

        try:
            authority = x509.load_pem_x509_certificate(self.ca_file.read_bytes())
            signer = load_pem_private_key((self._folder / "ca.key").read_bytes(), None)
        except (ValueError, TypeError) as error:  # TypeError: the key has a passphrase
            raise _not_ours(self._folder) from error
        if not isinstance(signer, EllipticCurvePrivateKey) or signer.public_key() != authority.public_key():
            raise _not_ours(self._folder)
        key = _new_key()
        builder = (
            _builder(_name(names[0]), authority.subject, key, _LIFE)
            .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        )
        self._write(builder, key, signer, self.cert_file, self.key_file)

    def _write(
        self,
        builder: x509.CertificateBuilder,
        key: EllipticCurvePrivateKey,
        signer: EllipticCurvePrivateKey,
        cert_file: Path,
        key_file: Path,
    ) -> None:
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        certificate = builder.sign(signer, SHA256()).public_bytes(Encoding.PEM)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        write_whole(key_file, private, mode=0o600, is_durable=True)
        write_whole(cert_file, certificate, mode=0o644, is_durable=True)


def _not_ours(folder: Path) -> Conflict:
    return Conflict(
        f"The certificates in {folder} are not those that the stack made.",
        cure=f"Move {folder} away; the stack makes new ones, and machines that have joined need the new ca.pem.",
        code="certificates",
    )


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(common: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, life: timedelta
) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + life)
    )


def _general(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _names_of(certificate: x509.Certificate) -> set[str]:
    from cryptography import x509

    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in names}
