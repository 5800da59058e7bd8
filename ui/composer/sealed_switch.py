"""Whether a command that the person types keeps to the box, or leaves it."""

from __future__ import annotations

from ui.buttons import Switch
from ui.theme import Themes

_SEALED = (
    "Sealed: no network, and .git stays as it is. Off: the command leaves the box, until you turn it on again or Conch "
    "closes."
)
_CANNOT = "This place cannot seal a command, so it runs open."


class SealedSwitch(Switch):
    """On at first. At a place that cannot seal it says *Open* and cannot be moved."""

    def __init__(self, themes: Themes) -> None:
        super().__init__(themes, "Sealed")
        self.setChecked(True)
        self.setToolTip(_SEALED)
        self.setAccessibleDescription(_SEALED)
        self._wanted = True
        self._can = True
        self.clicked.connect(self._clicked)

    @property
    def sealed(self) -> bool:
        """What the person wants, where the place can."""
        return self._wanted

    def want(self, sealed: bool) -> None:
        self._wanted = sealed
        self._show()

    def place_seals(self, can: bool) -> None:
        self._can = can
        self._show()

    def _clicked(self, on: bool) -> None:
        self._wanted = on

    def _show(self) -> None:
        self.setEnabled(self._can)
        self.setChecked(self._wanted and self._can)
        words = _SEALED if self._can else _CANNOT
        self.setText("Sealed" if self._can else "Open")
        self.setAccessibleName("Sealed" if self._can else "Open")
        self.setToolTip(words)
        self.setAccessibleDescription(words)
        self.updateGeometry()
