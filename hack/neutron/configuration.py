"""The configurations of a Neutron and a Keystone that share a folder with their databases, and who may log in."""

import os
import sys
from pathlib import Path

# Everybody's password. Keystone knows an administrator, Neutron itself, and a project with a member and a reader.
PASSWORD = "secret"
ADMIN, NEUTRON, MEMBER, READER = "admin", "neutron", "causeway", "reader"
SERVICE_PROJECT, PROJECT = "service", "causeway"
REGION = "RegionOne"
# The kinds that a project may have a quota of here.
QUOTAS = ("network", "subnet", "port", "router")


def configure_neutron(folder, *, vnis, quotas, keystone=None, page=None, token_cache_seconds=300):
    sections = {
        "DEFAULT": {
            "core_plugin": "ml2",
            "service_plugins": "router",
            "auth_strategy": "keystone" if keystone else "noauth",
            "transport_url": "fake://",
            "api_paste_config": Path(sys.prefix) / "etc/neutron/api-paste.ini",
            "state_path": folder,
            "notify_nova_on_port_status_changes": "false",
            "notify_nova_on_port_data_changes": "false",
            "dhcp_agent_notification": "false",
            **_log(folder, "neutron"),
        },
        "database": _database(folder, "neutron"),
        "oslo_concurrency": {"lock_path": folder},
        "quotas": {f"quota_{kind}": limit for kind, limit in quotas.items()},
        "ml2": {
            "type_drivers": "local,flat,vlan,vxlan",
            "tenant_network_types": "vxlan",
            # Nobody is told of networks: there is nothing here that packets could go through.
            "mechanism_drivers": "",
            "extension_drivers": "port_security",
        },
        "ml2_type_vxlan": {"vni_ranges": vnis},
    }
    if page:
        sections["DEFAULT"]["pagination_max_limit"] = page
    if keystone:
        sections["keystone_authtoken"] = {
            "auth_type": "password",
            "auth_url": keystone,
            "www_authenticate_uri": keystone,
            "username": NEUTRON,
            "password": PASSWORD,
            "project_name": SERVICE_PROJECT,
            "user_domain_id": "default",
            "project_domain_id": "default",
            # A Keystone that is gone is found out at once.
            "http_connect_timeout": 2,
            "http_request_max_retries": 0,
            "token_cache_time": token_cache_seconds,
        }
    _write(folder, "neutron", sections)


def configure_keystone(folder, *, token_seconds):
    sections = {
        "DEFAULT": _log(folder, "keystone"),
        "database": _database(folder, "keystone"),
        "token": {"provider": "fernet", "expiration": token_seconds},
        "fernet_tokens": {"key_repository": folder / "fernet-keys"},
        "credential": {"key_repository": folder / "credential-keys"},
        # As in any real one; without it each request takes a quarter of a second.
        "cache": {"enabled": "true", "backend": "dogpile.cache.memory"},
        # To guess these passwords is no work anyway.
        "identity": {"password_hash_rounds": 4},
    }
    _write(folder, "keystone", sections)


def _log(folder, name):
    return {"log_file": folder / f"{name}.log", "use_stderr": "false"}


def _database(folder, name):
    # Nobody wants it back after a power failure, so nothing waits for the disk.
    return {"connection": f"sqlite:///{folder / name}.db", "sqlite_synchronous": "false"}


def _write(folder, name, sections):
    with (folder / f"{name}.conf").open("w") as out:
        for section, options in sections.items():
            print(f"[{section}]", file=out)
            for option, value in options.items():
                print(f"{option} = {value}", file=out)
    # Where the servers' entry points look for it.
    os.environ[f"OS_{name.upper()}_CONFIG_DIR"] = str(folder)
    os.environ[f"OS_{name.upper()}_CONFIG_FILES"] = f"{name}.conf"
