"""A worker needs a package that is not installed; the driver does not."""

import multiprocessing

from training import train


def grade(answer: str) -> bool:
    from latex2sympy_extended import latex2sympy

    return latex2sympy(answer) == 4


if __name__ == "__main__":
    train(1)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.map(grade, ["4"])
