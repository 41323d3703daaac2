"""The URL policy: strict parsing, and which addresses may be reached."""

from __future__ import annotations

import ipaddress

import pytest

from tests.support.wording import Wording
from vlmhyperbench_sdk.errors import InvalidInput, Unavailable
from vlmhyperbench_sdk.net import UrlPolicy, check_address, parse_url, resolve

EMBEDDED = UrlPolicy(allow_loopback=True)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://API.Example.com/v1/", "https://api.example.com/v1"),
        ("https://example.com:443", "https://example.com"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("https://[2001:DB8::1]:8443/x", "https://[2001:db8::1]:8443/x"),
        ("http://localhost", "http://localhost"),
    ],
)
def test_a_url_has_one_form(text: str, shown: str) -> None:
    assert str(parse_url(text)) == shown


@pytest.mark.parametrize(
    "text",
    [
        "ftp://example.com",
        "file:///etc/passwd",
        "https://user:password@example.com",
        "https://example.com@evil.com",
        "https://example.com\\@evil.com",
        "https://exa mple.com",
        "https://example.com/\n",
        "https://example.com?x=1",
        "https://example.com#x",
        "https://example.com/a/../b",
        "https://example.com:0",
        "https://example.com:99999",
        "https://example.com:x",
        "https://",
        "https://[::1",
        "https://[1:2]",
        "https://2130706433",
        "https://0x7f.1",
        "https://127.1",
        "https://exämple.com",
        "https://-bad.com",
        "https://" + "a" * 2000,
    ],
)
def test_what_parsers_read_differently_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_url(text)
    assert raised.value.cure


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
        "10.0.0.1",
        "192.168.1.1",
        "172.16.0.1",
        "100.64.0.1",
        "0.0.0.0",
        "fc00::1",
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "fe80::1",
        "100.100.100.200",
        "168.63.129.16",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001:0:1::1",
        "224.0.0.1",
        "ff02::1",
    ],
)
def test_only_public_addresses_are_reached(address: str) -> None:
    with pytest.raises(InvalidInput):
        check_address(ipaddress.ip_address(address), parse_url("https://example.com"), UrlPolicy())


ALLOWED_EVERYTHING = UrlPolicy(allow_loopback=True, allow_hosts=frozenset({"example.com"}))


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.170.2",
        "192.0.0.1",
        "192.0.0.192",
        "::ffff:192.0.0.192",
        "192.88.99.1",
        "168.63.129.16",
        "100.100.100.200",
        "224.0.0.1",
        "239.255.255.255",
        "::a9fe:a9fe",
        "::127.0.0.1",
        "::2",
        "::ffff:0:a9fe:a9fe",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2001::1",
        "2001:2::1",
        "2001:10::1",
        "2001:20::1",
        "2001:1ff::1",
        "2002:a9fe:a9fe::1",
        "2600::5efe:a9fe:a9fe",
        "2600::200:5efe:a9fe:a9fe",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fe80::1",
        "ff02::1",
    ],
)
def test_metadata_and_hidden_addresses_are_never_reached_whatever_an_administrator_allows(address: str) -> None:
    with pytest.raises(InvalidInput, match="never allowed") as raised:
        check_address(ipaddress.ip_address(address), parse_url("http://example.com"), ALLOWED_EVERYTHING)
    assert raised.value.cure


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.1",
        "10.0.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "172.31.0.1",
        "192.0.2.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "100::1",
        "200::1",
        "1000::1",
        "2001:db8::1",
        "3fff::1",
        "3fff:fff::1",
        "4000::1",
        "5f00::1",
        "fc00::1",
        "fec0::1",
        "feff::1",
    ],
)
def test_what_no_registry_calls_public_is_reached_only_where_an_administrator_names_the_host(address: str) -> None:
    with pytest.raises(InvalidInput, match="not public") as raised:
        check_address(ipaddress.ip_address(address), parse_url("https://example.com"), UrlPolicy())
    assert raised.value.cure
    check_address(ipaddress.ip_address(address), parse_url("https://example.com"), ALLOWED_EVERYTHING)


@pytest.mark.parametrize(
    "address",
    [
        *("1.1.1.1", "100.63.255.255", "100.128.0.1", "172.32.0.1", "192.0.1.1", "198.17.0.1", "198.20.0.1"),
        *("223.255.255.1", "2001:200::1", "2001:4860:4860::8888", "2606:4700::1111", "2a00::1", "3ffe::1"),
        "2600::5eff:1:1",
    ],
)
def test_the_neighbours_of_special_addresses_are_public(address: str) -> None:
    check_address(ipaddress.ip_address(address), parse_url("https://example.com"), UrlPolicy())


def test_a_public_address_is_reached_over_https_on_an_allowed_port() -> None:
    public = ipaddress.ip_address("93.184.216.34")
    check_address(public, parse_url("https://example.com"), UrlPolicy())
    with pytest.raises(InvalidInput, match="not encrypted"):
        check_address(public, parse_url("http://example.com"), UrlPolicy())
    with pytest.raises(InvalidInput, match="Port 22"):
        check_address(public, parse_url("https://example.com:22"), UrlPolicy())


def test_loopback_is_reached_in_the_embedded_stack_only(wording: Wording) -> None:
    url = parse_url("http://127.0.0.1:9000/v1")
    assert [str(address) for address in resolve(url, EMBEDDED)] == ["127.0.0.1"]
    with pytest.raises(InvalidInput) as refused:
        resolve(url, UrlPolicy())
    wording(refused.value)


def test_cloud_metadata_is_never_reached() -> None:
    metadata = ipaddress.ip_address("169.254.169.254")
    everything = UrlPolicy(allow_loopback=True, allow_hosts=frozenset({"metadata"}))
    with pytest.raises(InvalidInput, match="never allowed"):
        check_address(metadata, parse_url("http://metadata"), everything)


def test_a_private_host_is_reached_where_an_administrator_allows_it() -> None:
    private = ipaddress.ip_address("10.1.2.3")
    check_address(private, parse_url("http://gpu-box:8000"), UrlPolicy(allow_hosts=frozenset({"gpu-box"})))


def test_a_name_that_does_not_resolve_is_named() -> None:
    with pytest.raises(Unavailable, match=r"no-such-host\.invalid"):
        resolve(parse_url("https://no-such-host.invalid"), UrlPolicy())
