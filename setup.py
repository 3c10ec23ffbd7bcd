"""Builds the compiled matching engine, where a C++ compiler is present.

Everything else about the package is in pyproject.toml. The extension is optional: without a compiler
the install goes through and Runnel uses its pure-Python engine.
"""

from pathlib import Path

from setuptools import Extension, setup

SOURCE = Path("src/runnel/matching/_compiled.pyx")


def extensions() -> list[Extension]:
    """The compiled engine as an optional extension; nothing where its source is absent."""
    if not SOURCE.exists():
        return []
    from Cython.Build import cythonize

    compiled = Extension(
        "runnel.matching._compiled",
        [str(SOURCE)],
        include_dirs=["native"],
        language="c++",
        extra_compile_args=["-std=c++17", "-O3"],
        optional=True,
    )
    built: list[Extension] = cythonize([compiled], build_dir="build/cython", language_level=3)
    return built


setup(ext_modules=extensions())
