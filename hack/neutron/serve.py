"""A Neutron or a Keystone as OpenStack releases it, alone in one process, on 127.0.0.1 and on SQLite.

    usage: serve.py neutron|keystone --folder FOLDER --port PORT [--help]

FOLDER holds all that the server has: database, keys, configuration, log. So it may be ended at any time in any way,
and be started again; where there is no database yet it begins with a copy of the template.
Networks carry no packets here: there are no agents, and no driver is told of anything.
"""

import argparse
import contextlib
import os
import shutil
import signal
import sqlite3
import sys
import threading
import time
import warnings
from pathlib import Path

from configuration import QUOTAS, configure_keystone, configure_neutron


def start_neutron(options):
    copy_template(options, [], "neutron.db")
    configure_neutron(
        options.folder,
        vnis=options.vnis,
        quotas={kind: getattr(options, f"quota_{kind}s") for kind in QUOTAS},
        keystone=options.keystone,
        page=options.page,
        token_cache_seconds=options.token_cache_seconds,
    )
    from neutron.wsgi.api import application

    return application


def start_keystone(options):
    copy_template(options, ["fernet-keys", "credential-keys"], "keystone.db")
    own = options.public or f"http://127.0.0.1:{options.port}/v3"
    write_catalog(options.folder / "keystone.db", {"identity": own, "network": options.neutron})
    configure_keystone(options.folder, token_seconds=options.token_seconds)
    from keystone.wsgi.api import application

    return application


def copy_template(options, directories, database):
    """Copies what a server begins with. The database comes last: where it is, everything is."""
    options.folder.mkdir(parents=True, exist_ok=True)
    if (options.folder / database).exists():
        return
    for name in directories:
        shutil.copytree(options.template / name, options.folder / name, dirs_exist_ok=True)
    part = options.folder / f"{database}.part"
    shutil.copyfile(options.template / database, part)
    part.rename(options.folder / database)


def write_catalog(database, urls):
    by_type = "UPDATE endpoint SET url = ? WHERE service_id IN (SELECT id FROM service WHERE type = ?)"
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        connection.executemany(by_type, [(url, kind) for kind, url in urls.items() if url])


def exit_with(parent, folder):
    """Ends this process when its parent has ended, which can no longer remove the folder.

    The kernel's own way goes by the thread that started us, and a test's thread ends before its process does."""

    def watch():
        while os.getppid() == parent:
            time.sleep(0.2)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    servers = parser.add_subparsers(metavar="neutron|keystone", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--folder", type=lambda text: Path(text).resolve(), required=True)
    common.add_argument("--port", type=int, required=True)
    ends = "end when this is no longer the parent process, and remove the folder"
    common.add_argument("--parent", type=int, metavar="PID", help=ends)
    common.add_argument("--template", type=Path, default=Path(sys.prefix).parent / "template")

    neutron = servers.add_parser("neutron", parents=[common])
    neutron.set_defaults(start=start_neutron)
    neutron.add_argument("--keystone", metavar="URL", help="where tokens are from; without it everybody may do all")
    neutron.add_argument("--vnis", default="1:1000", metavar="FIRST:LAST", help="each network takes one (%(default)s)")
    for kind in QUOTAS:
        limit = "of a project; -1, the default, is no limit"
        neutron.add_argument(f"--quota-{kind}s", type=int, default=-1, metavar="N", help=limit)
    neutron.add_argument("--page", type=int, metavar="N", help="the most that a list answers at once")
    cache = "how long it believes what Keystone said of a token (%(default)s); -1: not at all"
    neutron.add_argument("--token-cache-seconds", type=int, default=300, metavar="N", help=cache)

    keystone = servers.add_parser("keystone", parents=[common])
    keystone.set_defaults(start=start_keystone)
    keystone.add_argument("--token-seconds", type=int, default=3600, metavar="N", help="a token's life (%(default)s)")
    keystone.add_argument("--neutron", metavar="URL", help="what the catalog says of Neutron")
    keystone.add_argument("--public", metavar="URL", help="what the catalog says of itself, if not where it listens")
    return parser.parse_args()


def main():
    options = arguments()
    sys.argv[1:] = []  # the servers read them too
    if options.parent:
        exit_with(options.parent, options.folder)
    warnings.simplefilter("ignore")
    application = options.start(options)
    # They changed what it does, and there is nothing to tidy up.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    from waitress import serve

    # One thread: of two that write, SQLite would have one give up.
    serve(application, host="127.0.0.1", port=options.port, threads=1, ident=None)


if __name__ == "__main__":
    main()
