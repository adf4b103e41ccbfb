"""`python -m course run | build | edition | html | links`: the course from the command line."""

import argparse
import sys
from pathlib import Path

from course.sections import CourseError, find_root


def main(arguments=None):
    """Run one command; return its exit status: 0, 1 for failed notebooks, 2 for a bad request."""
    options = _parser().parse_args(arguments)
    # A notebook's Persian must not end the command where the terminal knows no Persian.
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")
    try:
        return options.command(find_root(), options)
    except CourseError as error:
        print(error, file=sys.stderr)
        return 2


def _parser():
    parser = argparse.ArgumentParser(prog="python -m course", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="run|build|edition|html|links")

    run = commands.add_parser("run", help="execute notebooks with papermill")
    run.add_argument("sections", nargs="*", metavar="SECTION", help="a number or name; default all")
    run.add_argument(
        "-p", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"), dest="given"
    )
    run.add_argument("--quick", action="store_true", help="small parameters, a minute or so each")
    run.add_argument("--out", type=Path, help="where executed notebooks go; default build/")
    run.set_defaults(command=_run)

    build = commands.add_parser("build", help="rebuild notebooks and INTERFACE.md")
    build.add_argument("sections", nargs="*", metavar="SECTION")
    build.add_argument("--check", action="store_true", help="only compare with the sources")
    build.add_argument("--force", action="store_true", help="execute even where nothing changed")
    build.add_argument("--discard", action="store_true", help="drop what was edited in notebooks")
    build.set_defaults(command=_build)

    edition = commands.add_parser("edition", help="write notebooks in one language")
    edition.add_argument("--lang", required=True, metavar="fa|en")
    edition.set_defaults(command=_edition)

    html = commands.add_parser("html", help="write a site that needs no network")
    html.add_argument("--lang", default="both", metavar="fa|en|both")
    html.set_defaults(command=_html)

    for reader in (edition, html):
        reader.add_argument("sections", nargs="*", metavar="SECTION")
        reader.add_argument("--out", required=True, type=Path, metavar="DIR")

    links = commands.add_parser("links", help="stamp the repository's address everywhere")
    links.add_argument("--repo", required=True, metavar="OWNER/NAME")
    links.set_defaults(command=_links)
    return parser


def _run(root, options):
    from course import building, running

    for section, cells in building.edited(root, options.sections).items():
        print(_ignored(section, cells), file=sys.stderr)
    results = running.run(
        root, options.sections, given=options.given, quick=options.quick, out=options.out
    )
    print(running.report(results))
    return int(any(result.traceback for result in results))


def _ignored(section, cells):
    return (
        f"{section.name}: `run` runs notebooks/source, not what was edited in {section.notebook}: "
        f"{', '.join(cells)}. To run that, name it to papermill: "
        f'`python -m papermill "{section.notebook}" OUT.ipynb`.'
    )


def _build(root, options):
    from course import building, interface

    if options.check:
        faults = building.check(root, options.sections) + interface.check(root)
        print("\n".join(faults) or "every notebook equals its source")
        return int(bool(faults))
    done = building.build(root, options.sections, force=options.force, discard=options.discard)
    for name, what in done:
        print(f"{name}: {what}", flush=True)
    if interface.write(root):
        print(f"{interface.PAGE}: written")
    return 0


def _edition(root, options):
    from course import editions

    for path in editions.write(root, options.sections, language=options.lang, out=options.out):
        print(path)
    return 0


def _html(root, options):
    from course import website

    print(website.write(root, options.sections, language=options.lang, out=options.out))
    return 0


def _links(root, options):
    from course import links

    for path in links.stamp(root, options.repo):
        print(path.relative_to(root))
    return 0


if __name__ == "__main__":
    sys.exit(main())
