import json

import pytest

from quintain import errors
from quintain.config import yaml_io
from quintain.records.config import checkpoint_storage_config, experiment_spec

BASE = "{searcher: {name: single, metric: a, max_length: 3}, checkpoint_storage: %s}"


def parse(text):
    return experiment_spec.parse(yaml_io.load_text(BASE % text)).checkpoint_storage


@pytest.mark.parametrize(
    ("text", "url", "options"),
    [
        ("{type: s3, bucket: runs}", "s3://runs", {}),
        ("{type: s3, bucket: runs, prefix: /a b/ü/}", "s3://runs/a b/ü", {}),
        ("{type: gcs, bucket: runs, prefix: a}", "gs://runs/a", {}),
        (
            "{type: s3, bucket: runs, endpoint_url: 'http://h:1', options: {profile: p}}",
            "s3://runs",
            {"endpoint_url": "http://h:1", "profile": "p"},
        ),
        (
            "{type: gs, bucket: runs, options: {token: anon}}",
            "gs://runs",
            {"token": "anon"},
        ),
        (
            "{type: azure, container: runs, account_url: 'https://me.blob.core.windows.net'}",
            "abfs://runs",
            {"account_url": "https://me.blob.core.windows.net"},
        ),
        ("{type: fsspec, url: 'sftp://me@h/d/', prefix: e}", "sftp://me@h/d/e", {}),
    ],
)
def test_address_names_the_storage(text, url, options):
    address = parse(text).address("/home")

    assert json.loads(address) == {"url": url, "options": options}
    stored = {"checkpoint_storage": parse(text).as_dict()}
    assert checkpoint_storage_config.find_address(stored, "/home") == address


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{type: s3}", r"checkpoint_storage\.bucket: missing; type s3 needs it"),
        ("{type: s3, bucket: a/b}", r"bucket: got 'a/b', expected a name"),
        ("{type: s3, bucket: runs, prefix: a/../b}", r"prefix: got 'a/../b'"),
        ("{type: s3, bucket: runs, host_path: /a}", r"host_path: has no meaning with type s3"),
        ("{bucket: runs}", r"bucket: has no meaning with type shared_fs"),
        ("{type: directory, host_path: /a}", r"host_path: has no meaning with type directory"),
        ("{container_path: /a}", r"host_path: missing; type shared_fs keeps checkpoints there"),
        ("{type: s3, bucket: runs, endpoint_url: h}", r"endpoint_url: got 'h', expected https"),
        ("{type: s3, bucket: runs, endpoint_url: 'https://a:GEHEIM@h'}", r"endpoint_url: has a"),
        (
            "{type: azure, container: runs, account_url: 'https://h/?sig=GEHEIM'}",
            r"account_url: has a `\?` or `#` in it, expected https://HOST; a secret",
        ),
        (
            "{type: azure, container: runs, account_url: 'https://me.dfs.core.windows.net'}",
            r"account_url: got .*, expected the address of blobs, https://me\.blob\.core",
        ),
        ("{type: s3, bucket: runs, access_key: GEHEIM}", r"access_key: a secret here would be"),
        ("{type: s3, bucket: runs, secret_key: GEHEIM}", r"secret_key: a secret here"),
        ("{type: s3, bucket: runs, options: {key: GEHEIM}}", r"options\.key: a secret here"),
        ("{type: s3, bucket: runs, options: {secret: GEHEIM}}", r"options\.secret: a secret"),
        (
            "{type: s3, bucket: runs, options: {client_kwargs: {aws_session_token: GEHEIM}}}",
            r"options\.client_kwargs\.aws_session_token: a secret",
        ),
        ("{type: gs, bucket: runs, options: {token: GEHEIM}}", r"options\.token: a secret"),
        ("{type: azure, container: runs, connection_string: GEHEIM}", r"connection_string: a se"),
        ("{type: azure, container: runs, options: {account_key: GEHEIM}}", r"account_key: a sec"),
        ("{type: fsspec, url: 'ftp://me:GEHEIM@h/d'}", r"url: has a password in it"),
        ("{type: fsspec, url: 'https://h/d?sig=GEHEIM'}", r"url: has a `\?`"),
        ("{type: fsspec, url: /a}", r"url: got '/a', expected one such as sftp"),
        ("{type: hdfs, hdfs_url: h}", r"type: got 'hdfs', expected 'fsspec'"),
        ("{type: s4}", r"type: got 's4'"),
    ],
)
def test_mistakes_are_named_and_secrets_are_not_shown(text, message):
    with pytest.raises(errors.ConfigError, match=message) as caught:
        parse(text)

    assert "GEHEIM" not in str(caught.value)
