"""The operator's settings: their types, the sources they are read from, and which of them have no effect."""

from worker.settings.kinds import parse_duration
from worker.settings.loading import Loaded, SettingsError, flag_of, load, load_all
from worker.settings.model import Settings

__all__ = ["Loaded", "Settings", "SettingsError", "flag_of", "load", "load_all", "parse_duration"]
