"""Makes databases and keys that a Neutron and a Keystone can start with: nothing created yet, everybody can log in.

    usage: template.py FOLDER

It takes half a minute, so hack/neutron.sh does it once; a server starts with a copy.
"""

import os
import subprocess
import sys
from pathlib import Path

from configuration import (
    ADMIN,
    MEMBER,
    NEUTRON,
    PASSWORD,
    PROJECT,
    QUOTAS,
    READER,
    REGION,
    SERVICE_PROJECT,
    configure_keystone,
    configure_neutron,
)

INTERFACES = ("public", "internal", "admin")
# Stand in the catalog until a server knows better.
KEYSTONE_URL, NEUTRON_URL = "http://keystone.invalid/v3", "http://neutron.invalid"
VNIS = "1:1000"


def make_neutron(folder):
    from neutron.db.migration.models import head
    from sqlalchemy import create_engine

    # Neutron's migrations do not run on SQLite; its models do.
    head.get_metadata().create_all(create_engine(f"sqlite:///{folder}/neutron.db"))
    configure_neutron(folder, vnis=VNIS, quotas=dict.fromkeys(QUOTAS, -1))
    # To import it is to start it, and the first start fills tables.
    import neutron.wsgi.api  # noqa: F401


def make_keystone(folder):
    configure_keystone(folder, token_seconds=3600)
    manage = [Path(sys.prefix) / "bin/keystone-manage", "--config-file", folder / "keystone.conf"]
    owner = ["--keystone-user", str(os.getuid()), "--keystone-group", str(os.getgid())]
    urls = [f"--bootstrap-{interface}-url={KEYSTONE_URL}" for interface in INTERFACES]
    admin = [f"--bootstrap-username={ADMIN}", f"--bootstrap-password={PASSWORD}", f"--bootstrap-region-id={REGION}"]
    for command in (["db_sync"], ["fernet_setup", *owner], ["credential_setup", *owner], ["bootstrap", *admin, *urls]):
        subprocess.run([*manage, *command], check=True)
    from keystone.wsgi.api import application

    populate(Api(application))


class Api:
    """Keystone's, without a port; as its administrator."""

    def __init__(self, application):
        self.application = application
        self.headers = {}
        user = {"name": ADMIN, "domain": {"id": "default"}, "password": PASSWORD}
        identity = {"methods": ["password"], "password": {"user": user}}
        scope = {"project": {"name": ADMIN, "domain": {"id": "default"}}}
        answer = self.call("POST", "auth/tokens", {"auth": {"identity": identity, "scope": scope}})
        self.headers["X-Auth-Token"] = answer.headers["X-Subject-Token"]

    def call(self, method, path, body=None):
        from webob import Request

        request = Request.blank(f"/v3/{path}", method=method, headers=self.headers)
        if body:
            request.json = body
        answer = request.get_response(self.application)
        if answer.status_int >= 300:
            raise SystemExit(f"{method} {path}: {answer.status} {answer.text}")
        return answer

    def create(self, kind, **attributes):
        return self.call("POST", f"{kind}s", {kind: attributes}).json[kind]["id"]


def populate(api):
    roles = {role["name"]: role["id"] for role in api.call("GET", "roles").json["roles"]}
    for project, members in {
        SERVICE_PROJECT: {NEUTRON: ["service", "admin"]},
        PROJECT: {MEMBER: ["member"], READER: ["reader"]},
    }.items():
        project = api.create("project", name=project, domain_id="default")
        for name, granted in members.items():
            user = api.create(
                "user", name=name, password=PASSWORD, domain_id="default", default_project_id=project
            )
            for role in granted:
                api.call("PUT", f"projects/{project}/users/{user}/roles/{roles[role]}")
    service = api.create("service", name="neutron", type="network")
    for interface in INTERFACES:
        api.create("endpoint", service_id=service, interface=interface, region_id=REGION, url=NEUTRON_URL)


def main():
    folder = Path(sys.argv[1]).resolve()
    if only := sys.argv[2:]:
        sys.argv[1:] = []  # the servers read them too
        return {"neutron": make_neutron, "keystone": make_keystone}[only[0]](folder)
    folder.mkdir(parents=True)
    # Each in a process of its own: they share one global variable for their configuration.
    for server in ("keystone", "neutron"):
        subprocess.run([sys.executable, __file__, folder, server], check=True)
        (folder / f"{server}.log").unlink()
        (folder / f"{server}.conf").unlink()


if __name__ == "__main__":
    main()
