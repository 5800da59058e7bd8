"""A settings portal, as a desktop has one: ``python -m tests.real.portal VALUE`` answers ReadOne with it."""

from __future__ import annotations

import sys

from PySide6.QtCore import QCoreApplication
from PySide6.QtDBus import QDBusConnection, QDBusMessage, QDBusVariant, QDBusVirtualObject


class Settings(QDBusVirtualObject):
    def introspect(self, path: str) -> str:
        return ""

    def handleMessage(self, message: QDBusMessage, connection: QDBusConnection) -> bool:
        asked = message.interface(), message.member(), message.arguments()
        reply = message.createErrorReply("org.freedesktop.portal.Error.NotFound", "not known")
        if asked == (
            "org.freedesktop.portal.Settings",
            "ReadOne",
            ["org.freedesktop.appearance", "reduced-motion"],
        ):
            reply = message.createReply("")
            reply.setArguments([QDBusVariant(int(sys.argv[1]))])
        return connection.send(reply)


if __name__ == "__main__":
    app = QCoreApplication([])
    bus = QDBusConnection.sessionBus()
    settings = Settings()
    single = QDBusConnection.VirtualObjectRegisterOption.SingleNode
    there = bus.registerVirtualObject("/org/freedesktop/portal/desktop", settings, single)
    there = there and bus.registerService("org.freedesktop.portal.Desktop")
    print("ready" if there else "refused", flush=True)
    sys.exit(app.exec() if there else 1)
