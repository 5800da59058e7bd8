"""Uses Qt as hard as an evening in the window does, and says ``ok`` when Python lived through it.

PySide6 6.12 on Python 3.11 gives away one reference to True or None with many a call, until Python aborts.
Run as a program: nothing but PySide6 is needed.
"""

import sys

from PySide6.QtCore import QCoreApplication, QObject, Signal


class Bell(QObject):
    rung = Signal(int)


def main() -> int:
    app = QCoreApplication(sys.argv[:1])
    bell, heard = Bell(), 0

    def hear(_: int) -> None:
        nonlocal heard
        heard += 1

    bell.rung.connect(hear)
    for number in range(5000):
        bell.rung.emit(number)
        bell.setObjectName(f"bell {number}")
        app.processEvents()
    print("ok" if heard == 5000 else f"only {heard} of 5000 were heard")
    return 0 if heard == 5000 else 1


if __name__ == "__main__":
    sys.exit(main())
