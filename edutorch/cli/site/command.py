"""`python -m edutorch site`: the course as a site for the browser, without any installation.

python -m edutorch site build DIR --pyodide FOLDER
python -m edutorch site serve DIR
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..lessons import read_lessons


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the commands `build`, `serve` and `install`."""
    commands = parser.add_subparsers(dest="what", required=True, metavar="build|serve|install")
    build = commands.add_parser("build", help="write the site into a folder", allow_abbrev=False)
    build.add_argument("folder", metavar="DIR", type=Path)
    source = build.add_mutually_exclusive_group(required=True)
    source.add_argument("--pyodide", type=Path, metavar="FOLDER",
                        help="a release of Pyodide: all that the site needs is in DIR")  # fmt: skip
    source.add_argument("--cdn", action="store_true",
                        help="Pyodide is loaded from its CDN: DIR has a few MB")  # fmt: skip
    build.add_argument("--notebooks", nargs="+", type=Path, metavar="FILE",
                       help="notebooks; by default the lessons that fit a browser")  # fmt: skip
    serve = commands.add_parser("serve", help="serve a site on this machine", allow_abbrev=False)
    serve.add_argument("folder", metavar="DIR", type=Path)
    serve.add_argument("--port", type=int, default=8000, help="by default 8000")
    install = commands.add_parser(
        "install", help="get JupyterLite, once, so that sites can be built without a network"
    )
    install.add_argument("--pyodide-version", default="", metavar="X.Y.Z")


def site(options: argparse.Namespace) -> int:
    """Run a command; return its exit code.

    Raises: SiteError: it cannot be done; the error says why.
    """
    if options.what == "build":
        return build(options)
    if options.what == "serve":
        return serve(options.folder, options.port)
    from .environment import environment_of
    from .versions import PAIRS, pair_of_version

    version = options.pyodide_version
    print(environment_of(pair_of_version(version) if version else PAIRS[-1]))
    return 0


def build(options: argparse.Namespace) -> int:
    from .build import Site, build_site

    notebooks = options.notebooks or [lesson.path for lesson in read_lessons() if lesson.in_browser]
    folder = build_site(options.folder, Site(options.pyodide, notebooks))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {len(notebooks)} notebooks, {size / 1e6:.0f} MB")
    print(f"to look at it: python -m edutorch site serve {folder}")
    return 0


def serve(folder: Path, port: int) -> int:
    from .serve import site_server

    with site_server(folder, port) as server:
        print(f"http://127.0.0.1:{server.server_port}/lab/  (Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0
