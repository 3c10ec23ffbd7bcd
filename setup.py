"""Builds the compiled matching engine, where a C++ compiler is present.

Everything else about the package is in pyproject.toml. The extension is optional: without a compiler
the install goes through and Runnel uses its pure-Python engine.
"""

import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCE = Path("src/runnel/matching/_compiled.pyx")


class BuildIfPossible(build_ext):
    """Builds extensions, but lets the install go on where that fails.

    setuptools' own `optional` forgives a compiler that reports an error, but not one that is missing or
    cannot be run.
    """

    def build_extension(self, ext: Extension) -> None:
        """Build one extension, or say why not."""
        try:
            super().build_extension(ext)
        except Exception as error:
            # A library left over from an earlier build would not fit the sources of this one.
            Path("src", self.get_ext_filename(ext.name)).unlink(missing_ok=True)
            print(
                f"warning: {ext.name} was not built, Runnel will use its pure-Python engine: {error}",
                file=sys.stderr,
            )


def extensions() -> list[Extension]:
    """The compiled engine as an optional extension; nothing where its source is absent."""
    if not SOURCE.exists():
        return []
    from Cython.Build import cythonize

    compiled = Extension(
        "runnel.matching._compiled",
        [str(SOURCE)],
        include_dirs=["native"],
        depends=[str(path) for path in Path("native").glob("*.hpp")],
        language="c++",
        extra_compile_args=["-std=c++17", "-O3"],
    )
    built: list[Extension] = cythonize([compiled], build_dir="build/cython", language_level=3)
    for extension in built:
        extension.optional = True  # cythonize does not hand it on
    return built


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildIfPossible})
